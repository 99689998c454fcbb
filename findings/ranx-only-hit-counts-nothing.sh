#!/usr/bin/env bash
# ranx 0.3.21 (2026-11-28)
# Expected: a document that one of two systems returns alone, since it is sure, gains by a fusion.
# Seen: `fuse` scales the scores of each question to 0..1 by minimum and maximum (its default). If
#   a system returns one document, or several with one score, minimum and maximum are equal and all
#   of them get 0, the value of the worst. The only hit of one system comes last, equal with the
#   last of the other, however high its score.
# Costs: precise systems (exact matches, filters, thresholds) are ignored for just those questions
#   that they answer best; with long result lists, with which fusion is tuned, it does not occur.
. "$(dirname "$0")/lib/setup.sh" ranx==0.3.21
python - <<'PY'
from ranx import Run, fuse
from still import still

exact = Run({"q1": {"right": 0.99}}, name="exact")
loose = Run({"q1": {"a": 0.30, "b": 0.29, "c": 0.28, "d": 0.27}}, name="loose")
for method in ("sum", "mnz", "max"):
    scores = dict(fuse([exact, loose], norm="min-max", method=method).run["q1"])
    still((scores["right"], scores["d"], scores["c"] > 0), (0.0, 0.0, True), f"scores by {method}")
by_default = dict(fuse([exact, loose], method="sum").run["q1"])
still(by_default["right"], 0.0, "by default")
PY

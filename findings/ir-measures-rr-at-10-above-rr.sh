#!/usr/bin/env bash
# ir-measures 0.4.3 with pytrec-eval-terrier 0.5.11, as installed by default (2026-11-28)
# Expected: the reciprocal rank of the first 10 results cannot exceed that of all of them.
# Seen: `RR` and `nDCG@10` are computed by trec_eval, which orders equal scores by identifier from
#   the last to the first and ignores the order of the run; `RR@10` (MRR@10) by another provider,
#   which orders them the other way round. With a score for all of 26 results (quantised or boolean
#   scores, a reranker that saturates) the same run has RR 0.36 and RR@10 0.5, and by question they
#   disagree completely: 0.04 and 1.0, or 1.0 and 0.0.
# Costs: figures of one table that rest on different rankings of one run; documents that are
#   named by date or number can win or lose a comparison by their names alone.
. "$(dirname "$0")/lib/setup.sh" ir-measures==0.4.3 pytrec-eval-terrier==0.5.11 numpy==2.4.6
python - <<'PY'
import ir_measures
from ir_measures import AP, RR, Qrel, ScoredDoc, nDCG
from still import still

qrels = [Qrel("q1", "a", 1), Qrel("q2", "b", 1), Qrel("q3", "z", 1)]
letters = "abcdefghijklmnopqrstuvwxyz"
run = [ScoredDoc(question, doc, 1.0) for question in ("q1", "q2", "q3") for doc in letters]
values = {}
for value in ir_measures.iter_calc([RR, RR @ 10, AP, nDCG @ 10], qrels, run):
    values.setdefault(str(value.measure), {})[value.query_id] = round(value.value, 2)
still(values["RR"], {"q1": 0.04, "q2": 0.04, "q3": 1.0}, "RR")
still(values["RR@10"], {"q1": 1.0, "q2": 0.5, "q3": 0.0}, "RR@10")
still(values["nDCG@10"], {"q1": 0.0, "q2": 0.0, "q3": 1.0}, "nDCG@10")
means = ir_measures.calc_aggregate([RR, RR @ 10], qrels, run)
still(means[RR @ 10] > means[RR], True, f"RR@10 is greater than RR {means}")
PY

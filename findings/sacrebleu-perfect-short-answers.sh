#!/usr/bin/env bash
# sacrebleu 2.6.0 (2026-11-28)
# Expected: answers equal to their references have BLEU 100 (and chrF 100, TER 0).
# Seen: if all answers have fewer than four tokens, as names and dates have, corpus BLEU is 0.0,
#   without a warning: there is no 4-gram to count. With one longer answer among a thousand, BLEU is
#   100. `sentence_bleu` gives 100 for each of the same answers, since it alone takes the effective
#   order by default.
# Costs: a perfect system for short answers scores 0; a comparison of two of them turns on the few
#   long answers, and no warning says so.
. "$(dirname "$0")/lib/setup.sh" sacrebleu==2.6.0
python - <<'PY'
import sacrebleu
from still import still

names = ["the river Rhine", "in 1871", "Vienna"] * 333
long = ["the treaty was signed in Vienna by nine powers"]
still(sacrebleu.corpus_bleu(names, [names]).score, 0.0, "BLEU of 999 right short answers")
still(round(sacrebleu.corpus_bleu(names + long, [names + long]).score), 100, "with a long one")
still({round(sacrebleu.sentence_bleu(n, [n]).score) for n in names}, {100}, "BLEU of each alone")
PY

#!/usr/bin/env bash
# rouge 1.0.1 (2026-11-28)
# Expected: ROUGE counts n-grams; a summary that says the same ten times has a precision of 0.1.
# Seen: the package compares sets of n-grams (its `exclusive=True`), so a model that repeats itself
#   loses nothing: ten copies of the reference have a ROUGE-1 and ROUGE-L of 1.0, where rouge-score
#   gives 0.18.
# Costs: degenerate, looping output is the usual fault of small models, and the score hides it; two
#   papers that both say "ROUGE-L" are not comparable.
. "$(dirname "$0")/lib/setup.sh" rouge==1.0.1 rouge-score==0.1.2
python - <<'PY'
from rouge import Rouge
from rouge_score.rouge_scorer import RougeScorer
from still import still

reference = "the treaty was signed in vienna by nine powers"
looping = " ".join([reference] * 10)
[found] = Rouge().get_scores(looping, reference)
counted = RougeScorer(["rouge1", "rougeL"]).score(reference, looping)
for ours, theirs in (("rouge-1", "rouge1"), ("rouge-l", "rougeL")):
    pair = round(found[ours]["f"], 2), round(counted[theirs].fmeasure, 2)
    still(pair, (1.0, 0.18), f"{ours} of ten copies, by rouge and by rouge-score")
PY

"""Scores of an answer against reference answers, equal to the public scripts of the data sets.

Every metric takes a prediction and one or more reference answers, and returns a number in [0, 1].
If a script knows one answer only, the best over all answers counts (as in SQuAD, LongBench and
Qasper). Each raises `InputError` without answers, for a string instead of a sequence, and if its
library is missing.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType

from hwdag.errors import InputError

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalised(text: str) -> str:
    """Lower case; no ASCII punctuation, no English articles; white space collapsed (SQuAD v1.1).

    Exactly the official rule, in this order, for every language. So:

    - Typographic quotes, dashes, and CJK or Arabic marks stay; only ASCII punctuation goes.
    - A script without spaces (Chinese, Japanese, Thai) is one token per run, so F1 is little more
      than exact match.
    - An article is any between two non-letters, including combining marks: the first letter of a
      decomposed "à" is dropped. Composed (NFC) text is not affected.
    - French "a" (has) and similar words are dropped as articles.
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(prediction: str, answers: Sequence[str]) -> float:
    """Return 1 if the normalised prediction equals a normalised answer, else 0 (SQuAD v1.1, HotpotQA)."""
    said = normalised(prediction)
    return max(float(said == normalised(answer)) for answer in _checked(answers))


def f1(prediction: str, answers: Sequence[str]) -> float:
    """Return the harmonic mean of token precision and recall after normalisation (SQuAD v1.1).

    Tokens count with multiplicity. Two texts that both normalise to nothing score 0 here (as in
    v1.1; v2.0 differs) and 1 in `exact_match`.
    """
    return max(_token_f1(prediction, answer) for answer in _checked(answers))


def rouge_l(prediction: str, answers: Sequence[str]) -> float:
    """Return the f-measure of the longest common subsequence of words, by `rouge-score` (Lin 2004).

    Without stemming, the default of `rouge-score`: Porter's stemmer is English only. The library
    keeps only a-z and 0-9, so text in other scripts scores 0.
    """
    scorer = _library("rouge_score.rouge_scorer", "ROUGE-L")
    words = _library("rouge_score.tokenizers", "ROUGE-L")
    # why: the scorer that chooses it itself also attaches a handler to the root logger
    rouge = scorer.RougeScorer(["rougeL"], tokenizer=words.DefaultTokenizer(use_stemmer=False))
    scores = (rouge.score(answer, prediction)["rougeL"] for answer in _checked(answers))
    return max(float(score.fmeasure) for score in scores)


def bleu4(prediction: str, answers: Sequence[str]) -> float:
    """Return the sentence BLEU of up to four words by `sacrebleu`, against all answers together, over 100.

    The library's defaults for sentences: exponential smoothing, effective order (a prediction of
    two words is scored on one and two), tokenizer 13a, case kept. Reports show its mean over
    sentences next to `corpus_bleu`, a different number.
    """
    bleu = _library("sacrebleu", "BLEU-4").sentence_bleu(
        prediction, _checked(answers), smooth_method="exp", use_effective_order=True
    )
    return min(1.0, float(bleu.score) / 100)  # the library's sum of logarithms may exceed 100


def corpus_bleu(predictions: Sequence[str], answers: Sequence[Sequence[str]]) -> float:
    """Return BLEU-4 of all predictions together by `sacrebleu`, over 100: counts are summed, then divided.

    Each prediction has its own answers, any number. The library's defaults: exponential smoothing,
    tokenizer 13a, case kept. An empty prediction shortens the whole.
    """
    if not predictions or len(predictions) != len(answers):
        raise InputError(
            f"corpus BLEU needs answers for each of at least one prediction, got {len(answers)} for "
            f"{len(predictions)}"
        )
    checked = [_checked(each) for each in answers]
    most = max(map(len, checked))
    # why: the library takes one list per position of a reference, None for a missing one
    streams = [[each[i] if i < len(each) else None for each in checked] for i in range(most)]
    bleu = _library("sacrebleu", "BLEU-4").corpus_bleu(list(predictions), streams)
    return min(1.0, float(bleu.score) / 100)


def _token_f1(prediction: str, answer: str) -> float:
    ours, theirs = normalised(prediction).split(), normalised(answer).split()
    shared = (Counter(ours) & Counter(theirs)).total()
    return 2 * shared / (len(ours) + len(theirs)) if shared else 0.0


def _checked(answers: Sequence[str]) -> list[str]:
    if isinstance(answers, str) or not answers:
        raise InputError(
            f"a metric needs a sequence of at least one reference answer, got {answers!r}; "
            "wrap a single answer as (answer,), and leave out questions without answers"
        )
    return list(answers)


def _library(module: str, metric: str) -> ModuleType:
    try:
        return import_module(module)
    except ImportError as error:
        raise InputError(
            f"{metric} is computed by a library that is missing here ({error}): "
            'pip install "hwdag[lab]"'
        ) from error

"""How good probabilities are: area under the ROC curve, calibration, and where walks would stop."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hwdag.arrays import Floats
from hwdag_lab.eval.statistics import CONFIDENCE, Interval

Labels = NDArray[np.bool_]

BINS = 10
"""Of equal width, in a reliability table."""

SAMPLES = 500
"""Bootstrap samples of an interval."""


@dataclass(frozen=True, slots=True)
class Bin:
    """Readings whose probability lies in [low, high): how many, what was said, what was true."""

    low: float
    high: float
    count: int
    predicted: float
    observed: float


@dataclass(frozen=True, slots=True)
class Judgement:
    """How well one kind of probability tells enough from not enough.

    `auc` has a 95 % interval of a bootstrap over documents. `brier` is the mean squared error, and
    `ece` the mean distance of predicted from observed over the bins, weighted by count.
    """

    name: str
    auc: Interval
    brier: float
    ece: float
    bins: tuple[Bin, ...]


def judged(
    name: str,
    probabilities: Floats,
    labels: Labels,
    documents: Sequence[Hashable],
    *,
    folds: Sequence[int] | None = None,
    seed: int = 0,
    samples: int = SAMPLES,
) -> Judgement:
    """A judgement of probabilities, (readings,), by labels of which there are both kinds.

    `folds` as in `auc`. The same seed draws the same documents, whatever the probabilities.
    """
    bins = reliability(probabilities, labels)
    return Judgement(
        name,
        auc_interval(probabilities, labels, documents, folds=folds, seed=seed, samples=samples),
        float(((probabilities - labels) ** 2).mean()),
        sum(b.count * abs(b.predicted - b.observed) for b in bins) / len(labels),
        bins,
    )


def auc(
    scores: Floats,
    labels: Labels,
    weights: Floats | None = None,
    *,
    folds: Sequence[int] | None = None,
) -> float:
    """Probability that a positive scores above a negative, a tie counting half; NaN without both.

    Args:
        scores: (n,).
        labels: (n,).
        weights: how often each of them counts, (n,).
        folds: of cross-validation, (n,): only pairs within a fold are compared, since another fold
            is scored by another model. Across folds even a good one looks bad: where a document
            with many positives is held out, the others have fewer, and its scores are the lower.
    """
    # why not scikit-learn's: it knows no folds, and sorts anew for each of the 500 samples
    area = _area(scores, labels, folds)
    return area(np.ones(len(scores)) if weights is None else weights)


def auc_interval(
    scores: Floats,
    labels: Labels,
    documents: Sequence[Hashable],
    *,
    folds: Sequence[int] | None = None,
    seed: int = 0,
    samples: int = SAMPLES,
) -> Interval:
    """`auc` with a percentile interval; whole documents are drawn, `n` counts the readings."""
    area = _area(scores, labels, folds)
    numbers = {document: i for i, document in enumerate(dict.fromkeys(documents))}
    owner = np.array([numbers[document] for document in documents])
    rng, found = np.random.default_rng(seed), []
    for _ in range(samples if len(numbers) > 1 else 0):
        drawn = np.bincount(rng.integers(len(numbers), size=len(numbers)), minlength=len(numbers))
        found.append(area(drawn[owner].astype(np.float64)))
    known = np.array(found)[~np.isnan(found)] if found else np.empty(0)
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(known, [tail, 1 - tail]) if len(known) else (np.nan, np.nan)
    whole = area(np.ones(len(scores)))
    return Interval(whole, float(low), float(high), len(scores))


def reliability(probabilities: Floats, labels: Labels, bins: int = BINS) -> tuple[Bin, ...]:
    """What was said against what was true, for every bin that is not empty, lowest first."""
    at = np.minimum((probabilities * bins).astype(np.intp), bins - 1)
    return tuple(
        Bin(
            i / bins,
            (i + 1) / bins,
            int(inside.sum()),
            float(probabilities[inside].mean()),
            float(labels[inside].mean()),
        )
        for i in range(bins)
        if (inside := at == i).any()
    )


def _area(scores: Floats, labels: Labels, folds: Sequence[int] | None) -> Callable[[Floats], float]:
    """The area as a function of weights; sorted once, for many samples."""
    fold = np.zeros(len(scores), np.intp) if folds is None else np.array(folds)
    parts = [np.flatnonzero(fold == one) for one in np.unique(fold)]
    curves = [(rows, _pairs(scores[rows], labels[rows])) for rows in parts]

    def area(weights: Floats) -> float:
        counts = [pairs(weights[rows]) for rows, pairs in curves]
        ordered, total = (sum(column) for column in zip(*counts, strict=True))
        return float(ordered / total) if total > 0 else float("nan")

    return area


def _pairs(scores: Floats, labels: Labels) -> Callable[[Floats], tuple[float, float]]:
    """Pairs of a positive and a negative that are in order, and all of them, by weights."""
    order = np.argsort(scores, kind="stable")
    ordered, positive = scores[order], labels[order]
    starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))  # of equal scores

    def pairs(weights: Floats) -> tuple[float, float]:
        w = weights[order]
        yes = np.add.reduceat(np.where(positive, w, 0.0), starts)
        no = np.add.reduceat(np.where(positive, 0.0, w), starts)
        below = np.cumsum(no) - no / 2
        return float((yes * below).sum()), float(yes.sum() * no.sum())

    return pairs

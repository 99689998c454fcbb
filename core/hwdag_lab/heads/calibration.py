"""Fitting controllers: when is a walk likely to have read all evidence (`docs/progress.md`).

    trails = observe(records, models, file, ...)   # walks, resumable
    found = calibrate(trails, reader="...")        # fits and judges, in seconds

Readings of one walk are not independent, and neither are questions about one document. So whole
documents are held out in cross-validation, and whole documents are drawn in the bootstrap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
from scipy.special import expit

from hwdag.arrays import Floats
from hwdag.errors import InputError
from hwdag.lm.controller import CONTROLLERS, FEATURES, Controller
from hwdag.search.progress import signals
from hwdag_lab.eval.statistics import Interval
from hwdag_lab.heads.judging import Judgement, Labels, judged
from hwdag_lab.heads.observations import Trail

FOLDS = 5
"""Of cross-validation; fewer where there are fewer documents."""

CONFIDENCES = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99)
"""Thresholds for which it is told where walks would have stopped."""

SHARES = (0.25, 0.375, 0.5, 0.625, 0.75, 1.0)
"""Of the tokens of a whole walk: how far reading without any judge gets, for comparison."""


TOLERANCE = 1e-10
"""Largest gradient, per reading, at which a fit has converged."""


@dataclass(frozen=True, slots=True)
class Stops:
    """Where the walks would have stopped at one confidence, with a patience of 1.

    Attributes:
        confidence: threshold of the probability.
        stopped: share of the walks that would have ended before the budget.
        tokens: mean node tokens read.
        complete: share of the walks that had all evidence then.
    """

    confidence: float
    stopped: float
    tokens: float
    complete: float


@dataclass(frozen=True, slots=True)
class Calibration:
    """Controllers, and how good they are on documents that they were not fitted to.

    Attributes:
        controllers: by name, fitted to all trails.
        judgements: of p_yes as it is, of the number of nodes alone, and of each controller with
            its cross-validated probabilities; all on the same readings, and areas by the same
            pairs of them.
        stops: by the same names.
        budgets: what reading a share of the tokens of each walk gives, by that share.
        questions: number of trails.
        documents: number of documents.
        failed: trails that are errors, and count nowhere.
    """

    controllers: dict[str, Controller]
    judgements: tuple[Judgement, ...]
    stops: dict[str, tuple[Stops, ...]]
    budgets: dict[float, Stops]
    questions: int
    documents: int
    failed: int

    def judgement(self, name: str) -> Judgement:
        """By name."""
        return next(one for one in self.judgements if one.name == name)


@dataclass(frozen=True, slots=True)
class Readings:
    """Every reading of many walks: features, labels, and the walk and document of each."""

    features: Floats  # (readings, FEATURES)
    labels: Labels  # (readings,)
    walks: tuple[int, ...]
    documents: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, trails: Sequence[Trail]) -> Readings:
        """The readings of all trails, in order."""
        rows, labels, walks, documents = [], [], [], []
        for number, trail in enumerate(trails):
            for count in trail.readings:
                found = signals(trail.visits[:count])
                rows.append([found[name] for name in FEATURES])
                labels.append(trail.complete[count - 1])
                walks.append(number)
                documents.append((trail.dataset, trail.document))
        return cls(
            np.array(rows, np.float64).reshape(-1, len(FEATURES)),
            np.array(labels, np.bool_),
            tuple(walks),
            tuple(documents),
        )

    def take(self, rows: Labels) -> tuple[Floats, Labels]:
        """Features and labels of some readings."""
        return self.features[rows], self.labels[rows]


def calibrate(trails: Sequence[Trail], *, reader: str, source: str = "") -> Calibration:
    """Fit every controller to all trails, and judge it by cross-validation.

    Deterministic: folds depend on the ids of the documents alone.

    Args:
        trails: what `observe` gave.
        reader: name of the model that walked.
        source: what the trails are, in words; recorded with the controllers.

    Raises:
        InputError: there are fewer than two documents, or enough was always, or never, read.
    """
    walked = [trail for trail in trails if trail.error is None and trail.readings]
    readings = Readings.of(walked)
    folds = _folds(readings.documents)
    everything = np.ones(len(readings.labels), np.bool_)
    controllers = {
        name: fit(*readings.take(everything), features, reader=reader, source=source)
        for name, features in CONTROLLERS.items()
    }
    told = {
        "p_yes": expit(readings.features[:, FEATURES.index("p_yes")]),
        "nodes": _held_out(readings, ("nodes",), folds),
        **{name: _held_out(readings, used, folds) for name, used in CONTROLLERS.items()},
    }
    return Calibration(
        controllers,
        tuple(
            judged(name, p, readings.labels, readings.documents, folds=folds)
            for name, p in told.items()
        ),
        {name: stops(walked, readings, p) for name, p in told.items()},
        {share: _budget(walked, share) for share in SHARES},
        questions=len(walked),
        documents=len(set(readings.documents)),
        failed=len(trails) - len(walked),
    )


def fit(
    rows: Floats, labels: Labels, features: Sequence[str], *, reader: str, source: str = ""
) -> Controller:
    """A controller for readings, (readings, FEATURES), that looks at some of the features."""
    x = rows[:, [FEATURES.index(name) for name in features]]
    means, spread = x.mean(axis=0), x.std(axis=0)
    scales = np.where(spread > 1e-12, spread, 1.0)
    weights, bias = fit_logistic((x - means) / scales, labels)
    return Controller(
        tuple(features),
        tuple(means.tolist()),
        tuple(scales.tolist()),
        tuple(weights.tolist()),
        bias,
        reader,
        source,
    )


def fit_logistic(x: Floats, labels: Labels, *, penalty: float = 1.0) -> tuple[Floats, float]:
    """Weights and bias that minimise log loss + penalty / 2 * |weights|^2; the bias is free.

    Args:
        x: features, (rows, features); of one scale, since the penalty is the same for all.
        labels: what to predict, (rows,).
        penalty: above 0, in units of the summed log loss.

    Raises:
        InputError: `labels` are all the same.
    """
    from sklearn.linear_model import LogisticRegression

    if not labels.any() or labels.all():
        raise InputError(
            f"all {len(labels)} readings have the same label ({bool(labels.any())}: enough was "
            f"{'always' if labels.any() else 'never'} read), so nothing can be fitted; give more "
            "questions, or another token budget"
        )
    model = LogisticRegression(C=1 / penalty, solver="newton-cg", tol=TOLERANCE).fit(x, labels)
    weights: Floats = model.coef_[0]
    return weights, float(model.intercept_[0])


def stops(trails: Sequence[Trail], readings: Readings, probabilities: Floats) -> tuple[Stops, ...]:
    """Where the walks would have stopped at each of `CONFIDENCES`."""
    walks = np.array(readings.walks)
    by_walk = [probabilities[walks == number] for number in range(len(trails))]
    return tuple(_stops(trails, by_walk, confidence) for confidence in CONFIDENCES)


def _stops(trails: Sequence[Trail], by_walk: Sequence[Floats], confidence: float) -> Stops:
    counts = []
    for trail, told in zip(trails, by_walk, strict=True):
        above = np.flatnonzero(told > confidence)
        counts.append(trail.readings[above[0]] if len(above) else len(trail.visits))
    return _means(trails, counts, confidence)


def _means(trails: Sequence[Trail], counts: Sequence[int], confidence: float) -> Stops:
    """Of walks that end after so many nodes each."""
    walks = list(zip(trails, counts, strict=True))
    ended = [count < len(trail.visits) for trail, count in walks]
    tokens = [sum(visit.tokens for visit in trail.visits[:count]) for trail, count in walks]
    complete = [trail.complete[count - 1] for trail, count in walks]
    return Stops(confidence, *(float(np.mean(values)) for values in (ended, tokens, complete)))


def _budget(trails: Sequence[Trail], share: float) -> Stops:
    """Walks that read as many of their nodes as fit into a share of their tokens, at least one."""
    counts = []
    for trail in trails:
        read = np.cumsum([visit.tokens for visit in trail.visits])
        counts.append(max(1, int(np.searchsorted(read, share * read[-1], side="right"))))
    return _means(trails, counts, confidence=0.0)


def _held_out(readings: Readings, features: Sequence[str], folds: Sequence[int]) -> Floats:
    """The probability of every reading, by a controller that was fitted to the other folds."""
    told, fold_of = np.empty(len(readings.labels)), np.array(folds)
    for fold in range(max(folds) + 1):
        held = fold_of == fold
        controller = fit(*readings.take(~held), features, reader="")
        rows = readings.features[held]
        told[held] = [controller.probability(dict(zip(FEATURES, row, strict=True))) for row in rows]
    return told


def _folds(documents: Sequence[tuple[str, str]]) -> list[int]:
    """The fold of every reading; documents are dealt out in an order that only their ids decide."""
    distinct = sorted(set(documents), key=_draw)
    if len(distinct) < 2:
        raise InputError(
            f"a controller is fitted to some documents and judged by others; got {len(distinct)} "
            "with walked questions that have gold evidence, give at least 2 (50 are better)"
        )
    count = min(FOLDS, len(distinct))
    fold = {document: i % count for i, document in enumerate(distinct)}
    return [fold[document] for document in documents]


def _draw(document: tuple[str, str]) -> tuple[bytes, tuple[str, str]]:
    return blake2b("\0".join(document).encode(), digest_size=8).digest(), document


def report_lines(found: Calibration) -> list[str]:
    """A calibration as text: areas, reliability, and where walks would stop."""
    lines = [
        f"{found.questions} questions, {found.documents} documents, "
        f"{found.judgements[0].auc.n} readings ({found.failed} questions failed)",
        "",
        f"{'':<12}{'AUC':>19}{'Brier':>8}{'ECE':>7}",
    ]
    lines += [
        f"{one.name:<12}{_interval(one.auc):>19}{one.brier:>8.3f}{one.ece:>7.3f}"
        for one in found.judgements
    ]
    for name in ("p_yes", *found.controllers):
        lines += ["", f"reliability of {name}", f"{'probability':<12}{'readings':>9}{'said':>7}"]
        lines[-1] += f"{'true':>7}"
        lines += [
            f"{f'{b.low:.1f}-{b.high:.1f}':<12}{b.count:>9}{b.predicted:>7.2f}{b.observed:>7.2f}"
            for b in found.judgement(name).bins
        ]
    lines += ["", "walks that stop at the first probability above a confidence"]
    lines += [f"{'':<12}{'confidence':>11}{'stopped':>9}{'tokens':>8}{'complete':>10}"]
    lines += [_stop_line(name, one) for name in found.stops for one in found.stops[name]]
    lines += [
        f"{'budget':<12}{f'{share:.1%}':>11}{_stop_numbers(one)}"
        for share, one in found.budgets.items()
    ]
    return lines


def _interval(found: Interval) -> str:
    return f"{found.mean:.3f} [{found.low:.2f}, {found.high:.2f}]"


def _stop_line(name: str, one: Stops) -> str:
    return f"{name:<12}{one.confidence:>11.2f}{_stop_numbers(one)}"


def _stop_numbers(one: Stops) -> str:
    return f"{one.stopped:>9.2f}{one.tokens:>8.0f}{one.complete:>10.2f}"

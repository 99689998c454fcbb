"""How sure a mean is: percentile bootstrap intervals, and the paired comparison of two systems.

Efron and Tibshirani, An Introduction to the Bootstrap, 1993, chapter 13 (percentile intervals);
Koehn, Statistical Significance Tests for Machine Translation Evaluation, 2004 (paired bootstrap);
Field and Welsh, Bootstrapping Clustered Data, 2007 (resampling whole clusters).

Questions about one document are not independent: a document that a system handles badly lowers all
of them. If a set has several questions per document, pass document ids as `groups`: documents are
then resampled instead of questions. Without them intervals are too narrow. With one question per
document it makes no difference.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hwdag.arrays import Floats
from hwdag.checks import whole
from hwdag.errors import InputError

CONFIDENCE = 0.95  # share of resampled means in an interval

ROUNDING = 1e-12
"""A resampled difference this close to zero is zero, up to the order of summation."""

CELLS = 1 << 20  # resampled indices in memory at a time (8 MB each for indices, sums and sizes)


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean of n values and its 95 % interval.

    `low` and `high` are NaN with one value or one group only: nothing is known about the spread.
    Equal values give an interval of width 0; look at n.
    """

    mean: float
    low: float
    high: float
    n: int

    def __str__(self) -> str:
        if math.isnan(self.low):
            return f"{self.mean:.2f} [n/a]"
        return f"{self.mean:.2f} [{self.low:.2f}, {self.high:.2f}]"


@dataclass(frozen=True, slots=True)
class Difference:
    """Mean of a - b over n pairs, its 95 % interval, and the two-sided p-value of no difference.

    With one pair, or one group, `low` and `high` are NaN and `p_value` is 1.
    """

    mean: float
    low: float
    high: float
    p_value: float
    n: int

    def __str__(self) -> str:
        p = "p < 0.001" if self.p_value < 0.001 else f"p = {self.p_value:.3f}"
        if math.isnan(self.low):
            return f"{self.mean:+.2f} [n/a], {p}"
        return f"{self.mean:+.2f} [{self.low:+.2f}, {self.high:+.2f}], {p}"


def bootstrap(
    values: Sequence[float],
    *,
    groups: Sequence[Hashable] | None = None,
    seed: int = 0,
    samples: int = 2000,
) -> Interval:
    """Return the mean of `values` with a percentile bootstrap interval; deterministic for a seed.

    With `groups`, one label per value, whole groups are drawn with all their values (the mean stays
    the mean over values). The module docstring describes when to use it.

    Raises:
        InputError: there are no values, a value is not finite, `groups` has another length, or
            `samples` is below 1.
    """
    numbers = _finite(values)
    means = _resampled(numbers, groups, seed, samples)
    return Interval(float(numbers.mean()), *_percentiles(means), len(numbers))


def paired_bootstrap(
    a: Sequence[float],
    b: Sequence[float],
    *,
    groups: Sequence[Hashable] | None = None,
    seed: int = 0,
    samples: int = 10_000,
) -> Difference:
    """Return whether a - b differs from zero, where a[i] and b[i] are scores of the same question.

    The p-value inverts the percentile interval: twice the smaller share of resampled differences on
    either side of zero, zero itself on both, each count plus one so that p is never 0. So it is
    below 0.05 if the interval excludes zero (up to rounding of quantiles), and never below 2 /
    (samples + 1). `groups` as in `bootstrap`.

    Raises:
        InputError: `a` and `b` differ in length, or as in `bootstrap`.
    """
    if len(a) != len(b):
        raise InputError(
            f"a paired comparison needs the same questions on both sides, got {len(a)} and {len(b)}"
            " values; keep the questions that both runs answered"
        )
    gains = _finite(a) - _finite(b)
    means = _resampled(gains, groups, seed, samples)
    return Difference(float(gains.mean()), *_percentiles(means), _two_sided(means), len(gains))


def _finite(values: Sequence[float]) -> Floats:
    numbers = np.asarray(values, dtype=np.float64)
    if numbers.ndim != 1 or not numbers.size or not np.isfinite(numbers).all():
        raise InputError(
            f"a mean needs a flat sequence of at least one finite value, got shape {numbers.shape} "
            f"with {int((~np.isfinite(numbers)).sum())} that are not finite; leave out questions "
            "that were not measured"
        )
    return numbers


def _resampled(
    values: Floats, groups: Sequence[Hashable] | None, seed: int, samples: int
) -> Floats:
    """Return means of resampled groups, (samples,); empty with one group only."""
    whole("samples", samples, 1)
    labels = _labels(groups, len(values))
    sums, sizes = np.bincount(labels, values), np.bincount(labels)
    if len(sums) == 1:
        return np.empty(0)
    rng, units = np.random.default_rng(seed), len(sums)
    rows, means = max(1, CELLS // units), list[Floats]()
    for done in range(0, samples, rows):
        draws = rng.integers(units, size=(min(rows, samples - done), units))
        means.append(sums[draws].sum(axis=1) / sizes[draws].sum(axis=1))
    return np.concatenate(means)


def _labels(groups: Sequence[Hashable] | None, n: int) -> NDArray[np.intp]:
    """Group number of every value, in order of first appearance, (n,)."""
    if groups is None:
        return np.arange(n)
    if len(groups) != n:
        raise InputError(
            f"groups needs one label per value, got {len(groups)} labels for {n} values"
        )
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(label, len(numbers)) for label in groups])


def _percentiles(means: Floats) -> tuple[float, float]:
    if not means.size:
        return math.nan, math.nan
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(means, [tail, 1 - tail])
    return float(low), float(high)


def _two_sided(means: Floats) -> float:
    below = int((means <= ROUNDING).sum())
    above = int((means >= -ROUNDING).sum())
    return min(1.0, 2 * (1 + min(below, above)) / (len(means) + 1))

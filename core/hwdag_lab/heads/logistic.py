"""Logistic regression with an L2 penalty, by Newton's method: a few weights, a few thousand rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hwdag.arrays import Floats
from hwdag.errors import InputError

Labels = NDArray[np.bool_]

MOST_STEPS = 100
"""Newton steps before it is given up; about six are usual."""

TOLERANCE = 1e-9
"""Largest gradient per row at which it has converged."""

ROUNDING = 1e-12
"""A loss that is higher by this share is not higher: it is a sum of thousands of terms."""


def fit_logistic(x: Floats, labels: Labels, *, penalty: float = 1.0) -> tuple[Floats, float]:
    """Weights and bias that minimise log loss + penalty / 2 * |weights|^2; the bias is free.

    Args:
        x: features, (rows, features); of one scale, since the penalty is the same for all.
        labels: what to predict, (rows,).
        penalty: above 0, in units of the summed log loss.

    Raises:
        InputError: `labels` are all the same, or `penalty` is not above 0.
    """
    if not labels.any() or labels.all():
        raise InputError(
            f"all {len(labels)} readings have the same label ({bool(labels.any())}: enough was "
            f"{'always' if labels.any() else 'never'} read), so nothing can be fitted; give more "
            "questions, or another token budget"
        )
    if not penalty > 0:
        raise InputError(f"penalty must be above 0, got {penalty!r}")
    rows = np.column_stack([np.ones(len(x)), x])
    y = labels.astype(np.float64)
    ridge = np.full(rows.shape[1], penalty)
    ridge[0] = 0.0
    at = np.zeros(rows.shape[1])
    for _ in range(MOST_STEPS):
        odds = rows @ at
        p = 0.5 * (1 + np.tanh(odds / 2))
        gradient = rows.T @ (p - y) + ridge * at
        if np.abs(gradient).max() <= TOLERANCE * len(rows):
            return at[1:], float(at[0])
        curvature = (rows * (p * (1 - p))[:, None]).T @ rows + np.diag(ridge)
        at = _descended(at, np.linalg.solve(curvature, gradient), rows, y, ridge)
    raise InputError(
        f"the fit did not converge in {MOST_STEPS} steps; features differ by orders of magnitude"
    )


def _descended(at: Floats, step: Floats, rows: Floats, y: Floats, ridge: Floats) -> Floats:
    """One Newton step, halved until it lowers the loss."""
    most, share = _loss(at, rows, y, ridge) * (1 + ROUNDING), 1.0
    while _loss(at - share * step, rows, y, ridge) > most:
        share /= 2
    return at - share * step


def _loss(at: Floats, rows: Floats, y: Floats, ridge: Floats) -> float:
    odds = rows @ at
    return float((np.logaddexp(0, odds) - y * odds).sum() + (ridge * at * at).sum() / 2)

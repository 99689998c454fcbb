"""Logistic regression with an L2 penalty, by scikit-learn."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray

from hwdag.errors import InputError

Floats = NDArray[np.float64]
Labels = NDArray[np.bool_]

MOST_STEPS = 100
"""Newton steps before it is given up; about six are usual."""

TOLERANCE = 1e-10
"""Largest gradient, per reading, at which it has converged."""


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
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(
        C=1 / penalty, solver="newton-cg", tol=TOLERANCE, max_iter=MOST_STEPS
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        try:
            model.fit(x, labels)
        except ConvergenceWarning as warning:
            raise InputError(
                f"the fit did not converge in {MOST_STEPS} steps; features differ by orders of "
                "magnitude"
            ) from warning
    weights: Floats = model.coef_[0]
    return weights, float(model.intercept_[0])

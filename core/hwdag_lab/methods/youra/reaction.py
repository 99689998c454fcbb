"""Reaction vectors and scores: equations 1 to 6 of YOURA, from means of columns of attention.

With c tokens of context and q of question, AttnVec(context) is the mean `a` of the c rows of the
context, and AttnVec(context + question), cut to the context, is (c a + q b) / (c + q), where `b` is
the mean of the q rows of the question: in a causal model the rows of the context do not change.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hwdag.arrays import Floats
from hwdag_lab.methods.youra.config import Difference, Mean, Scale
from hwdag_lab.methods.youra.protocol import Means

FLOOR = 1e-6
"""Least reaction of a token within a geometric mean, as a share of the window's mean reaction: one
token that does not react at all must not erase its sentence."""


def reaction(
    context: Means, question: Means, *, rows: tuple[int, int], difference: Difference
) -> Floats:
    """AttnVec(context + question) - AttnVec(context), or its absolute value (eq. 1), (tokens,).

    Args:
        context: mean of the rows of the context, (tokens,).
        question: mean of the rows of the question, (tokens,).
        rows: c and q, the numbers of those rows.
        difference: absolute, or with its sign.
    """
    c, q = rows
    before = context.astype(np.float64)
    after = (c * before + q * question.astype(np.float64)) / (c + q)
    found: Floats = after - before
    return np.abs(found) if difference == "absolute" else found


def scaled(found: Floats, *, rows: tuple[int, int], scale: Scale) -> Floats:
    """Reactions in units that windows of different length share, (tokens,).

    A reaction is q / (c + q) times the difference of two means that are about 1 / c each.
    """
    c, q = rows
    if scale == "length":
        return found * (c * (c + q) / max(1, q))
    if scale == "mean" and (mean := float(np.abs(found).mean())) > 0:
        return found / mean
    return found


def sentence_scores(found: Floats, ranges: NDArray[np.int32], mean: Mean) -> Floats:
    """Mean reaction of every range of tokens, (ranges,); 0 for an empty one.

    The geometric mean is that of logarithms, and takes what is below `FLOOR`, losses included, for
    that much.
    """
    floor = FLOOR * float(np.abs(found).mean()) if len(found) else 0.0
    if mean == "geometric" and floor == 0:
        return np.zeros(len(ranges))
    values = np.log(np.maximum(found, floor)) if mean == "geometric" else found
    totals = np.concatenate([[0.0], np.cumsum(values)])
    lengths = ranges[:, 1] - ranges[:, 0]
    means = (totals[ranges[:, 1]] - totals[ranges[:, 0]]) / np.maximum(1, lengths)
    scores: Floats = np.where(lengths > 0, np.exp(means) if mean == "geometric" else means, 0.0)
    return scores

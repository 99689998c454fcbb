"""Attention to weights: how much each Information Point owes to each node of its window.

Pure functions over what `Reader.replay` returns; no model, no I/O. The last step, sharing a point's
attention out so that its edges sum to 1 (GARLIC 3.1), is `HWDAG.from_rows`, which keeps both.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hwdag.lm.base import Replay

Floats = NDArray[np.float64]

SOURCE_SHARE = 0.5
"""Sentences are listed as sources until they hold this share of a point's attention ..."""

MAX_SOURCES = 4
"""... or are this many."""


def segment_attention(replay: Replay) -> Floats:
    """a[i, j] of GARLIC 3.1: mean attention of point i to node j, from the means over its units.

    The mean over a node's tokens is the token-weighted mean over the units that it was cut into.

    Returns:
        (points, segments)
    """
    segments = int(replay.unit_segment.max()) + 1
    member = np.equal.outer(replay.unit_segment, np.arange(segments))  # (units, segments)
    tokens = member * replay.unit_tokens[:, None]
    totals = np.maximum(tokens.sum(axis=0), 1)
    return np.asarray(replay.attention @ tokens / totals)


def source_units(attention: Floats) -> list[list[int]]:
    """For every point the units that it rests on, by attention, strongest first.

    Units are taken until they hold `SOURCE_SHARE` of the attention of the point above the average
    unit: every unit gets some attention, only what stands out is evidence.

    Args:
        attention: (points, units)
    """
    found = []
    for row in attention:
        excess = np.clip(row - row.mean(), 0.0, None)
        order = np.argsort(-excess, kind="stable")
        held = np.cumsum(excess[order])
        count = 1 + int(np.searchsorted(held, SOURCE_SHARE * held[-1]))
        found.append([int(u) for u in order[: min(count, MAX_SOURCES)]])
    return found

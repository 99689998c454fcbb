"""Graphs whose edges the model did not make: what its attention is worth, all else being equal."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hwdag.arrays import Mask
from hwdag.config import Heads
from hwdag.lm.base import Reader, Replay, ReplayRequest
from hwdag.store.calls import CallCache
from hwdag_lab.eval.models import CachedReader
from hwdag_lab.eval.systems import EdgeSource


class OtherEdges(CachedReader):
    """A reader whose attention from points to the nodes of their window is not its own.

    "uniform" pays the same to every node; "shuffled" deals the values of a point's own attention
    out among the nodes anew, by a choice that depends on the texts alone.
    """

    def __init__(self, model: Reader, calls: CallCache, edges: EdgeSource) -> None:
        super().__init__(model, calls)
        self._edges = edges

    def replay(self, requests: Sequence[ReplayRequest], *, heads: Heads) -> list[Replay]:
        """Attention of points to their windows, changed."""
        replays = super().replay(requests, heads=heads)
        return [self._changed(q, r) for q, r in zip(requests, replays, strict=True)]

    def _changed(self, request: ReplayRequest, replay: Replay) -> Replay:
        if self._edges == "uniform":
            return replace(replay, attention=np.ones_like(replay.attention))
        seed = hashlib.sha256(repr(request).encode("utf-8", "surrogatepass")).digest()[:8]
        return shuffled(replay, np.random.default_rng(int.from_bytes(seed)), copies(request))


def copies(request: ReplayRequest) -> Mask:
    """Find the segments that say what a point says, (points, segments): edges leave them out."""
    return np.array(
        [[point in one or one in point for one in request.segments] for point in request.points]
    )


def shuffled(replay: Replay, rng: np.random.Generator, fixed: Mask) -> Replay:
    """Deal mean attention per segment out anew for every point, among segments that are not fixed.

    A point pays most to its own copy, which has no edge: dealt out it would become one.
    """
    segment, tokens = replay.unit_segment, replay.unit_tokens
    count = int(segment.max()) + 1
    totals = np.stack([np.bincount(segment, row * tokens, count) for row in replay.attention])
    means = totals / np.maximum(np.bincount(segment, tokens, count), 1)  # (points, segments)
    for row, keeps in zip(means, fixed, strict=True):
        row[~keeps] = rng.permutation(row[~keeps])
    return replace(replay, attention=means[:, segment])

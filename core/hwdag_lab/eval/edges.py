"""Graphs with edges that the model did not make, to measure the value of its attention."""

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
    """A reader with changed attention from points to the nodes of their window.

    "uniform" pays the same to every node. "shuffled" permutes the attention values of a point among
    the nodes; the permutation depends on the texts only.
    """

    def __init__(self, model: Reader, calls: CallCache, edges: EdgeSource) -> None:
        super().__init__(model, calls)
        self._edges = edges

    def replay(self, requests: Sequence[ReplayRequest], *, heads: Heads) -> list[Replay]:
        """Return changed attention of points to their windows."""
        replays = super().replay(requests, heads=heads)
        return [self._changed(q, r) for q, r in zip(requests, replays, strict=True)]

    def _changed(self, request: ReplayRequest, replay: Replay) -> Replay:
        if self._edges == "uniform":
            return replace(replay, attention=np.ones_like(replay.attention))
        seed = hashlib.sha256(repr(request).encode("utf-8", "surrogatepass")).digest()[:8]
        return shuffled(replay, np.random.default_rng(int.from_bytes(seed)), copies(request))


def copies(request: ReplayRequest) -> Mask:
    """Return segments that repeat the point, (points, segments); edges leave them out."""
    return np.array(
        [[point in one or one in point for one in request.segments] for point in request.points]
    )


def shuffled(replay: Replay, rng: np.random.Generator, fixed: Mask) -> Replay:
    """Permute mean attention per segment for every point, among segments that are not fixed.

    A point pays most to its own copy, which has no edge; shuffled, that value would become one.
    """
    segment, tokens = replay.unit_segment, replay.unit_tokens
    count = int(segment.max()) + 1
    totals = np.stack([np.bincount(segment, row * tokens, count) for row in replay.attention])
    means = totals / np.maximum(np.bincount(segment, tokens, count), 1)  # (points, segments)
    for row, keeps in zip(means, fixed, strict=True):
        row[~keeps] = rng.permutation(row[~keeps])
    return replace(replay, attention=means[:, segment])

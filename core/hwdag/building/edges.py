"""Attention to weights: how much each Information Point owes to each node of its window.

Writing and replaying are separate: any engine may write the points, one teacher-forced forward of
`[prompt, window, points]` through the local model yields all edges of the window. Sharing a point's
attention out so that its edges sum to 1 (GARLIC 3.1) is `HWDAG.from_rows`, which keeps both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hwdag.arrays import Floats, Indices, Mask
from hwdag.building.points import Point
from hwdag.building.windows import Window
from hwdag.config import Heads
from hwdag.graph.dag import union_of_spans
from hwdag.lm.base import Reader, Replay, ReplayRequest, heads_of
from hwdag.store.calls import CallCache, key_of, replays_of
from hwdag.trace.bars import Advance
from hwdag.types import Node, Span

SOURCE_SHARE = 0.5
"""Sentences are listed as sources until they hold this share of a point's attention ..."""

MAX_SOURCES = 4  # ... or are this many


def replay(
    windows: Sequence[Window],
    points: Sequence[Sequence[Point]],
    reader: Reader,
    heads: Heads,
    calls: CallCache,
    advance: Advance,
) -> list[Replay]:
    """Read the attention of the points of every window to its nodes."""
    requests = [
        window.request([point.text for point in made])
        for window, made in zip(windows, points, strict=True)
    ]

    def call(batch: list[int]) -> list[dict[str, NDArray[Any]]]:
        made = reader.replay([requests[i] for i in batch], heads=heads)
        return [{name: getattr(replay, name) for name in Replay.__slots__} for replay in made]

    read = heads_of(reader, heads)
    keys = [key_of("replay", reader.name, read, *_content(request)) for request in requests]
    size = reader.replay_batch
    found = calls.results(keys, replays_of(requests), call, size=size, advance=advance)
    return [Replay(**arrays) for arrays in found]


def _content(request: ReplayRequest) -> tuple[object, ...]:
    """Everything that a replay depends on, as JSON knows it."""
    units = [[(span.start, span.end) for span in spans] for spans in request.units]
    return request.before, request.shown, request.after, request.points, units


def edges_of(
    points: Sequence[Point], window: Sequence[Node], replayed: Replay
) -> Iterator[tuple[Indices, Floats]]:
    """Yield for every point the places in its window that it has edges to, and its attention to them."""
    for point, attention in zip(points, segment_attention(replayed), strict=True):
        paid = np.flatnonzero(edge_mask(point, window, attention))
        yield paid, attention[paid]


def segment_attention(replayed: Replay) -> Floats:
    """Average a[i, j] of GARLIC 3.1, attention of point i to node j, (points, segments).

    The mean over a node's tokens is the token-weighted mean over the units that it was cut into.
    """
    segments = int(replayed.unit_segment.max()) + 1
    member = np.equal.outer(replayed.unit_segment, np.arange(segments))  # (units, segments)
    tokens = member * replayed.unit_tokens[:, None]
    totals = np.maximum(tokens.sum(axis=0), 1)
    return np.asarray(replayed.attention @ tokens / totals)


def edge_mask(point: Point, window: Sequence[Node], attention: Floats) -> Mask:
    """Find the nodes that a point has an edge to, (window,): all that it pays to but its own copy.

    A picked point pays most of its attention to its own words, which ranks no other nodes.
    If it attends to nothing else, the copy stays.
    """
    others = ~np.array([_is_copy(point, node) for node in window])
    return others if attention[others].sum() > 0 else np.ones(len(window), np.bool_)


def _is_copy(point: Point, node: Node) -> bool:
    """Return whether they are the same text, or the point was picked from the node and is most of it."""
    if point.origin != "extractive" or node.origin == "generated":
        return point.text == node.text
    return 2 * _shared(point, node) > len(node.text)


def _shared(point: Point, node: Node) -> int:
    return sum(a.overlap(b) for a in point.sources for b in node.sources)


def with_sources(points: Sequence[Point], window: Window, replayed: Replay) -> list[Point]:
    """Let generated points rest on the parts that they attended to most; others know theirs."""

    def sources(units: Sequence[int]) -> tuple[Span, ...]:
        return union_of_spans([span for unit in units for span in window.parts[unit].sources])

    return [
        point if point.sources else Point(point.text, point.origin, sources(units))
        for point, units in zip(points, source_units(replayed.attention), strict=True)
    ]


def source_units(attention: Floats) -> list[list[int]]:
    """List for every point the units that it rests on, strongest first; `attention` is (points, units).

    Units are taken until they hold `SOURCE_SHARE` of the attention of the point above the average
    unit: every unit gets some attention, and only a clear excess is evidence.
    """
    found = []
    for row in attention:
        excess = np.clip(row - row.mean(), 0.0, None)
        order = np.argsort(-excess, kind="stable")
        held = np.cumsum(excess[order])
        count = 1 + int(np.searchsorted(held, SOURCE_SHARE * held[-1]))
        found.append([int(u) for u in order[: min(count, MAX_SOURCES)]])
    return found

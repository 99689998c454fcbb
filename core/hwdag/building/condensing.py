"""Windows to points and edges."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hwdag.building.calls import Calls, Embeddings, Finished, Picks, Replays
from hwdag.building.edges import source_units
from hwdag.building.points import (
    Part,
    Point,
    Summarizing,
    Window,
    joined,
    line_costs,
    pick,
    picked_points,
    points_budget,
    summary_prompt,
)
from hwdag.building.windows import WindowPlan
from hwdag.config import BuildConfig
from hwdag.embedding.base import Embedder, Vectors
from hwdag.graph.dag import union_of_spans
from hwdag.lm.base import Reader, Replay, ReplayRequest, Writer, heads_of
from hwdag.store.calls import key_of
from hwdag.text.prompts import Prompts
from hwdag.text.sentences import sentences
from hwdag.types import Node, Origin, Span

EMBED_BATCH = 512
"""Texts that are embedded, and committed, at a time."""

Advance = Callable[[int], object]
"""Is told how many windows are done."""


@dataclass(frozen=True, slots=True)
class Tools:
    """Everything a build works with; `writer` is None where points are extracted."""

    reader: Reader
    writer: Writer | None
    embedder: Embedder
    config: BuildConfig
    prompts: Prompts

    def check(self) -> None:
        """Raise `ContextTooSmall` for settings that no document can be built with."""
        _ = self.plan

    @property
    def plan(self) -> WindowPlan:
        """How the tokens of a window are divided; raises `ContextTooSmall`."""
        return WindowPlan.of(
            self.config, self.prompts.summary, self.reader, extractive=self.writer is None
        )


class Condenser:
    """Asks the models about windows; every finished call is kept before the next one is made.

    Args:
        tools: the models and their settings.
        calls: finished calls, and where further ones are kept.

    Attributes:
        plan: how the tokens of a window are divided.
        retries: windows whose first reply held no bullet.
        fallbacks: windows whose second reply held none either; their points are extractive.

    Raises:
        ContextTooSmall: the reader's context cannot hold one chunk and the prompt.
    """

    def __init__(self, tools: Tools, calls: Calls) -> None:
        self.plan = tools.plan
        self.retries = 0
        self.fallbacks = 0
        self._tools = tools
        self._calls = calls

    def points(self, windows: Sequence[Window], advance: Advance) -> list[list[Point]]:
        """The points of every window; a single one each where a tree is built."""
        points = self._points(windows, advance)
        return [[joined(made)] for made in points] if self._tools.config.tree else points

    def replay(
        self, windows: Sequence[Window], points: Sequence[Sequence[Point]], advance: Advance
    ) -> list[Replay]:
        """What the points of every window attended to."""
        tools = self._tools
        reader, heads = tools.reader, tools.config.edge_heads
        before, after = tools.prompts.summary.cut(tools.config.language)
        requests = [
            ReplayRequest(
                before,
                window.segments,
                after,
                tuple(point.text for point in made),
                tuple(
                    tuple(part.unit for part in window.parts if part.segment == i)
                    for i in range(len(window.segments))
                ),
            )
            for window, made in zip(windows, points, strict=True)
        ]

        def call(batch: list[int]) -> list[Replay]:
            return reader.replay([requests[i] for i in batch], heads=heads)

        def make(missing: list[int]) -> Finished[Replay]:
            return self._calls.in_batches(missing, tools.config.batch_size, call)

        read = heads_of(reader, heads)
        keys = [key_of("replay", reader.name, read, *_parts_of(r)) for r in requests]
        return self._calls.results(keys, Replays(requests), make, advance=advance)

    def embedded(self, texts: Sequence[str], known: Mapping[str, Vectors]) -> Vectors:
        """Embeddings of all texts, (texts, dimension); every text is embedded once, at most."""
        embedder = self._tools.embedder
        new = list(dict.fromkeys(text for text in texts if text not in known))
        batches = [new[i : i + EMBED_BATCH] for i in range(0, len(new), EMBED_BATCH)]

        def make(missing: list[int]) -> Finished[Vectors]:
            return self._calls.in_batches(
                missing, 1, lambda batch: [embedder.embed(batches[i]) for i in batch]
            )

        keys = [key_of("embed", embedder.name, batch) for batch in batches]
        embeddings = Embeddings([len(batch) for batch in batches], embedder.dimension)
        # why keep=False: the vectors of a finished document stand beside its nodes already
        made = self._calls.results(keys, embeddings, make, keep=False)
        found = dict(known)
        for batch, vectors in zip(batches, made, strict=True):
            found |= zip(batch, vectors, strict=True)
        return np.stack([found[text] for text in texts])

    def _points(self, windows: Sequence[Window], advance: Advance) -> list[list[Point]]:
        tools = self._tools
        if tools.writer is None:
            return self._extract(windows, advance)
        before, after = tools.prompts.summary.cut(tools.config.language)
        prompts = [summary_prompt(before, window.segments, after) for window in windows]
        asking = Summarizing(
            tools.writer, tools.reader, self.plan.points_tokens, tools.config.batch_size
        )
        points, retries = asking.points(prompts, self._calls, advance)
        self.retries += retries
        missing = [i for i, found in enumerate(points) if not found]
        self.fallbacks += len(missing)
        picked = self._extract([windows[i] for i in missing])
        for i, extracted in zip(missing, picked, strict=True):
            points[i] = extracted
        return points

    def _extract(
        self, windows: Sequence[Window], advance: Advance = lambda amount: None
    ) -> list[list[Point]]:
        """Points picked from each window; one call embeds the parts of one window.

        What is picked then depends on the window alone, not on which others were picked with it.
        """
        tools, limit = self._tools, self.plan.points_tokens
        texts = [[part.text for part in window.parts] for window in windows]
        costs = [line_costs(several, tools.reader) for several in texts]
        budgets = [points_budget(several, tools.config.points_ratio, limit) for several in costs]

        def one(i: int) -> list[int]:
            vectors = tools.embedder.embed(texts[i])
            return pick(windows[i], costs[i], vectors, budget=budgets[i])

        def make(missing: list[int]) -> Finished[list[int]]:
            return self._calls.in_batches(missing, 1, lambda batch: [one(i) for i in batch])

        keys = [
            key_of(
                "pick",
                tools.embedder.name,
                texts[i],
                [part.segment for part in window.parts],
                costs[i],
                budgets[i],
            )
            for i, window in enumerate(windows)
        ]
        picks = Picks([len(window.parts) for window in windows])
        chosen = self._calls.results(keys, picks, make, advance=advance)
        return [picked_points(*both) for both in zip(windows, chosen, strict=True)]


def window_of(nodes: Sequence[Node]) -> Window:
    """Nodes as a window: leaves are cut into sentences, points stay whole."""
    parts: list[Part] = []
    for i, node in enumerate(nodes):
        if node.level == 1:
            parts += _sentence_parts(node, i)
        else:
            whole = Span(0, len(node.text))
            parts.append(Part(node.text, i, whole, node.sources, _origin_of_a_pick(node)))
    return Window(tuple(node.text for node in nodes), tuple(parts))


def with_sources(points: Sequence[Point], window: Window, replay: Replay) -> list[Point]:
    """Generated points rest on the parts that they attended to most; others know their sources."""

    def sources(units: Sequence[int]) -> tuple[Span, ...]:
        return union_of_spans([span for unit in units for span in window.parts[unit].sources])

    return [
        point if point.sources else Point(point.text, point.origin, sources(units))
        for point, units in zip(points, source_units(replay.attention), strict=True)
    ]


def _parts_of(request: ReplayRequest) -> tuple[object, ...]:
    """Everything that a replay depends on, as JSON knows it."""
    units = [[(span.start, span.end) for span in spans] for spans in request.units]
    return request.before, request.segments, request.after, request.points, units


def _origin_of_a_pick(node: Node) -> Origin:
    """A slice of the document stays one when it is picked again; a generated text does not."""
    return "generated" if node.origin == "generated" else "extractive"


def _sentence_parts(node: Node, segment: int) -> list[Part]:
    origin = node.sources[0].start
    return [
        Part(
            node.text[s.start : s.end],
            segment,
            s,
            (Span(origin + s.start, origin + s.end),),
        )
        for s in sentences(node.text)
    ]

"""A document becomes a graph: chunks, then points over windows, level by level (GARLIC 3.1).

    chunk -> [ fill windows -> make points -> replay: attention -> edges ] until one window remains

Writing and replaying are separate: any engine may write the points, one teacher-forced forward of
`[prompt, window, points]` through the local model yields all edges of the window.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from hwdag.build.edges import segment_attention, source_units
from hwdag.build.points import Part, Point, Window, extract, joined, write
from hwdag.build.windows import WindowPlan, pack
from hwdag.config import BuildConfig
from hwdag.embedding.base import Embedder, Vectors
from hwdag.errors import InputError
from hwdag.graph.dag import HWDAG, EdgeRow, union_of_spans
from hwdag.lm.base import Reader, Replay, ReplayRequest, Writer
from hwdag.text.characters import one_line
from hwdag.text.chunking import chunk, leaves
from hwdag.text.headings import headings, searched_text
from hwdag.text.prompts import Prompts
from hwdag.text.sentences import sentences
from hwdag.trace.progress import Progress
from hwdag.types import Document, Node, Origin, Span


@dataclass(frozen=True, slots=True)
class Tools:
    """Everything a build works with. `writer` is None where points are extracted."""

    reader: Reader
    writer: Writer | None
    embedder: Embedder
    config: BuildConfig
    prompts: Prompts


@dataclass(slots=True)
class Built:
    """A finished document: its graph, the embedding of every node, and what happened on the way."""

    graph: HWDAG
    vectors: Vectors  # (nodes, dimension)
    retries: int = 0
    fallbacks: int = 0
    notes: list[str] = field(default_factory=list)


def build(document: Document, tools: Tools, progress: Progress) -> Built:
    """Build the graph of one document.

    Raises:
        InputError: the document has no text.
        ContextTooSmall: the reader's context cannot hold one chunk and the prompt.
        WriterFailed: the writer raised or broke its contract.
    """
    plan = WindowPlan.of(
        tools.config, tools.prompts.summary, tools.reader, extractive=tools.writer is None
    )
    return _Build(document, tools, plan, progress).run()


class _Build:
    """One-use state of one document's build: the nodes and rows so far, level by level."""

    def __init__(
        self, document: Document, tools: Tools, plan: WindowPlan, progress: Progress
    ) -> None:
        self._document = document
        self._tools = tools
        self._plan = plan
        self._progress = progress
        self._nodes: list[Node] = []
        self._rows: list[EdgeRow] = []
        self._result = Built(HWDAG.from_rows([], []), np.empty((0, 0), np.float32))

    def run(self) -> Built:
        """Chunks, then levels of points until one window suffices or the text stops shrinking."""
        level = self._chunks()
        while level[-1].level < self._tools.config.max_levels:
            first = len(self._nodes) - len(level)
            windows = pack(self._line_costs(level), self._plan.content_tokens)
            points, rows = self._next_level(level, windows, first)
            if len(windows) > 1 and _tokens(points) >= _tokens(level):
                self._note(f"level {points[0].level} was not shorter than the level below: dropped")
                break
            self._nodes += points
            self._rows += rows
            level = points
            if len(windows) == 1:
                break
        else:
            self._note(f"stopped at max_levels={self._tools.config.max_levels}")
        return self._finish()

    def _chunks(self) -> list[Node]:
        document, reader = self._document, self._tools.reader
        limit = self._tools.config.chunk_tokens
        cut = leaves if self._tools.config.leaves == "sentences" else chunk
        spans = cut(document.text, count_tokens=reader.count_tokens, limit=limit)
        if not spans:
            raise InputError(f"document {document.id!r} is empty or only white space")
        texts = [document.text[span.start : span.end] for span in spans]
        self._nodes = self._numbered(
            1, [Point(text, "chunk", (span,)) for text, span in zip(texts, spans, strict=True)]
        )
        return self._nodes

    def _next_level(
        self, level: Sequence[Node], ranges: Sequence[range], first: int
    ) -> tuple[list[Node], list[EdgeRow]]:
        """Points of all windows of a level, and their edges; `first` is the level's first index."""
        windows = [_window(level[r.start : r.stop]) for r in ranges]
        height, size = level[0].level + 1, self._tools.config.batch_size
        found: list[Point] = []
        rows: list[EdgeRow] = []
        with self._progress.stage(f"level {height}", len(windows), "window") as advance:
            for start in range(0, len(windows), size):
                batch = windows[start : start + size]
                points = self._points(batch)
                if self._tools.config.tree:
                    points = [[joined(made)] for made in points]
                for window, nodes, made, replay in zip(
                    batch,
                    ranges[start : start + size],
                    points,
                    self._replay(batch, points),
                    strict=True,
                ):
                    children = np.arange(first + nodes.start, first + nodes.stop, dtype=np.int32)
                    parent = len(self._nodes) + len(found)
                    attention = segment_attention(replay)
                    rows += [EdgeRow(parent + i, children, raw) for i, raw in enumerate(attention)]
                    found += _with_sources(made, window, replay)
                advance(len(batch))
        return self._numbered(height, found), rows

    def _points(self, windows: Sequence[Window]) -> list[list[Point]]:
        tools, limit = self._tools, self._plan.points_tokens
        if tools.writer is None:
            return self._extract(windows)
        before, after = tools.prompts.summary.cut(tools.config.language)
        prompts = [
            before + "\n".join(f"* {one_line(s)}" for s in window.segments) + after
            for window in windows
        ]
        points, retries = write(prompts, tools.writer, tools.reader, limit=limit)
        self._result.retries += retries
        missing = [i for i, found in enumerate(points) if not found]
        if missing:
            self._result.fallbacks += len(missing)
            for i, picked in zip(
                missing, self._extract([windows[i] for i in missing]), strict=True
            ):
                points[i] = picked
        return points

    def _extract(self, windows: Sequence[Window]) -> list[list[Point]]:
        tools = self._tools
        return extract(
            windows,
            tools.reader,
            tools.embedder,
            ratio=tools.config.points_ratio,
            limit=self._plan.points_tokens,
        )

    def _replay(self, windows: Sequence[Window], points: Sequence[Sequence[Point]]) -> list[Replay]:
        tools = self._tools
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
        return tools.reader.replay(requests, heads=tools.config.edge_heads)

    def _numbered(self, level: int, points: Sequence[Point]) -> list[Node]:
        tokens = self._tools.reader.count_tokens([point.text for point in points])
        document = self._document.id
        return [
            Node(
                id=f"{document}#{level}.{i}",
                document_id=document,
                level=level,
                text=point.text,
                origin=point.origin,
                tokens=max(1, count),
                sources=point.sources,
            )
            for i, (point, count) in enumerate(zip(points, tokens, strict=True))
        ]

    def _line_costs(self, level: Sequence[Node]) -> list[int]:
        return self._tools.reader.count_tokens([f"* {node.text}\n" for node in level])

    def _finish(self) -> Built:
        result = self._result
        result.graph = HWDAG.from_rows(self._nodes, self._rows)
        result.graph.check_integrity()
        result.vectors = self._tools.embedder.embed(self._embedded_texts())
        return result

    def _embedded_texts(self) -> list[str]:
        """What is embedded of every node; a slice of the document behind its heading."""
        if not self._tools.config.contextual:
            return [node.text for node in self._nodes]
        found = headings(self._document.text, [node.sources[0] for node in self._nodes])
        return list(map(searched_text, self._nodes, found))

    def _note(self, text: str) -> None:
        self._result.notes.append(f"{self._document.id}: {text}")


def _window(level: Sequence[Node]) -> Window:
    """Nodes as a window: leaves are cut into sentences, points stay whole."""
    parts: list[Part] = []
    for i, node in enumerate(level):
        if node.level == 1:
            parts += _sentence_parts(node, i)
        else:
            whole = Span(0, len(node.text))
            parts.append(Part(node.text, i, whole, node.sources, _origin_of_a_pick(node)))
    return Window(tuple(node.text for node in level), tuple(parts))


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


def _with_sources(points: Sequence[Point], window: Window, replay: Replay) -> list[Point]:
    """Generated points rest on the parts that they attended to most; others know their sources."""
    return [
        point
        if point.sources
        else Point(
            point.text,
            point.origin,
            union_of_spans([span for u in units for span in window.parts[u].sources]),
        )
        for point, units in zip(points, source_units(replay.attention), strict=True)
    ]


def _tokens(nodes: Sequence[Node]) -> int:
    return sum(node.tokens for node in nodes)

"""A document becomes a graph: chunks, then points over windows, level by level (GARLIC 3.1).

    chunk -> [ fill windows -> make points -> replay: attention -> edges ] until one window remains

Writing and replaying are separate: any engine may write the points, one teacher-forced forward of
`[prompt, window, points]` through the local model yields all edges of the window.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from hwdag.building.calls import Calls
from hwdag.building.condensing import Condenser, Tools, window_of, with_sources
from hwdag.building.edges import segment_attention
from hwdag.building.points import Point, line_costs
from hwdag.building.windows import pack
from hwdag.config import BuildConfig
from hwdag.embedding.base import Vectors
from hwdag.errors import InputError
from hwdag.graph.dag import HWDAG, EdgeRow
from hwdag.text.chunking import chunk, leaves
from hwdag.text.headings import headings, searched_text
from hwdag.trace.progress import Progress
from hwdag.types import Document, Node

__all__ = ["Built", "Tools", "build", "embedded_texts"]


@dataclass(slots=True)
class Built:
    """A finished document: its graph, what its nodes are found by, and what happened on the way."""

    graph: HWDAG
    vectors: Vectors  # (nodes, dimension)
    retries: int = 0
    fallbacks: int = 0
    notes: list[str] = field(default_factory=list)


def build(
    document: Document,
    tools: Tools,
    progress: Progress,
    calls: Calls | None = None,
    known: Mapping[str, Vectors] | None = None,
) -> Built:
    """Build the graph of one document.

    Args:
        document: what to build from.
        tools: the models and their settings.
        progress: is told about every window.
        calls: finished calls, and where further ones are kept; None keeps none.
        known: embeddings that need not be made, by text, (dimension,) each.

    Raises:
        InputError: the document has no text.
        ContextTooSmall: the reader's context cannot hold one chunk and the prompt.
        WriterFailed: the writer raised or broke its contract.
    """
    return _Build(document, tools, progress, calls or Calls()).run(known or {})


class _Build:
    """One-use state of one document's build: the nodes and rows so far, level by level."""

    def __init__(self, document: Document, tools: Tools, progress: Progress, calls: Calls) -> None:
        self._document = document
        self._tools = tools
        self._progress = progress
        self._condenser = Condenser(tools, calls)
        self._nodes: list[Node] = []
        self._rows: list[EdgeRow] = []
        self._result = Built(HWDAG.from_rows([], []), np.empty((0, 0), np.float32))

    def run(self, known: Mapping[str, Vectors]) -> Built:
        """Chunks, then levels of points until one window suffices or the text stops shrinking."""
        level = self._chunks()
        while level[-1].level < self._tools.config.max_levels:
            first = len(self._nodes) - len(level)
            texts = [node.text for node in level]
            costs = line_costs(texts, self._tools.reader)
            windows = pack(costs, self._condenser.plan.content_tokens, texts)
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
        return self._finish(known)

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
        windows = [window_of(level[r.start : r.stop]) for r in ranges]
        height = level[0].level + 1
        with self._progress.stage(f"points of level {height}", len(windows), "window") as advance:
            points = self._condenser.points(windows, advance)
        with self._progress.stage(f"edges of level {height}", len(windows), "window") as advance:
            replays = self._condenser.replay(windows, points, advance)
        found: list[Point] = []
        rows: list[EdgeRow] = []
        for window, nodes, made, replay in zip(windows, ranges, points, replays, strict=True):
            children = np.arange(first + nodes.start, first + nodes.stop, dtype=np.int32)
            parent = len(self._nodes) + len(found)
            attention = segment_attention(replay)
            rows += [EdgeRow(parent + i, children, raw) for i, raw in enumerate(attention)]
            found += with_sources(made, window, replay)
        return self._numbered(height, found), rows

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

    def _finish(self, known: Mapping[str, Vectors]) -> Built:
        result, condenser = self._result, self._condenser
        result.graph = HWDAG.from_rows(self._nodes, self._rows)
        result.graph.check_integrity()
        result.retries, result.fallbacks = condenser.retries, condenser.fallbacks
        texts = embedded_texts(self._document, self._nodes, self._tools.config)
        result.vectors = condenser.embedded(texts, known)
        return result

    def _note(self, text: str) -> None:
        self._result.notes.append(f"{self._document.id}: {text}")


def embedded_texts(document: Document, nodes: Sequence[Node], config: BuildConfig) -> list[str]:
    """What is embedded of every node; a slice of the document behind its heading."""
    if not config.contextual:
        return [node.text for node in nodes]
    found = headings(document.text, [node.sources[0] for node in nodes])
    return list(map(searched_text, nodes, found))


def _tokens(nodes: Sequence[Node]) -> int:
    return sum(node.tokens for node in nodes)

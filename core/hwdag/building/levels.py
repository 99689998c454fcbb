"""A document becomes a graph: leaves, then points over windows, level by level (GARLIC 3.1).

leaves -> [ fill windows -> make points -> replay: attention -> edges ] until one window remains

The method "evidence" builds leaves alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

import numpy as np

from hwdag.arrays import Floats, Indices, Vectors
from hwdag.building.edges import edges_of, replay, with_sources
from hwdag.building.points import Point, make_points
from hwdag.building.windows import Window, WindowPlan, line_costs, pack
from hwdag.config import BuildConfig, Method
from hwdag.embedding.base import Embedder
from hwdag.errors import InputError
from hwdag.graph.dag import HWDAG, EdgeRow
from hwdag.lm.base import Reader, Writer
from hwdag.store.calls import CallCache, key_of, vectors_of
from hwdag.text.chunking import chunk, leaves
from hwdag.text.headings import Outline, searched_text
from hwdag.text.prompts import Prompts
from hwdag.trace.bars import Reporter
from hwdag.types import Document, Node

MAX_LEVELS = 12  # a graph ends there, even if the text does not shrink (ours)

EMBED_BATCH = 512  # texts that are embedded, and committed, at a time


def method_of(config: BuildConfig, writer: Writer | None, reader: Reader) -> Method:
    """Return what "auto" stands for: whether there is somebody who writes Information Points."""
    has_writer = writer is not None or not reader.prefers_extraction
    return "hwdag" if config.points == "generated" or has_writer else "evidence"


@dataclass(frozen=True, slots=True)
class BuiltGraph:
    """The graph of one document, the embeddings of its nodes, and what happened on the way."""

    graph: HWDAG
    vectors: Vectors  # (nodes, dimension)
    retries: int = 0
    fallbacks: int = 0
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Level:
    """The points made from `windows` windows; edges are (places in the level below, raw weights)."""

    nodes: list[Node]
    edges: list[tuple[Indices, Floats]]  # one per node
    windows: int
    retries: int
    fallbacks: int

    @property
    def tokens(self) -> int:
        return _tokens(self.nodes)


@dataclass(frozen=True, slots=True)
class GraphBuilder:
    """Builds the graph of one document at a time.

    Attributes:
        reader: counts tokens, and reads what the points attend to.
        writer: writes the points; None where they are picked from the text.
        embedder: embeds the nodes.
        config: how a document becomes a graph.
        prompts: how the writer is asked.
    """

    reader: Reader
    writer: Writer | None
    embedder: Embedder
    config: BuildConfig
    prompts: Prompts

    @property
    def method_note(self) -> str:
        """Which method builds, and why, in one sentence."""
        if not self.config.rules.has_points:
            why = "leaves alone, and no language model"
            if self.reader.prefers_extraction:
                why += f"; {self.reader.name} is too small to write Information Points"
        elif self.writer is None:
            why = f"points are picked sentences, since {self.reader.name} does not write"
        else:
            why = f"{self.writer.name} writes the Information Points, {self.reader.name} makes the edges"
        return f'method "{self.config.method}": {why}'

    @property
    def plan(self) -> WindowPlan:
        """How a window is divided; raises `ContextTooSmall` where it cannot be."""
        extractive = self.writer is None
        return WindowPlan.of(self.config, self.prompts.summary, self.reader, extractive=extractive)

    def build(
        self,
        document: Document,
        reporter: Reporter,
        calls: CallCache | None = None,
        known: Mapping[str, Vectors] | None = None,
    ) -> BuiltGraph:
        """Build the graph of a document.

        Args:
            document: what to build from; not blank.
            reporter: is told of every window.
            calls: finished calls, which are not repeated; new ones are added.
            known: embeddings that need not be made, by text, (dimension,) each.

        Raises:
            InputError, ContextTooSmall, WriterFailed: as `HWDAGIndex.refresh` says.
        """
        calls = CallCache.open() if calls is None else calls
        outline = Outline(document.text, document.title)
        level = self._leaves(document, outline)
        nodes, rows, notes = list(level), list[EdgeRow](), list[str]()
        retries = fallbacks = 0
        highest = MAX_LEVELS if self.config.rules.has_points else 1
        for height in range(2, highest + 1):
            above = self._level_above(level, height, document, outline, reporter, calls)
            retries, fallbacks = retries + above.retries, fallbacks + above.fallbacks
            if above.windows > 1 and above.tokens >= _tokens(level):
                notes.append(f"level {height} was not shorter than the level below: dropped")
                break
            first = len(nodes) - len(level)
            for parent, (places, raw) in enumerate(above.edges, start=len(nodes)):
                rows.append(EdgeRow(parent, first + places, raw))
            nodes += above.nodes
            level = above.nodes
            if above.windows == 1:
                break
        else:
            if highest > 1:
                notes.append(f"stopped at level {MAX_LEVELS}")
        graph = HWDAG.from_rows(nodes, rows)
        graph.check_integrity()
        vectors = self._embed(embedded_texts(nodes), known or {}, calls)
        notes = [f"{document.id}: {note}" for note in notes]
        return BuiltGraph(graph, vectors, retries, fallbacks, notes)

    def _leaves(self, document: Document, outline: Outline) -> list[Node]:
        cut = leaves if self.config.leaves == "sentences" else chunk
        spans = cut(
            document.text, count_tokens=self.reader.count_tokens, limit=self.config.chunk_tokens
        )
        if not spans:
            raise InputError(f"document {document.id!r} is empty or only white space")
        slices = [Point(document.text[s.start : s.end], "chunk", (s,)) for s in spans]
        return self._nodes(document, outline, 1, slices)

    def _level_above(
        self,
        level: Sequence[Node],
        height: int,
        document: Document,
        outline: Outline,
        reporter: Reporter,
        calls: CallCache,
    ) -> _Level:
        plan, texts = self.plan, [node.text for node in level]
        borders = None if self.config.rules.is_paper else texts
        ranges = pack(line_costs(texts, self.reader), plan.content_tokens, borders)
        below = [level[r.start : r.stop] for r in ranges]
        windows = [Window.of(nodes, outline) for nodes in below]
        with reporter.stage(f"points of level {height}", len(windows), "window") as advance:
            made = make_points(
                windows, plan, self.reader, self.writer, self.embedder, calls, advance
            )
        with reporter.stage(f"edges of level {height}", len(windows), "window") as advance:
            heads = self.config.edge_heads
            replays = replay(windows, made.points, plan, self.reader, heads, calls, advance)
        points = list(map(with_sources, made.points, windows, replays))
        edges = map(edges_of, points, below, replays)
        return _Level(
            self._nodes(document, outline, height, list(chain.from_iterable(points))),
            [
                (r.start + at, raw)
                for r, found in zip(ranges, edges, strict=True)
                for at, raw in found
            ],
            len(windows),
            made.retries,
            made.fallbacks,
        )

    def _nodes(
        self, document: Document, outline: Outline, level: int, points: Sequence[Point]
    ) -> list[Node]:
        tokens = self.reader.count_tokens([point.text for point in points])
        is_paper = self.config.rules.is_paper  # where nothing is read behind a heading
        nodes = [
            Node(
                id=f"{document.id}#{level}.{i}",
                document_id=document.id,
                level=level,
                text=point.text,
                origin=point.origin,
                tokens=max(1, count),
                sources=point.sources,
                heading="" if is_paper else outline.heading_of(point.sources[0]),
            )
            for i, (point, count) in enumerate(zip(points, tokens, strict=True))
        ]
        return self._counted(nodes)

    def _counted(self, nodes: Sequence[Node]) -> list[Node]:
        """The nodes with the tokens of their lines, so that no search counts them."""
        lines = [(node.text, searched_text(node)) for node in nodes]
        texts = list(dict.fromkeys(chain.from_iterable(lines)))
        counts = dict(zip(texts, self.reader.count_lines(texts), strict=True))
        return [
            replace(node, line_tokens=(counts[alone], counts[behind]))
            for node, (alone, behind) in zip(nodes, lines, strict=True)
        ]

    def _embed(
        self, texts: Sequence[str], known: Mapping[str, Vectors], calls: CallCache
    ) -> Vectors:
        """Embed what is not known, (texts, dimension)."""
        new = list(dict.fromkeys(text for text in texts if text not in known))
        batches = [new[i : i + EMBED_BATCH] for i in range(0, len(new), EMBED_BATCH)]

        def embed(missing: list[int]) -> list[dict[str, Vectors]]:
            found = [self.embedder.embed(batches[i]) for i in missing]
            return [{"vectors": np.asarray(vectors, np.float32)} for vectors in found]

        keys = [key_of("embed", self.embedder.name, batch) for batch in batches]
        fits = vectors_of([len(batch) for batch in batches], self.embedder.dimension)
        # why keep=False: the vectors of a finished document stand beside its nodes already
        made = calls.results(keys, fits, embed, keep=False)
        found = dict(known)
        for batch, arrays in zip(batches, made, strict=True):
            found |= zip(batch, arrays["vectors"], strict=True)
        return np.stack([found[text] for text in texts])


def embedded_texts(nodes: Sequence[Node]) -> list[str]:
    """Say what is embedded of every node: a slice of the document behind its heading."""
    return list(map(searched_text, nodes))


def _tokens(nodes: Sequence[Node]) -> int:
    return sum(node.tokens for node in nodes)

"""Trees of summaries over the chunks of a document, shared by RAPTOR, MeMWalker and GEM-RAG."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hwdag.arrays import Floats, Vectors
from hwdag.building.points import Point
from hwdag.building.windows import line_costs
from hwdag.embedding.base import Embedder
from hwdag.embedding.checked import embedded
from hwdag.graph.dag import HWDAG, EdgeRow
from hwdag.lm.base import Reader, Writer
from hwdag.text.chunking import chunk
from hwdag.types import Document, Node
from hwdag_lab.methods.document_retriever import DocumentRetriever, T
from hwdag_lab.methods.found import Scored
from hwdag_lab.methods.summaries import Summarizer


@dataclass(frozen=True, slots=True, eq=False)
class SummaryTree:
    """The finished tree of one document: chunks first, then summaries level by level.

    Summaries may share children (RAPTOR's soft clusters). `costs` are the tokens of each node as
    the line that the reader sees. `notes` describe deviations of the build from the plain method.
    """

    nodes: tuple[Node, ...]
    children: tuple[tuple[int, ...], ...]  # indices of nodes one level below; () for chunks
    vectors: Vectors  # (nodes, dimension)
    costs: tuple[int, ...]
    notes: tuple[str, ...] = ()

    @property
    def top(self) -> tuple[int, ...]:
        """The nodes of the highest level."""
        height = self.nodes[-1].level
        return tuple(i for i, node in enumerate(self.nodes) if node.level == height)

    def graph(self) -> HWDAG:
        """Return the tree as a graph, with equal weights from every summary to its children."""
        rows = [
            EdgeRow(i, np.array(below), np.ones(len(below)))
            for i, below in enumerate(self.children)
            if below
        ]
        return HWDAG.from_rows(self.nodes, rows)

    def similarity(self, query: Vectors) -> Floats:
        """Return the cosine of every node to the question, (nodes,)."""
        similarity: Floats = (self.vectors @ query).astype(np.float64)
        return similarity


class GrowingTree:
    """A tree under construction, level by level from the bottom."""

    def __init__(self, document: Document, reader: Reader, embedder: Embedder) -> None:
        self._document = document
        self._reader = reader
        self._embedder = embedder
        self._nodes: list[Node] = []
        self._children: list[tuple[int, ...]] = []
        self._vectors: list[Vectors] = []
        self._costs: list[int] = []
        self.notes: list[str] = []

    def add_chunks(self, limit: int) -> range:
        """Add level 1, sentence-aligned slices of at most `limit` tokens; return their indices."""
        text = self._document.text
        spans = chunk(text, count_tokens=self._reader.count_tokens, limit=limit)
        points = [Point(text[span.start : span.end], "chunk", (span,)) for span in spans]
        return self._add(points, [()] * len(points))

    def add_summaries(self, groups: Sequence[Sequence[int]], summarizer: Summarizer) -> range:
        """Add the next level, one summary per group of nodes; return their indices."""
        points = summarizer.summaries([self.at(group) for group in groups])
        missed = sum(point.origin == "extractive" for point in points)
        if summarizer.asker is not None and missed:
            self.notes.append(
                f"{self._document.id}: {missed} of {len(points)} summaries were extracted, because "
                f"{summarizer.asker.writer.name} wrote nothing"
            )
        return self._add(points, [tuple(int(i) for i in group) for group in groups])

    def at(self, indices: Sequence[int]) -> list[Node]:
        """Return nodes by index."""
        return [self._nodes[i] for i in indices]

    @property
    def height(self) -> int:
        """Number of levels."""
        return len(self._vectors)

    @property
    def vectors(self) -> Vectors:
        """Embeddings of the newest level, (nodes, dimension)."""
        return self._vectors[-1]

    @property
    def costs(self) -> list[int]:
        """Tokens of the nodes of the newest level, as lines."""
        return self._costs[-len(self.vectors) :]

    def finished(self) -> SummaryTree:
        """Return the finished tree."""
        return SummaryTree(
            tuple(self._nodes),
            tuple(self._children),
            np.concatenate(self._vectors),
            tuple(self._costs),
            tuple(self.notes),
        )

    def _add(self, points: Sequence[Point], children: Sequence[tuple[int, ...]]) -> range:
        texts = [point.text for point in points]
        level, document = len(self._vectors) + 1, self._document.id
        tokens = self._reader.count_tokens(texts)
        first = len(self._nodes)
        self._nodes += [
            Node(
                f"{document}#{level}.{i}",
                document,
                level,
                point.text,
                point.origin,
                max(1, count),
                point.sources,
            )
            for i, (point, count) in enumerate(zip(points, tokens, strict=True))
        ]
        self._children += children
        self._vectors.append(embedded(self._embedder, texts))
        self._costs += line_costs(texts, self._reader)
        return range(first, len(self._nodes))


class SummarizingRetriever(DocumentRetriever[T]):
    """Base of the methods that summarise.

    The writer writes the summaries, or else the reader if it can write and does not prefer
    extraction. Otherwise summaries are extracted.
    """

    @property
    def writer(self) -> Writer | None:
        """The writer of the summaries; None if they are extracted."""
        if (writer := self._writer) is not None:
            return writer
        reader = self.reader
        return reader if isinstance(reader, Writer) and reader.card.writes else None

    def _summarizer(self, prompt: str, *, limit: int, ratio: float) -> Summarizer:
        asker = self._asker(self.writer)
        return Summarizer(self.reader, asker, self.embedder, prompt, limit, ratio)


def repetitions_last(ranked: Sequence[Scored]) -> list[Scored]:
    """Move verbatim nodes whose text earlier nodes already hold to the end."""
    longest = max((span.end for scored in ranked for span in scored.node.sources), default=0)
    documents = {scored.node.document_id for scored in ranked}
    held = {document: np.zeros(longest, np.bool_) for document in documents}
    fresh, repeated = list[Scored](), list[Scored]()
    for scored in ranked:
        node = scored.node
        known = held[node.document_id]
        is_verbatim = node.origin != "generated"
        says_nothing_new = all(known[span.start : span.end].all() for span in node.sources)
        (repeated if is_verbatim and says_nothing_new else fresh).append(scored)
        for span in node.sources if is_verbatim else ():
            known[span.start : span.end] = True
    return [*fresh, *repeated]

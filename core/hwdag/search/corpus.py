"""The graphs of all documents as one graph: what a walk sees. Arrays only, shared by all walks."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import block_diag, csr_array

from hwdag.embedding.base import Vectors
from hwdag.graph.dag import HWDAG
from hwdag.search.lexicon import Lexicon
from hwdag.text.headings import headings, searched_text
from hwdag.types import Node

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Corpus:
    """Documents one after the other; node indices are global.

    `first[d]` is the index of the first node of document d, `first[-1]` the number of nodes.
    `texts` are the documents themselves, for the headings that nodes stand under.
    """

    nodes: Sequence[Node]
    edges: csr_array  # (n, n), block diagonal
    vectors: Vectors  # (n, dimension), unit rows
    first: Indices  # (documents + 1,)
    texts: Sequence[str] = ()

    @classmethod
    def of(
        cls, graphs: Sequence[HWDAG], vectors: Sequence[Vectors], texts: Sequence[str] = ()
    ) -> Corpus:
        """Concatenate graphs and the embeddings of their nodes; without `texts` no headings."""
        nodes = [node for graph in graphs for node in graph.nodes]
        edges = (
            csr_array(block_diag([graph.edges for graph in graphs], format="csr"))
            if nodes
            else csr_array((0, 0))
        )
        stacked = np.concatenate(vectors) if nodes else np.empty((0, 1), np.float32)
        first = np.concatenate([[0], np.cumsum([len(graph) for graph in graphs])]).astype(np.intp)
        return cls(nodes, edges, stacked, first, texts)

    def __len__(self) -> int:
        return len(self.nodes)

    @cached_property
    def levels(self) -> NDArray[np.int32]:
        """Level of every node, (n,)."""
        return np.array([node.level for node in self.nodes], dtype=np.int32)

    @cached_property
    def document(self) -> Indices:
        """Ordinal of every node's document, (n,)."""
        return np.repeat(np.arange(len(self.first) - 1), np.diff(self.first))

    @cached_property
    def top(self) -> Indices:
        """The top-level nodes of every document."""
        if not len(self):
            return np.empty(0, np.intp)
        heights = np.maximum.reduceat(self.levels, self.first[:-1])
        return np.flatnonzero(self.levels == heights[self.document])

    @property
    def height(self) -> int:
        """Number of levels of the highest document."""
        return int(self.levels.max()) if len(self) else 0

    def children(self, index: int) -> tuple[Indices, Floats]:
        """Out-edges of a node: indices and weights."""
        row = slice(self.edges.indptr[index], self.edges.indptr[index + 1])
        return self.edges.indices[row].astype(np.intp), self.edges.data[row].astype(np.float64)

    def within(self, document_ids: Collection[str]) -> Mask:
        """Which nodes belong to one of these documents, (n,)."""
        wanted = set(document_ids)
        firsts = self.first[:-1]
        keep = np.array([self.nodes[i].document_id in wanted for i in firsts], dtype=bool)
        return np.asarray(keep[self.document])

    def similarity(self, query: NDArray[np.float32]) -> Floats:
        """Cosine similarity of every node to a query, clipped at 0, (n,)."""
        similarity: Floats = np.clip(self.vectors @ query, 0.0, None).astype(np.float64)
        return similarity

    @cached_property
    def lexicon(self) -> Lexicon:
        """The words of all nodes, as they are searched."""
        found = list(self._headings())
        return Lexicon(list(map(searched_text, self.nodes, found)), found)

    def _headings(self) -> Iterator[str]:
        if not self.texts:
            yield from ("" for _ in self.nodes)
        for text, (start, end) in zip(self.texts, pairwise(self.first), strict=False):
            yield from headings(text, [node.sources[0] for node in self.nodes[start:end]])

    @cached_property
    def _verbatim(self) -> tuple[Indices, Indices]:
        """Start and end in the document of nodes that are slices of it; (-1, -1) for others."""
        spans = [
            (n.sources[0].start, n.sources[0].end)
            if n.origin != "generated" and len(n.sources) == 1
            else (-1, -1)
            for n in self.nodes
        ]
        starts, ends = np.array(spans, dtype=np.intp).reshape(-1, 2).T
        return starts, ends

    def inside(self, index: int) -> Indices:
        """Other nodes whose text is a slice of this one's text: reading them too adds nothing."""
        starts, ends = self._verbatim
        if starts[index] < 0:
            return np.empty(0, np.intp)
        document = self.document[index]
        block = slice(self.first[document], self.first[document + 1])
        held = (starts[block] >= starts[index]) & (ends[block] <= ends[index])
        found: Indices = np.flatnonzero(held) + block.start
        others: Indices = found[found != index]
        return others

    def copies(self, index: int) -> Indices:
        """Other nodes with the very same slice: an extractive point that was picked again."""
        starts, ends = self._verbatim
        found = self.inside(index)
        same: Indices = found[(starts[found] == starts[index]) & (ends[found] == ends[index])]
        return same

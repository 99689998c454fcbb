"""The graph of GraphReader: key elements that are joined where a fact has both of them.

`FactGraph` is what is kept of one document; `World` joins those that a question is put to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

import numpy as np

from hwdag.arrays import Vectors
from hwdag.types import Node, Span
from hwdag_lab.methods.elements import Element


@dataclass(frozen=True, slots=True, eq=False)
class FactGraph:
    """What is kept of one document.

    A fact that was written rests on the sentence of its chunk that is most similar to it; a fact
    that is a sentence, on itself. Of several documents the elements with a spelling in common are
    one.

    Attributes:
        chunks: level 1, in reading order, verbatim.
        facts: level 2, in the order of their chunks.
        chunk_of: index of the chunk of every fact.
        elements_of: indices of the elements of every fact, at least one.
        elements: the nodes of the graph.
        sentences: of every chunk, as spans of the document.
        fact_vectors: (facts, dimension).
        element_vectors: (elements, dimension).
        sentence_vectors: of the sentences of all chunks, (sentences, dimension).
        retries: chunks whose first reply held no fact.
        defaults: chunks whose second reply held none either; their facts are their sentences.
        notes: what differed from the plain method, in words.
    """

    chunks: tuple[Node, ...]
    facts: tuple[Node, ...]
    chunk_of: tuple[int, ...]
    elements_of: tuple[tuple[int, ...], ...]
    elements: tuple[Element, ...]
    sentences: tuple[tuple[Span, ...], ...]
    fact_vectors: Vectors
    element_vectors: Vectors
    sentence_vectors: Vectors
    retries: int = 0
    defaults: int = 0
    notes: tuple[str, ...] = ()

    @property
    def nodes(self) -> tuple[Node, ...]:
        """Everything that can be found."""
        return (*self.chunks, *self.facts)

    @property
    def neighbor_counts(self) -> list[int]:
        """Number of neighbors of every element."""
        return [len(found) for found in _neighbors(len(self.elements), self.elements_of)]

    @property
    def fact_counts(self) -> list[int]:
        """Number of facts of every element."""
        counted = Counter(element for several in self.elements_of for element in set(several))
        return [counted[element] for element in range(len(self.elements))]


class World:
    """The graphs of several documents as one; chunks, facts and elements are numbered through.

    Attributes:
        chunks: of all documents.
        facts: of all documents.
        chunk_of: index of the chunk of every fact.
        elements_of: indices of the elements of every fact.
        elements: names.
        facts_of: indices of the facts of every element.
        sentences: of every chunk.
    """

    def __init__(self, graphs: Sequence[FactGraph]) -> None:
        merged = _merged([graph.elements for graph in graphs])
        first_chunk = _starts(len(graph.chunks) for graph in graphs)
        self._graphs = graphs
        self.chunks = [node for graph in graphs for node in graph.chunks]
        self.facts = [node for graph in graphs for node in graph.facts]
        self.sentences = [spans for graph in graphs for spans in graph.sentences]
        self.chunk_of = [
            first + chunk
            for first, graph in zip(first_chunk, graphs, strict=True)
            for chunk in graph.chunk_of
        ]
        self.elements_of = [
            tuple(dict.fromkeys(indices[element] for element in several))
            for indices, graph in zip(merged, graphs, strict=True)
            for several in graph.elements_of
        ]
        self._first_sentence = _starts(map(len, self.sentences))
        seen: dict[int, tuple[str, int]] = {}
        row = 0
        for indices, graph in zip(merged, graphs, strict=True):
            for index, element in zip(indices, graph.elements, strict=True):
                seen.setdefault(index, (element.name, row))
                row += 1
        self.elements = [name for name, _ in seen.values()]
        self._rows = [row for _, row in seen.values()]
        self.facts_of: list[list[int]] = [[] for _ in self.elements]
        for fact, having in enumerate(self.elements_of):
            for number in having:
                self.facts_of[number].append(fact)

    @cached_property
    def element_vectors(self) -> Vectors:
        """(elements, dimension)."""
        return np.concatenate([graph.element_vectors for graph in self._graphs])[self._rows]

    @cached_property
    def fact_vectors(self) -> Vectors:
        """(facts, dimension)."""
        return np.concatenate([graph.fact_vectors for graph in self._graphs])

    @cached_property
    def sentence_vectors(self) -> Vectors:
        """(sentences, dimension)."""
        return np.concatenate([graph.sentence_vectors for graph in self._graphs])

    def rows(self, chunk: int) -> range:
        """Rows of `sentence_vectors` that are sentences of a chunk."""
        first = self._first_sentence[chunk]
        return range(first, first + len(self.sentences[chunk]))

    def sentence(self, chunk: int, number: int) -> str:
        """A sentence of a chunk, as it stands there."""
        node, span = self.chunks[chunk], self.sentences[chunk][number]
        start = node.sources[0].start
        return node.text[span.start - start : span.end - start]

    def neighbors(self, element: int) -> list[int]:
        """Elements that share a fact with it, those that share most first."""
        shared = Counter(
            other for fact in self.facts_of[element] for other in self.elements_of[fact]
        )
        del shared[element]
        return sorted(shared, key=lambda other: (-shared[other], other))

    def beside(self, chunk: int, step: int) -> int | None:
        """The chunk before (-1) or after (1) a chunk in its document."""
        other = chunk + step
        if not 0 <= other < len(self.chunks):
            return None
        same = self.chunks[other].document_id == self.chunks[chunk].document_id
        return other if same else None


def _starts(lengths: Iterable[int]) -> list[int]:
    """Where runs of these lengths begin."""
    return list(accumulate(lengths, initial=0))[:-1]


def _merged(several: Sequence[Sequence[Element]]) -> list[list[int]]:
    """The index of every element among those of all documents; sharing a key makes them one."""
    parent: dict[str, str] = {}

    def root(key: str) -> str:
        while parent.setdefault(key, key) != key:
            parent[key] = parent[parent[key]]
            key = parent[key]
        return key

    for element in (element for elements in several for element in elements):
        for key in element.keys[1:]:
            parent[root(key)] = root(element.keys[0])
    numbers: dict[str, int] = {}
    return [
        [numbers.setdefault(root(element.keys[0]), len(numbers)) for element in elements]
        for elements in several
    ]


def _neighbors(count: int, elements_of: Sequence[Sequence[int]]) -> list[set[int]]:
    found: list[set[int]] = [set() for _ in range(count)]
    for several in elements_of:
        for element in several:
            found[element].update(several)
    return [others - {i} for i, others in enumerate(found)]

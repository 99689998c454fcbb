"""The graph of GraphReader (section 3.2): key elements, joined where a fact has both of them.

`FactGraph` is what is kept of one document, `Extraction` makes it, `World` joins those that a
question is put to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import accumulate

import numpy as np

from hwdag.arrays import Vectors
from hwdag.building.calls import Calls
from hwdag.building.writing import replies
from hwdag.embedding.base import Embedder
from hwdag.graph.dag import HWDAG, EdgeRow, union_of_spans
from hwdag.lm.base import Reader, Writer
from hwdag.text.chunking import CountTokens, chunk
from hwdag.text.sentences import sentences
from hwdag.text.words import content_words, words
from hwdag.trace.bars import Reporter
from hwdag.types import Document, Node, Origin, Span
from hwdag_lab.methods.elements import Element, normalised, terms_of
from hwdag_lab.methods.graphreader import prompts
from hwdag_lab.methods.graphreader.config import GraphReaderConfig
from hwdag_lab.methods.graphreader.parsing import Extracted, facts_of
from hwdag_lab.methods.passages import paragraphs, verbatim_nodes
from hwdag_lab.methods.summaries import filled


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

    def graph(self) -> HWDAG:
        """Elements (level 3) above the facts that have them, facts above their chunks."""
        facts_of: list[list[int]] = [[] for _ in self.elements]
        for fact, elements in enumerate(self.elements_of):
            for number in set(elements):
                facts_of[number].append(fact)
        ends, named = [[chunk] for chunk in self.chunk_of], list[Node]()
        for element, of in zip(self.elements, facts_of, strict=True):
            if not of:
                continue
            one = self.facts[of[0]]
            sources = union_of_spans([span for fact in of for span in self.facts[fact].sources])
            key, tokens = f"{one.document_id}#3.{len(named)}", len(element.name.split())
            named.append(Node(key, one.document_id, 3, element.name, one.origin, tokens, sources))
            ends.append([len(self.chunks) + fact for fact in of])
        rows = [
            EdgeRow(len(self.chunks) + i, np.array(below), np.ones(len(below)))
            for i, below in enumerate(ends)
        ]
        return HWDAG.from_rows((*self.nodes, *named), rows)


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
        return _slice(self.chunks[chunk], self.sentences[chunk][number])

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


FACT_LEVEL = 2

GAP_TOKENS = 1
"""What a blank line takes, as a rule; every chunk is counted as a whole before it is taken."""


@dataclass(frozen=True, slots=True)
class _Fact:
    text: str
    chunk: int
    elements: tuple[str, ...]
    origin: Origin
    source: Span | None  # of the document; None where it has to be found


@dataclass(frozen=True, slots=True)
class Extraction:
    """How facts are found; `writer` None takes the sentences of a chunk as its facts."""

    reader: Reader
    writer: Writer | None
    embedder: Embedder
    config: GraphReaderConfig
    chunk_tokens: int
    reporter: Reporter

    def graph(self, document: Document, calls: Calls) -> FactGraph:
        """The graph of a document; finished calls of the writer are taken from `calls`."""
        chunks = self._chunks(document)
        within = [_sentences(node) for node in chunks]
        written, retries = self._written([node.text for node in chunks], calls)
        missing = [i for i, facts in enumerate(written) if not facts]
        facts = [
            fact
            for i, node in enumerate(chunks)
            for fact in (_as_facts(i, written[i]) or _sentence_facts(i, node, within[i]))
        ]
        texts = [
            _slice(node, span) for node, spans in zip(chunks, within, strict=True) for span in spans
        ]
        vectors = _Vectors(self.embedder)
        sentence_vectors = vectors.of(texts)
        fact_vectors = vectors.of([fact.text for fact in facts])
        sources = _sources(facts, fact_vectors, within, sentence_vectors)
        elements, index, element_vectors = normalised(
            [name for fact in facts for name in fact.elements],
            vectors.of,
            self.config.alias_similarity,
        )
        return FactGraph(
            chunks,
            self._fact_nodes(document, facts, sources),
            tuple(fact.chunk for fact in facts),
            tuple(tuple(dict.fromkeys(index[name] for name in f.elements)) for f in facts),
            tuple(elements),
            tuple(map(tuple, within)),
            fact_vectors,
            element_vectors,
            sentence_vectors,
            retries,
            len(missing) if self.writer is not None else 0,
            tuple(self._notes(len(chunks), len(missing))),
        )

    def _chunks(self, document: Document) -> tuple[Node, ...]:
        spans = paragraph_chunks(
            document.text, count_tokens=self.reader.count_tokens, limit=self.chunk_tokens
        )
        return verbatim_nodes(document, spans, "chunk", self.reader)

    def _fact_nodes(
        self, document: Document, facts: Sequence[_Fact], sources: Sequence[Span]
    ) -> tuple[Node, ...]:
        tokens = self.reader.count_tokens([fact.text for fact in facts])
        return tuple(
            Node(
                f"{document.id}#fact.{i}",
                document.id,
                FACT_LEVEL,
                fact.text,
                fact.origin,
                max(1, count),
                (source,),
            )
            for i, (fact, source, count) in enumerate(zip(facts, sources, tokens, strict=True))
        )

    def _written(self, texts: Sequence[str], calls: Calls) -> tuple[list[list[Extracted]], int]:
        """Facts per text, none where they could not be read twice; and the number of retries."""
        if self.writer is None:
            return [[] for _ in texts], 0
        config = self.config
        asking = partial(
            replies,
            self.writer,
            calls=calls,
            limit=config.fact_tokens,
            batch_size=config.batch_size,
        )
        asked = [filled(prompts.FACTS, text=text) for text in texts]
        with self.reporter.stage("facts", len(texts), "chunk") as advance:
            found = list(map(_grounded, asking(asked, advance=advance), texts))
        failed = [i for i, facts in enumerate(found) if not facts]
        again = [asked[i] + prompts.FACTS_RETRY for i in failed]
        for i, reply in zip(failed, asking(again), strict=True):
            found[i] = _grounded(reply, texts[i])
        return found, len(failed)

    def _notes(self, chunks: int, missing: int) -> list[str]:
        if self.writer is None:
            return [f"the facts of all {chunks} chunks are their sentences; no writer was asked"]
        if missing:
            return [
                f"the facts of {missing} of {chunks} chunks are their sentences, because "
                f"{self.writer.name} wrote none that could be read, twice"
            ]
        return []


def paragraph_chunks(text: str, *, count_tokens: CountTokens, limit: int) -> list[Span]:
    """Whole paragraphs, as many as fit into `limit` tokens; longer ones are cut as `chunk` does.

    Paragraphs end at blank lines. The spans are trimmed, ascending and disjoint, and cover every
    character that is not blank.
    """
    whole = paragraphs(text)
    counts = count_tokens([text[span.start : span.end] for span in whole])
    held = np.cumsum([0, *(count + GAP_TOKENS for count in counts)])
    spans: list[Span] = []
    first = 0
    while first < len(whole):
        if counts[first] > limit:
            start = whole[first].start
            inner = text[start : whole[first].end]
            parts = chunk(inner, count_tokens=count_tokens, limit=limit)
            spans += [Span(start + part.start, start + part.end) for part in parts]
            first += 1
            continue
        end = int(np.searchsorted(held, held[first] + limit + GAP_TOKENS, side="right")) - 1
        run = Span(whole[first].start, whole[max(end, first + 1) - 1].end)
        # why: counts of parts do not add up exactly
        while end > first + 1 and count_tokens([text[run.start : run.end]])[0] > limit:
            end -= 1
            run = Span(run.start, whole[end - 1].end)
        spans.append(run)
        first = max(end, first + 1)
    return spans


class _Vectors:
    """Embeddings of texts, each text once."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._known: dict[str, Vectors] = {}

    def of(self, texts: Sequence[str]) -> Vectors:
        """(texts, dimension)."""
        if new := list(dict.fromkeys(text for text in texts if text not in self._known)):
            self._known |= zip(new, self._embedder.embed(new), strict=True)
        return np.stack([self._known[text] for text in texts])


def _sentences(node: Node) -> list[Span]:
    """Sentences of a chunk as spans of the document; the chunk itself where it has none."""
    start = node.sources[0].start
    return [Span(start + s.start, start + s.end) for s in sentences(node.text)]


def _slice(node: Node, span: Span) -> str:
    start = node.sources[0].start
    return node.text[span.start - start : span.end - start]


def _grounded(reply: str, text: str) -> list[Extracted]:
    """The facts of a reply, without those that have no word of the text: echoes of the prompt."""
    known = set(content_words(text))
    return [fact for fact in facts_of(reply) if not known.isdisjoint(words(fact.text))]


def _as_facts(chunk_index: int, extracted: Sequence[Extracted]) -> list[_Fact]:
    """A fact without elements gets those of a sentence."""
    return [
        _Fact(one.text, chunk_index, one.elements or terms_of(one.text), "generated", None)
        for one in extracted
    ]


def _sentence_facts(chunk_index: int, node: Node, spans: Sequence[Span]) -> list[_Fact]:
    return [
        _Fact(text, chunk_index, terms_of(text), "extractive", span)
        for span in spans
        for text in [_slice(node, span)]
    ]


def _sources(
    facts: Sequence[_Fact],
    fact_vectors: Vectors,
    within: Sequence[Sequence[Span]],
    sentence_vectors: Vectors,
) -> list[Span]:
    """What every fact rests on: itself, or the sentence of its chunk that is most similar to it."""
    first = np.cumsum([0, *map(len, within)]).tolist()
    found = []
    for fact, vector in zip(facts, fact_vectors, strict=True):
        if fact.source is not None:
            found.append(fact.source)
            continue
        rows = slice(first[fact.chunk], first[fact.chunk + 1])
        found.append(within[fact.chunk][int(np.argmax(sentence_vectors[rows] @ vector))])
    return found

"""The graph of GraphReader (section 3.2): key elements, linked by facts that have both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import accumulate, chain

import numpy as np

from hwdag.arrays import Vectors
from hwdag.embedding.base import Embedder
from hwdag.graph.dag import HWDAG, EdgeRow, union_of_spans
from hwdag.lm.base import Reader
from hwdag.text.chunking import CountTokens, chunk
from hwdag.text.sentences import sentences
from hwdag.text.words import content_words, words
from hwdag.trace.bars import Reporter
from hwdag.types import Document, Node, Origin, Span
from hwdag_lab.methods.decisions import Asker, Decision
from hwdag_lab.methods.elements import Element, merge_elements, terms_of
from hwdag_lab.methods.graphreader import prompts
from hwdag_lab.methods.graphreader.config import GraphReaderConfig
from hwdag_lab.methods.graphreader.parsing import Extracted, facts_of
from hwdag_lab.methods.passages import paragraphs, verbatim_nodes
from hwdag_lab.methods.summaries import fill_template


@dataclass(frozen=True, eq=False)
class FactGraph:
    """The facts of one document, or of several joined.

    A written fact rests on the most similar sentence of its chunk; a fact that is a sentence, on
    itself.
    """

    chunks: tuple[Node, ...]  # level 1, in reading order, verbatim
    facts: tuple[Node, ...]  # level 2, in the order of their chunks
    chunk_of: tuple[int, ...]  # index of the chunk of every fact
    elements_of: tuple[tuple[int, ...], ...]  # indices of the elements of every fact, at least one
    elements: tuple[Element, ...]  # the nodes of the graph
    sentences: tuple[tuple[Span, ...], ...]  # of every chunk, as spans of the document
    fact_vectors: Vectors  # (facts, dimension)
    element_vectors: Vectors  # (elements, dimension)
    sentence_vectors: Vectors  # of the sentences of all chunks, (sentences, dimension)
    notes: tuple[str, ...] = ()  # differences from the plain method, in words

    @classmethod
    def joined(cls, graphs: Sequence[FactGraph]) -> FactGraph:
        """Join the graphs of several documents and renumber them.

        Elements with a common spelling merge; the first name stays.
        """
        if not graphs:
            none = np.zeros((0, 0), np.float32)
            return cls((), (), (), (), (), (), none, none, none)
        numbers = _merged([graph.elements for graph in graphs])
        first_chunk = accumulate((len(graph.chunks) for graph in graphs), initial=0)
        rows: dict[int, int] = {}
        for row, number in enumerate(chain.from_iterable(numbers)):
            rows.setdefault(number, row)
        elements = [element for graph in graphs for element in graph.elements]
        return cls(
            tuple(node for graph in graphs for node in graph.chunks),
            tuple(node for graph in graphs for node in graph.facts),
            tuple(
                first + of
                for first, graph in zip(first_chunk, graphs, strict=False)
                for of in graph.chunk_of
            ),
            tuple(
                tuple(dict.fromkeys(indices[element] for element in several))
                for indices, graph in zip(numbers, graphs, strict=True)
                for several in graph.elements_of
            ),
            tuple(elements[row] for row in rows.values()),
            tuple(spans for graph in graphs for spans in graph.sentences),
            np.concatenate([graph.fact_vectors for graph in graphs]),
            np.concatenate([graph.element_vectors for graph in graphs])[[*rows.values()]],
            np.concatenate([graph.sentence_vectors for graph in graphs]),
        )

    @property
    def nodes(self) -> tuple[Node, ...]:
        """All nodes that a search may return."""
        return (*self.chunks, *self.facts)

    @cached_property
    def facts_of(self) -> list[list[int]]:
        """Indices of the facts of every element."""
        found: list[list[int]] = [[] for _ in self.elements]
        for fact, elements in enumerate(self.elements_of):
            for element in elements:
                found[element].append(fact)
        return found

    @cached_property
    def _first_sentence(self) -> list[int]:
        return list(accumulate(map(len, self.sentences), initial=0))

    def rows(self, chunk: int) -> range:
        """Return rows of `sentence_vectors` that are sentences of a chunk."""
        return range(*self._first_sentence[chunk : chunk + 2])

    def sentence(self, chunk: int, number: int) -> str:
        """Return a sentence of a chunk, verbatim."""
        return _slice(self.chunks[chunk], self.sentences[chunk][number])

    def neighbors(self, element: int) -> list[int]:
        """Return elements that share facts with it, those with most shared facts first."""
        shared = Counter(
            other for fact in self.facts_of[element] for other in self.elements_of[fact]
        )
        del shared[element]
        return sorted(shared, key=lambda other: (-shared[other], other))

    def chunk_at(self, chunk: int, step: int) -> int | None:
        """Return the chunk before (-1) or after (1) a chunk in its document."""
        other = chunk + step
        if not 0 <= other < len(self.chunks):
            return None
        same = self.chunks[other].document_id == self.chunks[chunk].document_id
        return other if same else None

    def graph(self) -> HWDAG:
        """Return elements (level 3) above their facts, facts above their chunks."""
        first = len(self.chunks)
        ends = [[chunk] for chunk in self.chunk_of]
        ends += [[first + fact for fact in of] for of in self.facts_of]
        rows = [
            EdgeRow(first + i, np.array(below), np.ones(len(below))) for i, below in enumerate(ends)
        ]
        return HWDAG.from_rows((*self.nodes, *self._element_nodes()), rows)

    def _element_nodes(self) -> Iterator[Node]:
        for i, (element, of) in enumerate(zip(self.elements, self.facts_of, strict=True)):
            facts = [self.facts[fact] for fact in of]
            sources = union_of_spans([span for fact in facts for span in fact.sources])
            document, origin, size = facts[0].document_id, facts[0].origin, element.name.split()
            yield Node(f"{document}#3.{i}", document, 3, element.name, origin, len(size), sources)


def _merged(several: Sequence[Sequence[Element]]) -> list[list[int]]:
    """Return joint indices of the elements of all documents; elements that share a key merge."""
    parent: dict[str, str] = {}

    def root(key: str) -> str:
        while parent.setdefault(key, key) != key:
            parent[key] = parent[parent[key]]
            key = parent[key]
        return key

    for element in chain.from_iterable(several):
        for key in element.keys[1:]:
            parent[root(key)] = root(element.keys[0])
    numbers: dict[str, int] = {}
    return [
        [numbers.setdefault(root(element.keys[0]), len(numbers)) for element in elements]
        for elements in several
    ]


@dataclass(frozen=True, slots=True)
class _Fact:
    chunk: int
    text: str
    elements: tuple[str, ...]
    origin: Origin
    source: Span | None = None  # of the document; None if not known yet


@dataclass(frozen=True, slots=True)
class Extraction:
    """Extracts facts; `asker` None takes the sentences of a chunk."""

    reader: Reader
    asker: Asker | None
    embedder: Embedder
    config: GraphReaderConfig
    chunk_tokens: int
    reporter: Reporter

    def graph(self, document: Document) -> FactGraph:
        """Build the graph of a document."""
        spans = paragraph_chunks(
            document.text, count_tokens=self.reader.count_tokens, limit=self.chunk_tokens
        )
        chunks = verbatim_nodes(document, spans, "chunk", self.reader)
        within = tuple(map(_sentences, chunks))
        written = self._written([node.text for node in chunks])
        facts = [
            fact
            for i, (node, own) in enumerate(zip(chunks, within, strict=True))
            for fact in _facts(i, written[i], node, own)
        ]
        embed = _once(self.embedder.embed)
        sentence_vectors = embed(
            [_slice(node, span) for node, own in zip(chunks, within, strict=True) for span in own]
        )
        fact_vectors = embed([fact.text for fact in facts])
        sources = _sources(facts, fact_vectors, within, sentence_vectors)
        elements, index, element_vectors = merge_elements(
            [name for fact in facts for name in fact.elements], embed, self.config.alias_similarity
        )
        return FactGraph(
            chunks,
            self._fact_nodes(document.id, facts, sources),
            tuple(fact.chunk for fact in facts),
            tuple(tuple(dict.fromkeys(index[name] for name in f.elements)) for f in facts),
            tuple(elements),
            within,
            fact_vectors,
            element_vectors,
            sentence_vectors,
            tuple(self._notes(written)),
        )

    def _fact_nodes(
        self, document: str, facts: Sequence[_Fact], sources: Sequence[Span]
    ) -> tuple[Node, ...]:
        tokens = self.reader.count_tokens([fact.text for fact in facts])
        return tuple(
            Node(f"{document}#fact.{i}", document, 2, f.text, f.origin, max(1, count), (source,))
            for i, (f, source, count) in enumerate(zip(facts, sources, tokens, strict=True))
        )

    def _written(self, texts: Sequence[str]) -> list[list[Extracted]]:
        """Return written facts per text; empty if none could be read."""
        if self.asker is None:
            return [[] for _ in texts]
        requests = [
            Decision(
                fill_template(prompts.FACTS, text=text),
                partial(_grounded, text),
                prompts.FACTS_RETRY,
            )
            for text in texts
        ]
        with self.reporter.stage("facts", len(texts), "chunk") as advance:
            found = self.asker.decide(requests, limit=self.config.fact_tokens, advance=advance)
        return [facts or [] for facts in found]

    def _notes(self, written: Sequence[Sequence[Extracted]]) -> Iterator[str]:
        missing = sum(not facts for facts in written)
        if self.asker is None:
            yield f"the facts of all {missing} chunks are their sentences; no writer was asked"
        elif missing:
            yield (
                f"the facts of {missing} of {len(written)} chunks are their sentences, because "
                f"{self.asker.writer.name} wrote none that could be read, twice"
            )


GAP_TOKENS = 1
"""Tokens of a blank line, as a rule; a chunk is counted as a whole in the end."""


def paragraph_chunks(text: str, *, count_tokens: CountTokens, limit: int) -> list[Span]:
    """Return chunks of whole paragraphs within `limit` tokens; longer paragraphs are cut like `chunk`.

    Paragraphs end at blank lines. The spans are trimmed, ascending and disjoint, and cover every
    visible character.
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


def _once(embed: Callable[[Sequence[str]], Vectors]) -> Callable[[Sequence[str]], Vectors]:
    """Embed texts, each text once."""
    known: dict[str, Vectors] = {}

    def embedded(texts: Sequence[str]) -> Vectors:
        if new := list(dict.fromkeys(text for text in texts if text not in known)):
            known.update(zip(new, embed(new), strict=True))
        return np.stack([known[text] for text in texts])

    return embedded


def _sentences(node: Node) -> tuple[Span, ...]:
    """Return sentences of a chunk as spans of the document, or the chunk itself if it has none."""
    start = node.sources[0].start
    return tuple(Span(start + s.start, start + s.end) for s in sentences(node.text))


def _slice(node: Node, span: Span) -> str:
    start = node.sources[0].start
    return node.text[span.start - start : span.end - start]


def _grounded(text: str, reply: str) -> list[Extracted] | None:
    """Return facts of a reply, without echoes of the prompt, which share no word with the text."""
    known = set(content_words(text))
    return [fact for fact in facts_of(reply) if not known.isdisjoint(words(fact.text))] or None


def _facts(
    chunk: int, written: Sequence[Extracted], node: Node, spans: Sequence[Span]
) -> Iterator[_Fact]:
    """Yield written facts, or else the sentences; a fact without elements gets default ones."""
    for one in written:
        yield _Fact(chunk, one.text, one.elements or terms_of(one.text), "generated")
    for span in () if written else spans:
        text = _slice(node, span)
        yield _Fact(chunk, text, terms_of(text), "extractive", span)


def _sources(
    facts: Sequence[_Fact],
    fact_vectors: Vectors,
    within: Sequence[Sequence[Span]],
    sentence_vectors: Vectors,
) -> list[Span]:
    """Return the source of every fact: itself, or the most similar sentence of its chunk."""
    first = np.cumsum([0, *map(len, within)]).tolist()
    found = []
    for fact, vector in zip(facts, fact_vectors, strict=True):
        similarity = sentence_vectors[first[fact.chunk] : first[fact.chunk + 1]] @ vector
        found.append(fact.source or within[fact.chunk][int(np.argmax(similarity))])
    return found

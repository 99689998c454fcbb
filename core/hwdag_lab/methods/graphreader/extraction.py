"""A document to chunks, atomic facts and key elements (GraphReader, section 3.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from hwdag.arrays import Vectors
from hwdag.building.calls import Calls
from hwdag.building.writing import replies
from hwdag.embedding.base import Embedder
from hwdag.lm.base import Reader, Writer
from hwdag.text.chunking import CountTokens, chunk
from hwdag.text.sentences import sentences
from hwdag.text.words import content_words, words
from hwdag.trace.bars import Reporter
from hwdag.types import Document, Node, Origin, Span
from hwdag_lab.methods.elements import normalised, terms_of
from hwdag_lab.methods.graphreader import prompts
from hwdag_lab.methods.graphreader.config import GraphReaderConfig
from hwdag_lab.methods.graphreader.fact_graph import FactGraph
from hwdag_lab.methods.graphreader.parsing import Extracted, facts_of
from hwdag_lab.methods.passages import paragraphs, verbatim_nodes
from hwdag_lab.methods.summaries import filled

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
    paragraphs, counts = _paragraphs(text, count_tokens)
    held = np.cumsum([0, *(count + GAP_TOKENS for count in counts)])
    spans: list[Span] = []
    first = 0
    while first < len(paragraphs):
        if counts[first] > limit:
            start = paragraphs[first].start
            inner = text[start : paragraphs[first].end]
            parts = chunk(inner, count_tokens=count_tokens, limit=limit)
            spans += [Span(start + part.start, start + part.end) for part in parts]
            first += 1
            continue
        end = int(np.searchsorted(held, held[first] + limit + GAP_TOKENS, side="right")) - 1
        run = Span(paragraphs[first].start, paragraphs[max(end, first + 1) - 1].end)
        # why: counts of parts do not add up exactly
        while end > first + 1 and count_tokens([text[run.start : run.end]])[0] > limit:
            end -= 1
            run = Span(run.start, paragraphs[end - 1].end)
        spans.append(run)
        first = max(end, first + 1)
    return spans


def _paragraphs(text: str, count_tokens: CountTokens) -> tuple[list[Span], list[int]]:
    spans = paragraphs(text)
    return spans, count_tokens([text[span.start : span.end] for span in spans])


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

"""Reads of a walk after its first steps, and the sentences it should read next, without a reader."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from hwdag.arrays import Indices, Vectors
from hwdag.building.levels import embedded_parts
from hwdag.config import Scoring
from hwdag.corpus.block import Block
from hwdag.corpus.corpus import Corpus
from hwdag.corpus.similarity import Similarity
from hwdag.corpus.view import View
from hwdag.embedding.base import Embedder
from hwdag.embedding.titles import embed_parts
from hwdag.graph.dag import HWDAG
from hwdag.search.frontier import Frontier
from hwdag.search.question import Question as SearchQuestion
from hwdag.text.chunking import leaves
from hwdag.text.draft import Draft
from hwdag.text.headings import headings
from hwdag.types import Document, Node, Span
from hwdag_lab.eval.evidence import HALF, TOUCHED
from hwdag_lab.eval.schema import Question, Record

LEAF_WORDS = 200
"""Longest leaf; the library's limit is in tokens of the reader, which is not needed here."""

SCORING = Scoring(attention=0.0)
"""Of the walks that are imitated: nothing is passed along edges."""


@dataclass(frozen=True, eq=False)
class State:
    """A question after some reads.

    Attributes:
        reads: how many of the nodes in `Asked.read` are read.
        next: nodes that should be read next, ascending.
        gain: of each: 2 for a gold paragraph that is not touched yet, else 1 for one
            that is not half covered.
    """

    reads: int
    next: Indices
    gain: float


@dataclass(frozen=True, eq=False)
class Asked:
    """A question about a document: embeddings of question and leaves, the nodes read, and its states."""

    text: str
    vector: Vectors  # (dimension,)
    vectors: Vectors  # (leaves, dimension)
    read: Indices  # (reads,)
    texts: tuple[str, ...]  # of the nodes read
    states: tuple[State, ...]


def asked(tasks: Iterable[Task], embedder: Embedder, reads: int) -> Iterator[Asked]:
    """Walk for every question, and return the state of the walk after each read."""
    for task in tasks:
        world = task.world
        for question in task.questions:
            vector = embedder.embed_query(question.text)
            read = _first_reads(world, question.text, vector, reads)
            states = tuple(_states(question, world.nodes, read))
            if states:
                texts = tuple(world.nodes[i].text for i in read)
                yield Asked(question.text, vector, world.vectors, np.array(read), texts, states)


@dataclass(frozen=True, eq=False)
class World:
    """The leaves of a document, as the library cuts and embeds them; vectors (leaves, dimension)."""

    nodes: list[Node]
    corpus: Corpus
    vectors: Vectors

    @classmethod
    def of(cls, document: Document, embedder: Embedder) -> World:
        """Cut and embed a document."""
        spans = leaves(document.text, count_tokens=_words, limit=LEAF_WORDS)
        found = headings(document.text, spans, document.title)
        nodes = [
            Node(f"{document.id}#1.{i}", document.id, 1, text, "chunk", 1, (span,), heading)
            for i, (span, heading) in enumerate(zip(spans, found, strict=True))
            for text in [document.text[span.start : span.end]]
        ]
        vectors = embed_parts(embedder, embedded_parts(nodes))
        block = Block.of(1, Draft(document), HWDAG.from_rows(nodes, []), vectors)
        corpus = Corpus(lambda addresses: [nodes[at] for _, at in addresses]).extended([block])
        return cls(nodes, corpus, vectors)

    def lengths(self, indices: Sequence[int]) -> list[int]:
        """Words of some leaves."""
        return _words([self.nodes[i].text for i in indices])


@dataclass(frozen=True, eq=False)
class Task:
    """A document, and the questions about it that have gold paragraphs."""

    world: World
    questions: list[Question]

    @classmethod
    def of(cls, record: Record, embedder: Embedder) -> Task:
        """Embed the document of a record."""
        questions = [question for question in record.questions if question.evidence]
        return cls(World.of(record.whole, embedder), questions)


def _words(texts: Sequence[str]) -> list[int]:
    return [len(text.split()) for text in texts]


def _first_reads(world: World, question: str, vector: Vectors, reads: int) -> list[int]:
    nodes, view = world.nodes, View.of(world.corpus)
    asked = SearchQuestion.of(question, vector)
    similarity = Similarity(view, asked.asked_words, vector, SCORING)
    frontier = Frontier.of(view, asked, similarity.values, SCORING)
    found: list[int] = []
    while len(found) < reads:
        best = frontier.best(lambda some: [1] * len(some), 1)
        if best is None:
            break
        found.append(best)
        frontier.visit(best, nodes[best])
    return found


def _states(question: Question, nodes: Sequence[Node], read: Sequence[int]) -> Iterator[State]:
    gold = [
        [i for i, n in enumerate(nodes) if n.sources[0].overlap(span)] for span in question.evidence
    ]
    for count in range(1, len(read) + 1):
        done = set(read[:count])
        covered = [
            sum(nodes[i].sources[0].overlap(span) for i in done) / len(span)
            for span in question.evidence
        ]
        for gain, share in ((2.0, TOUCHED), (1.0, HALF)):
            left = [rows for rows, has in zip(gold, covered, strict=True) if has < share]
            if wanted := _wanted(
                question.sentences, nodes, {i for rows in left for i in rows} - done
            ):
                yield State(count, np.array(wanted), gain)
                break


def _wanted(sentences: Sequence[Span], nodes: Sequence[Node], rows: set[int]) -> list[int]:
    """Return the gold sentences among these rows, if the data name them."""
    named = [i for i in rows if any(nodes[i].sources[0].overlap(span) for span in sentences)]
    return sorted(named or rows)

"""Small random worlds that tests share: documents with graphs and embeddings, from a seed.

The text is made of a few English words, so that lexical attention (`ScriptedLM`) and real models
find something to attend to; levels shrink, rows are dense (a whole window) or sparse (any nodes of
the level below), so nodes share children and some have no parent at all.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from numpy.typing import NDArray

from hwdag.arrays import Mask, Vectors
from hwdag.config import Method, SearchConfig
from hwdag.corpus.block import Block
from hwdag.corpus.corpus import Corpus
from hwdag.corpus.view import View
from hwdag.embedding.checked import embedded_question
from hwdag.graph.dag import HWDAG, EdgeRow, union_of_spans
from hwdag.search.evidence import Evidence
from hwdag.search.find import find
from hwdag.search.question import History, Question
from hwdag.search.request import SearchRequest
from hwdag.text.draft import Draft
from hwdag.text.headings import Outline
from hwdag.text.prompts import SearchPrompts
from hwdag.threads import MAX_QUESTIONS, in_question_thread
from hwdag.types import Document, Node, Span
from hwdag_lab.scripted import ScriptedLM, tokens_of

_WORDS = """
amber bridge castle dragon engine forest garden harbor island jungle kettle ladder market needle
orchard palace quarry river silver temple umbrella valley window yellow zephyr
"""
WORDS = _WORDS.split()


def random_text(rng: np.random.Generator, words: int) -> str:
    """Return a sentence of that many words."""
    return " ".join(rng.choice(WORDS, size=words)).capitalize() + "."


def random_prose(
    seed: int | np.random.Generator, sentences: int, *, words: tuple[int, int] = (4, 8)
) -> str:
    """Return sentences, each with a number of words from a range."""
    return " ".join(random_sentences(seed, sentences, words=words))


def random_sentences(
    seed: int | np.random.Generator, count: int, *, words: tuple[int, int] = (4, 8)
) -> list[str]:
    """Return sentences as one text, each with a number of words from a range."""
    rng = np.random.default_rng(seed)  # a generator as it is
    return [random_text(rng, int(rng.integers(words[0], words[1] + 1))) for _ in range(count)]


def random_documents(seed: int, documents: int = 3, sentences: int = 12) -> list[Document]:
    """Documents of that many sentences, by the names d0, d1, ..."""
    rng = np.random.default_rng(seed)
    return [Document(f"d{i}", random_prose(rng, sentences, words=(5, 9))) for i in range(documents)]


def random_graph(
    rng: np.random.Generator, *, chunks: int, levels: int, document_id: str = "doc"
) -> HWDAG:
    """Return a valid graph of exactly `levels` levels, `chunks` nodes in the first, fewer above.

    Raw attention is random and of any scale, so nothing but the normalised weights is comparable
    between rows. The chunks are slices of `document_of(graph).text`.
    """
    nodes = _chunks(rng, chunks, document_id)
    below, rows = range(chunks), list[EdgeRow]()
    for level in range(2, levels + 1):
        size = int(rng.integers(1, max(2, len(below))))
        above = range(len(nodes), len(nodes) + size)
        for parent in above:
            children = _children(rng, below)
            raw = rng.uniform(0.05, 1.0, len(children)) * 10.0 ** rng.integers(-4, 1)
            rows.append(EdgeRow(parent, children, raw))
            nodes.append(_point(rng, nodes, children[np.argmax(raw)], level, parent - above.start))
        below = above
    return HWDAG.from_rows(nodes, rows)


def random_vectors(rng: np.random.Generator, count: int, dimension: int = 8) -> Vectors:
    """Unit vectors in all directions, (count, dimension)."""
    vectors = rng.normal(size=(count, dimension))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def document_of(graph: HWDAG) -> Document:
    """Return the document that a random graph was made of."""
    chunks = [node.text for node in graph.nodes if node.level == 1]
    return Document(graph.nodes[0].document_id, " ".join(chunks), "A title", {"pages": len(chunks)})


def corpus_of(
    graphs: Sequence[HWDAG], vectors: Sequence[Vectors], texts: Sequence[str] = ()
) -> Corpus:
    """Return a corpus of these graphs, numbered from 1; without `texts` nothing has a heading."""
    if texts:
        graphs = [
            under_headings(graph, Outline(text)) for graph, text in zip(graphs, texts, strict=True)
        ]

    def read(addresses: Sequence[tuple[int, int]]) -> list[Node | None]:
        return [graphs[number - 1].nodes[position] for number, position in addresses]

    drafts = [Draft(Document("", text)) for text in texts or [""] * len(graphs)]
    parts = zip(drafts, graphs, vectors, strict=True)
    return Corpus(read).extended(Block.of(i, *part) for i, part in enumerate(parts, start=1))


def under_headings(graph: HWDAG, outline: Outline) -> HWDAG:
    """Return the same graph, its nodes under the headings of a text that they are slices of."""
    nodes = (replace(node, heading=outline.heading_of(node.sources[0])) for node in graph.nodes)
    return replace(graph, nodes=tuple(nodes))


def question_of(text: str, vector: Sequence[float] = ()) -> Question:
    """Return a question with an embedding."""
    return Question.of(text, np.asarray(vector, np.float32))


def walk(
    corpus: Corpus,
    question: str,
    *,
    config: SearchConfig,
    method: Method = "hwdag",
    rules: Mapping[str, Any] | None = None,
    prompts: SearchPrompts | None = None,
    allowed: Mask | None = None,
    query_vector: Vectors | None = None,
    history: History = (),
    **options: Any,
) -> Evidence:
    """Return the walk for a question by a method, with changed `rules`; `options` are those of a `SearchRequest`."""
    plan = config.plan(method, options["reader"].card.threshold)
    plan = replace(plan, rules=replace(plan.rules, **(rules or {})))
    if query_vector is None:
        query_vector = embedded_question(options["embedder"], question)
    request = SearchRequest(plan=plan, prompts=prompts or SearchPrompts(), **options)
    asked = Question.of(question, query_vector, history)
    return find(View.of(corpus, allowed), asked, request)


def assert_partition(text: str, spans: Sequence[Span]) -> None:
    """Trimmed, ascending, disjoint, and only whitespace between them."""
    position = 0
    for span in spans:
        assert not text[position : span.start].strip()
        piece = text[span.start : span.end]
        assert piece
        assert piece == piece.strip()
        position = span.end
    assert not text[position:].strip()


def graphs(*, max_chunks: int = 9, max_levels: int = 4) -> st.SearchStrategy[HWDAG]:
    """Random graphs; hypothesis shrinks towards few chunks and levels."""
    return st.builds(
        lambda seed, chunks, levels: random_graph(
            np.random.default_rng(seed), chunks=chunks, levels=levels
        ),
        st.integers(0, 2**32 - 1),
        st.integers(1, max_chunks),
        st.integers(1, max_levels),
    )


async def assert_cancelling_ends_a_walk(asked: Callable[[ScriptedLM], Awaitable[object]]) -> None:
    """Cancel a request to a reader at its first forward; assert that it makes no second one."""
    loop = asyncio.get_running_loop()
    started, released = asyncio.Event(), threading.Event()

    def hold(question: str, nodes: list[str]) -> float:
        loop.call_soon_threadsafe(started.set)
        assert released.wait(timeout=60)
        return 0.0

    lm = ScriptedLM(p_yes=hold)
    walking = asyncio.ensure_future(asked(lm))
    await started.wait()
    walking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await walking
    released.set()
    await all_questions_ended()
    assert lm.reads == 1


async def all_questions_ended() -> None:
    """Wait until no thread of an asynchronous question is at work."""
    met = threading.Barrier(MAX_QUESTIONS)
    await asyncio.gather(*(in_question_thread(met.wait) for _ in range(MAX_QUESTIONS)))


def _chunks(rng: np.random.Generator, count: int, document_id: str) -> list[Node]:
    nodes, start = [], 0
    for i in range(count):
        text = random_text(rng, int(rng.integers(3, 10)))
        span = Span(start, start + len(text))
        identity = f"{document_id}#1.{i}"
        nodes.append(Node(identity, document_id, 1, text, "chunk", len(tokens_of(text)), (span,)))
        start = span.end + 1
    return nodes


def _children(rng: np.random.Generator, below: range) -> NDArray[np.int32]:
    """Return a window of the level below, or any of its nodes, in order."""
    if rng.random() < 0.5:
        first = int(rng.integers(below.start, below.stop))
        return np.arange(first, rng.integers(first, below.stop) + 1, dtype=np.int32)
    size = int(rng.integers(1, len(below) + 1))
    return np.sort(rng.choice(below, size=size, replace=False)).astype(np.int32)


def _point(
    rng: np.random.Generator, nodes: list[Node], strongest: int, level: int, ordinal: int
) -> Node:
    text = random_text(rng, int(rng.integers(2, 7)))
    document_id = nodes[0].document_id
    identity = f"{document_id}#{level}.{ordinal}"
    sources = union_of_spans(nodes[strongest].sources)
    return Node(identity, document_id, level, text, "generated", len(tokens_of(text)), sources)

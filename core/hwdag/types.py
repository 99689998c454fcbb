"""The nouns that everything else moves around: frozen values, no behaviour beyond derived fields."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from hwdag.errors import InputError
from hwdag.page import framed, page

if TYPE_CHECKING:
    from hwdag.page.widget import PageWidget

Origin = Literal["chunk", "generated", "extractive", "compressed"]
"""How a node's text came to be: cut from the document, written by an LM, picked from the text, or
left over of the text after some of its words were dropped."""

StopReason = Literal["sufficient", "budget", "exhausted", "time", "stopped"]
"""Why a walk ended: enough evidence, no unvisited node fits the token budget, nothing is left, the time
is up, or nobody waits for the answer any more."""


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A half-open range of characters, `text[start:end]`."""

    start: int
    end: int

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.end:
            raise InputError(f"a span needs 0 <= start <= end, got [{self.start}, {self.end})")

    def __len__(self) -> int:
        return self.end - self.start

    def overlap(self, other: Span) -> int:
        """Characters shared with `other`."""
        return max(0, min(self.end, other.end) - max(self.start, other.start))


@dataclass(frozen=True, slots=True)
class Document:
    """A source text. `id` is unique within an index; `metadata` must be JSON-serialisable."""

    id: str
    text: str
    title: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def page_starts(self) -> list[int]:
        """Characters at which its pages begin, from `metadata["page_starts"]`; empty without pages."""
        starts = self.metadata.get("page_starts")
        if not isinstance(starts, list | tuple) or not all(type(start) is int for start in starts):
            return []
        return list(starts)

    def page_of(self, position: int) -> int | None:
        """Return the number of the page that a character is on, from 1; None without pages."""
        return bisect_right(self.page_starts, position) or None


@dataclass(frozen=True, slots=True)
class Node:
    """A chunk (level 1) or an Information Point (level 2 and up) of one document.

    `sources` are the exact character spans of the document that the text rests on: the chunk
    itself, the picked sentence of an extractive point, or the sentences that a generated point
    attended to most (through the strongest edges, for levels above 2). `heading` is the one that the
    first of them stands under, "" where there is none.
    """

    id: str
    document_id: str
    level: int
    text: str
    origin: Origin
    tokens: int
    sources: tuple[Span, ...]
    heading: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the node as JSON-able values; `spans` are [start, end) of characters."""
        return {
            "id": self.id,
            "document_id": self.document_id,
            "level": self.level,
            "text": self.text,
            "origin": self.origin,
            "tokens": self.tokens,
            "spans": [[span.start, span.end] for span in self.sources],
            "heading": self.heading,
        }


@dataclass(frozen=True, slots=True)
class Usage:
    """What a call cost. Tokens are those that passed through the model, cached ones counted once."""

    tokens: int = 0
    tflops: float = 0.0
    seconds: float = 0.0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.tokens + other.tokens,
            self.tflops + other.tflops,
            self.seconds + other.seconds,
        )

    def __sub__(self, other: Usage) -> Usage:
        return self + Usage(-other.tokens, -other.tflops, -other.seconds)


PARTS = ("attention", "similarity", "reference")  # of a score


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node that a step could have read instead, with the parts of its score at that moment."""

    node: Node
    attention: float
    similarity: float
    reference: float

    def to_dict(self) -> dict[str, Any]:
        """Return the node with its score, as JSON-able values."""
        parts = {name: getattr(self, name) for name in PARTS}
        return {**self.node.to_dict(), "score": sum(parts.values()), **parts}


@dataclass(frozen=True, slots=True)
class Step:
    """One visited node of a walk, in visiting order.

    `attention`, `similarity` and `reference` are the parts of the score at the moment of the choice,
    scaled and weighed as `SearchConfig.scoring` says (with the papers' formula: shares of the totals
    over all nodes, GARLIC 3.2.2); for a node of the initial set only `similarity` is not 0.
    `relevance` is r of PECAN App. C: mean attention to the question times the place in the cache, which
    is `position` unless nodes were read by section; it is None where the reader did not read the node,
    since neither the walk nor an answer needed it. `p_yes` is read after the node was appended; it is
    None where several nodes were read at once and this one was not the last of them. `passed_over` are the
    best candidates that were not chosen, best first: a few, with the last of the nodes that were chosen at
    once, none in the initial set. A navigator's scorer chooses among the nodes with the highest scores,
    so the score of what was passed over may be the higher one then.
    """

    position: int
    node: Node
    initial: bool
    attention: float
    similarity: float
    relevance: float | None = None
    p_yes: float | None = None
    reference: float = 0.0
    passed_over: tuple[Candidate, ...] = ()

    @property
    def score(self) -> float:
        """Sum of the parts."""
        return self.attention + self.similarity + self.reference

    def to_dict(self) -> dict[str, Any]:
        """Return the node with its scores, as JSON-able values."""
        return {
            **self.node.to_dict(),
            "position": self.position,
            "initial": self.initial,
            "score": self.score,
            **{name: getattr(self, name) for name in (*PARTS, "relevance", "p_yes")},
        }


OnStep = Callable[[Step], None]  # is called with the steps of a walk as they happen


@dataclass(frozen=True, slots=True)
class Retrieval:
    """The visited nodes in visiting order, why the walk stopped, and what it cost.

    `context_tokens` counts the node tokens put before the reader; it never exceeds the budget.
    `notes` says in words what differed from the plain method (a budget cut to the context, ...).
    """

    question: str
    steps: tuple[Step, ...]
    stop: StopReason
    context_tokens: int
    usage: Usage
    notes: tuple[str, ...] = ()
    beyond: tuple[Step, ...] = ()
    """Nodes that were asked for by number but not read, best score first; p_yes is None."""
    sources: Mapping[str, Document] = field(default_factory=dict, compare=False, repr=False)
    """The documents that the nodes rest on, by id, in the versions that were searched."""

    def best(self, k: int) -> tuple[Step, ...]:
        """Exactly min(k, available) nodes, for callers that want a number (ours, not the papers').

        Visited nodes by relevance and similarity, each as a share of its sum over the visited, or in
        visiting order where they were not read; then those `beyond`, which `search(..., k=k)` fills
        by score after the walk stopped.
        """
        visited = list(self.steps)
        attention = sum(s.relevance or 0.0 for s in visited) or 1.0
        similarity = sum(s.similarity for s in visited) or 1.0
        if any(s.relevance is not None for s in visited):
            visited.sort(
                key=lambda s: -(s.relevance or 0.0) / attention - s.similarity / similarity
            )
        return (*visited, *self.beyond)[:k]

    @property
    def p_yes(self) -> float | None:
        """The last probability of "Yes" that was read."""
        return next((s.p_yes for s in reversed(self.steps) if s.p_yes is not None), None)

    def to_dict(self) -> dict[str, Any]:
        """Return the walk as JSON-able values, without the texts of the documents."""
        return {
            "question": self.question,
            "stop": self.stop,
            "notes": list(self.notes),
            "context_tokens": self.context_tokens,
            "steps": [
                step.to_dict() | {"passed_over": [one.to_dict() for one in step.passed_over]}
                for step in self.steps
            ],
            "beyond": [step.to_dict() for step in self.beyond],
        }

    def to_html(self) -> str:
        """Return a page that shows the walk and what it read; it needs no network."""
        return page(self.question, {"documents": shown_documents(self), "walk": self.to_dict()})

    def widget(self) -> PageWidget:
        """Return the page as a Jupyter widget (extra `notebook`), whose `selected` is a `Node` or None."""
        from hwdag.page.widget import PageWidget

        return PageWidget(self.to_html(), {step.node.id: step.node for step in self.steps})

    def _repr_html_(self) -> str:
        return framed(self.to_html())


@dataclass(frozen=True, slots=True)
class Citation:
    """A source sentence of an answer. `weight` is its share of the answer's attention, in [0, 1]."""

    document_id: str
    span: Span
    text: str
    weight: float
    node_id: str
    page: int | None = None
    """Of a document with pages: the one that it begins on, counted from 1."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer, the sentences that it rests on (best first), and the walk that led to it."""

    text: str
    citations: tuple[Citation, ...]
    retrieval: Retrieval
    usage: Usage
    attended: tuple[Citation, ...] = ()
    """Every source sentence that was read, by its share of the answer's attention; the citations are
    the first of them. Empty where the answer was stopped."""
    likelihood: float | None = None
    """Mean log-probability per token of the text, at most 0: how sure the reader is of it, given what it
    read. None where nothing was decoded."""

    def to_dict(self) -> dict[str, Any]:
        """Return the answer with its citations, its cost and its walk, as JSON-able values."""
        return {
            "answer": self.text,
            "citations": [
                {
                    "document_id": citation.document_id,
                    "start": citation.span.start,
                    "end": citation.span.end,
                    "text": citation.text,
                    "weight": citation.weight,
                    "node_id": citation.node_id,
                    **({} if citation.page is None else {"page": citation.page}),
                }
                for citation in self.citations
            ],
            "attended": [
                [one.document_id, one.span.start, one.span.end, one.weight] for one in self.attended
            ],
            "likelihood": self.likelihood,
            "tokens": self.usage.tokens,
            "tflops": self.usage.tflops,
            "seconds": self.usage.seconds,
            "walk": self.retrieval.to_dict(),
        }

    def to_html(self) -> str:
        """Return a page that shows the answer, what it rests on and the walk; it needs no network."""
        documents = shown_documents(self.retrieval)
        return page(self.retrieval.question, {"documents": documents, "answer": self.to_dict()})

    def widget(self) -> PageWidget:
        """Return the page as a Jupyter widget (extra `notebook`): `selected` is a citation, node or None."""
        from hwdag.page.widget import PageWidget

        nodes = {step.node.id: step.node for step in self.retrieval.steps}
        others = self.attended[len(self.citations) :]
        return PageWidget(self.to_html(), nodes, (*self.citations, *others))

    def _repr_html_(self) -> str:
        return framed(self.to_html())


def shown_documents(retrieval: Retrieval) -> list[dict[str, Any]]:
    """Return the documents that a walk has nodes of, as a page takes them."""
    wanted = {step.node.document_id: None for step in (*retrieval.steps, *retrieval.beyond)}
    return [shown_document(retrieval.sources[key]) for key in wanted]


def shown_document(document: Document) -> dict[str, Any]:
    """Return a document as a page takes it."""
    return {
        "id": document.id,
        "title": document.title,
        "text": document.text,
        "pages": document.page_starts,
    }

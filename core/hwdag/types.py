"""The nouns that everything else moves around: frozen values, no behaviour beyond derived fields."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from hwdag.errors import InputError
from hwdag.page import framed, page

Origin = Literal["chunk", "generated", "extractive", "compressed"]
"""Where a node's text comes from: cut from the document, written by an LM, picked from the text, or
compressed by dropping words."""

CitedBy = Literal["attention", "number", "overlap"]
"""How a citation was made: by the attention that the answer paid to the sentence, by its number in the
answerer's reply, or by the words that the sentence shares with a reply without numbers."""

StopReason = Literal["sufficient", "budget", "exhausted", "time", "stopped"]
"""Why a walk ended: enough evidence, no unvisited node fits the token budget, no node is left, the time
limit, or a caller that no longer waits."""


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
        """First character of each page, from `metadata["page_starts"]`; empty without pages."""
        starts = self.metadata.get("page_starts")
        if not isinstance(starts, list | tuple) or not all(type(start) is int for start in starts):
            return []
        return list(starts)

    def page_of(self, position: int) -> int | None:
        """Return the page of a character, from 1; None without pages."""
        return bisect_right(self.page_starts, position) or None

    @property
    def notes(self) -> list[str]:
        """Notes on text that was left out, hidden, unreadable or guessed in the file, from `metadata["notes"]`."""
        notes = self.metadata.get("notes")
        return [note for note in notes if isinstance(note, str)] if isinstance(notes, list) else []

    @property
    def times(self) -> list[tuple[int, float]]:
        """Characters and the seconds at which they are spoken, from `metadata["times"]`; empty without times."""
        times = self.metadata.get("times")
        if not isinstance(times, list | tuple):
            return []
        pairs = [tuple(one) if isinstance(one, list | tuple) else () for one in times]
        are_times = all(
            len(one) == 2 and type(one[0]) is int and type(one[1]) in (int, float) for one in pairs
        )
        return [(start, seconds) for start, seconds in pairs] if are_times else []

    def time_of(self, position: int) -> float | None:
        """Return the second at which a character of a subtitle is spoken; None without times."""
        times = self.times
        at = bisect_right(times, position, key=lambda time: time[0])
        return times[at - 1][1] if at else None


@dataclass(frozen=True, slots=True)
class Node:
    """A chunk (level 1) or an Information Point (level 2 and up) of one document.

    `sources` are the character spans of the document that support the text: the chunk itself, the
    picked sentence of an extractive point, or the sentences that a generated point attended to most
    (through the strongest edges, for levels above 2). `heading` is the heading of the first span
    after those above it ("Museum > Prices"), or "". `line_tokens` are those of the node as a line that a
    reader reads, alone, after the last of its headings, and after all; 0 if not counted.
    """

    id: str
    document_id: str
    level: int
    text: str
    origin: Origin
    tokens: int
    sources: tuple[Span, ...]
    heading: str = ""
    line_tokens: tuple[int, int, int] = (0, 0, 0)

    def to_dict(self) -> dict[str, Any]:
        """Return the node as JSON-able values; `spans` are [start, end) in characters."""
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
    """Cost of a call. `tokens` passed through the model; cached ones count once."""

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


SCORE_PARTS = ("attention", "similarity", "reference")  # of a score


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node that a step could have read instead, with the parts of its score at that step."""

    node: Node
    attention: float
    similarity: float
    reference: float

    def to_dict(self) -> dict[str, Any]:
        """Return the node with its score, as JSON-able values."""
        parts = {name: getattr(self, name) for name in SCORE_PARTS}
        return {**self.node.to_dict(), "score": sum(parts.values()), **parts}


@dataclass(frozen=True, slots=True)
class Step:
    """One visited node of a walk, in visiting order.

    `attention`, `similarity` and `reference` are the parts of the score when the node was chosen,
    scaled and weighted by `SearchConfig.scoring` (in the papers' formula, shares of the totals over
    all nodes, GARLIC 3.2.2). For a node of the initial set only `similarity` is nonzero.

    `relevance` is r of PECAN App. C: mean attention to the question times the place in the cache,
    which is `position` unless nodes were read by section or earlier ones were not kept. It is None if
    the reader did not read the node, because neither the walk nor an answer needed it. `p_yes` is read
    after appending the node; None if several nodes were read at once and this was not the last, or
    nobody asked for it.

    A node that is not `kept` has passed its relevance on and left the context again, as written points do
    in "hwdag".

    `runners_up` are the best candidates not chosen, best first. The last of the nodes chosen together
    has them; nodes of the initial set have none. Their scores may be higher, since a navigator's scorer
    chooses among the nodes with the highest scores.

    If the question asks for the present, `date` is that of the text, "" if unknown, and `supersedes` are
    positions of steps with an earlier date that say the same (`hwdag.search.latest`).
    """

    position: int
    node: Node
    initial: bool
    attention: float
    similarity: float
    relevance: float | None = None
    p_yes: float | None = None
    reference: float = 0.0
    runners_up: tuple[Candidate, ...] = ()
    kept: bool = True
    supersedes: tuple[int, ...] = ()
    date: str = ""

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
            "kept": self.kept,
            "score": self.score,
            **{name: getattr(self, name) for name in (*SCORE_PARTS, "relevance", "p_yes")},
        }


def later_first(steps: Iterable[Step]) -> list[Step]:
    """Return steps in their order, but each before those that it supersedes."""
    found = list[Step]()
    for step in steps:
        earlier = (i for i, one in enumerate(found) if one.position in step.supersedes)
        found.insert(next(earlier, len(found)), step)
    return found


@dataclass(frozen=True, slots=True)
class TokenCount:
    """Tokens of an answerer's prompt and reply, counted by its server or by the reader's tokenizer."""

    prompt: int
    reply: int
    by: Literal["server", "reader"]


@dataclass(frozen=True, slots=True)
class ReplyEnd:
    """How a streamed reply ended.

    `reason` is that of OpenAI's API, such as "stop", "length" or "content_filter"; "" if the server gives
    none. `tokens` are None if it does not count them.
    """

    tokens: TokenCount | None = None
    reason: str = ""


OnStep = Callable[[Step], None]  # called with each step of a walk as it happens


@dataclass(frozen=True, slots=True)
class Retrieval:
    """The visited nodes in visiting order, why the walk stopped, and its cost.

    `context_tokens` counts the node tokens shown to the reader and never exceeds the budget.
    `notes` describe deviations from the plain method (a budget cut to the context, ...).
    """

    question: str
    steps: tuple[Step, ...]
    stop: StopReason
    context_tokens: int
    usage: Usage
    notes: tuple[str, ...] = ()
    unread: tuple[Step, ...] = ()
    """Unread nodes that fill up to `k`, best score first; their `p_yes` is None."""
    sources: Mapping[str, Document] = field(default_factory=dict, compare=False, repr=False)
    """The documents of the nodes by id, in the versions that were searched."""
    searched_for: str | None = None
    """The question of its own that was searched for in place of one that refers to earlier ones; None for
    the question as it was asked."""
    answerability: float | None = None
    """Probability that the visited nodes hold an answer (`hwdag.search.answerability`); None if it is not
    known: with another embedder than the default, by the papers' methods, in other letters than Latin, or for a
    question that refers to earlier ones and was not rewritten. 0 if there is nothing to answer from."""
    is_ranked: bool = True
    """Whether a low score means that a node is less likely to be needed; not if the question is about the
    whole or refers to earlier ones, and not with the papers' methods."""

    @property
    def context(self) -> tuple[Step, ...]:
        """The steps whose texts are in the context, on which an answer rests."""
        return tuple(step for step in self.steps if step.kept)

    def best(self, k: int) -> tuple[Step, ...]:
        """Return exactly min(k, available) nodes (ours, not the papers').

        Nodes of the `context` come first, by relevance and similarity, each as a share of its sum over the
        context. If they were not read, the most similar one comes first, and the others in visiting order.
        Then come the nodes `unread`, which `search(..., k=k)` adds by score after the walk.
        """
        if not isinstance(k, int) or k < 0:
            raise InputError(f"k must be a whole number of at least 0, got {k!r}")
        visited = list(self.context)
        attention = sum(s.relevance or 0.0 for s in visited) or 1.0
        similarity = sum(s.similarity for s in visited) or 1.0
        if any(s.relevance is not None for s in visited):
            visited.sort(
                key=lambda s: -(s.relevance or 0.0) / attention - s.similarity / similarity
            )
        elif visited:
            # why: the navigator chooses a set, and the first of it need not be the most similar
            visited.insert(0, visited.pop(visited.index(max(visited, key=lambda s: s.similarity))))
        return (*later_first(visited), *self.unread)[:k]

    @property
    def p_yes(self) -> float | None:
        """The last p_yes that was read, or None."""
        return next((s.p_yes for s in reversed(self.steps) if s.p_yes is not None), None)

    def to_dict(self) -> dict[str, Any]:
        """Return the walk as JSON-able values, without the texts of the documents."""
        return {
            "question": self.question,
            "searched_for": self.searched_for,
            "stop": self.stop,
            "notes": list(self.notes),
            "context_tokens": self.context_tokens,
            "answerability": self.answerability,
            "steps": [
                step.to_dict() | {"runners_up": [one.to_dict() for one in step.runners_up]}
                for step in self.steps
            ],
            "unread": [step.to_dict() for step in self.unread],
        }

    def to_html(self) -> str:
        """Return a self-contained page that shows the walk and the texts that it read."""
        return page(self.question, {"documents": shown_documents(self), "walk": self.to_dict()})

    def _repr_html_(self) -> str:
        return framed(self.to_html())


@dataclass(frozen=True, slots=True)
class Citation:
    """A source sentence of an answer.

    `weight` in [0, 1] is its share of the answer's attention, of the numbers in an answerer's reply, or of
    the words of that reply (`by`).
    """

    document_id: str
    span: Span
    text: str
    weight: float
    node_id: str
    page: int | None = None
    """Page the sentence starts on, from 1; None without pages."""
    by: CitedBy = "attention"


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer, the sentences that support it, and the walk that led to it.

    If the evidence seems to hold no answer, the text of a reader's answer reports that, with the nearest
    sentences; `reply` is the reader's reply. Citations come best first. Those of an answerer come in the order of the numbers in its text: [1] is
    the first of them.
    """

    text: str
    citations: tuple[Citation, ...]
    retrieval: Retrieval
    usage: Usage
    attended: tuple[Citation, ...] = ()
    """Every source sentence that was read, by share of the answer's attention; starts with the
    citations. Empty if the answer was stopped."""
    likelihood: float | None = None
    """Mean log-probability per token of the text, at most 0: how certain the reader is, given the text
    that it read. None if nothing was decoded, or an answerer answered."""
    answered_by: str | None = None
    """Name of the answerer; None if the reader answered."""
    notes: tuple[str, ...] = ()
    """Faults of the text, such as that it was cut off; also statements of several dates, if the question asks for
    the present."""
    reply: str = ""
    """The reply of the reader or the answerer."""
    confidence: float | None = None
    """Probability that the reply is right. Of an answerer, whose likelihood is not known, it is
    `Retrieval.answerability`. None if that is None."""
    found: bool | None = None
    """Whether the documents seem to answer the question (`hwdag.search.answerability`); None if it is unknown."""
    answerer_tokens: TokenCount | None = None
    """Tokens that the answerer read and wrote, part of `usage.tokens`; None if the reader answered."""

    def to_dict(self) -> dict[str, Any]:
        """Return the answer with its citations, its cost and its walk, as JSON-able values."""
        return {
            "answer": self.text,
            "reply": self.reply,
            "confidence": self.confidence,
            "found": self.found,
            "citations": [
                {
                    "document_id": citation.document_id,
                    "start": citation.span.start,
                    "end": citation.span.end,
                    "text": citation.text,
                    "weight": citation.weight,
                    "node_id": citation.node_id,
                    "by": citation.by,
                    **({} if citation.page is None else {"page": citation.page}),
                }
                for citation in self.citations
            ],
            "attended": [
                [one.document_id, one.span.start, one.span.end, one.weight] for one in self.attended
            ],
            "likelihood": self.likelihood,
            "answered_by": self.answered_by,
            "notes": list(self.notes),
            "answerer_tokens": self.answerer_tokens and asdict(self.answerer_tokens),
            "tokens": self.usage.tokens,
            "tflops": self.usage.tflops,
            "seconds": self.usage.seconds,
            "walk": self.retrieval.to_dict(),
        }

    def to_html(self) -> str:
        """Return a self-contained page that shows the answer, its sources and the walk."""
        documents = shown_documents(self.retrieval)
        return page(self.retrieval.question, {"documents": documents, "answer": self.to_dict()})

    def _repr_html_(self) -> str:
        return framed(self.to_html())


def shown_documents(retrieval: Retrieval) -> list[dict[str, Any]]:
    """Return the documents of a walk's nodes, in the form that a page takes."""
    wanted = {step.node.document_id: None for step in (*retrieval.steps, *retrieval.unread)}
    return [shown_document(retrieval.sources[key]) for key in wanted]


def shown_document(document: Document) -> dict[str, Any]:
    """Return a document in the form that a page takes."""
    return {
        "id": document.id,
        "title": document.title,
        "text": document.text,
        "pages": document.page_starts,
        "notes": document.notes,
    }

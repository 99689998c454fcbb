"""YOURA: the sentences that react most to the question, in text order.

"You Only Use Reactive Attention slice for Long Context Retrieval", arXiv 2409.13695. The attention
of a context to itself is computed once, at insertion, and kept. Windows end between sentences, are
about equally long, and begin with an opening token, so that no sentence gets the attention paid to
the first token. docs/systems/youra.md lists the differences from the paper.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, Self, cast

import numpy as np
from numpy.typing import NDArray

from hwdag.arrays import Floats, Vectors
from hwdag.config import Heads, SearchConfig
from hwdag.errors import ReaderRequired
from hwdag.lm.base import Reader
from hwdag.options import CheckedOptions, at_least, between
from hwdag.store.calls import key_of, vectors_of
from hwdag.text.chunking import leaves, pack
from hwdag.types import Document, Node, Usage
from hwdag_lab.methods.document_retriever import DocumentRetriever
from hwdag_lab.methods.found import Found, Scored, SearchRequest, may_fit
from hwdag_lab.methods.passages import SENTENCE_TOKENS, verbatim_nodes
from hwdag_lab.methods.youra.easy import Ids

if TYPE_CHECKING:  # why: torch is imported only if a model is needed
    from hwdag_lab.methods.youra.columns import Located, ModelColumns

ColumnHeads = Heads | Literal["last"]
"""Heads to average; "last" are those of the last layer."""

Reaction = Literal["absolute", "increase"]
Mean = Literal["geometric", "arithmetic"]
Scale = Literal["none", "length"]

PAPER_SHARE = 0.8  # largest share of sentences to retrieve (section 3.3)

PAPERS: Mapping[str, Any] = {
    "heads": "all",
    "difference": "absolute",
    "mean": "geometric",
    "scale": "none",
    "most_sentences": PAPER_SHARE,
}
"""Equations 1 to 5 and section 3.3."""

QUESTION_TOKENS = 256  # room for the question in every window


@dataclass(frozen=True, slots=True)
class YouraConfig(CheckedOptions):
    """How sentences are scored, and how many are taken.

    The first two belong to the build, the others to the search. `YouraConfig.paper()` has the
    settings of the paper.

    Attributes:
        window_tokens: size of a context with its question; None is the reader's default, and never
            more than its context. Longer documents are read in windows.
        heads: "auto" for the known retrieval heads of the model, else all; "all" for the mean of
            the paper, over all layers; "last" for the last layer, as in the authors' code; or
            (layer, head) pairs.
        difference: "increase" is the gain of a token by the question; with "absolute" (equation 1) a
            loss counts as a reaction too.
        mean: over the tokens of a sentence: "arithmetic" (equation 6) or "geometric" (section 3.3).
        scale: makes windows of different length comparable: "none" (the paper), or "length", in
            units of evenly spread attention.
        most_sentences: largest share of sentences to take, whatever the budget.
        memory_bytes: most bytes of KV caches of windows in memory; with them a question costs its
            own tokens only. 0 reads every window again for every question.
    """

    window_tokens: int | None = at_least(16, None)
    heads: ColumnHeads = "auto"
    difference: Reaction = "increase"
    mean: Mean = "arithmetic"
    scale: Scale = "length"
    most_sentences: float = between(0, 1, PAPER_SHARE)
    memory_bytes: int = at_least(0, 1 << 30)

    def __post_init__(self) -> None:
        CheckedOptions.__post_init__(self)
        if self.heads != "last":
            object.__setattr__(self, "heads", SearchConfig(heads=self.heads).heads)

    @classmethod
    def paper(cls, **options: Any) -> Self:
        """Return the settings of the paper: equation 1, all heads, geometric means, no scaling."""
        return cls(**{**PAPERS, **options})

    @property
    def is_papers(self) -> bool:
        """Whether sentences are scored as in the paper."""
        return all(getattr(self, name) == value for name, value in PAPERS.items())


@dataclass(frozen=True, slots=True, eq=False)
class ReadWindow:
    """Consecutive sentences read together, and the attention of their tokens to each other."""

    sentences: range
    ids: Ids  # (tokens,)
    ranges: NDArray[np.int32]  # (sentences, 2), within these tokens
    context: Vectors  # (tokens,)


@dataclass(frozen=True, slots=True)
class Contexts:
    """One document: its sentences, and its windows in reading order."""

    nodes: tuple[Node, ...]
    windows: tuple[ReadWindow, ...]


class YouraRetriever(DocumentRetriever[Contexts]):
    """Sentences by reaction score: how much the question shifts attention to them.

    Every question is read after every window of the documents. With the KV caches of the windows in
    memory (`YouraConfig.memory_bytes`) that costs the question's own tokens; a window without a
    cache passes through the model again. Nothing else of a question is kept.
    """

    uses = ("reader", "prompts", "cache")
    Config = YouraConfig
    config: YouraConfig

    @property
    def name(self) -> str:  # type: ignore[override]
        """`youra`, or `youra-paper` with the settings of the paper."""
        return "youra-paper" if self.config.is_papers else "youra"

    def delete(self, document_id: str) -> None:
        """Remove a document and its caches. Raises `InputError` if there is no such document."""
        with self._changes:
            _, built = self._held.get(document_id, (None, None))
            super().delete(document_id)
            if built is not None and "columns" in self.__dict__:  # why: else no model was loaded
                for window in built.windows:
                    self.columns.forget(window.ids)

    @cached_property
    def columns(self) -> ModelColumns:
        """Reads contexts and questions; loads the model."""
        config = self.config
        return column_reader(self.reader, config.heads, memory_bytes=config.memory_bytes)

    @property
    def _room(self) -> int:
        """Tokens of a context in a window."""
        reader = self.reader
        window = min(self.config.window_tokens or reader.window_tokens, reader.context_tokens)
        return max(1, window - self.columns.opening - min(QUESTION_TOKENS, window // 4))

    def _build(self, document: Document) -> Contexts:
        # why: half a window, so that a sentence always fits
        limit = max(1, min(SENTENCE_TOKENS, self._room // 2))
        spans = leaves(document.text, count_tokens=self.reader.count_tokens, limit=limit)
        nodes = verbatim_nodes(document, spans, "1", self.reader)
        located = self.columns.locate(document.text, [node.sources[0] for node in nodes])
        borders = _borders(located.ranges, self._room)
        windows = []
        with self._reporter.stage("windows", len(borders) - 1, "window") as advance:
            for first, last in pairwise(borders):
                windows.append(self._window(range(first, last), located))
                advance()
        return Contexts(nodes, tuple(windows))

    def _window(self, sentences: range, located: Located) -> ReadWindow:
        ranges = located.ranges[sentences.start : sentences.stop]
        filled = ranges[ranges[:, 0] < ranges[:, 1]]
        if not len(filled):
            return ReadWindow(sentences, located.ids[:0], ranges * 0, np.zeros(0, np.float32))
        start, end = int(filled[0, 0]), int(filled[-1, 1])
        inside = np.where(ranges[:, :1] < ranges[:, 1:], ranges - start, 0)
        ids = located.ids[start:end]
        return ReadWindow(sentences, ids, inside, self._context(ids))

    def _context(self, ids: Ids) -> Vectors:
        """Return attention of a context to itself, from the cache if it is there."""
        heads, opening = self.columns.heads, self.columns.opening
        key = key_of("context", self.reader.name, heads, opening, ids.tolist())

        def call(_: list[int]) -> list[dict[str, Vectors]]:
            return [{"vectors": np.asarray(self.columns.context(ids)[None], np.float32)}]

        [means] = self._calls.results([key], vectors_of([1], len(ids)), call)
        return cast("Vectors", means["vectors"][0])

    def _retrieve(self, request: SearchRequest, built: Mapping[str, Contexts]) -> Found:
        scored: list[Scored] = []
        usage = Usage()
        for contexts in built.values():
            for window in contexts.windows:
                scores, cost = self._scores(window, request.question)
                nodes = contexts.nodes[window.sentences.start : window.sentences.stop]
                scored += map(Scored, nodes, scores.tolist())
                usage += cost
        return _chosen(scored, request, self.config.most_sentences, usage)

    def _scores(self, window: ReadWindow, question: str) -> tuple[Floats, Usage]:
        """Return reaction scores of the sentences of a window."""
        if not len(window.ids):
            return np.zeros(len(window.sentences)), Usage()
        asked, config = self.columns.ask(window.ids, question), self.config
        rows = self.columns.opening + len(window.ids), asked.rows
        found = reaction(window.context, asked.means, rows=rows, difference=config.difference)
        found = scaled(found, rows=rows, scale=config.scale)
        return sentence_scores(found, window.ranges, config.mean), asked.usage


def _chosen(scored: Sequence[Scored], request: SearchRequest, share: float, usage: Usage) -> Found:
    """Return the best sentences that fit, in text order, then all others by score.

    Negative scores (lost attention) become 0, because scores become shares.
    """
    limit = max(1, int(share * len(scored)))
    taken, left, room = list[int](), list[int](), request.budget
    crowded = False
    for i in sorted(range(len(scored)), key=lambda i: -scored[i].score):
        text = scored[i].node.text
        # why: encoding thousands is slow
        fits = may_fit(text, room) and request.cost(text) <= room
        if fits and len(taken) < limit:
            taken.append(i)
            room -= request.cost(text)
        else:
            left.append(i)
            crowded = crowded or fits
    shown = [replace(one, score=max(0.0, one.score)) for one in scored]
    note = f"{limit} of {len(scored)} sentences were taken, which is the limit of {share:.0%}"
    return Found(
        [shown[i] for i in sorted(taken)],
        usage,
        (note,) if crowded else (),
        unread=[shown[i] for i in left],
    )


def _borders(ranges: NDArray[np.int32], room: int) -> list[int]:
    """Return first sentences of the windows, and the end: few windows of about equal length."""
    starts = np.maximum.accumulate(np.append(ranges[:, 0], ranges[:, 1].max(initial=0)))
    costs = np.diff(starts).tolist()
    windows = len(pack(costs, room))
    # why: attention spreads over a window, so a short last one would react more
    sizes = range(1, room)
    size = 1 + bisect_left(sizes, True, key=lambda size: len(pack(costs, size)) <= windows)
    return [0, *(window.stop for window in pack(costs, size))]


FLOOR = 1e-6
"""Floor of a token in a geometric mean, as a share of the mean reaction of the window."""


# With c tokens of context and q of question, AttnVec(context) is the mean `a` of the c rows of the
# context, and AttnVec(context + question), cut to the context, is (c a + q b) / (c + q), where `b`
# is the mean of the q rows of the question: in a causal model the rows of the context do not change.


def reaction(
    context: Vectors, question: Vectors, *, rows: tuple[int, int], difference: Reaction
) -> Floats:
    """Return AttnVec(context + question) - AttnVec(context), or its absolute value (eq. 1), (tokens,).

    Args:
        context: mean of the rows of the context, (tokens,).
        question: mean of the rows of the question, (tokens,).
        rows: numbers of those rows, c and q.
        difference: absolute, or signed.
    """
    c, q = rows
    before = context.astype(np.float64)
    after = (c * before + q * question.astype(np.float64)) / (c + q)
    found: Floats = after - before
    return np.abs(found) if difference == "absolute" else found


def scaled(found: Floats, *, rows: tuple[int, int], scale: Scale) -> Floats:
    """Return reactions in units that windows of different length share, (tokens,).

    A reaction is q / (c + q) times the difference of two means of about 1 / c each.
    """
    c, q = rows
    return found * (c * (c + q) / max(1, q)) if scale == "length" else found


def sentence_scores(found: Floats, ranges: NDArray[np.int32], mean: Mean) -> Floats:
    """Return the mean reaction of every token range, (ranges,); 0 for an empty one.

    The geometric mean raises values below `FLOOR`, including losses, to it: a single token without
    a reaction must not erase its sentence.
    """
    floor = FLOOR * float(np.abs(found).mean()) if len(found) else 0.0
    if mean == "geometric" and floor == 0:
        return np.zeros(len(ranges))
    values = np.log(np.maximum(found, floor)) if mean == "geometric" else found
    totals = np.concatenate([[0.0], np.cumsum(values)])
    lengths = ranges[:, 1] - ranges[:, 0]
    means = (totals[ranges[:, 1]] - totals[ranges[:, 0]]) / np.maximum(1, lengths)
    scores: Floats = np.where(lengths > 0, np.exp(means) if mean == "geometric" else means, 0.0)
    return scores


def column_reader(reader: Reader, heads: ColumnHeads, *, memory_bytes: int) -> ModelColumns:
    """Return the columns of a reader; see `ModelColumns`.

    The reader is a `HuggingFaceLM`, or has a method `columns(heads, memory_bytes=)` that returns
    the equivalent of `ModelColumns`. Raises `ReaderRequired` for any other.
    """
    if make := getattr(reader, "columns", None):
        made: ModelColumns = make(heads, memory_bytes=memory_bytes)
        return made
    # why: torch is imported only if a model is needed
    from hwdag.lm.huggingface import HuggingFaceLM
    from hwdag_lab.methods.youra.columns import ModelColumns

    if isinstance(reader, HuggingFaceLM):
        return ModelColumns(reader, heads, memory_bytes=memory_bytes)
    raise ReaderRequired(
        f"a {type(reader).__name__} has no columns() for columns of attention; use HuggingFaceLM as the "
        "reader"
    )

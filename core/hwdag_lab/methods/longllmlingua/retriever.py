"""LongLLMLingua: drop passages, then words, that are unrelated to the question.

Jiang et al., "LongLLMLingua: Accelerating and Enhancing LLMs in Long Context Scenarios via Prompt
Compression", ACL 2024, arXiv 2310.06839. Two stages, both by likelihoods of a causal LM:

1. Coarse (section 4.1): rank passages by the perplexity of the question after the passage, with a
   statement that ties the two together. The best passages survive.
2. Fine (section 4.1, eq. 3): score each token by contrastive perplexity, how much less surprising
   the question makes it. The text is read segment by segment after the text kept so far (LLMLingua,
   arXiv 2310.05736, algorithm 1). Better passages keep more of their text (section 4.3).

Passages are read best first (section 4.2). Subsequence recovery (section 4.4) is not needed,
because the exact spans of kept words are known. docs/systems/longllmlingua.md lists the other
differences from the paper.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from hwdag.errors import QuestionTooLong, ReaderRequired
from hwdag.lm.base import Reader
from hwdag.options import CheckedOptions, at_least, between
from hwdag.text.characters import one_line
from hwdag.text.chunking import chunk
from hwdag.types import Document, Node, Span
from hwdag_lab.methods.document_retriever import DocumentRetriever
from hwdag_lab.methods.found import Found, Scored, SearchRequest
from hwdag_lab.methods.longllmlingua.whole_words import tokens_of, words
from hwdag_lab.methods.passages import verbatim_nodes

if TYPE_CHECKING:  # why: torch is imported only if a model is needed
    from hwdag_lab.methods.longllmlingua.likelihood import TextScoring

RESTRICTION = "We can get the answer to this question in the given documents."
"""The statement after the question, verbatim from section 4.1."""

HALVINGS = 50  # bisection steps for tau; the error is far below one token


@dataclass(frozen=True, slots=True)
class LongLLMLinguaConfig(CheckedOptions):
    """The shares to drop; the defaults are those of the paper.

    Attributes:
        chunk_tokens: size of a passage; passages end with sentences.
        coarse_ratio: the coarse stage keeps passages worth this many budgets (k).
        delta_tau: the best passage keeps this share more of its tokens than the middle one, the
            worst this share less.
        segment_tokens: text scored at a time, and compressed before the next.
        restriction: the statement after the question in the coarse stage.
    """

    chunk_tokens: int = at_least(8, 300)
    coarse_ratio: float = at_least(1, 2.0)
    delta_tau: float = between(0, 1, 0.25)
    segment_tokens: int = at_least(8, 200)
    restriction: str = RESTRICTION


@dataclass(frozen=True, slots=True)
class CostedPassages:
    """The passages of one document; `costs` are their tokens as lines for the reader."""

    nodes: tuple[Node, ...]
    costs: tuple[int, ...]


class LongLLMLinguaRetriever(DocumentRetriever[CostedPassages]):
    """Compresses the documents for a question until they fit into the budget.

    Every question passes all documents through the model once, so it costs as much as reading
    everything; insertion only cuts. Texts that fit into the budget are only ordered. A compressed
    passage is a node of origin "compressed": its text is its `sources`, joined. Passages that did
    not survive follow.
    """

    name = "longllmlingua"
    uses = ("reader", "prompts")
    Config = LongLLMLinguaConfig
    config: LongLLMLinguaConfig

    def _build(self, document: Document) -> CostedPassages:
        count = self.reader.count_tokens
        spans = chunk(document.text, count_tokens=count, limit=self.config.chunk_tokens)
        nodes = verbatim_nodes(document, spans, "1", self.reader)
        return CostedPassages(nodes, tuple(count([_line(node.text) for node in nodes])))

    def _retrieve(self, request: SearchRequest, built: Mapping[str, CostedPassages]) -> Found:
        scoring = scoring_of(self.reader)
        nodes = [node for passages in built.values() for node in passages.nodes]
        costs = [cost for passages in built.values() for cost in passages.costs]
        perplexities = self._perplexities(scoring, request.question, nodes)
        order = sorted(range(len(nodes)), key=perplexities.__getitem__)
        ranked = [Scored(nodes[i], 1.0 / perplexities[i]) for i in order]
        if sum(costs) <= request.budget:
            return Found(ranked, scoring.usage)
        wanted = self.config.coarse_ratio * request.budget
        count = survivors([costs[i] for i in order], wanted)
        tokens = [costs[i] for i in order[:count]]
        counting, size = self.reader.count_tokens, self.config.segment_tokens
        compressor = Compressor(scoring, request.question, counting, size)
        _checked_room(compressor.segment_tokens, self.reader)
        compressed = list(self._compressed(compressor, ranked[:count], tokens, request.budget))
        note = f"{count} of {len(nodes)} passages survived the coarse stage and were compressed"
        return Found([*compressed, *ranked[count:]], scoring.usage, (note,))

    def _perplexities(
        self, scoring: TextScoring, question: str, nodes: Sequence[Node]
    ) -> list[float]:
        """Return the perplexity of the question after each passage (eq. 2), or after its best window."""
        if len(nodes) == 1:
            return [1.0]  # there is nothing to rank
        text = f"{question} {self.config.restriction}"
        room = _checked_room(scoring.room(text), self.reader)
        windows = [(i, w) for i, node in enumerate(nodes) for w in self._windows(node, room)]
        found = scoring.after([window for _, window in windows], text)
        perplexities = [math.inf] * len(nodes)
        for (i, _), logprobs in zip(windows, found, strict=True):
            perplexities[i] = min(perplexities[i], math.exp(-float(logprobs.mean())))
        return perplexities

    def _windows(self, node: Node, room: int) -> list[str]:
        if node.tokens <= room:
            return [node.text]
        spans = chunk(node.text, count_tokens=self.reader.count_tokens, limit=room)
        return [node.text[span.start : span.end] for span in spans]

    def _compressed(
        self, compressor: Compressor, ranked: Sequence[Scored], tokens: Sequence[int], budget: int
    ) -> Iterator[Scored]:
        """Yield the compressed passages, best first; unused tokens of one go to the next."""
        shares = keep_ratios(tokens, budget, self.config.delta_tau)
        allowed, spent = 0.0, 0
        for scored, share, cost in zip(ranked, shares, tokens, strict=True):
            allowed += share * cost
            pieces = compressor.compress(scored.node.text, cost, round(allowed) - spent)
            if pieces:
                node = _node(scored.node, pieces, self.reader)
                spent += compressor.cost(node.text)
                yield replace(scored, node=node)


def survivors(costs: Sequence[int], wanted: float) -> int:
    """Return the number of ranked passages that hold `wanted` tokens; at least one."""
    return min(len(costs), 1 + bisect_left(list(accumulate(costs)), wanted))


def keep_ratios(tokens: Sequence[int], budget: float, delta: float) -> list[float]:
    """Share of its tokens that each passage keeps, by rank (eq. 6): linear, within [0, 1].

    tau_k = min(1, max(0, tau + delta * (1 - 2 k / (n - 1)))) for k = 0 .. n - 1, with tau such that
    the kept tokens equal the budget.
    """
    last = len(tokens) - 1
    slope = [delta * (1 - 2 * k / last) if last else 0.0 for k in range(len(tokens))]
    low, high = -delta, 1.0 + delta
    for _ in range(HALVINGS):
        tau = (low + high) / 2
        kept = sum(n * _clipped(tau + s) for n, s in zip(tokens, slope, strict=True))
        low, high = (tau, high) if kept <= budget else (low, tau)
    return [_clipped(low + s) for s in slope]


class Word(NamedTuple):
    """A word of a passage, the mean contrastive score of its tokens, and their number."""

    span: Span
    score: float
    tokens: int


class Compressor:
    """The fine stage for one question: the text kept so far, alone and after the question."""

    def __init__(
        self,
        scoring: TextScoring,
        question: str,
        count_tokens: Callable[[Sequence[str]], list[int]],
        segment_tokens: int,
    ) -> None:
        self._plain = scoring.stream("")
        self._asked = scoring.stream(question + "\n")  # every passage begins with a line break
        self._count = count_tokens
        # half of the context is for kept text; two tokens for the white space between
        self.segment_tokens = min(segment_tokens, self._asked.room // 2 - 2)

    def cost(self, text: str) -> int:
        """Return tokens of a text as a line for the reader."""
        return self._count([_line(text)])[0]

    def compress(self, text: str, tokens: int, room: int) -> list[Span]:
        """Compress a passage of `tokens` tokens to pieces of at most `room` tokens as one line."""
        kept: list[Word] = []
        spent = self.cost("")
        for segment in chunk(text, count_tokens=self._count, limit=self.segment_tokens):
            lead = _lead(text, segment)
            scored = self.contrast(lead, text[segment.start : segment.end], segment.start)
            size = self._count([text[segment.start : segment.end]])[0]
            chosen = _best(scored, (room - spent) * size / max(size, tokens))
            kept += chosen
            tokens -= size
            if chosen:
                left = lead + cut_text(text, merge_words(text, chosen))
                spent += self._count([left])[0]
                self._plain.keep(left)
                self._asked.keep(left)
        return self._within(text, kept, room)

    def contrast(self, lead: str, segment: str, origin: int) -> list[Word]:
        """Return words of a segment with s_i = ppl(x_i | x_<i) - ppl(x_i | question, x_<i), as logs.

        `lead` is the white space before the segment, `origin` its start.
        """
        text, shift = lead + segment, origin - len(lead)
        plain, asked = self._plain.score(text), self._asked.score(text)
        scores = asked.logprobs - plain.logprobs
        spans = words(text, plain.spans)
        return [
            Word(Span(span.start + shift, span.end + shift), float(scores[own].mean()), len(own))
            for span, own in zip(spans, tokens_of(spans, plain.spans), strict=True)
            if own
        ]

    def _within(self, text: str, kept: Sequence[Word], room: int) -> list[Span]:
        """Return the pieces, without the worst words if the whole has more tokens than its parts."""
        best = sorted(kept, key=lambda word: -word.score)
        while best:
            pieces = merge_words(text, sorted(best, key=lambda word: word.span))
            surplus = self.cost(cut_text(text, pieces)) - room
            if surplus <= 0:
                return pieces
            while best and surplus > 0:
                surplus -= best.pop().tokens
        return []


def merge_words(text: str, kept: Sequence[Word]) -> list[Span]:
    """Merge words in order into spans, each word with one following character of white space."""
    pieces: list[Span] = []
    for word in kept:
        start, end = word.span.start, word.span.end
        if pieces and pieces[-1].end == start:
            start = pieces.pop().start
        pieces.append(Span(start, end + text[end : end + 1].isspace()))
    if pieces:
        pieces[-1] = Span(pieces[-1].start, kept[-1].span.end)
    return pieces


def cut_text(text: str, pieces: Sequence[Span]) -> str:
    """Return the text of the pieces, joined."""
    return "".join(text[piece.start : piece.end] for piece in pieces)


def _best(scored: Sequence[Word], room: float) -> list[Word]:
    """Return the words with the largest scores that fit, in text order."""
    chosen = []
    for word in sorted(scored, key=lambda word: -word.score):
        if word.tokens <= room:
            chosen.append(word)
            room -= word.tokens
    return sorted(chosen, key=lambda word: word.span)


def _node(passage: Node, pieces: Sequence[Span], reader: Reader) -> Node:
    text, origin = cut_text(passage.text, pieces), passage.sources[0].start
    return replace(
        passage,
        text=text,
        origin="compressed",
        tokens=max(1, reader.count_tokens([text])[0]),
        sources=tuple(Span(origin + piece.start, origin + piece.end) for piece in pieces),
    )


def _lead(text: str, segment: Span) -> str:
    """Return the white space between a segment and the text before it."""
    if segment.start == 0:
        return "\n"
    before = text[segment.start - 1]
    return before if before.isspace() else ""


def _line(text: str) -> str:
    return f"* {one_line(text)}\n"


def _clipped(ratio: float) -> float:
    return min(1.0, max(0.0, ratio))


def _checked_room(room: int, reader: Reader) -> int:
    if room < 1:
        raise QuestionTooLong(
            f"the question leaves no room for a passage in the context of {reader.name}, which "
            f"holds {reader.context_tokens} tokens; shorten it, or use a longer context"
        )
    return room


def scoring_of(reader: Reader) -> TextScoring:
    """Return a fresh scoring session with a reader, at a cost of zero so far.

    The reader is a `HuggingFaceLM`, or has a method `scoring()` that returns the equivalent of
    `TextScoring`. Raises `ReaderRequired` for any other.
    """
    if make := getattr(reader, "scoring", None):
        made: TextScoring = make()
        return made
    # why: torch is imported only if a model is needed
    from hwdag.lm.huggingface import HuggingFaceLM
    from hwdag_lab.methods.longllmlingua.likelihood import TextScoring

    if isinstance(reader, HuggingFaceLM):
        return TextScoring(reader)
    raise ReaderRequired(
        f"a {type(reader).__name__} has no scoring() for log-probabilities of texts; use HuggingFaceLM "
        "as the reader"
    )

"""Truncation from the middle: the first and the last half of the token budget.

LongBench (Bai et al., arXiv 2308.14508, section 4.1) truncates long texts this way, because the
beginning and the end hold most of the relevant text.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence

from hwdag.types import Document, Node, Span
from hwdag_lab.methods.document_retriever import DocumentRetriever
from hwdag_lab.methods.found import Found, Scored, SearchRequest, may_fit
from hwdag_lab.methods.passages import Whole

LONGEST_WORD = 32
"""Characters; longer runs without a space (Thai, data) are cut between characters."""

FIRST_REACH = 64  # words tried first; then twice as many until they do not fit

_RUN = re.compile(r"\S+")


class TruncateMiddleRetriever(DocumentRetriever[Whole]):
    """Both ends of every document, in document order, whatever the question.

    Documents share the budget in proportion to their tokens. Half of a share goes to the head, the
    rest to the tail; both are cut between words. If all documents fit, they stay whole.
    """

    name = "truncate-middle"
    uses = ("reader", "prompts")

    def _build(self, document: Document) -> Whole:
        return Whole.of(document, self.reader)

    def _retrieve(self, request: SearchRequest, built: Mapping[str, Whole]) -> Found:
        documents = list(built.values())
        texts = [document.node.text for document in documents]
        # why: encoding whole books is slow
        if (
            may_fit("\n".join(texts), request.budget)
            and sum(map(request.cost, texts)) <= request.budget
        ):
            return Found([Scored(document.node, 1.0) for document in documents])
        total = sum(document.node.tokens for document in documents)
        kept: list[list[Node]] = []
        for document in documents:
            spans = head_and_tail(
                document.node.text, request.budget * document.node.tokens // total, request.cost
            )
            kept.append(document.cut(spans, ("head", "tail"), self.reader) if spans else [])
        ranked = [Scored(node, 1.0) for nodes in kept for node in nodes]
        return Found(ranked, notes=tuple(_notes(kept)), left_out=True)


def head_and_tail(text: str, budget: int, cost: Callable[[str], int]) -> tuple[Span, Span] | None:
    """Return head and tail of a text that together cost at most `budget`.

    The head costs at most half of it, the tail at most the rest, and both are as long as possible.
    They do not overlap. None if one of them would be empty.
    """
    words = list(_words(text))
    first = largest_fitting(len(words) - 1, lambda n: cost(text[: words[n - 1].end]) <= budget // 2)
    if not first:
        return None
    head = Span(0, words[first - 1].end)
    rest = budget - cost(text[: head.end])
    last = largest_fitting(len(words) - first, lambda n: cost(text[words[-n].start :]) <= rest)
    return (head, Span(words[-last].start, len(text))) if last else None


def largest_fitting(limit: int, fits: Callable[[int], bool]) -> int:
    """Return the largest number from 1 to `limit` that fits, if all smaller ones do; else 0."""
    reach = FIRST_REACH
    while reach < limit and fits(reach):
        reach *= 2
    numbers = range(1, min(reach, limit) + 1)
    return bisect_left(numbers, True, key=lambda n: not fits(n))


def _words(text: str) -> Iterator[Span]:
    for run in _RUN.finditer(text):
        # why: East Asian scripts, whose characters are wide, have no spaces between words
        wide = any(unicodedata.east_asian_width(char) == "W" for char in run[0])
        if wide or len(run[0]) > LONGEST_WORD:
            yield from _characters(text, *run.span())
        else:
            yield Span(*run.span())


def _characters(text: str, start: int, end: int) -> Iterator[Span]:
    """Yield single characters with their combining marks."""
    for i in range(start + 1, end):
        if unicodedata.category(text[i])[0] != "M":
            yield Span(start, i)
            start = i
    yield Span(start, end)


def _notes(kept: Sequence[Sequence[Node]]) -> Iterator[str]:
    cut = sum(bool(nodes) for nodes in kept)
    if cut:
        yield f"the middle of {cut} of {len(kept)} documents was left out"
    if cut < len(kept):
        yield f"{len(kept) - cut} of {len(kept)} documents had too small a share to be read at all"

"""Truncation from the middle: the first and the last half of the token budget.

LongBench (Bai et al., arXiv 2308.14508, section 4.1) truncates what exceeds a context in this way,
because the beginning and the end of a text are where most of what matters stands.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence

from hwdag.types import Document, Node, Span
from hwdag_lab.methods.document_retriever import DocumentRetriever
from hwdag_lab.methods.found import Found, Scored, SearchRequest, may_cost
from hwdag_lab.methods.passages import Whole

LONGEST_WORD = 32
"""Characters; a longer run without a space (Thai, a data blob) is cut between characters."""

FIRST_REACH = 64  # words that are measured first; then twice as many, until they do not fit

_RUN = re.compile(r"\S+")


class TruncateMiddleRetriever(DocumentRetriever[Whole]):
    """Both ends of every document, in the order of the documents, whatever the question.

    The budget is shared among the documents by their tokens. A document's share is for its head by
    one half, and for its tail by what the head left; both are cut between words. Documents that fit
    together are kept whole.
    """

    name = "truncate-middle"
    uses = ("reader", "prompts")

    def _build(self, document: Document) -> Whole:
        return Whole.of(document, self.reader)

    def _retrieve(self, query: SearchRequest, built: Mapping[str, Whole]) -> Found:
        documents = list(built.values())
        texts = [document.node.text for document in documents]
        # why: encoding whole books is slow
        if may_cost("\n".join(texts), query.budget) and sum(map(query.cost, texts)) <= query.budget:
            return Found([Scored(document.node, 1.0) for document in documents])
        total = sum(document.node.tokens for document in documents)
        kept: list[list[Node]] = []
        for document in documents:
            spans = ends(
                document.node.text, query.budget * document.node.tokens // total, query.cost
            )
            kept.append(document.cut(spans, ("head", "tail"), self.reader) if spans else [])
        ranked = [Scored(node, 1.0) for nodes in kept for node in nodes]
        return Found(ranked, notes=tuple(_notes(kept)), left_out=True)


def ends(text: str, budget: int, cost: Callable[[str], int]) -> tuple[Span, Span] | None:
    """Head and tail of a text whose costs together are at most `budget`.

    The head costs at most half of it and the tail at most the rest; neither can be a word longer.
    They are disjoint, and None where one of them would be empty.
    """
    words = list(_words(text))
    first = longest(len(words) - 1, lambda n: cost(text[: words[n - 1].end]) <= budget // 2)
    if not first:
        return None
    head = Span(0, words[first - 1].end)
    rest = budget - cost(text[: head.end])
    last = longest(len(words) - first, lambda n: cost(text[words[-n].start :]) <= rest)
    return (head, Span(words[-last].start, len(text))) if last else None


def longest(limit: int, fits: Callable[[int], bool]) -> int:
    """The largest number of 1 to `limit` that fits, where all smaller ones do; 0 if none does."""
    reach = FIRST_REACH
    while reach < limit and fits(reach):
        reach *= 2
    numbers = range(1, min(reach, limit) + 1)
    return bisect_left(numbers, True, key=lambda n: not fits(n))


def _words(text: str) -> Iterator[Span]:
    for run in _RUN.finditer(text):
        # why: wide characters are those of East Asian scripts, which have no spaces between words
        wide = any(unicodedata.east_asian_width(char) == "W" for char in run[0])
        if wide or len(run[0]) > LONGEST_WORD:
            yield from _characters(text, *run.span())
        else:
            yield Span(*run.span())


def _characters(text: str, start: int, end: int) -> Iterator[Span]:
    """Single characters, with the combining marks that follow them."""
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

"""The unit of text that a sentence needs to be understood, with which it is read (not in the papers).

A sentence is the right thing to find and often the wrong thing to read. Its unit is its paragraph; the
question that a paragraph or a turn of a conversation answers, or the answer after a question; the list
that an item is in, or the item below its lead and its parents; the clause above "(b)". A unit that is too
long is cut to the sentences next to the one that was found.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence

from hwdag.text.sentences import LineKind, blocks, is_question, sentences, trimmed
from hwdag.types import Span

LONGEST_UNIT = 1000
"""Characters of a unit, at most; a longer paragraph or list is cut to the text next to the sentence."""

SHORT_BLOCK = 200
"""Characters of a paragraph that needs the one before it, if it begins with a pronoun."""

_SPEAKER = r"(?:\*\*|__)?[^\W\d_a-z][^\n:|]{0,40}?(?:\*\*|__)?:(?:\*\*|__)?[ \t]"
_TURN = re.compile(rf"^{_SPEAKER}", re.M)
_CLAUSE = re.compile(r"[ \t]*\(?(?:[a-z]|[ivx]{1,5}|\d{1,2})[.)][ \t]")
_ASKS = re.compile(
    r"[ \t]*(?:\*\*|__)?(?:Q|Question|F|Frage|P|R)\b[\d .]{0,4}(?:\*\*|__)?[:.]", re.I
)
_REFERS = re.compile(
    r"\W*(?:he|she|it|they|this|that|these|those|his|her|its|their|there|then|so|but|however|because|"
    r"therefore|instead|also|both|such|er|sie|es|dies\w*|das|il|elle|cela|ce|ello|esto|eso)\b",
    re.I,
)


class Neighbours:
    """The units of a text; made in linear time."""

    def __init__(self, text: str) -> None:
        self._text = text
        found = [
            (span, kind)
            for block, first in blocks(text)
            for span, kind in self._turns(block, first)
            if len(span)
        ]
        self._blocks = [span for span, _ in found]
        self._kinds: list[LineKind] = [kind for _, kind in found]
        self._starts = [span.start for span in self._blocks]

    def unit(self, span: Span, most: int = LONGEST_UNIT) -> list[Span]:
        """Return the context of a slice of the text, itself included: ascending, disjoint spans.

        They have at most `most` characters, unless the slice has more.
        """
        if not self._blocks or not len(span):
            return [span]
        first = max(0, bisect_right(self._starts, span.start) - 1)
        last = max(first, bisect_right(self._starts, span.end - 1) - 1)
        own = range(first, last + 1)
        for wanted in self._wider(own):
            spans = joined(self._text, [span, *(self._blocks[i] for i in wanted)])
            if sum(map(len, spans)) <= most:
                return spans
        return self.near(span, most)

    def near(self, span: Span, most: int = LONGEST_UNIT) -> list[Span]:
        """Return a slice with the sentences of its paragraph next to it, as many as `most` characters hold.

        The one before comes first if the slice refers to it, the one after if the slice asks; those of the
        answer follow a question.
        """
        at = max(0, bisect_right(self._starts, span.start) - 1)
        if not self._blocks or self._kinds[at] == "row":
            return [span]
        parts = [
            Span(block.start + part.start, block.start + part.end)
            for block in (self._blocks[i] for i in [at, *self._answer(at)])
            for part in sentences(self._text[block.start : block.end])
        ]
        before = [part for part in parts if part.end <= span.start]
        after = [part for part in parts if part.start >= span.end]
        found, room = [span], most - len(span)
        back = not is_question(self._text[span.start : span.end])
        while before or after:
            take = before.pop() if before and (back or not after) else after.pop(0)
            back = not back
            if len(take) >= room:
                break
            room -= len(take) + 1  # the blank between them
            found.append(take)
        return joined(self._text, found)

    def is_opening(self, span: Span) -> bool:
        """Return whether a slice is a question or a heading, which the text after it answers or is about."""
        at = max(0, bisect_right(self._starts, span.end - 1) - 1)
        if not self._blocks or not self._answer(at):
            return False
        return self._kinds[at] == "heading" or is_question(self._text[span.start : span.end])

    def refers(self, span: Span) -> bool:
        """Return whether a slice begins with a pronoun or the like, so that it needs the text before it."""
        return _REFERS.match(self._text, span.start, span.end) is not None

    def _wider(self, own: range) -> Iterator[list[int]]:
        """Numbers of the blocks of a unit, the largest unit first."""
        kind = self._kinds[own[-1]]
        if kind in ("item", "continued") or self._is_clause(own[0]):
            yield self._list_of(own[0])
            yield [*self._above(own[0]), *own]
        elif kind == "heading":
            yield [*own, *self._after(own[-1])]
        elif kind != "row":
            before, after = self._before(own[0]), self._after(own[-1])
            yield [*before, *own, *after]
            yield [*own, *after[:1]]
            if not self._answer(own[-1]):
                yield [*before[-1:], *own]
        if not self._answer(own[-1]):
            yield list(own)

    def _before(self, at: int) -> list[int]:
        """Return the question that a paragraph answers, or the text that it refers to."""
        if not at or self._kinds[at - 1] in ("heading", "row", "rule"):
            return []
        is_short = len(self._blocks[at]) <= SHORT_BLOCK
        if self._asks(at - 1) or (is_short and self.refers(self._blocks[at])):
            return [at - 1]
        if at > 1 and self._asks(at - 2) and not self._is_turn(at):
            return [at - 2, at - 1]
        return []

    def _after(self, at: int) -> list[int]:
        """Return the answer to a question, or the text under a heading or a lead."""
        if at + 1 == len(self._blocks) or self._kinds[at + 1] == "heading":
            return []
        following = self._kinds[at + 1]
        leads = self._shown(at).endswith(":")
        if leads and following in ("item", "row"):
            found = [at + 1]
            while found[-1] + 1 < len(self._blocks) and self._kinds[found[-1] + 1] == following:
                found.append(found[-1] + 1)
            return found
        if self._asks(at) or self._kinds[at] == "heading":
            return [at + 1, *(self._after(at + 1) if self._shown(at + 1).endswith(":") else [])]
        return []

    def _answer(self, at: int) -> list[int]:
        """Return the text after a question or a heading."""
        opens = self._kinds[at] == "heading" or self._asks(at)
        return self._after(at) if opens else []

    def _list_of(self, at: int) -> list[int]:
        """Return the whole list that an item is in, with its lead."""
        first = last = at
        while first and self._is_item(first - 1):
            first -= 1
        while last + 1 < len(self._blocks) and self._is_item(last + 1):
            last += 1
        lead = [first - 1] if first and self._leads(first - 1) else []
        return [*lead, *range(first, last + 1)]

    def _above(self, at: int) -> list[int]:
        """Return the items that an item is below, and the lead of its list."""
        found, indent = list[int](), self._indent(at)
        while at and self._is_item(at - 1):
            at -= 1
            if self._indent(at) < indent:
                found.insert(0, at)
                indent = self._indent(at)
        if at and self._leads(at - 1):
            found.insert(0, at - 1)
        return found

    def _leads(self, at: int) -> bool:
        return self._kinds[at] == "prose" and (self._shown(at).endswith(":") or self._asks(at))

    def _is_item(self, at: int) -> bool:
        return self._kinds[at] in ("item", "continued") or self._is_clause(at)

    def _is_clause(self, at: int) -> bool:
        return self._kinds[at] == "prose" and _CLAUSE.match(self._shown(at)) is not None

    def _is_turn(self, at: int) -> bool:
        return _TURN.match(self._shown(at)) is not None

    def _asks(self, at: int) -> bool:
        shown = self._shown(at)
        return self._kinds[at] != "heading" and (is_question(shown) or bool(_ASKS.match(shown)))

    def _shown(self, at: int) -> str:
        block = self._blocks[at]
        return self._text[block.start : block.end]

    def _indent(self, at: int) -> int:
        start = self._blocks[at].start
        return start - (self._text.rfind("\n", 0, start) + 1)

    def _turns(self, block: Span, kind: LineKind) -> Iterator[tuple[Span, LineKind]]:
        """Yield a block without blanks around it; a conversation without blank lines turn by turn."""
        cuts = [block.start]
        if kind == "prose":
            turns = list(_TURN.finditer(self._text, block.start, block.end))
            if len(turns) > len({turn.group() for turn in turns}):  # somebody speaks twice
                cuts += [turn.start() for turn in turns if turn.start() > block.start]
        for start, end in zip(cuts, [*cuts[1:], block.end], strict=True):
            yield trimmed(self._text, start, end), kind


def joined(text: str, spans: Iterable[Span]) -> list[Span]:
    """Return spans in order, those that overlap or have only blanks between them as one."""
    found: list[Span] = []
    for span in sorted(spans):
        if found and (span.start <= found[-1].end or not text[found[-1].end : span.start].strip()):
            found[-1] = Span(found[-1].start, max(found[-1].end, span.end))
        else:
            found.append(span)
    return found


def without(text: str, spans: Sequence[Span], covered: Sequence[Span]) -> list[Span]:
    """Return the rest of spans without others, trimmed."""
    left = list(spans)
    for other in covered:
        left = [
            part
            for span in left
            for part in (
                trimmed(text, span.start, max(span.start, min(span.end, other.start))),
                trimmed(text, min(span.end, max(span.start, other.end)), span.end),
            )
            if len(part)
        ]
    return joined(text, left)

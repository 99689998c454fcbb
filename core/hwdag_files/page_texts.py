"""The texts of a PDF's pages as one text; a sentence may continue on the next page, past the notes."""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from dataclasses import dataclass

from hwdag.text.sentences import sentences
from hwdag_files.layout import LINE_END, SENTENCE_END

LONGEST_LINK = 4  # letters of the middle of a compound, such as "state-of-the-art"

_PARAGRAPH = "\n\n"
_DIVIDED = re.compile(rf"(-?)([^\W_]+)-[\n{LINE_END}]([^\W_]+)")
_LAST_PART, _FIRST_PART = re.compile(r"[^\W_]+-\Z"), re.compile(r"[^\W_]+")


@dataclass(frozen=True, slots=True)
class PageText:
    """The text of a page, and the notes at its foot."""

    text: str
    notes: str = ""


def joined(pages: Sequence[PageText], known: Set[str] = frozenset()) -> tuple[str, list[int]]:
    """Return the text of all pages, and the character at which each begins.

    A page with notes, whose last sentence continues on the next page, has the end of that sentence before the
    notes, and the next page begins after them. `known` has words of the text, in small letters.
    """
    text, starts = _Growing(), list[int]()
    last = notes = ""  # the text at the end, and the notes that are to follow it
    for page in pages:
        rest = page.text
        goes_on = rest[:1].islower() and last and not last.endswith(SENTENCE_END)
        if goes_on:
            text.link(last, rest, known)
            if notes:
                end = _sentence_end(last, rest)
                text.add(rest[:end].rstrip())
                rest = rest[end:].lstrip()
        if notes:
            text.add_paragraph(notes)
        if rest and (notes or not goes_on):
            text.add_paragraph()
        starts.append(text.length)
        text.add(rest)
        last = rest if rest or notes else last
        notes = page.notes
    if notes:
        text.add_paragraph(notes)
    return text.whole(), starts


class _Growing:
    """A text to which others are added."""

    def __init__(self) -> None:
        self._parts, self.length = list[str](), 0

    def add(self, text: str) -> None:
        """Add a text to the end."""
        if text:
            self._parts.append(text)
            self.length += len(text)

    def add_paragraph(self, text: str = "") -> None:
        """Begin a new paragraph, unless nothing is written yet."""
        self.add(_PARAGRAPH if self.length else "")
        self.add(text)

    def link(self, last: str, below: str, known: Set[str]) -> None:
        """Continue within a sentence, whose last word may be divided; `last` is the text that was added last."""
        first, second = _LAST_PART.search(last), _FIRST_PART.match(below)
        if not first or not second:
            self.add("\n")
        elif undivided(f"{first[0]}\n{second[0]}", known) == first[0][:-1] + second[0]:
            self._parts[-1] = self._parts[-1][:-1]
            self.length -= 1

    def whole(self) -> str:
        """Return the text."""
        return "".join(self._parts)


def _sentence_end(above: str, below: str) -> int:
    """Return the end, in the second text, of a sentence that begins in the first."""
    first = above.rpartition(_PARAGRAPH)[2]
    second = below.partition(_PARAGRAPH)[0]
    spans = sentences(f"{first}\n{second}")
    ends = [span.end - len(first) - 1 for span in spans if span.start < len(first) < span.end]
    return ends[0] if ends else 0


def undivided(text: str, known: Set[str]) -> str:
    """Put words together that the end of a line divides; `known` has words of the text, in small letters.

    A hyphen stays that the text has elsewhere, or that is one of a compound, a number or a name.
    """

    def whole(match: re.Match[str]) -> str:
        lead, first, second = match.groups()
        is_link = bool(lead) and len(first) <= LONGEST_LINK
        is_name = len(first) == 1 or not (first + second).isalpha() or not second[0].islower()
        if is_link or is_name or f"{first}-{second}".lower() in known:
            return f"{lead}{first}-{second}"
        return lead + first + second

    return _DIVIDED.sub(whole, text)

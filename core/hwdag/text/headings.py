"""The outline of a text: the heading and the paragraph of each passage.

A sentence taken out of its section has lost its subject; its heading gives that back, to the
embedding and to the words that are searched. Markdown headings, underlined ones, single
lines, and a title line above its paragraph (labelled, as in "Passage 3:", or not) are recognised.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any
from urllib.parse import unquote

from hwdag.text.entries import entries
from hwdag.text.items import Items
from hwdag.text.tables import fenced, tables, with_names
from hwdag.types import Node, Span

MAX_WORDS = 12  # a longer line is prose

MAX_CHARACTERS = 100

LONGEST_HEADING = 200
"""Characters of a Markdown heading that are kept: it precedes every passage of its section."""

MARKED = 2
"""A text with this many headings that are marked, by Markdown or underlined, has no others: its other short
lines are names, captions and the like."""

WRAPPED_WORDS = 5
"""A line with fewer words is no part of a sentence because a small letter follows: "Main results" may precede
a list."""

ABOVE = " > "  # between a heading and the one below it

PROSE_FACTOR = 2
"""A title line directly above prose is less than 1/2 of the length of the line that follows."""

_ATX = re.compile(r"#{1,6}[ \t]+")
_UNDERLINE = re.compile(r" {0,3}(?:=+|-+)[ \t]*$")
_LABEL = re.compile(r"\W*\w+(?:[ \t]+\w+){0,2}[ \t]*[:：]$")
_ENDS_PROSE = tuple(".!?,;:…—。！？，；：、।؟۔\"'”’»)")
_BRACKETS = (("(", ")"), ("[", "]"), ("{", "}"), ("（", "）"), ("【", "】"))
_NOT_A_TITLE = re.compile(r"[ \t]*(?:[-*+•|>]|\d{1,3}[.)][ \t]|```)")


@dataclass(frozen=True, slots=True)
class _Line:
    start: int
    end: int
    text: str  # stripped

    @property
    def blank(self) -> bool:
        return not self.text

    @property
    def short(self) -> bool:
        return 0 < len(self.text) <= MAX_CHARACTERS and len(self.text.split()) <= MAX_WORDS

    @property
    def title_like(self) -> bool:
        """Short, with a letter, and neither a sentence, the beginning of brackets, nor a list item."""
        return (
            self.short
            and any(map(str.isalpha, self.text))
            and not self.text.endswith(_ENDS_PROSE)
            and all(self.text.count(left) <= self.text.count(right) for left, right in _BRACKETS)
            and not _NOT_A_TITLE.match(self.text)
        )


PLAIN = 7
QUESTION = 8
"""Rank of a question above its answer."""

LONGEST_REPLY = 4
"""Paragraphs for each question, at most, in a list of questions; prose has more."""

_QUESTION = re.compile(r"[^\W_].{4,198}[?？؟]|(?:\*\*|__).{4,198}[?？؟](?:\*\*|__)")
_MARKS = re.compile(r"\*\*|__|^(?:Q|F|P|R|Question|Frage|Pregunta)[ \d]*[.:)]\s*", re.I)


@dataclass(frozen=True, slots=True)
class Section:
    """A heading with those above it, as in "Museum > Prices", and its text.

    `level` counts from 1, the sections that this one is in and itself. The span begins with the heading
    and ends before the next one that is not below it.
    """

    heading: str
    level: int
    span: Span


@dataclass(frozen=True, slots=True)
class _Heading:
    start: int  # of its label, if it has one
    end: int  # of its line, or of the line that underlines it
    title: str
    rank: int  # from 1, of one that is marked by Markdown or underlined; `PLAIN` of the others


class Outline:
    """The headings and paragraphs of a text; made in linear time. `title` is the heading above the text."""

    def __init__(self, text: str, title: str = "") -> None:
        self._text = text
        self._title = _bounded(" ".join(title.split()))
        self._headings = _headings(text)
        self._starts = [heading.start for heading in self._headings]
        self._tables = list(tables(text))
        self._items = Items(text)
        self._paths = _paths(self._headings, self._title)

    def heading_of(self, span: Span) -> str:
        """Return the heading that a span begins under, or begins with, after those above it.

        "Museum > Prices" for example, since other documents have prices, too; "" if there is none. The
        header of a Markdown table is the last heading of its rows: a number alone means nothing. So are the
        items that an item of an inner list belongs to.
        """
        i = bisect_right(self._starts, span.start)
        path = self._paths[i - 1] if i else self._title
        if items := self._items.above(span.start):
            parents = (item.replace(ABOVE, ">") for item in items)
            return _within([*filter(None, [*path.split(ABOVE), *parents])])
        at = bisect_right(self._tables, span.start, key=lambda table: table.start) - 1
        if at < 0 or span.start >= self._tables[at].end:
            return path
        names = self._tables[at].names.replace(ABOVE, ">")  # why: a part of a path has no such sign
        return _within([*filter(None, path.split(ABOVE)), _bounded(names)])

    def sections(self) -> list[Section]:
        """Return the sections of the text, in order; a section contains those below it."""
        levels, ends, open_ones = list[int](), [len(self._text)] * len(self._starts), list[int]()
        for i, heading in enumerate(self._headings):
            while open_ones and self._headings[open_ones[-1]].rank >= heading.rank:
                ends[open_ones.pop()] = heading.start
            open_ones.append(i)
            levels.append(len(open_ones))
        spans = map(Span, self._starts, ends)
        return list(map(Section, self._paths, levels, spans))

    def is_heading(self, span: Span) -> bool:
        """Return whether a span is nothing but a heading."""
        heading = self._last(span)
        if heading is None:
            return False
        return not any(map(str.isalnum, self._text[max(heading.end, span.start) : span.end]))

    def paragraphs_of(self, spans: Sequence[Span]) -> list[int]:
        """Return the number of the paragraph that each span begins in, counted from 1.

        Blank lines separate paragraphs, and each of the lines among `entries` is one; a heading belongs to the paragraph that follows.
        """
        starts = list(self._paragraph_starts())
        return [max(1, bisect_right(starts, span.start)) for span in spans]

    def _last(self, span: Span) -> _Heading | None:
        i = bisect_right(self._starts, span.start)
        return self._headings[i - 1] if i else None

    def _paragraph_starts(self) -> Iterator[int]:
        ends = {heading.start: heading.end for heading in self._headings}
        is_apart, below_heading, heading_end = True, False, 0
        lines = list(_lines(self._text))
        complete = entries([line for _, line in lines])
        for number, (start, line) in enumerate(lines):
            if start in ends:
                if not below_heading:
                    yield start
                below_heading, heading_end = True, ends[start]
            elif not line.strip():
                is_apart = True
            elif start >= heading_end:
                if (is_apart or number in complete) and not below_heading:
                    yield start
                is_apart = below_heading = False


def headings(text: str, spans: Sequence[Span], title: str = "") -> list[str]:
    """Return the heading of each span; see `Outline.heading_of`."""
    outline = Outline(text, title)
    return [outline.heading_of(span) for span in spans]


def in_context(heading: str, passage: str) -> str:
    """Prefix a passage with its headings, less the last if it contains that itself."""
    before = lead(heading, passage)
    return f"{before}: {passage}" if before else passage


def lead(heading: str, passage: str) -> str:
    """Return a heading after those above it, less the last if the passage contains it itself."""
    above, own = parted(heading)
    titles = above.split(ABOVE) if above else []
    if own not in passage:
        titles.append(own)
    # why colons: after " > " the default reader answers worse (benchmarks/own_documents.py)
    return ": ".join(titles)


def parted(heading: str) -> tuple[str, str]:
    """Return the headings above, and the last of those that `Outline.heading_of` returns."""
    above, _, own = heading.rpartition(ABOVE)
    return above, own


def read_texts(node: Node) -> tuple[str, str, str]:
    """Return the readings of a node: its text alone, after the last of its headings, and after all.

    A row of a Markdown table names its columns, in the place of the heading that has their names.
    """
    if node.origin == "generated":
        return node.text, node.text, node.text
    return _readings(node.text, node.heading)


@lru_cache(maxsize=1024)
def _readings(text: str, heading: str) -> tuple[str, str, str]:
    above, own = parted(heading)
    if (row := with_names(text, own)) != text:
        text, heading = row, above
    return text, in_context(parted(heading)[1], text), in_context(heading, text)


def searched_text(node: Node) -> str:
    """Return the indexed text of a node: a slice of a document after its headings."""
    return node.text if node.origin == "generated" else in_context(node.heading, node.text)


def _headings(text: str) -> list[_Heading]:
    lines = [_Line(start, start + len(line), line.strip()) for start, line in _lines(text)]
    blank = _Line(len(text), len(text), "")
    wrapped = _wrapped([line for line in lines if not line.blank])
    code = fenced([line.text for line in lines])
    found: list[_Heading] = []
    for i, line in enumerate(lines):
        if line.blank or i in code:
            continue
        before = lines[i - 1] if i else blank
        after = lines[i + 1] if i + 1 < len(lines) else blank
        if match := _ATX.match(line.text):
            title = line.text[match.end() :]
            bare = title.rstrip("#")  # signs that close the heading
            title = bare.rstrip() if bare[-1:] in ("", " ", "\t") else title
            rank = match.group().count("#")
            found.append(_Heading(line.start, line.end, _bounded(title), rank))
        elif line.short and before.short and _LABEL.fullmatch(before.text) and not after.blank:
            if i < 2 or lines[i - 2].blank:
                found.append(_Heading(before.start, line.end, line.text, PLAIN))
        elif line.title_like and before.blank and line.start not in wrapped:
            # alone in its block, underlined, or above a line that is clearly prose
            is_prose = len(after.text) > max(PROSE_FACTOR * len(line.text), MAX_CHARACTERS // 2)
            underlined = _UNDERLINE.fullmatch(after.text) is not None
            if after.blank or underlined or is_prose:
                end = after.end if underlined else line.end
                rank = (1 if after.text.startswith("=") else 2) if underlined else PLAIN
                found.append(_Heading(line.start, end, line.text, rank))
    marked = [heading for heading in found if heading.rank < PLAIN]
    found = found if len(marked) < MARKED else marked
    return sorted([*found, *_questions(lines, code, found)], key=lambda heading: heading.start)


def _questions(
    lines: Sequence[_Line], code: Collection[int], found: Sequence[_Heading]
) -> Iterator[_Heading]:
    """Yield the questions that are headings of their answers: in a section that is a list of them."""
    known = {heading.start for heading in found}
    asked, paragraphs = list[_Line](), 0
    for i, line in enumerate([*lines, _Line(0, 0, "")]):
        if i == len(lines) or line.start in known:
            if len(asked) >= MARKED and paragraphs <= LONGEST_REPLY * len(asked):
                for one in asked:
                    yield _Heading(one.start, one.end, _bounded(_MARKS.sub("", one.text)), QUESTION)
            asked, paragraphs = [], 0
            continue
        before = lines[i - 1] if i else line
        if line.blank or i in code or not (i == 0 or before.blank or before.start in known):
            continue
        paragraphs += 1
        following = next((one for one in lines[i + 1 : i + 3] if not one.blank), line)
        if _is_question(line) and not _is_question(following) and following.start not in known:
            asked.append(line)


def _is_question(line: _Line) -> bool:
    return _QUESTION.fullmatch(line.text) is not None


def _paths(found: Sequence[_Heading], title: str) -> list[str]:
    """Return every heading after those above it, the first of which is the title of the document."""
    whole = title.casefold()
    # why: if it is a marked heading, it is above those below it alone
    if any(heading.title.casefold() == whole for heading in found if heading.rank < PLAIN):
        title = whole = ""
    above, paths = list[_Heading](), list[str]()
    for heading in found:
        while above and above[-1].rank >= heading.rank:
            above.pop()
        above.append(heading)
        # why: a page is called "Prices - The museum" and begins with "The museum"
        between = [one.title for one in above[:-1] if one.title.casefold() not in whole]
        first = (between or [heading.title])[0].casefold()
        titles = ["" if whole in first else title, *between, heading.title]
        paths.append(_within(list(filter(None, titles))))
    return paths


def _within(titles: list[str]) -> str:
    """Return the last heading with as many above it as `LONGEST_HEADING` allows, the first before others."""
    while len(joined := ABOVE.join(titles)) > LONGEST_HEADING and len(titles) > 1:
        del titles[1 if len(titles) > 2 else 0]
    return joined


def _wrapped(lines: Sequence[_Line]) -> set[int]:
    """Return the starts of lines that are part of a longer sentence, even after blank lines.

    "Research did not uncover any evidence that", then "the copyright was renewed.", for example.
    """
    found: set[int] = set()
    for line, after in pairwise(lines):
        if len(line.text) > MAX_CHARACTERS or len(after.text) > MAX_CHARACTERS:
            continue
        words = line.text.split()
        capitals = sum(word[0].isupper() for word in words)
        if not _is_small(after.text.split()[0]) or after.text.startswith(line.text):
            continue
        if not line.text.endswith(_ENDS_PROSE):
            found.add(after.start)
        if len(words) >= WRAPPED_WORDS and _is_small(words[-1]) and 2 * capitals < len(words):
            found.add(line.start)
    return found


def _is_small(word: str) -> bool:
    return word[0].islower() and word.islower()


def _bounded(title: str) -> str:
    """Return the words of a heading that are within `LONGEST_HEADING`."""
    if len(title) <= LONGEST_HEADING:
        return title
    head = title[: LONGEST_HEADING + 1]
    cut = max(head.rfind(" "), head.rfind("\t"))
    return head[: cut if cut > 0 else LONGEST_HEADING].rstrip()


def _lines(text: str) -> Iterator[tuple[int, str]]:
    start = 0
    for line in text.splitlines(keepends=True):
        yield start, line
        start += len(line)


def title_from(metadata: Mapping[str, Any], fields: Sequence[str]) -> str:
    """Return the title of a document from the first of these metadata fields that has one, else "".

    A text under "title" is taken as it is, of any other (a path, an address) the last part, without
    its suffix and with blanks for underscores.
    """
    for name in fields:
        value = metadata.get(name)
        if isinstance(value, str):
            title = value.strip() if name == "title" else _last_part(value)
            if title:
                return title
    return ""


def _last_part(name: str) -> str:
    last = re.split(r"[/\\]", unquote(name).rstrip("/\\ "))[-1]
    return re.sub(r"[_\s]+", " ", re.sub(r"\.\w{1,8}$", "", last)).strip()

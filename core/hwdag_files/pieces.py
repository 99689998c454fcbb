"""The words of a PDF's page as pieces of lines, and these as lines.

A piece has words that are next to each other. Sizes are in points, 1/72 inch.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from operator import attrgetter

from hwdag_files.words import WIDE_GAP, WORD_GAP, Word

Column = tuple[float, float]  # start and end

NARROW_GAP = 0.5
"""Narrow blank space that separates cells if those of other rows are further apart."""

RAISED_SIZE = 0.85
"""Largest type of marks of notes, exponents and indices, relative to that of their word."""

ROWS_NEAR = 4  # above and below, among which that word is looked for; columns may have two each

LEADER = " … "  # in a table of contents
_LEADER = re.compile(r"\s*(?:\.\s?){5,}\s*")
_RAISED = str.maketrans("0123456789+-−", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻")
_SYMBOLS = str.maketrans(
    {0xF0A7: "▪", 0xF0A8: "▪", 0xF0B7: "•", 0xF0D8: "‣", 0xF0FC: "✓"}
)  # of Wingdings and Symbol, which word processors write lists with
_HYPHEN = re.compile("[\u00ad\u2010]")  # as Typst and browsers print it
_UNKNOWN = re.compile("\ufffd")  # letters that the font does not name


@dataclass(frozen=True, slots=True)
class Piece:
    """Words next to each other, or a table with lines (its `rows`)."""

    text: str
    x0: float
    x1: float
    top: float
    bottom: float
    size: float
    is_bold: bool = False
    rows: tuple[tuple[str, ...], ...] = ()
    columns: tuple[Column, ...] = ()  # of its rows
    parts: tuple[Piece, ...] = ()  # between narrow gaps, if it has any

    def moved(self, down: float) -> Piece:
        """Return the piece at another height."""
        return replace(self, top=self.top + down, bottom=self.bottom + down) if down else self


@dataclass(frozen=True)
class Line:
    """Pieces on one baseline of a column."""

    pieces: tuple[Piece, ...]

    @cached_property
    def text(self) -> str:
        """Words, from left to right."""
        return " ".join(piece.text for piece in self.pieces)

    @cached_property
    def first(self) -> Piece:
        """The left side of the line."""
        return self.pieces[0]

    @property
    def x1(self) -> float:
        """The right side of the line."""
        return self.pieces[-1].x1

    @cached_property
    def is_bold(self) -> bool:
        """Whether all of it is bold."""
        return all(piece.is_bold for piece in self.pieces)


def cell_text(words: Sequence[Word]) -> str:
    """Return the words of a cell, line by line."""
    if len({word.bottom for word in words}) == 1:  # why: most cells have one line, and it is faster
        return _piece(sorted(words, key=attrgetter("x0")), 0.0).text
    return "\n".join(line.text for line in lines_of(list(pieces_of(words))))


def pieces_of(words: Sequence[Word]) -> Iterator[Piece]:
    """Words of a baseline with no wide gap between them; the size is that of most letters."""
    rows = list[list[Word]]()
    for word in sorted(words, key=lambda word: (word.bottom, word.x0)):
        near = rows and abs(word.bottom - rows[-1][0].bottom) < 0.3 * word.size
        if near:
            rows[-1].append(word)
        else:
            rows.append([word])
    for row in _with_raised(rows):
        top = min(word.top for word in row)  # why: pieces are sorted by it
        for words in _apart(sorted(row, key=attrgetter("x0")), WIDE_GAP):
            parts = tuple(_piece(part, top) for part in _apart(words, NARROW_GAP))
            yield replace(_piece(words, top), parts=parts) if len(parts) > 1 else parts[0]


def _apart(words: Iterable[Word], gap: float) -> Iterator[list[Word]]:
    """Words with no such gap between them; it is in sizes of their type."""
    run = list[Word]()
    for word in words:
        if run and word.x0 - run[-1].x1 > gap * max(word.size, run[-1].size):
            yield run
            run = []
        run.append(word)
    yield run


def _with_raised(rows: Iterable[list[Word]]) -> Iterable[list[Word]]:
    """Return the rows, in which marks of notes, exponents and indices are at their word."""
    rows = [sorted(row, key=attrgetter("x0")) for row in rows]
    sizes = {word.size for row in rows for word in row}
    if not sizes or min(sizes) >= RAISED_SIZE * max(sizes):
        return rows
    whole = [list[Word]() for _ in rows]
    for at, row in enumerate(rows):
        for before, word, after in zip([None, *row], row, [*row[1:], None], strict=False):
            there = at
            # why: small type next to more of it is a line of its own
            if all(one is None or _blank(one, word) > 0.5 * word.size for one in (before, after)):
                there, word = _at_its_base(rows, at, word)
            whole[there].append(word)
    return filter(None, whole)


def _at_its_base(rows: Sequence[list[Word]], at: int, word: Word) -> tuple[int, Word]:
    """Return the row of the word next to which this one is raised or lowered, and its place there."""
    for there in range(max(0, at - ROWS_NEAR), min(len(rows), at + ROWS_NEAR + 1)):
        near = bisect_left(rows[there], word.x0, key=attrgetter("x0"))
        for base in rows[there][max(0, near - 1) : near + 1]:
            if _is_small_beside(word, base):
                is_raised = word.bottom < base.bottom
                # why: else they were digits of a number before them
                text = word.text.translate(_RAISED) if is_raised else word.text
                return there, word._replace(text=text, top=base.top, bottom=base.bottom)
    return at, word


def _is_small_beside(word: Word, base: Word) -> bool:
    size, middle = base.size, (word.top + word.bottom) / 2
    return (
        0.4 * size < word.size < RAISED_SIZE * size
        and abs(_blank(word, base)) < 0.4 * size
        and base.top - 0.2 * size < middle < base.bottom + 0.2 * size
    )


def _blank(one: Word, other: Word) -> float:
    return max(one.x0 - other.x1, other.x0 - one.x1)


def _piece(words: Sequence[Word], top: float) -> Piece:
    text = words[0].text
    for last, word in pairwise(words):
        # why not always: a change of type cuts a word, too
        is_apart = word.is_after_blank or last.is_before_blank
        is_apart = is_apart or word.x0 - last.x1 > WORD_GAP * word.size
        text += f" {word.text}" if is_apart else word.text
    sizes, bold = Counter[float](), 0
    for word in words:
        sizes[word.size] += len(word.text)
        bold += len(word.text) if word.is_bold else 0
    return Piece(
        _readable(text),
        words[0].x0,
        words[-1].x1,
        top,
        max(word.bottom for word in words),
        round(sizes.most_common(1)[0][0], 1),
        bold > len(text) / 2,
    )


def _readable(text: str) -> str:
    if "...." in text or ". ." in text:
        text = _LEADER.sub(LEADER, text)
    return text if text.isascii() else _HYPHEN.sub("-", _UNKNOWN.sub("", text)).translate(_SYMBOLS)


def lines_of(pieces: Sequence[Piece]) -> Iterator[Line]:
    """Pieces that follow each other on a baseline."""
    held = list[Piece]()
    for piece in pieces:
        if held and (
            piece.rows
            or held[-1].rows
            or abs(piece.bottom - held[-1].bottom) > 0.3 * piece.size
            or piece.x0 < held[-1].x1
        ):
            yield Line(tuple(held))
            held = []
        held.append(piece)
    if held:
        yield Line(tuple(held))


def gap_between(above: Line, below: Line) -> float:
    """Blank space between two lines; below 0 if they overlap, as side by side."""
    return below.first.top - above.first.bottom

"""One page of a PDF as blocks in reading order, from its letters and the lines of its tables.

    letters -> words -> pieces of lines -> columns -> lines -> blocks: headings, paragraphs, rows of tables

A PDF gives the place of each letter and no structure. Sizes are in points, 1/72 inch.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, pairwise
from statistics import median
from typing import Literal
from unicodedata import bidirectional

import numpy as np

from hwdag.text.tables import names_columns, table_lines
from hwdag_files.checks import with_checks
from hwdag_files.content import UnreadableError
from hwdag_files.footnotes import begins_note, note_lines
from hwdag_files.initials import with_initials
from hwdag_files.letters import Integers, Points
from hwdag_files.line_numbers import without_line_numbers
from hwdag_files.open_tables import (
    BULLET,
    CAPTION,
    CELL_CHARACTERS,
    HEADING_TYPE_RATIO,
    open_tables,
)
from hwdag_files.pdfium import PageReader, View
from hwdag_files.pieces import (
    LEADER,
    Column,
    Line,
    Piece,
    cell_text,
    gap_between,
    lines_of,
    pieces_of,
)
from hwdag_files.ruled_tables import Cell, ruled_tables
from hwdag_files.strokes import with_struck
from hwdag_files.watermarks import Mark, part_marks
from hwdag_files.words import Word, words_of

Kind = Literal["heading", "paragraph", "rows", "note"]
Key = tuple[int, str, int | None]  # common to lines of different pages, see `_keys`

PROSE_CHARACTERS = 18  # of a typical line of a text column; cells of tables have fewer
COLUMN_LINES = 4  # at least, on both sides of the space between two columns
CROSSING_SHARE = (
    0.3  # share of a page's lines that may cross that space, such as titles and figures
)
HEADING_CHARACTERS = 160
LONGEST_HEADING = 3  # lines of bold type; more are a paragraph
MOST_TURNED = 0.05  # share of a page's letters that may be left out, as a stamp over the text
MOST_LEFTWARD = 0.2  # share of letters from right to left, as words in a text of another language
SAME_COLUMN = 4.0  # distance of the columns of a table that continues on the next page
MARGIN = 0.1  # of a page's height, above and below, for running headers and footers

MOST_PIECES = 2000
"""Pieces among which columns are looked for: it takes more than linear time, and a map may have any number."""

MOST_NUMBERS = 20  # numbers of a line in the margin, one of which may be that of its page

_NUMBER = re.compile(
    r"(?<!\d)(?<!\d[.,:/-])\d{1,5}(?!\d|[.,:-]\d|/\d+/)|\b[ivxl]{1,6}\b",  # not within dates and amounts
    re.I,
)
_ROMAN = {
    tens + ones: 10 * i + j
    for i, tens in enumerate(("", "x", "xx", "xxx", "xl"))
    for j, ones in enumerate(("", "i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix"))
    if tens or ones
}
LONG_HEADER = 20  # letters of a header in larger type, at least
LINE_END = "\u00ad"  # marks a hyphen in a cell, until it is known whether it divides a word
_LINE_END = re.compile(r"(?<=\w)[-\u00ad\u2010]\n")
SENTENCE_END = tuple('.!?:;…。！？"”’»)')
_DASHES = re.compile("[-=_–—]*")  # a printed line
_PAGE_NUMBER = re.compile(
    r"\W*(?:page|seite|p\.|s\.|página|pagina|sida|side)?\s*(?:\d{1,4}|[ivxl]{1,6})"
    r"(?:\s*(?:/|of|von|de|av|sur)\s*\d{1,4})?\W*",
    re.I,
)


@dataclass(slots=True)
class Block:
    """A block of a page; a table has a line for each row."""

    kind: Kind
    lines: list[str]
    size: float = 0.0
    names: list[str] = field(default_factory=list)  # of a table's columns
    columns: Sequence[Column] = ()


@dataclass(frozen=True, slots=True)
class PageLines:
    """A page's lines, before body font size and running headers are known."""

    lines: tuple[Line, ...]
    height: float
    has_pictures: bool = False
    outline: frozenset[str] = field(default_factory=frozenset)  # titles that lead here, `plain`
    left_out: Counter[str] = field(default_factory=Counter)  # letters, by the reason
    marks: tuple[Mark, ...] = ()
    letters: int = 0
    unknown: int = 0  # of them, since their fonts do not name them

    @property
    def characters(self) -> Counter[float]:
        """Characters by the size of their type."""
        sizes = Counter[float]()
        for line in self.lines:
            for piece in line.pieces:
                sizes[piece.size] += len(piece.text)
        return sizes

    def margins(self, body: float) -> Iterator[tuple[Line, bool]]:
        """Lines of the margins that may run, with whether they are in larger type; no rows of the page's tables."""
        found = [line for line in self.lines if self._is_in_margin(line)]
        rows = self._rows() if found else set()
        for line in found:
            if id(line) not in rows:
                # why the longest: the number of the page may be in larger type
                size = max(line.pieces, key=lambda piece: len(piece.text)).size
                yield line, size >= HEADING_TYPE_RATIO * body

    def _is_in_margin(self, line: Line) -> bool:
        above, below = MARGIN * self.height, (1 - MARGIN) * self.height
        piece = line.first
        return not piece.rows and (piece.bottom < above or piece.top > below)

    def _rows(self) -> set[int]:
        """Return the `id` of each line of the tables without lines that are not in a margin as a whole."""
        found = set[int]()
        for start, table in open_tables(self.lines).items():
            lines = self.lines[start : table.end]
            if not all(map(self._is_in_margin, lines)):
                found.update(map(id, lines))
        return found


def page_lines(page: PageReader, outline: Iterable[str] = ()) -> PageLines:
    """Read a page's lines in reading order.

    Letters that run in another direction than most of the page follow the others; a few of them, as
    of a stamp over the text, are left out.

    Raises:
        UnreadableError: reading from left to right and line by line gives garbage.
    """
    signs = zip(*np.unique(page.codes, return_counts=True), strict=True)
    leftward = sum(count for code, count in signs if bidirectional(chr(code)) in ("R", "AL"))
    if leftward > MOST_LEFTWARD * len(page.codes):
        raise UnreadableError("its text runs from right to left")
    ordered, marks = list[Piece](), list[Mark]()
    height, counted, is_read = 0.0, 0, np.zeros(len(page.codes), bool)
    for number, (quarter, chosen) in enumerate(page.views()):
        if number and chosen.sum() <= MOST_TURNED * len(page.codes):
            break
        is_read |= chosen
        view = page.view(quarter, chosen)
        pieces, found, numbers = _pieces(view)
        marks, counted = [*marks, *found], counted + numbers
        ordered += (piece.moved(height) for piece in _ordered(pieces))
        height += view.height
    return PageLines(
        tuple(lines_of(ordered)),
        height,
        page.drawing.has_pictures,
        frozenset(map(plain, outline)),
        page.left_out(is_read) + Counter({"numbers that count the lines": counted}),
        tuple(marks),
        len(page.codes),
        page.unknown,
    )


def recognised_lines(words: Sequence[Word], height: float) -> PageLines:
    """Return the lines of a page that is a picture, in reading order, from words that were recognised."""
    ordered = list(_ordered(list(pieces_of(words))))
    return PageLines(tuple(lines_of(ordered)), height, has_pictures=True)


def _pieces(view: View) -> tuple[list[Piece], list[Mark], int]:
    """Return the words of a page as pieces of lines, with its tables that have lines.

    Possible watermarks are returned separately; line numbers are counted and left out.
    """
    tables, cells = list[list[Cell]](), np.full(len(view.letters), -1)
    inked = ~view.letters.is_blank
    middles = view.letters.boxes.reshape(-1, 2, 2).mean(axis=1)
    for table in ruled_tables(view.rules):
        found = _cells_of(middles, table)
        filled = len(np.unique(found[inked & (found >= 0)]))
        if _is_table(table, filled):
            cells[found >= 0] = found[found >= 0] + sum(map(len, tables))
            tables.append(table)
    words = defaultdict[int, list[Word]](list)
    whole = with_checks(with_initials(words_of(view.letters, cells)), view.checks)
    for word in with_struck(list(whole), view.rules):
        words[word.cell].append(word)
    text, marks = part_marks(words[-1])
    text, numbers = without_line_numbers(text)
    pieces, first = list(pieces_of(text)), 0
    for table in tables:
        texts = [cell_text(words[first + number]) for number in range(len(table))]
        pieces.append(_ruled(table, texts))
        first += len(table)
    return pieces, marks, numbers


def _cells_of(middles: Points, table: Sequence[Cell]) -> Integers:
    """Return the cell in which each point is, or -1."""
    found = np.full(len(middles), -1)
    x, y = middles.T
    left, top, right, bottom = np.array(table).T
    near = np.flatnonzero(
        (x >= left.min()) & (x < right.max()) & (y >= top.min()) & (y < bottom.max())
    )
    for number, (x0, y0, x1, y1) in enumerate(table):
        within = (x[near] >= x0) & (x[near] < x1) & (y[near] >= y0) & (y[near] < y1)
        found[near[within]] = number
    return found


def _is_table(cells: Sequence[Cell], filled: int) -> bool:
    """Return whether cells are a table; most cells of a drawing are empty."""
    rows, columns = ({cell[side] for cell in cells} for side in (1, 0))
    return min(len(rows), len(columns)) > 1 and 2 * filled >= len(rows) * len(columns)


def _ruled(cells: Sequence[Cell], texts: Sequence[str]) -> Piece:
    """Return a table whose cells have lines around them."""
    left, right = (sorted({cell[side] for cell in cells}) for side in (0, 2))
    rows = defaultdict[float, dict[float, str]](dict)
    for (x0, top, _, _), text in zip(cells, texts, strict=True):
        rows[top][x0] = text
    return Piece(
        "",
        left[0],
        right[-1],
        min(rows),
        max(cell[3] for cell in cells),
        0.0,
        rows=tuple(tuple(row.get(x, "") for x in left) for _, row in sorted(rows.items())),
        columns=tuple(pairwise([*left, right[-1]])),
    )


def without_marks(pages: Mapping[int, PageLines]) -> dict[int, PageLines]:
    """Leave out watermarks: marks over the text, or at one place on several pages."""
    found = defaultdict[str, list[tuple[int, Mark]]](list)
    for number, page in pages.items():
        for mark in page.marks:
            found[mark.line.text].append((number, mark))

    def is_left_out(mark: Mark, number: int) -> bool:
        others = (other for at, other in found[mark.line.text] if at != number)
        return mark.is_over_text or any(map(mark.is_at_place_of, others))

    return {
        number: _without(page, [mark for mark in page.marks if is_left_out(mark, number)])
        for number, page in pages.items()
    }


def _without(page: PageLines, left_out: Sequence[Mark]) -> PageLines:
    """Return a page with the marks that are no watermarks as lines."""
    if not page.marks:
        return page
    lines, letters = list(page.lines), page.left_out.copy()
    for mark in page.marks:
        if mark in left_out:
            letters["letters of a mark across the page"] += len(mark.line.text.replace(" ", ""))
        else:
            top = mark.line.first.top
            at = next((i for i, line in enumerate(lines) if line.first.top > top), len(lines))
            lines.insert(at, mark.line)
    return replace(page, lines=tuple(lines), left_out=letters, marks=())


def blocks_of(
    page: PageLines, body: float, running: Iterable[Line], before: Block | None = None
) -> list[Block]:
    """Put lines together; `body` is the size of the text's type, `running` lines are left out.

    Notes at the foot of the page or of its columns come last. A table at the top continues with the names
    of the columns of `before`, the last block of the page before, if it has the same columns.
    """
    left_out = set(map(id, running))
    lines = [line for line in page.lines if id(line) not in left_out]
    notes = note_lines(lines, body, page.height)
    text = [line for at, line in enumerate(lines) if at not in notes]
    blocks = _blocks(text, page, body, before)
    if not blocks or blocks[-1].kind == "heading":
        return _blocks(lines, page, body, before)
    return [*blocks, *_notes([lines[at] for at in notes])]


def _notes(lines: Iterable[Line]) -> Iterator[Block]:
    note = Block("note", [])
    for line in lines:
        if begins_note(line) and note.lines:
            yield note
            note = Block("note", [])
        note.lines.append(line.text)
    if note.lines:
        yield note


def _blocks(
    lines: Sequence[Line], page: PageLines, body: float, before: Block | None
) -> list[Block]:
    blocks, tables = list[Block](), open_tables(lines)
    at = 0
    while at < len(lines):
        line = lines[at]
        if line.first.rows:
            above = None if blocks else before
            blocks.append(_table(line.first.rows, line.first.columns, None, above))
            at += 1
        elif table := tables.get(at):
            above = None if blocks or table.is_named else before
            blocks.append(_table(table.rows, table.columns, table.has_header, above))
            at = table.end
        else:
            kind: Kind = "heading" if _is_heading(lines, at, page, body) else "paragraph"
            begins = _begins_heading if kind == "heading" else _begins
            if blocks and blocks[-1].kind == kind and not begins(lines, at):
                blocks[-1].lines.append(line.text)
            else:
                blocks.append(Block(kind, [line.text], line.first.size))
            at += 1
    for block in blocks:
        if block.kind == "heading" and len(block.lines) > 1 and _is_lead(block.lines):
            block.kind = "paragraph"
    return blocks


def _is_lead(lines: Sequence[str]) -> bool:
    """Return whether lines in large type are sentences rather than a heading."""
    length = sum(map(len, lines))
    return length > 2 * HEADING_CHARACTERS or (
        length > HEADING_CHARACTERS / 2 and lines[-1].endswith(SENTENCE_END[:1])
    )


def plain(text: str) -> str:
    """Letters and digits alone, to compare titles."""
    return "".join(filter(str.isalnum, text.lower()))


def _table(
    rows: Iterable[Sequence[str]],
    columns: Sequence[Column],
    has_header: bool | None,
    above: Block | None,
) -> Block:
    """Rows with the names of their columns, which may be those of the table `above`."""
    whole = (
        [" ".join(_LINE_END.sub(f"-{LINE_END}", cell).split()) for cell in row] for row in rows
    )
    filled = [row for row in whole if not all(map(_DASHES.fullmatch, row))]
    if not filled:  # letters that no font names
        return Block("rows", [])
    names = filled[0] if has_header or (has_header is None and names_columns(filled)) else []
    lines = table_lines(filled, has_header=bool(names))
    if above and above.names and _are_alike(above.columns, columns):
        if filled[0] != above.names:  # why not all lines: the names are not printed here
            lines = table_lines([above.names, *filled], has_header=True)[-len(filled) :]
        names = above.names
    return Block("rows", lines, names=names, columns=columns)


def _are_alike(above: Sequence[Column], below: Sequence[Column]) -> bool:
    """Return whether each column has its left side, its right side or its middle at the same place."""
    return len(above) == len(below) and all(
        min(abs(a - c), abs(b - d), abs(a + b - c - d) / 2) < SAME_COLUMN
        for (a, b), (c, d) in zip(above, below, strict=True)
    )


def _ordered(pieces: Sequence[Piece]) -> Iterator[Piece]:
    """Yield pieces in reading order: those over all columns, and between them column by column."""
    pieces = sorted(pieces, key=lambda piece: (piece.top, piece.x0))
    tables = list(_number_tables(pieces))
    cells = {id(cell) for table in tables for cell in table}
    others = [piece for piece in pieces if id(piece) not in cells]
    x = _gutter(others)
    if x is None:  # why not at once: a gap that is as narrow follows the marks of a list too
        x = _gutter(others, is_narrow=True)
    if x is None:
        yield from pieces
        return
    across = {
        id(cell)
        for table in tables
        if min(cell.x0 for cell in table) < x < max(cell.x1 for cell in table)
        for cell in table
    }
    band = list[Piece]()
    for piece in pieces:
        if id(piece) in across or (piece.x0 < x < piece.x1 and len(_split(piece, x)) == 1):
            yield from _columns(band, x)
            yield piece
            band = []
        else:
            band.extend(_split(piece, x))
    yield from _columns(band, x)


def _number_tables(pieces: Sequence[Piece]) -> Iterator[list[Piece]]:
    """Yield the cells of tables of numbers, which may be above or between columns of prose."""
    lines = list(lines_of(pieces))
    for start, table in open_tables(lines).items():
        cells = [piece for line in lines[start : table.end] for piece in line.pieces]
        # why so strict: the lines of two columns, or a table in each, look like one over both
        is_short = all(len(cell.text) <= CELL_CHARACTERS for cell in cells)
        if table.has_header and len(table.columns) > 2 and is_short:
            yield cells


def _columns(band: Sequence[Piece], x: float) -> Iterator[Piece]:
    yield from _ordered([piece for piece in band if piece.x1 <= x])
    yield from _ordered([piece for piece in band if piece.x0 >= x])


def _gutter(pieces: Sequence[Piece], *, is_narrow: bool = False) -> float | None:
    """Return the space between two columns of prose that the fewest pieces go over; None without columns."""
    best: tuple[int, float] | None = None
    starts = [part for piece in pieces for part in (piece.parts if is_narrow else (piece,))]
    if len(starts) > MOST_PIECES:
        return None
    for x in sorted({round(part.x0) - 1.0 for part in starts}):
        parts = [part for piece in pieces for part in _split(piece, x)] if is_narrow else pieces
        left = [part for part in parts if part.x1 <= x]
        right = [part for part in parts if part.x0 >= x]
        crossing = len(parts) - len(left) - len(right)
        if (
            min(len(left), len(right)) >= COLUMN_LINES
            and crossing <= CROSSING_SHARE * len(pieces)
            and (best is None or crossing < best[0])
            and all(_is_prose(side) for side in (left, right))
            and (not is_narrow or all(_is_column(side, parts) for side in (left, right)))
        ):
            best = crossing, x
    return None if best is None else best[1]


def _split(piece: Piece, x: float) -> tuple[Piece, ...]:
    """Return the parts left and right of a place, if the piece has a gap there; else the piece."""
    if not piece.x0 < x < piece.x1 or any(
        part.x0 < x < part.x1 for part in piece.parts or (piece,)
    ):
        return (piece,)
    halves = [p for p in piece.parts if p.x1 <= x], [p for p in piece.parts if p.x0 >= x]
    return tuple(
        replace(
            half[0],
            text=" ".join(part.text for part in half),
            x1=half[-1].x1,
            parts=tuple(half) if len(half) > 1 else (),
        )
        for half in halves
    )


def _is_prose(pieces: Sequence[Piece]) -> bool:
    return median(len(piece.text) for piece in pieces) >= PROSE_CHARACTERS


def _is_column(pieces: Sequence[Piece], page: Sequence[Piece]) -> bool:
    """Return whether pieces are enough of a page, and letters: a dump of bytes has columns of its own."""
    text = "".join(piece.text for piece in pieces)
    return 6 * len(pieces) > len(page) and 2 * sum(map(str.isalpha, text)) > len(text)


def _is_heading(lines: Sequence[Line], at: int, page: PageLines, body: float) -> bool:
    line = lines[at]
    if not any(map(str.isalpha, line.text)) or len(line.text) > HEADING_CHARACTERS:
        return False
    if LEADER in line.text:
        return False
    if plain(line.text) in page.outline or line.first.size >= HEADING_TYPE_RATIO * body:
        return True
    if not line.is_bold:
        return False
    first, end = at, at + 1
    while first and end - first <= LONGEST_HEADING and _continues(lines, first):
        first -= 1
    while end < len(lines) and end - first <= LONGEST_HEADING and _continues(lines, end):
        end += 1
    is_alone = end == len(lines) or not lines[end].is_bold
    is_sentence = (
        lines[end - 1].text.endswith((".", ",", ";", ":")) or lines[first].text[:1].islower()
    )
    return is_alone and end - first <= LONGEST_HEADING and not is_sentence


def _continues(lines: Sequence[Line], at: int) -> bool:
    """Return whether a bold line is the next one of the same heading."""
    return lines[at - 1].is_bold and lines[at].is_bold and not _begins_heading(lines, at)


def _begins_heading(lines: Sequence[Line], at: int) -> bool:
    """Return whether a heading begins with a line that follows one of another heading."""
    before, line = lines[at - 1], lines[at]
    size = line.first.size
    return before.first.size != size or not 0 <= gap_between(before, line) < 0.6 * size


def _begins(lines: Sequence[Line], at: int) -> bool:
    """Return whether a paragraph begins with a line that follows another one."""
    before, line = lines[at - 1], lines[at]
    size = line.first.size
    if CAPTION.match(line.text) or BULLET.match(line.text):
        return True
    if LEADER in before.text:
        return True
    if abs(before.first.size - size) > 1:
        return True
    if _is_elsewhere(before, line):  # the next column: a paragraph may continue there
        return before.text.endswith(SENTENCE_END) and not line.text[:1].islower()
    if gap_between(before, line) > max(0.6 * size, 1.6 * _pitch(lines, at)):
        return True
    is_indented = line.first.x0 - before.first.x0 > 0.7 * size
    is_short = before.x1 < line.x1 - 0.15 * (line.x1 - line.first.x0)
    return before.text.endswith(SENTENCE_END) and (is_indented or is_short)


def _is_elsewhere(before: Line, line: Line) -> bool:
    return line.first.top < before.first.top or line.first.x0 > before.x1


def _pitch(lines: Sequence[Line], at: int) -> float:
    """Return the usual blank between lines around this one."""
    around = lines[max(0, at - 8) : at + 8]
    gaps = [gap_between(one, two) for one, two in pairwise(around)]
    usual = [gap for gap in gaps if 0 <= gap < lines[at].first.size]
    return median(usual) if usual else 0.0


def running_lines(pages: Mapping[int, PageLines], body: float) -> list[list[Line]]:
    """Return the lines of each page's margins that are headers, footers or numbers of pages.

    They are at one height on three pages and equal, but for one number that may follow that of
    the page; a long line in larger type has such a number. Pages have their number in the file; `body` is
    the size of the text's type.
    """
    found = {number: list(page.margins(body)) for number, page in pages.items()}
    where = defaultdict[Key, set[int]](set)
    for number, lines in found.items():
        for line, _ in lines:
            for text in (line.text, *(piece.text for piece in line.pieces)):
                for key in _keys(text, line, number):
                    where[key].add(number)

    def is_running(line: Line, number: int, *, is_large: bool) -> bool:
        equal, *numbered = keys = list(_keys(line.text, line, number))
        enough = min(3, max(2, len(pages) - 1)) if _PAGE_NUMBER.fullmatch(line.text) else 3
        if is_large:  # why so long: "Day 3" may be the title of the third page
            is_long = sum(map(str.isalpha, line.text)) >= LONG_HEADER
            return is_long and any(len(where[key]) >= 3 for key in numbered)
        if len(where[equal]) >= 3 or any(len(where[key]) >= enough for key in numbered):
            return True
        # why: next to a line of all pages there may be the chapter, which changes soon
        return any(
            key[2] == part[2]
            and len(where[part]) >= 3
            and not where[key].isdisjoint((number - 1, number + 1))
            for piece in line.pieces
            for part in _keys(piece.text, line, number)
            for key in keys
        )

    return [
        [line for line, is_large in lines if is_running(line, number, is_large=is_large)]
        for number, lines in found.items()
    ]


def _keys(text: str, line: Line, page: int) -> Iterator[Key]:
    """Return keys that are the same on other pages: the height, the text, and the number that it may have.

    Of a text with numbers also, for each, the text without it and by how much it differs from `page`.
    """
    height = round(line.first.bottom)
    yield height, text, None
    for match in islice(_NUMBER.finditer(text), MOST_NUMBERS):
        number = int(match[0]) if match[0].isdecimal() else _ROMAN.get(match[0].lower())
        if number is not None:
            yield height, f"{text[: match.start()]}#{text[match.end() :]}", number - page

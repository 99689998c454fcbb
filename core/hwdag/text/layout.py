"""One page of a PDF as blocks in reading order, from its words, lines and rectangles (pdfplumber).

    words -> pieces of lines -> columns -> lines -> blocks: headings, paragraphs, rows of tables

A PDF says where each letter stands and nothing of what it is. Sizes are in points, 1/72 inch.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, pairwise
from operator import itemgetter
from statistics import median
from typing import TYPE_CHECKING, Any, Literal
from unicodedata import bidirectional

from hwdag.text.content import UnreadableError
from hwdag.text.tables import has_numbers, is_number, names_columns, table_lines

if TYPE_CHECKING:
    from pdfplumber.page import Page

Kind = Literal["heading", "paragraph", "rows"]
Column = tuple[float, float]  # from where to where it goes
Word = dict[str, Any]  # of pdfplumber
Key = tuple[int, str, int | None]  # what lines of different pages have in common, see `_keys`

WIDE_GAP = 1.3
"""Blank space within a line, in sizes of its type, that parts columns or cells and not words."""

NARROW_GAP = 0.5
"""Blank space that may part cells, where those of other rows are further apart."""

WORD_GAP = 0.13
"""Blank space between two words, in sizes of their type; LaTeX has 0.2 and less in a full line."""

RAISED_SIZE = 0.85
"""Type of marks of notes, exponents and indices, at most, over that of the word they stand at."""

ROWS_NEAR = 4  # above and below, among which that word is looked for; columns may have two each

SAME_PLACE = 1.5
"""Two of the same letter within this distance are one."""

PROSE_CHARACTERS = 18  # of a typical line of a text column; cells of tables have fewer
COLUMN_LINES = 4  # at least, on both sides of the space between two columns
CROSSING_SHARE = 0.3  # of a page's lines that may go over that space, such as titles and figures
CELL_CHARACTERS = 40  # at most, of a typical cell of a table without lines
LARGER = 1.12  # a heading's type over that of the text
HEADING_CHARACTERS = 160
MOST_TURNED = 0.05  # share of a page's letters that may be left out, as a stamp over the text
MOST_LEFTWARD = 0.2  # share of letters from right to left, as words in a text of another language
SAME_COLUMN = 4.0  # distance of the columns of a table that goes on over the end of a page
MARGIN = 0.1  # of a page's height, above and below, where running headers and footers stand

MOST_EDGES, MOST_PIECES = 4000, 2000
"""Lines of a drawing in which tables are looked for, and pieces among which columns are: both take
more than linear time, and a map or a hostile page may have any number."""

NAME_LINES = 3  # at most, of names of columns that stand over several of them

MOST_NAMED = 60  # columns, of which one name may stand over several; each is compared with each

MOST_ROWS = 500  # of a table without lines on one page; what is no table is looked at row by row

MOST_NUMBERS = 20  # of a line in the margin, of which one may be that of its page

_NUMBER = re.compile(
    r"(?<!\d)(?<!\d[.,:/-])\d{1,4}(?!\d|[.,:-]\d|/\d+/)|\b[ivxl]{1,6}\b",  # none of dates and amounts
    re.I,
)
_ROMAN = {
    tens + ones: 10 * i + j
    for i, tens in enumerate(("", "x", "xx", "xxx", "xl"))
    for j, ones in enumerate(("", "i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix"))
    if tens or ones
}
_BULLET = re.compile(r"\s*(?:[•‣◦▪●–—*-]|\d{1,2}[.)]|[a-z]\))\s")
CAPTION = re.compile(
    r"(?:table|figure|fig\.|tabelle|abbildung|abb\.|tableau|tabla|figura|tabell|figur)\s*\d", re.I
)
LEADER = " … "  # in a table of contents
_LEADER = re.compile(r"\s*(?:\.\s?){5,}\s*")
_RAISED = str.maketrans("0123456789+-−", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻")
_HYPHEN = re.compile("[\u00ad\u2010]")  # as Typst and browsers print it
LINE_END = "\u00ad"  # behind a hyphen in a cell, until it is known whether it divides a word
_LINE_END = re.compile(r"(?<=\w)[-\u00ad\u2010]\n")
_UNKNOWN = re.compile(r"\(cid:\d+\)")  # pdfminer's name of a letter that the font does not name
_SENTENCE_END = tuple('.!?:;…。！？"”’»)')
_BOLD = re.compile("bold|black|heavy|demi", re.I)


_DASHES = re.compile("[-=_–—]*")  # what a printer draws a line with
_PAGE_NUMBER = re.compile(
    r"\W*(?:page|seite|p\.|s\.|página|pagina|sida|side)?\s*(?:\d{1,4}|[ivxl]{1,6})"
    r"(?:\s*(?:/|of|von|de|av|sur)\s*\d{1,4})?\W*",
    re.I,
)


@dataclass(frozen=True, slots=True)
class Piece:
    """Words that stand beside each other, or a table with lines (its `rows`)."""

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


@dataclass(frozen=True, slots=True)
class Line:
    """Pieces on one baseline of a column."""

    pieces: tuple[Piece, ...]

    @property
    def text(self) -> str:
        """Words, from left to right."""
        return " ".join(piece.text for piece in self.pieces)

    @property
    def first(self) -> Piece:
        """Where the line begins."""
        return self.pieces[0]

    @property
    def x1(self) -> float:
        """Where the line ends."""
        return self.pieces[-1].x1

    @property
    def is_bold(self) -> bool:
        """Whether all of it is bold."""
        return all(piece.is_bold for piece in self.pieces)


@dataclass(slots=True)
class Block:
    """What belongs together on a page; a table has a line for each row."""

    kind: Kind
    lines: list[str]
    size: float = 0.0
    names: list[str] = field(default_factory=list)  # of a table's columns
    columns: Sequence[Column] = ()


@dataclass(frozen=True, slots=True)
class OpenTable:
    """A table without lines between its cells."""

    end: int  # its last line is the one before
    rows: list[list[str]]
    columns: list[Column]
    has_header: bool
    is_named: bool  # its header is bold


@dataclass(frozen=True, slots=True)
class PageLines:
    """A page before it is known what the text's type is, and what stands on every page."""

    lines: tuple[Line, ...]
    height: float
    has_pictures: bool = False
    outline: frozenset[str] = field(default_factory=frozenset)  # titles that lead here, `plain`

    @property
    def characters(self) -> Counter[float]:
        """Characters by the size of their type."""
        sizes = Counter[float]()
        for line in self.lines:
            for piece in line.pieces:
                sizes[piece.size] += len(piece.text)
        return sizes

    def margins(self, body: float) -> Iterator[Line]:
        """Lines of the margins that may run: no rows of the page's tables, no larger type."""
        rows = self._rows()
        for line in self.lines:
            if (
                self._is_in_margin(line)
                and line.first.size < LARGER * body
                and id(line) not in rows
            ):
                yield line

    def _is_in_margin(self, line: Line) -> bool:
        above, below = MARGIN * self.height, (1 - MARGIN) * self.height
        piece = line.first
        return not piece.rows and (piece.bottom < above or piece.top > below)

    def _rows(self) -> set[int]:
        """The `id` of each line of the tables without lines that are not in a margin as a whole."""
        found = set[int]()
        for start, table in _open_tables(self.lines).items():
            lines = self.lines[start : table.end]
            if not all(map(self._is_in_margin, lines)):
                found.update(map(id, lines))
        return found


def page_lines(page: Page, outline: Iterable[str] = ()) -> PageLines:
    """Read a page's lines in reading order."""
    letters = _letters(page.chars)
    shown = page.filter(lambda thing: thing["object_type"] != "char" or id(thing) in letters)
    found = page.find_tables() if len(page.edges) <= MOST_EDGES else []
    tables = [piece for table in found if (piece := _ruled(table))]
    pieces = [
        piece
        for piece in _pieces(
            shown.extract_words(x_tolerance_ratio=WORD_GAP, extra_attrs=["size", "fontname"])
        )
        if not any(_is_within(piece, table) for table in tables)
    ]
    ordered = list(_ordered([*pieces, *tables]))
    return PageLines(
        tuple(_lines(ordered)),
        float(page.height),
        bool(page.images),
        frozenset(map(plain, outline)),
    )


def blocks_of(
    page: PageLines, body: float, running: Iterable[Line], before: Block | None = None
) -> list[Block]:
    """Put lines together; `body` is the size of the text's type, `running` lines are left out.

    A table at the top goes on with the names of the columns of `before`, the last block of the page
    before, where it has the same columns.
    """
    left_out = set(map(id, running))
    lines = [line for line in page.lines if id(line) not in left_out]
    blocks, tables = list[Block](), _open_tables(lines)
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
        elif _is_heading(lines, at, page, body):
            _add_heading(blocks, lines, at)
            at += 1
        else:
            _add_line(blocks, lines, at)
            at += 1
    return blocks


def plain(text: str) -> str:
    """Letters and digits alone, to compare titles."""
    return "".join(filter(str.isalnum, text.lower()))


def _letters(chars: Sequence[dict[str, Any]]) -> set[int]:
    """The `id` of each letter that is to be read: those not turned, once where they are printed twice.

    Raises:
        UnreadableError: reading from left to right and line by line gives garbage.
    """
    straight = list(filter(_is_straight, chars))
    if len(chars) - len(straight) > MOST_TURNED * len(chars):
        raise UnreadableError("its text is turned")
    leftward = sum(bidirectional(sign) in ("R", "AL") for char in chars for sign in char["text"])
    if leftward > MOST_LEFTWARD * len(chars):
        raise UnreadableError("its text runs from right to left")
    first = dict[tuple[str, int, int], int]()
    for char in straight:
        # why twice: some programs make bold type so; why not dedupe_chars: it takes a square of time
        place = char["text"], round(char["x0"] / SAME_PLACE), round(char["top"] / SAME_PLACE)
        first.setdefault(place, id(char))
    return set(first.values())


def _is_straight(char: dict[str, Any]) -> bool:
    """Whether a letter stands in a line from left to right; that of a scan may be a little askew."""
    right, up, *_ = char["matrix"]
    return bool(abs(up) < 0.2 * right)


def _is_within(piece: Piece, table: Piece) -> bool:
    x, y = (piece.x0 + piece.x1) / 2, (piece.top + piece.bottom) / 2
    return table.x0 <= x <= table.x1 and table.top <= y <= table.bottom


def _ruled(table: Any) -> Piece | None:
    """A table whose cells have lines around them; None where most are empty, as those of a drawing."""
    rows = [[cell or "" for cell in row] for row in table.extract()]
    cells = [cell for row in rows for cell in row]
    if len(rows) < 2 or len(rows[0]) < 2 or sum(map(bool, cells)) < len(cells) / 2:
        return None
    x0, top, x1, bottom = map(float, table.bbox)
    columns = tuple(pairwise([*sorted({float(cell[0]) for cell in table.cells}), x1]))
    return Piece("", x0, x1, top, bottom, 0.0, rows=tuple(map(tuple, rows)), columns=columns)


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
    """Whether each column has its left side, its right side or its middle at the same place."""
    return len(above) == len(below) and all(
        min(abs(a - c), abs(b - d), abs(a + b - c - d) / 2) < SAME_COLUMN
        for (a, b), (c, d) in zip(above, below, strict=True)
    )


def _pieces(words: Sequence[Word]) -> Iterator[Piece]:
    """Words of a baseline with no wide gap between them; the size is that of most letters."""
    rows = list[list[Word]]()
    for word in sorted(words, key=lambda word: (word["bottom"], word["x0"])):
        near = rows and abs(word["bottom"] - rows[-1][0]["bottom"]) < 0.3 * word["size"]
        if near:
            rows[-1].append(word)
        else:
            rows.append([word])
    for row in _with_raised(rows):
        top = min(float(word["top"]) for word in row)  # why of all: pieces are put in order by it
        for words in _apart(sorted(row, key=itemgetter("x0")), WIDE_GAP):
            parts = tuple(_piece(part, top) for part in _apart(words, NARROW_GAP))
            yield replace(_piece(words, top), parts=parts) if len(parts) > 1 else parts[0]


def _apart(words: Iterable[Word], gap: float) -> Iterator[list[Word]]:
    """Words with no such gap between them; it is in sizes of their type."""
    run = list[Word]()
    for word in words:
        if run and word["x0"] - run[-1]["x1"] > gap * max(word["size"], run[-1]["size"]):
            yield run
            run = []
        run.append(word)
    yield run


def _with_raised(rows: Iterable[list[Word]]) -> Iterator[list[Word]]:
    """The rows, in which marks of notes, exponents and indices stand at their word."""
    rows = [sorted(row, key=itemgetter("x0")) for row in rows]
    whole = [list[Word]() for _ in rows]
    for at, row in enumerate(rows):
        for before, word, after in zip([None, *row], row, [*row[1:], None], strict=False):
            there = at
            # why: small type with more of it beside is a line of its own
            if all(
                one is None or _blank(one, word) > 0.5 * word["size"] for one in (before, after)
            ):
                there, word = _at_its_base(rows, at, word)
            whole[there].append(word)
    return filter(None, whole)


def _at_its_base(rows: Sequence[list[Word]], at: int, word: Word) -> tuple[int, Word]:
    """The row of the word beside which this one is raised or lowered, and how it stands there."""
    for there in range(max(0, at - ROWS_NEAR), min(len(rows), at + ROWS_NEAR + 1)):
        near = bisect_left(rows[there], word["x0"], key=itemgetter("x0"))
        for base in rows[there][max(0, near - 1) : near + 1]:
            if _is_small_beside(word, base):
                is_raised = word["bottom"] < base["bottom"]
                # why: else they were digits of a number before them
                text = word["text"].translate(_RAISED) if is_raised else word["text"]
                return there, {**word, "text": text, "top": base["top"], "bottom": base["bottom"]}
    return at, word


def _is_small_beside(word: Word, base: Word) -> bool:
    size, middle = float(base["size"]), float(word["top"] + word["bottom"]) / 2
    return (
        0.4 * size < float(word["size"]) < RAISED_SIZE * size
        and abs(_blank(word, base)) < 0.4 * size
        and float(base["top"]) - 0.2 * size < middle < float(base["bottom"]) + 0.2 * size
    )


def _blank(one: Word, other: Word) -> float:
    return float(max(one["x0"] - other["x1"], other["x0"] - one["x1"]))


def _piece(words: Sequence[Word], top: float) -> Piece:
    text, sizes, bold = words[0]["text"], Counter[float](), 0
    for word in words:
        sizes[round(float(word["size"]), 1)] += len(word["text"])
        bold += len(word["text"]) if _BOLD.search(word["fontname"]) else 0
    for last, word in pairwise(words):
        # why: a word is cut where its type changes
        is_apart = word["x0"] - last["x1"] > WORD_GAP * word["size"]
        text += (" " if is_apart else "") + word["text"]
    return Piece(
        _HYPHEN.sub("-", _UNKNOWN.sub("", _LEADER.sub(LEADER, text))),
        float(words[0]["x0"]),
        float(words[-1]["x1"]),
        top,
        max(float(word["bottom"]) for word in words),
        sizes.most_common(1)[0][0],
        bold > len(text) / 2,
    )


def _ordered(pieces: Sequence[Piece]) -> Iterator[Piece]:
    """Pieces in reading order: what goes over all columns, and between such lines column by column."""
    pieces = sorted(pieces, key=lambda piece: (piece.top, piece.x0))
    tables = list(_number_tables(pieces))
    cells = {id(cell) for table in tables for cell in table}
    others = [piece for piece in pieces if id(piece) not in cells]
    x = _gutter(others)
    if x is None:  # why not at once: a gap that is as narrow stands behind the marks of a list too
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
    """The cells of tables of numbers, which may stand above or between columns of prose."""
    lines = list(_lines(pieces))
    for start, table in _open_tables(lines).items():
        cells = [piece for line in lines[start : table.end] for piece in line.pieces]
        # why so strict: the lines of two columns, or a table in each, look like one over both
        is_short = all(len(cell.text) <= CELL_CHARACTERS for cell in cells)
        if table.has_header and len(table.columns) > 2 and is_short:
            yield cells


def _columns(band: Sequence[Piece], x: float) -> Iterator[Piece]:
    yield from _ordered([piece for piece in band if piece.x1 <= x])
    yield from _ordered([piece for piece in band if piece.x0 >= x])


def _gutter(pieces: Sequence[Piece], *, is_narrow: bool = False) -> float | None:
    """The space between two columns of prose that the fewest pieces go over; None without columns."""
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
    """What stands left and right of a place, where the piece has a gap there; else the piece."""
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
    """Whether pieces are enough of a page, and letters: a dump of bytes has columns of its own."""
    text = "".join(piece.text for piece in pieces)
    return 6 * len(pieces) > len(page) and 2 * sum(map(str.isalpha, text)) > len(text)


def _lines(pieces: Sequence[Piece]) -> Iterator[Line]:
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


def _open_tables(lines: Sequence[Line]) -> dict[int, OpenTable]:
    """The tables without lines, by where they begin."""
    found, at = dict[int, OpenTable](), 0
    while at < len(lines):
        end = _run_end(lines, at)
        if table := _open_table(lines, at, end):
            found[at], at = table, table.end
        else:  # why not always the next line: that takes a square of time
            at += max(1, (end - at) // 50)
    return found


def _open_table(lines: Sequence[Line], start: int, end: int) -> OpenTable | None:
    """The table without lines that begins here, if one does, among the lines up to `end`."""
    for _ in range(3):  # why: each time it may end before a line that is none of it
        run = lines[start:end]
        most = max((len(line.pieces) for line in run), default=0)
        full = [i for i, line in enumerate(run) if len(line.pieces) == most]
        columns = _edges(run[i] for i in full)
        if len(run) < 2 or len(columns) < max(2, most):
            return None
        placed = [_placed(line, columns) for line in run]
        for i, (line, (_, goes_over)) in enumerate(zip(run, placed, strict=True)):
            is_name = i < min(full[0], NAME_LINES) and len(line.pieces) > 1
            if goes_over and not is_name and not _is_label(run, i):
                end = start + i
                break
        else:
            return _put_together(run, start, [cells for cells, _ in placed], columns)
    return None


def _run_end(lines: Sequence[Line], start: int) -> int:
    """The end of the lines that may be one table: such of several pieces, and a piece between them."""
    end, left = start, lines[start].first.x0
    for i in range(start, min(len(lines), start + MOST_ROWS)):
        line, above = lines[i], lines[max(start, i - 1)]
        size, left = line.first.size, min(left, line.first.x0)
        is_far = i > start and not -size < _gap(above, line) < 2.5 * size
        if line.first.rows or is_far or _is_caption(lines, i):
            break
        if len(line.pieces) > 1 or (i > start and line.first.x0 > left + size):
            end = i + 1
        elif i == start or i > end or size > LARGER * above.first.size:
            break
    return end


def _is_caption(lines: Sequence[Line], at: int) -> bool:
    """Whether a line is a caption, and none of a list of tables or figures."""
    beside = (*lines[max(0, at - 1) : at], *lines[at + 1 : at + 2])
    return bool(CAPTION.match(lines[at].text)) and not any(
        CAPTION.match(line.text) for line in beside
    )


def _edges(lines: Iterable[Line]) -> list[Column]:
    """From where to where each column of a table goes: what overlaps is one."""
    merged = list[Column]()
    for x0, x1 in sorted((piece.x0, piece.x1) for line in lines for piece in line.pieces):
        if merged and x0 < merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], x1)
        else:
            merged.append((x0, x1))
    return merged


def _placed(line: Line, columns: list[Column]) -> tuple[list[str], bool]:
    """The cells of a line, and whether one goes over several columns; it stands in the first then.

    The columns grow by what stands in one of them.
    """
    cells, goes_over = [""] * len(columns), False
    for piece in line.pieces:
        for part in (piece,) if _over(piece, columns)[1] < 2 else piece.parts or (piece,):
            at, number = _over(part, columns)
            if number < 2:
                x0, x1 = columns[at]
                columns[at] = min(x0, part.x0), max(x1, part.x1)
            goes_over |= number > 1
            cells[at] = f"{cells[at]} {part.text}".strip()
    return cells, goes_over


def _names(line: Line, columns: list[Column]) -> list[str] | None:
    """The names in a line, one for each column that they stand over; None if that cannot be told."""
    cells, goes_over = _placed(line, columns)
    names = [piece for piece in line.pieces if piece.x0 >= columns[0][1]]
    if all(cells[1:]) or not names or len(columns) > MOST_NAMED:
        return cells
    over = defaultdict[Piece, list[int]](list)
    for i, (x0, x1) in enumerate(columns[1:], 1):
        over[min(names, key=lambda name: abs(name.x0 + name.x1 - x0 - x1))].append(i)
    for name, found in over.items():
        middle = (columns[found[0]][0] + columns[found[-1]][1]) / 2
        is_above = _over(name, columns) == (found[0], len(found))
        if not is_above and abs((name.x0 + name.x1) / 2 - middle) > name.size:
            return None if goes_over else cells
    spread = {i: name.text for name, found in over.items() for i in found}
    return [cells[0], *(spread[i] for i in range(1, len(columns)))]


def _over(piece: Piece, columns: Sequence[Column]) -> tuple[int, int]:
    """The first column that a piece stands in, and in how many it does; the nearest if in none."""
    at = bisect_right(columns, piece.x0, key=itemgetter(1))
    end = bisect_left(columns, piece.x1, key=itemgetter(0))
    if end <= at and (at == len(columns) or (at and _nearer(piece, columns[at - 1], columns[at]))):
        at -= 1
    return at, max(0, end - at)


def _nearer(piece: Piece, left: Column, right: Column) -> bool:
    return piece.x0 - left[1] < right[0] - piece.x1


def _is_label(run: Sequence[Line], at: int) -> bool:
    """Whether a line is the name of the rows below it, or goes on with that of the row above."""
    [piece, *others] = run[at].pieces
    below = run[at + 1].pieces if at + 1 < len(run) else ()
    return (
        not others
        and (piece.text[:1].islower() or (len(below) > 1 and piece.x0 < below[0].x0 + piece.size))
        and len(piece.text) <= 2 * CELL_CHARACTERS
        and not piece.text.endswith((".", ",", ";"))
    )


def _put_together(
    run: Sequence[Line], start: int, placed: Sequence[list[str]], columns: list[Column]
) -> OpenTable | None:
    """The table of these lines, whose cells may go on in the next one; None if they are none."""
    gaps = [0.0, *(_gap(one, two) for one, two in pairwise(run)), 0.0]
    begin = [gaps[i] for i, cells in enumerate(placed) if i and cells[0] and any(cells[1:])]
    usual = median(begin or gaps[1:-1])
    rows, starts = list[list[str]](), list[int]()
    for i, cells in enumerate(placed):
        size = run[i].first.size
        is_below = i + 1 < len(run) and gaps[i + 1] < gaps[i] - 0.25 * size
        if rows and _goes_on(rows[-1], cells, size, gaps[i], usual, is_below):
            rows[-1] = _joined([rows[-1], cells])
        else:
            rows.append(cells)
            starts.append(i)
    while len(rows) > 1 and sum(map(bool, rows[-1])) == 1 and not is_number("".join(rows[-1])):
        rows.pop()  # what stands below the table
        run = run[: starts.pop()]
    has_header = is_named = False
    for n in range(1, min(NAME_LINES, len(rows) - 1) + 1):
        below = next((i for i in range(n, len(rows)) if any(rows[i][1:])), n)
        head, body = run[: starts[n]], run[starts[below] : [*starts, len(run)][below + 1]]
        names = [_names(line, columns) for line in head]
        first = _joined([cells for cells in names if cells])
        is_bold = all(line.is_bold for line in head)
        goes_on = is_bold and all(line.is_bold for line in body)
        is_named = is_bold and not any(line.is_bold for line in body)
        is_told = names_columns([first, *rows[n:]]) and has_numbers(rows[n:])
        is_one = is_bold or sum(bool(row[0]) for row in rows[:n]) < 2
        if all(names) and not goes_on and (is_named or (is_told and is_one)):
            rows[:n], has_header = [first], True
            break
    filled = [row for row in rows if sum(map(bool, row)) > 1]
    if len(filled) < 3 and not (has_header and len(columns) > 2 and all(map(all, rows))):
        return None
    if _is_text(run, rows):
        return None
    return OpenTable(start + len(run), rows, columns, has_header, is_named)


def _is_text(run: Sequence[Line], rows: Sequence[Sequence[str]]) -> bool:
    """Whether lines of several pieces are a text in columns, or a list whose numbers stand apart."""
    if median(len(piece.text) for line in run for piece in line.pieces) > CELL_CHARACTERS:
        return True
    if len(rows[0]) == 2 and 2 * sum(bool(_BULLET.match(f"{row[0]} ")) for row in rows) > len(rows):
        return True
    prose = 0
    for row in rows:
        cells = [cell for cell in row if cell]
        is_all = len(cells) > 1 and all(cell.count(" ") > 1 for cell in cells)
        is_first = row[0].count(" ") > 2
        prose += (is_first and row[0][0].islower()) or (
            is_all and any(c[0].islower() for c in cells)
        )
    return 3 * prose > len(rows)


def _joined(lines: Iterable[Sequence[str]]) -> list[str]:
    """The cells of a row that goes over several lines."""
    return ["\n".join(filter(None, cells)) for cells in zip(*lines, strict=True)]


def _goes_on(
    above: Sequence[str],
    cells: Sequence[str],
    size: float,
    gap: float,
    usual: float,
    is_below: bool,
) -> bool:
    """Whether a line is of the row above: its cells go on in it, or stand at one height with them."""
    filled = [i for i, cell in enumerate(cells) if cell]
    is_near = gap < usual - 0.25 * size
    if any(is_number(above[i]) and is_number(cells[i]) for i in filled):
        return False
    if gap < -0.2 * size:
        return True
    if not cells[0]:
        return not is_below and (is_near or (len(filled) == 1 and gap <= usual + 0.25 * size))
    if len(filled) == 1:
        is_label = not above[0] or cells[0].endswith(":")
        return not is_label and (is_near or cells[0][0].islower())
    if not any(above[1:]) and cells[0][0].islower():
        return True
    return is_near and (not above[0] or all(cells[i][0].islower() for i in filled))


def _gap(above: Line, below: Line) -> float:
    return below.first.top - above.first.bottom


def _is_heading(lines: Sequence[Line], at: int, page: PageLines, body: float) -> bool:
    line = lines[at]
    if not any(map(str.isalpha, line.text)) or len(line.text) > HEADING_CHARACTERS:
        return False
    if LEADER in line.text:
        return False
    if plain(line.text) in page.outline or line.first.size >= LARGER * body:
        return True
    below = lines[at + 1] if at + 1 < len(lines) else None
    is_alone = below is None or not below.is_bold
    return line.is_bold and is_alone and not line.text.endswith((".", ",", ";", ":"))


def _add_heading(blocks: list[Block], lines: Sequence[Line], at: int) -> None:
    line = lines[at]
    goes_on = (
        at > 0
        and blocks
        and blocks[-1].kind == "heading"
        and blocks[-1].size == line.first.size
        and 0 <= _gap(lines[at - 1], line) < 0.6 * line.first.size
    )
    if goes_on:
        blocks[-1].lines.append(line.text)
    else:
        blocks.append(Block("heading", [line.text], line.first.size))


def _add_line(blocks: list[Block], lines: Sequence[Line], at: int) -> None:
    line = lines[at]
    if blocks and blocks[-1].kind == "paragraph" and not _begins(lines, at):
        blocks[-1].lines.append(line.text)
    else:
        blocks.append(Block("paragraph", [line.text], line.first.size))


def _begins(lines: Sequence[Line], at: int) -> bool:
    """Whether a paragraph begins with a line that follows another one."""
    before, line = lines[at - 1], lines[at]
    size = line.first.size
    if CAPTION.match(line.text) or _BULLET.match(line.text):
        return True
    if LEADER in before.text:
        return True
    if abs(before.first.size - size) > 1:
        return True
    if _is_elsewhere(before, line):  # the next column: a paragraph may go on there
        return before.text.endswith(_SENTENCE_END) and not line.text[:1].islower()
    if _gap(before, line) > max(0.6 * size, 1.6 * _pitch(lines, at)):
        return True
    is_indented = line.first.x0 - before.first.x0 > 0.7 * size
    is_short = before.x1 < line.x1 - 0.15 * (line.x1 - line.first.x0)
    return before.text.endswith(_SENTENCE_END) and (is_indented or is_short)


def _is_elsewhere(before: Line, line: Line) -> bool:
    return line.first.top < before.first.top or line.first.x0 > before.x1


def _pitch(lines: Sequence[Line], at: int) -> float:
    """The usual blank between lines around this one."""
    around = lines[max(0, at - 8) : at + 8]
    gaps = [_gap(one, two) for one, two in pairwise(around)]
    usual = [gap for gap in gaps if 0 <= gap < lines[at].first.size]
    return median(usual) if usual else 0.0


def running_lines(pages: Mapping[int, PageLines], body: float) -> list[list[Line]]:
    """The lines of each page's margins that are headers, footers or numbers of pages.

    They stand at one height on three pages and are equal, but for one number that may follow that of
    the page. Pages have their number in the file; `body` is the size of the text's type.
    """
    found = {number: list(page.margins(body)) for number, page in pages.items()}
    where = defaultdict[Key, set[int]](set)
    for number, lines in found.items():
        for line in lines:
            for text in (line.text, *(piece.text for piece in line.pieces)):
                for key in _keys(text, line, number):
                    where[key].add(number)

    def is_running(line: Line, number: int) -> bool:
        equal, *numbered = keys = list(_keys(line.text, line, number))
        enough = min(3, max(2, len(pages) - 1)) if _PAGE_NUMBER.fullmatch(line.text) else 3
        if len(where[equal]) >= 3 or any(len(where[key]) >= enough for key in numbered):
            return True
        # why: beside what stands on all pages there may be the chapter, which is another one soon
        return any(
            key[2] == part[2]
            and len(where[part]) >= 3
            and not where[key].isdisjoint((number - 1, number + 1))
            for piece in line.pieces
            for part in _keys(piece.text, line, number)
            for key in keys
        )

    return [[line for line in lines if is_running(line, number)] for number, lines in found.items()]


def _keys(text: str, line: Line, page: int) -> Iterator[Key]:
    """What is the same on other pages: the height, the text, and the number that it may have.

    Of a text with numbers also, for each, the text without it and by how much it differs from `page`.
    """
    height = round(line.first.bottom)
    yield height, text, None
    for match in islice(_NUMBER.finditer(text), MOST_NUMBERS):
        number = int(match[0]) if match[0].isdecimal() else _ROMAN.get(match[0].lower())
        if number is not None:
            yield height, f"{text[: match.start()]}#{text[match.end() :]}", number - page

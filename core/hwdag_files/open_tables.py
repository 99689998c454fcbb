"""Tables without lines between their cells, from the lines of a page of a PDF, or of a plain text.

lines -> columns, as the fullest lines have them -> cells -> rows, whose cells may take several lines
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import itemgetter
from statistics import median

from hwdag.text.tables import has_numbers, is_number, names_columns, table_lines
from hwdag_files.pieces import Column, Line, Piece, gap_between

CELL_CHARACTERS = 40  # at most, of a typical cell of a table without lines
NAME_LINES = 3  # at most, of names over several columns
MOST_NAMED = 60  # columns, of which one name may span several; each is compared with each
MOST_ROWS = 500  # of a table without lines on one page; other lines are checked row by row
HEADING_TYPE_RATIO = 1.12  # a heading's type over that of the text
CAPTION = re.compile(
    r"(?:table|figure|fig\.|tabelle|abbildung|abb\.|tableau|tabla|figura|tabell|figur)\s*\d", re.I
)
BULLET = re.compile(r"\s*(?:[•‣◦▪●–—*-]|\d{1,2}[.)]|[a-z]\))\s")
ATTEMPTS = 50  # after a failure, from how many of its lines a table is looked for again
ALIGNED_COLUMNS = 3  # at least, in a plain text: two can be read without names
_ALIGNED = re.compile(r"\S+(?: \S+)*")  # separated by two blanks in a plain text
TRIES = 3  # with fewer lines each time, if one does not belong to the table


def with_aligned_rows(text: str) -> str:
    """Write the tables of a plain text, whose columns blanks align, as `table_lines`."""
    written, block = list[str](), list[str]()
    for line in [*text.split("\n"), ""]:
        if line.strip():
            block.append(line)
        else:
            written += [*_aligned_rows(block), line]
            block = []
    return "\n".join(written[:-1])


def _aligned_rows(block: Sequence[str]) -> Iterator[str]:
    kept = [i for i, line in enumerate(block) if any(map(str.isalnum, line))]  # and not "---  ---"
    tab = 2 + max((len(part) for line in block for part in line.split("\t")), default=0)
    lines = [_aligned_line(block[i].expandtabs(tab), number) for number, i in enumerate(kept)]
    is_apart = any(len(line.pieces) >= ALIGNED_COLUMNS for line in lines)
    found = open_tables(lines) if is_apart else {}
    tables = {kept[i]: one for i, one in found.items() if len(one.columns) >= ALIGNED_COLUMNS}
    ends, at = [*kept, len(block)], 0
    while at < len(block):
        if table := tables.get(at):
            is_ruled = not any(map(str.isalnum, block[at + 1]))
            yield from table_lines(table.rows, has_header=table.has_header or is_ruled)
            at = ends[table.end]
        else:
            yield block[at]
            at += 1


def _aligned_line(line: str, at: int) -> Line:
    """Return a line of a plain text, as wide and high as letters of one width are."""
    parted = _ALIGNED.finditer(line)
    return Line(tuple(Piece(m[0], m.start(), m.end(), 3 * at, 3 * at + 2, 2) for m in parted))


@dataclass(frozen=True, slots=True)
class OpenTable:
    """A table without lines between its cells."""

    end: int  # its last line is the one before
    rows: list[list[str]]
    columns: list[Column]
    has_header: bool
    is_named: bool  # its header is bold


def open_tables(lines: Sequence[Line]) -> dict[int, OpenTable]:
    """Return the tables without lines, by their first line."""
    found, at = dict[int, OpenTable](), 0
    while at < len(lines):
        end = _run_end(lines, at)
        if table := _open_table(lines, at, end):
            found[at], at = table, table.end
        else:  # why not always the next line: that takes a square of time
            at += max(1, (end - at) // ATTEMPTS)
    return found


def _open_table(lines: Sequence[Line], start: int, end: int) -> OpenTable | None:
    """Return the table without lines that begins here, if one does, among the lines up to `end`."""
    for _ in range(TRIES):
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
    """Return the end of the lines that may be one table: lines of several pieces, with single pieces between them."""
    end, left = start, lines[start].first.x0
    for i in range(start, min(len(lines), start + MOST_ROWS)):
        line, above = lines[i], lines[max(start, i - 1)]
        size, left = line.first.size, min(left, line.first.x0)
        is_far = i > start and not -size < gap_between(above, line) < 2.5 * size
        if line.first.rows or is_far or _is_caption(lines, i):
            break
        if len(line.pieces) > 1 or (i > start and line.first.x0 > left + size):
            end = i + 1
        elif i == start or i > end or size > HEADING_TYPE_RATIO * above.first.size:
            break
    return end


def _is_caption(lines: Sequence[Line], at: int) -> bool:
    """Return whether a line is a caption rather than an entry in a list of figures."""
    beside = (*lines[max(0, at - 1) : at], *lines[at + 1 : at + 2])
    return bool(CAPTION.match(lines[at].text)) and not any(
        CAPTION.match(line.text) for line in beside
    )


def _edges(lines: Iterable[Line]) -> list[Column]:
    """Return the sides of each column of a table: overlapping pieces are one column."""
    merged = list[Column]()
    for x0, x1 in sorted((piece.x0, piece.x1) for line in lines for piece in line.pieces):
        if merged and x0 < merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], x1)
        else:
            merged.append((x0, x1))
    return merged


def _placed(line: Line, columns: list[Column]) -> tuple[list[str], bool]:
    """Return the cells of a line, and whether one spans several columns; it is in the first then.

    The columns grow by the pieces in one of them.
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
    """Return the names in a line, one for each column below them; None if that is unclear."""
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
    """Return the first column of a piece, and the number of its columns; the nearest if it is in none."""
    at = bisect_right(columns, piece.x0, key=itemgetter(1))
    end = bisect_left(columns, piece.x1, key=itemgetter(0))
    if end <= at and (at == len(columns) or (at and _nearer(piece, columns[at - 1], columns[at]))):
        at -= 1
    return at, max(0, end - at)


def _nearer(piece: Piece, left: Column, right: Column) -> bool:
    return piece.x0 - left[1] < right[0] - piece.x1


def _is_label(run: Sequence[Line], at: int) -> bool:
    """Return whether a line is the name of the rows below it, or continues that of the row above."""
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
    """Return the table of these lines, whose cells may continue in the next line; None if they are no table."""
    gaps = [0.0, *(gap_between(one, two) for one, two in pairwise(run)), 0.0]
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
        rows.pop()  # the text below the table
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
    """Return whether lines of several pieces are a text in columns, or a list with separate numbers."""
    if median(len(piece.text) for line in run for piece in line.pieces) > CELL_CHARACTERS:
        return True
    if len(rows[0]) == 2 and 2 * sum(bool(BULLET.match(f"{row[0]} ")) for row in rows) > len(rows):
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
    """Return the cells of a row that takes several lines."""
    return ["\n".join(filter(None, cells)) for cells in zip(*lines, strict=True)]


def _goes_on(
    above: Sequence[str],
    cells: Sequence[str],
    size: float,
    gap: float,
    usual: float,
    is_below: bool,
) -> bool:
    """Return whether a line is of the row above: its cells continue in it, or are at one height with them."""
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

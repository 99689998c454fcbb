"""Tables whose cells may span rows and columns, as lines that name their columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import chain, repeat, takewhile, zip_longest
from typing import NamedTuple

from hwdag.text.tables import has_numbers, names_columns, table_lines

MOST_SPANNED = 100
"""How many times as long a table may be with its spans and the names of its columns."""


class Cell(NamedTuple):
    """A cell: its text, whether it is a header, and the columns and rows that it spans."""

    text: str
    is_name: bool
    columns: int = 1
    rows: int = 1


_EMPTY = Cell("", False)


def cell_lines(
    cells: Sequence[Sequence[Cell]], *, has_names: bool, noted: Counter[str] | None = None
) -> list[str]:
    """Return the rows of a table by `table_lines`; an empty list if the table only lays out a page.

    Args:
        cells: the cells of each row, without those that span it from above.
        has_names: whether some of them are headers; else the first row may name the columns.
        noted: see `table_lines`.
    """
    most = MOST_SPANNED * sum(len(cell.text) + 1 for row in cells for cell in row)
    rows = _spread(cells, most)
    if not rows:
        return []
    alone = list(takewhile(_is_alone, rows))  # a title within the table
    rest = rows[len(alone) :]
    if has_names:
        heads = list(takewhile(_is_header, rest))
    elif _has_names(list(map(_texts, rest))):
        heads = rest[:1]
    else:  # why: without names it is layout as a rule
        return []
    if len(heads) == len(rest):
        heads = heads[:1]
    body = rest[len(heads) :]
    columns = zip_longest(*heads, fillvalue=_EMPTY)
    names = [" ".join(dict.fromkeys(cell.text for cell in column)).strip() for column in columns]
    named = (zip(row, names, strict=False) for row in body)
    if sum(len(cell.text) + len(name) for row in named for cell, name in row) > most:
        return []
    above = table_lines(map(_texts, alone), has_header=False)
    return above + table_lines([names, *map(_texts, body)], has_header=bool(heads), noted=noted)


def merged(
    rows: Sequence[Sequence[tuple[str, int, str | None]]], headers: Sequence[bool]
) -> list[list[Cell]]:
    """Return the cells of each row; a cell of several rows appears once, in the first of them.

    Args:
        rows: text and width of each cell; "restart" and "continue" are parts of a cell of several rows.
        headers: whether a row is a header.
    """
    cells, open_at = list[list[Cell]](), dict[int, tuple[int, int]]()
    for row, is_header in zip(rows, headers, strict=True):
        line, column = list[Cell](), 0
        for text, span, merge in row:
            if merge == "continue" and column in open_at:
                above, at = open_at[column]
                cells[above][at] = cells[above][at]._replace(rows=cells[above][at].rows + 1)
            else:
                open_at.pop(column, None)
                if merge == "restart":
                    open_at[column] = len(cells), len(line)
                line.append(Cell(text, is_header, span))
            column += span
        cells.append(line)
    return cells


def _spread(rows: Sequence[Sequence[Cell]], most: int) -> list[list[Cell]]:
    """Return the rows of a table, with each cell in all rows and columns that it spans.

    Empty if that takes more than `most` characters.
    """
    spread = list[list[Cell]]()
    above = dict[int, tuple[Cell, int]]()  # by column, with the number of rows that it still spans
    for row in rows:
        line, below = list[Cell](), dict[int, tuple[Cell, int]]()
        own = chain.from_iterable(repeat(cell, cell.columns) for cell in row)
        while True:
            if len(line) in above:
                cell, left = above.pop(len(line))
            elif (cell := next(own, _EMPTY)) is _EMPTY and not above:
                break
            else:
                left = cell.rows
            if left > 1:
                below[len(line)] = cell, left - 1
            line.append(cell)
            most -= len(cell.text) + 1
            if most < 0:
                return []
        above = below
        if row:
            spread.append(line)
    return spread


def _is_alone(row: Sequence[Cell]) -> bool:
    """Return whether a row consists of one cell."""
    return all(cell is row[0] for cell in row)


def _is_header(row: Sequence[Cell]) -> bool:
    """Return whether a row has names in all its cells, not only in the first one."""
    return any(cell.is_name and cell is not row[0] for cell in row) and all(
        cell.is_name or not cell.text for cell in row
    )


def _has_names(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether the first row of a table without header cells names its columns."""
    return len(rows) > 2 and names_columns(rows) and has_numbers(rows[1:])


def _texts(row: Sequence[Cell]) -> list[str]:
    return [cell.text for cell in (row[:1] if _is_alone(row) else row)]

"""Tables of a sheet as lines that name their columns, for workbooks of all kinds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from hwdag.text.tables import NAMED_ONCE, is_number, table_lines

SHEET_NOTES = {
    "sheet": "{} hidden sheet{s} left out",
    "other": "{} sheet{s} without rows, such as charts, left out",
    "row": "{} hidden row{s} left out, some of them perhaps by a filter",
    "column": "{} hidden column{s} left out",
    "cell": "{} value{s} left out whose format hides them",
    "white": "{} value{s} read in white letters, which a person may not see",
    "formula": "{} formula{s} without a stored value: the formula is read",
    "comment": "comments on {} sheet{s} left out",
    "drawing": "charts or pictures on {} sheet{s} not read",
    NAMED_ONCE: NAMED_ONCE,
}


def sheet_lines(rows: Iterable[Sequence[str]], noted: Counter[str]) -> Iterator[str]:
    """Yield the tables of a sheet, which empty rows part; a text alone in its row is no header."""
    table = list[Sequence[str]]()
    for cells in rows:
        filled = sum(map(bool, cells))
        if filled > 1 or (filled and table):
            table.append(cells)
        else:
            yield from _tables(table or [cells], noted)
            table = []
    yield from _tables(table, noted)


def _tables(rows: Sequence[Sequence[str]], noted: Counter[str]) -> Iterator[str]:
    """Yield the lines of rows without an empty one, which may be tables below each other."""
    starts = [0, *_later_tables(rows), len(rows)]
    for start, end in pairwise(starts):
        if start:  # its title
            yield from table_lines(rows[start : start + 1], has_header=False)
        yield from table_lines(rows[start + bool(start) : end], noted=noted)


def _later_tables(rows: Sequence[Sequence[str]]) -> Iterator[int]:
    """Yield the rows at which another table begins: a title alone in its row, names, and numbers below them."""
    numeric = set[int]()
    for i in range(1, len(rows) - 2):
        numeric |= {at for at, cell in enumerate(rows[i]) if at and is_number(cell)}
        names, below = rows[i + 1], rows[i + 2]
        if (
            sum(map(bool, rows[i])) == 1
            and numeric
            and len(names) > max(numeric)
            and len(set(names)) == len(names)
            and not any(map(is_number, names))
            and any(is_number(cell) for cell in below[1:])
        ):
            yield i

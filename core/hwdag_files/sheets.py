"""Workbooks to text."""

from __future__ import annotations

import io
import re
import zipfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import TYPE_CHECKING

from hwdag.text.tables import table_lines
from hwdag_files.content import Content
from hwdag_files.values import as_shown

if TYPE_CHECKING:
    from openpyxl.cell.read_only import ReadOnlyCell
    from openpyxl.worksheet._read_only import ReadOnlyWorksheet

# a formula, and no value or an empty one before its cell ends
_NO_VALUE = re.compile(
    rb"(?:</(?:\w+:)?f>|<(?:\w+:)?f\s[^<>]*/>)\s*(?:<(?:\w+:)?v\s*(?:/>|>\s*</)|</(?:\w+:)?c>)"
)
_MERGED = re.compile(rb'<(?:\w+:)?mergeCell\s[^<>]*?ref="([A-Z]+\d+:[A-Z]+\d+)"')


def workbook_content(data: bytes) -> Content:
    """Read every sheet as a heading and the rows that are filled.

    Row by row, because markitdown fills the whole rectangle up to the farthest cell with "NaN".
    """
    from openpyxl import load_workbook

    book = load_workbook(io.BytesIO(data), read_only=True, data_only=True)
    same: Iterable[ReadOnlyWorksheet | None] = repeat(None)
    if _lacks_values(data):  # why not always: openpyxl gives either values or formulas
        same = load_workbook(io.BytesIO(data), read_only=True).worksheets
    sheets = (
        f"## {sheet.title}\n\n" + "\n".join(_rows_of(sheet, formulas, _merged(data, sheet)))
        for sheet, formulas in zip(book.worksheets, same, strict=False)
    )
    return Content("\n\n".join(sheets), book.properties.title or "")


def _lacks_values(data: bytes) -> bool:
    """Whether a workbook has formulas whose values the program that wrote it did not store."""
    with zipfile.ZipFile(io.BytesIO(data)) as packed:
        parts = (name for name in packed.namelist() if "worksheets/" in name)
        return any(_NO_VALUE.search(packed.read(name)) for name in parts)


def _merged(data: bytes, sheet: ReadOnlyWorksheet) -> dict[int, list[tuple[int, int]]]:
    """The columns where cells of several rows are one, from 0, with the last of the rows; by the first."""
    from openpyxl.utils.cell import range_boundaries

    merged = defaultdict[int, list[tuple[int, int]]](list)
    with zipfile.ZipFile(io.BytesIO(data)) as packed:
        # why so: openpyxl tells them only where it holds the whole sheet in memory
        found = _MERGED.findall(packed.read(sheet._worksheet_path))
    for column, first, _, last in (range_boundaries(one.decode()) for one in found):
        if last > first:
            merged[first].append((column - 1, last))
    return merged


def _rows_of(
    sheet: ReadOnlyWorksheet,
    formulas: ReadOnlyWorksheet | None,
    merged: Mapping[int, Sequence[tuple[int, int]]],
) -> Iterator[str]:
    """The tables of a sheet, which empty rows part; what stands alone in its row is no header."""
    sheet.reset_dimensions()  # why: the file may say that every row has 16,384 cells
    beside: Iterable[Iterable[object]] = repeat(repeat(None))
    if formulas:
        formulas.reset_dimensions()
        beside = formulas.iter_rows(values_only=True)
    table, above = list[list[str]](), dict[int, tuple[str, int]]()
    for number, (row, same) in enumerate(zip(sheet.iter_rows(), beside, strict=False), 1):
        cells = list(map(_shown, row, same))
        while cells and not cells[-1].strip():
            cells.pop()
        for column, (text, last) in above.items() if cells else ():
            if number <= last:
                cells += [""] * (column + 1 - len(cells))
                cells[column] = cells[column] or text
        above |= {at: (cells[at], last) for at, last in merged.get(number, ()) if at < len(cells)}
        filled = sum(map(bool, cells))
        if filled > 1 or (filled and table):
            table.append(cells)
        else:
            yield from table_lines(table or [cells])
            table = []
    yield from table_lines(table)


def _shown(cell: ReadOnlyCell, formula: object) -> str:
    """The value of a cell, or its formula where the program that wrote it stored no value."""
    # why the type: a formula that gives an empty text has the type of a text
    if cell.value is None and cell.data_type == "n":
        text = getattr(formula, "text", formula)  # that of an array is an object
        return text if isinstance(text, str) else ""
    return "" if cell.value is None else as_shown(cell.value, cell.number_format or "General")

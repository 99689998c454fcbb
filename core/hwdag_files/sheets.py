"""Workbooks to text, as a person sees their sheets."""

from __future__ import annotations

import io
import re
import zipfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise, repeat, zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple

from hwdag.text.tables import NAMED_ONCE, is_number, table_lines
from hwdag_files.content import Content, as_notes
from hwdag_files.marks import lowered, raised, struck, with_marks
from hwdag_files.values import as_shown

if TYPE_CHECKING:
    from openpyxl.worksheet._read_only import ReadOnlyWorksheet

_Cell = Mapping[str, Any]
_Cells = Sequence[_Cell]

# a formula, and no value or an empty one before its cell ends
_NO_VALUE = re.compile(
    rb"(?:</(?:\w+:)?f>|<(?:\w+:)?f\s[^<>]*/>)\s*(?:<(?:\w+:)?v\s*(?:/>|>\s*</)|</(?:\w+:)?c>)"
)
_MERGED = re.compile(rb'<(?:\w+:)?mergeCell\s[^<>]*?ref="([A-Z]+\d+:[A-Z]+\d+)"')
_ROW = re.compile(rb"<(?:\w+:)?row(\s[^<>]*)?>")
_COLUMN = re.compile(rb"<(?:\w+:)?col\s([^<>]*)>")
_PLACE = re.compile(rb'\b(r|min|max)="(\d{1,7})"')
_HIDDEN = re.compile(rb'\bhidden="(?:1|true)"|\b(?:ht|width)="0(?:\.0*)?"')
_LOOKS = (b"vertAlign", b"strike")

SHEET_NOTES = {
    "sheet": "{} hidden sheet{s} left out",
    "row": "{} hidden row{s} left out, some of them perhaps by a filter",
    "column": "{} hidden column{s} left out",
    "cell": "{} value{s} left out whose format hides them",
    "formula": "{} formula{s} without a stored value: the formula is read",
    "comment": "comments on {} sheet{s} left out",
    "drawing": "charts, pictures or text boxes on {} sheet{s} not read",
    NAMED_ONCE: NAMED_ONCE,
}


def workbook_content(data: bytes) -> Content:
    """Read every sheet as a heading and the rows that are filled.

    Row by row, because markitdown fills the whole rectangle up to the farthest cell with "NaN".
    """
    from openpyxl import load_workbook

    noted = Counter[str]()
    with zipfile.ZipFile(io.BytesIO(data)) as packed:
        is_rich = _has_looks(packed)
        book = load_workbook(
            io.BytesIO(data), read_only=True, data_only=True, rich_text=is_rich, keep_links=False
        )
        formulas = None
        texts = list[str]()
        for number, sheet in enumerate(book.worksheets):
            if sheet.sheet_state != "visible":
                noted["sheet"] += 1
                continue
            xml = packed.read(sheet._worksheet_path)
            same = None
            if _NO_VALUE.search(xml):  # why not always: openpyxl gives either values or formulas
                formulas = formulas or load_workbook(io.BytesIO(data), read_only=True)
                same = formulas.worksheets[number]
            noted["drawing"] += b"<drawing " in xml or b"<legacyDrawingHF" in xml
            noted["comment"] += b"<legacyDrawing " in xml
            lines = sheet_lines(_shown_rows(sheet, same, _Plan.of(xml), noted), noted)
            texts.append(f"## {sheet.title}\n\n" + "\n".join(lines))
    return Content("\n\n".join(texts), book.properties.title or "", as_notes(noted, SHEET_NOTES))


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
    """Yield where a title alone in its row, names, and numbers below them follow other numbers."""
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


class _Plan(NamedTuple):
    """Which rows and columns of a sheet are hidden, and which cells are merged; rows count from 1.

    The columns of merged cells, from 0, with the last of their rows, are listed by the first row.
    """

    rows: frozenset[int]
    columns: frozenset[int]
    merged: Mapping[int, Sequence[tuple[int, int]]]

    @classmethod
    def of(cls, xml: bytes) -> _Plan:
        """Read the XML of a sheet; openpyxl does so only if it holds the whole sheet in memory."""
        from openpyxl.utils.cell import range_boundaries

        rows, columns, number = set[int](), set[int](), 0
        for row in _ROW.finditer(xml):
            places = _places(row[1] or b"")
            number = places.get(b"r", number + 1)
            if _HIDDEN.search(row[1] or b""):
                rows.add(number)
        for column in _COLUMN.finditer(xml):
            places = _places(column[1])
            if _HIDDEN.search(column[1]) and b"min" in places:
                last = min(places.get(b"max", places[b"min"]), 1 << 14)
                columns |= set(range(places[b"min"] - 1, last))
        merged = defaultdict[int, list[tuple[int, int]]](list)
        found = (range_boundaries(one.decode()) for one in _MERGED.findall(xml))
        for left, first, _, last in found:
            if last > first:
                merged[first].append((left - 1, last))
        return cls(frozenset(rows), frozenset(columns), merged)


def _places(attributes: bytes) -> dict[bytes, int]:
    return {name: int(number) for name, number in _PLACE.findall(attributes)}


def _shown_rows(
    sheet: ReadOnlyWorksheet, formulas: ReadOnlyWorksheet | None, plan: _Plan, noted: Counter[str]
) -> Iterator[list[str]]:
    """Yield the texts of the cells of each row; a merged cell is in all its rows."""
    same: Iterable[tuple[int, _Cells]] = repeat((0, ())) if formulas is None else _parsed(formulas)
    above, dropped = dict[int, tuple[str, int]](), set[int]()
    looks, before = _Looks(sheet), 0
    for (number, row), (_, others) in zip(_parsed(sheet), same, strict=False):
        cells = list[str]()
        for cell, other in zip_longest(row, others):
            cells += [""] * (cell["column"] - len(cells))
            cells[-1] = looks.shown(cell, other, noted)
        while cells and not cells[-1].strip():
            cells.pop()
        is_hidden = number in plan.rows
        noted["row"] += is_hidden and bool(cells)
        for column, (text, last) in above.items() if cells else ():
            if number <= last:
                cells += [""] * (column + 1 - len(cells))
                cells[column] = cells[column] or text
        merged = plan.merged.get(number, ())
        above |= {at: (cells[at], last) for at, last in merged if at < len(cells)}
        is_apart, before = number > before + 1, number
        if is_hidden:
            continue
        if plan.columns:
            dropped |= {at for at in plan.columns if at < len(cells) and cells[at]}
            cells = [cell for at, cell in enumerate(cells) if at not in plan.columns]
        if is_apart:
            yield []
        yield cells
    noted["column"] += len(dropped)


def _parsed(sheet: ReadOnlyWorksheet) -> Iterator[tuple[int, _Cells]]:
    """Yield the number of each row that a sheet stores, and the cells that it stores of it."""
    from openpyxl.worksheet._reader import WorkSheetParser

    book = sheet.parent
    with sheet._get_source() as source:
        # why not its own rows: they lose the fonts within a text, and fill every gap
        parser = WorkSheetParser(
            source,
            sheet._shared_strings,
            data_only=book.data_only,
            epoch=book.epoch,
            date_formats=book._date_formats,
            timedelta_formats=book._timedelta_formats,
            rich_text=True,
        )
        yield from parser.parse()


class _Looks:
    """How the cells of each style are shown."""

    def __init__(self, sheet: ReadOnlyWorksheet) -> None:
        self._sheet = sheet
        self._found: dict[int, tuple[str, bool, str]] = {}

    def shown(self, cell: _Cell, formula: _Cell | None, noted: Counter[str]) -> str:
        """Return the value of a cell, or its formula if no value is stored."""
        value = cell["value"]
        if value is None:
            other = formula and formula["value"]
            # why the type: a formula that gives an empty text has the type of a text
            text = getattr(other, "text", other)  # that of an array is an object
            if cell["data_type"] != "n" or not isinstance(text, str):
                return ""
            noted["formula"] += 1
            return text
        form, is_struck, place = self._look(cell)
        text = _rich(value) if isinstance(value, list) else as_shown(value, form)
        noted["cell"] += not text and not isinstance(value, str)
        if place:
            text = raised(text) if place == "superscript" else lowered(text)
        return with_marks(struck(text) if is_struck else text)

    def _look(self, cell: _Cell) -> tuple[str, bool, str]:
        from openpyxl.cell.read_only import ReadOnlyCell

        style = cell["style_id"]
        if style not in self._found:
            one = ReadOnlyCell(self._sheet, **cell)
            look = one.number_format or "General", bool(one.font.strike), one.font.vertAlign or ""
            self._found[style] = look
        return self._found[style]


def _has_looks(packed: zipfile.ZipFile) -> bool:
    """Return whether parts of a text may be raised or struck out."""
    name = "xl/sharedStrings.xml"
    data = packed.read(name) if name in packed.namelist() else b""
    return any(look in data for look in _LOOKS)


def _rich(parts: Iterable[Any]) -> str:
    """Return a text of several fonts."""
    texts = list[str]()
    for part in parts:
        font, text = getattr(part, "font", None), getattr(part, "text", part)
        if font is not None and font.vertAlign in ("superscript", "subscript"):
            text = raised(text) if font.vertAlign == "superscript" else lowered(text)
        texts.append(struck(text) if font is not None and font.strike else text)
    return "".join(texts)

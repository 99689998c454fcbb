"""Workbooks of Excel to text, as a person sees their sheets."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple

from hwdag_files.blocks import no_heading
from hwdag_files.content import Content, as_notes
from hwdag_files.marks import lowered, raised, struck, with_marks
from hwdag_files.packages import Package, children
from hwdag_files.sheets import SHEET_NOTES, sheet_lines
from hwdag_files.values import as_shown

_MAIN = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
_RELATION = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_DC_TITLE = "{http://purl.org/dc/elements/1.1/}title"

_MERGED = re.compile(rb'<(?:\w+:)?mergeCell\s[^<>]*?ref="([A-Z]+\d+:[A-Z]+\d+)"')
_ROW = re.compile(rb"<(?:\w+:)?row(\s[^<>]*)?>")
_COLUMN = re.compile(rb"<(?:\w+:)?col\s([^<>]*)>")
_PLACE = re.compile(rb'\b(r|min|max)="(\d{1,7})"')
_HIDDEN = re.compile(rb'\bhidden="(?:1|true)"|\b(?:ht|width)="0(?:\.0*)?"')
_DIGITS = "0123456789"
_CODE = re.compile("_x([0-9A-Fa-f]{4})_")


def workbook_content(data: bytes) -> Content:
    """Read every sheet as a heading and the rows that are filled."""
    book, noted, texts = _Book(Package(data)), Counter[str](), list[str]()
    for name, state, kind, place in book.sheets:
        if state != "visible" or kind != "worksheet" or not place:
            noted["sheet" if state != "visible" else "other"] += 1
            continue
        xml = book.package.read(place)
        noted["comment"] += b"<legacyDrawing " in xml
        lines = sheet_lines(_shown_rows(book, xml, noted), noted)
        boxes, has_others = _drawings(book.package, place)
        noted["drawing"] += has_others or b"<legacyDrawingHF" in xml
        texts.append("\n\n".join(filter(None, [f"## {name}", "\n".join(lines), *boxes])))
    return Content("\n\n".join(texts), book.title, as_notes(noted, SHEET_NOTES))


def _drawings(package: Package, sheet: str) -> tuple[list[str], bool]:
    """Return the texts of the boxes on a sheet, and whether there are charts or pictures."""
    texts, has_others = list[str](), False
    for part in package.related(sheet, "drawing"):
        root = package.xml(part)
        has_others |= any(True for _ in root.iter("{*}pic", "{*}graphicFrame", "{*}contentPart"))
        for box in root.iter("{*}txBody"):
            lines = (
                "".join(run.text or "" for run in one.iter("{*}t")) for one in box.iter("{*}p")
            )
            texts += [text] if (text := no_heading("\n".join(filter(str.strip, lines)))) else []
    return texts, has_others


class _Style(NamedTuple):
    """How the cells of a style are shown."""

    form: str = "General"
    is_date: bool = False
    is_duration: bool = False
    is_struck: bool = False
    place: str = ""  # "superscript" or "subscript"
    is_white: bool = False


class _Book:
    """The parts of a workbook that all its sheets share."""

    def __init__(self, package: Package) -> None:
        from openpyxl.utils.datetime import CALENDAR_MAC_1904, CALENDAR_WINDOWS_1900

        self.package = package
        [main, *_] = package.related("", "officeDocument")
        root = package.xml(main)
        properties = root.find(f"{_MAIN}workbookPr")
        is_1904 = properties is not None and properties.get("date1904") in ("1", "true")
        self.epoch = CALENDAR_MAC_1904 if is_1904 else CALENDAR_WINDOWS_1900
        calculation = root.find(f"{_MAIN}calcPr")
        self._is_uncomputed = calculation is not None and calculation.get("fullCalcOnLoad") in (
            "1",
            "true",
        )
        places = package.by_id(main)
        self.sheets = [
            (
                one.get("name", ""),
                one.get("state", "visible"),
                *places.get(one.get(f"{_RELATION}id"), ("", "")),
            )
            for one in root.iter(f"{_MAIN}sheet")
        ]
        self.strings = [
            _string(one)
            for part in package.related(main, "sharedStrings")
            for one in package.children(part, f"{_MAIN}sst")
        ]
        self.styles = [
            style
            for part in package.related(main, "styles")
            for style in _styles(package.xml(part))
        ] or [_Style()]
        self.title = ""
        for part in package.related("", "core-properties"):
            self.title = next((one.text or "" for one in package.xml(part).iter(_DC_TITLE)), "")

    def shown(self, cell: Any, noted: Counter[str]) -> str:
        """Return the shown text of a cell; its formula if no value is stored."""
        kind, written = cell.get("t", "n"), cell.findtext(f"{_MAIN}v")
        if self._is_uncomputed and written == "0" and cell.find(f"{_MAIN}f") is not None:
            written = None  # programs that compute nothing, such as pandas, store 0
        if kind == "inlineStr":
            inner = cell.find(f"{_MAIN}is")
            text = "" if inner is None else _string(inner)
        elif not written:
            # why the type: a formula that gives an empty text has the type of a text
            formula = None if kind != "n" else cell.find(f"{_MAIN}f")
            return "" if formula is None else self._formula(cell, formula, noted)
        elif kind == "s":
            text = self.strings[int(written)]
        else:
            return self._value(written, kind, self._style(cell), noted)
        noted["white"] += bool(text) and self._style(cell).is_white
        return _as_look(text, self._style(cell))

    def begin(self) -> None:
        """Forget the formulas of the sheet before."""
        self._shared: dict[str, tuple[str, str]] = {}

    def _style(self, cell: Any) -> _Style:
        number = int(cell.get("s") or 0)
        return self.styles[number] if number < len(self.styles) else _Style()

    def _value(self, written: str, kind: str, style: _Style, noted: Counter[str]) -> str:
        value: Any = written
        if kind == "b":
            value = written == "1"
        elif kind == "d":
            with suppress(ValueError):
                value = datetime.fromisoformat(written)
        elif kind == "n":
            with suppress(ValueError):
                value = float(written)
                if style.is_date:
                    value = self._moment(value, is_duration=style.is_duration)
                elif written.lstrip("-").isdecimal():
                    value = int(written)
        text = as_shown(value, style.form)
        noted["cell"] += not text
        noted["white"] += bool(text) and style.is_white
        return _as_look(text, style)

    def _moment(self, value: float, *, is_duration: bool) -> Any:
        from openpyxl.utils.datetime import from_excel

        try:
            return from_excel(value, self.epoch, timedelta=is_duration)
        except (OverflowError, ValueError):
            return "#VALUE!"  # as Excel shows an impossible date

    def _formula(self, cell: Any, formula: Any, noted: Counter[str]) -> str:
        """Return the formula of a cell; cells may share one."""
        from openpyxl.formula.translate import Translator

        noted["formula"] += 1
        place, text, shared = cell.get("r", ""), formula.text or "", formula.get("si")
        if text:
            text = f"={text.removeprefix('=')}"
            if shared is not None:
                self._shared[shared] = text, place
        elif shared in self._shared:
            first, origin = self._shared[shared]
            with suppress(Exception):  # why: it raises all kinds of exceptions for unknown formulas
                text = str(Translator(first, origin).translate_formula(place))
        return text


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


def _shown_rows(book: _Book, xml: bytes, noted: Counter[str]) -> Iterator[list[str]]:
    """Yield the texts of the cells of each row; a merged cell is in all its rows."""
    plan = _Plan.of(xml)
    above, dropped = dict[int, tuple[str, int]](), set[int]()
    before = number = 0
    book.begin()
    for row in children(xml, f"{_MAIN}sheetData"):
        number = int(row.get("r", number + 1))
        cells = _cells(book, row, noted)
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


def _cells(book: _Book, row: Any, noted: Counter[str]) -> list[str]:
    """Return the texts of a row up to its last one."""
    cells = list[str]()
    for cell in row.iterchildren(f"{_MAIN}c"):
        place = cell.get("r")
        column = _column(place.rstrip(_DIGITS)) if place else len(cells) + 1
        if text := book.shown(cell, noted):
            cells += [""] * (column - len(cells))
            cells[column - 1] = text
    return cells


@lru_cache(maxsize=1 << 15)
def _column(letters: str) -> int:
    from openpyxl.utils.cell import column_index_from_string

    return int(column_index_from_string(letters))


def _string(element: Any) -> str:
    """Return a text of one or several fonts, with marks for `with_marks`."""
    parts = list[str]()
    for one in element:
        if one.tag == f"{_MAIN}t":
            parts.append(_unescaped(one.text or ""))
        elif one.tag == f"{_MAIN}r":
            text = _unescaped(one.findtext(f"{_MAIN}t") or "")
            font = one.find(f"{_MAIN}rPr")
            parts.append(text if font is None else _as_font(text, *_font(font)))
    return "".join(parts)


def _unescaped(text: str) -> str:
    """Return a text without the codes for signs that XML does not allow."""
    return _CODE.sub(lambda code: chr(int(code[1], 16)), text) if "_x" in text else text


def _font(element: Any) -> tuple[bool, str]:
    """Return whether a font is struck out, and whether it is raised or lowered."""
    strike, align = element.find(f"{_MAIN}strike"), element.find(f"{_MAIN}vertAlign")
    is_struck = strike is not None and strike.get("val") not in ("0", "false")
    return is_struck, "" if align is None else align.get("val", "")


def _as_font(text: str, is_struck: bool, place: str) -> str:  # the value of `_font`
    if place in ("superscript", "subscript"):
        text = raised(text) if place == "superscript" else lowered(text)
    return struck(text) if is_struck else text


def _as_look(text: str, style: _Style) -> str:
    return with_marks(_as_font(text, style.is_struck, style.place))


def _styles(root: Any) -> Iterator[_Style]:
    """Yield the styles of cells in the order of their numbers."""
    from openpyxl.styles.numbers import BUILTIN_FORMATS, is_date_format, is_timedelta_format

    own = {one.get("numFmtId"): one.get("formatCode", "") for one in root.iter(f"{_MAIN}numFmt")}
    listed = [one for part in root.iterchildren(f"{_MAIN}fonts") for one in part]
    fonts = list(map(_font, listed))
    colours = [one.find(f"{_MAIN}color") for one in listed]
    white = {
        number
        for number, colour in enumerate(colours)
        if colour is not None and (colour.get("rgb") == "FFFFFFFF" or colour.get("theme") == "0")
    }
    for one in (one for part in root.iterchildren(f"{_MAIN}cellXfs") for one in part):
        number, font = one.get("numFmtId", "0"), int(one.get("fontId", 0))
        form = own.get(number) or BUILTIN_FORMATS.get(int(number), "General")
        look = fonts[font] if font < len(fonts) else (False, "")
        is_white = font in white and one.get("fillId", "0") == "0"
        yield _Style(form, is_date_format(form), is_timedelta_format(form), *look, is_white)

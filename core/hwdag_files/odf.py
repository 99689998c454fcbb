"""OpenDocument texts, sheets and slides to text, as a person sees them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import repeat
from typing import Any, NamedTuple

from hwdag.text.headings import LONGEST_HEADING
from hwdag.text.tables import NAMED_ONCE, ROW
from hwdag_files.blocks import (
    described,
    is_item,
    item,
    joined,
    no_heading,
    one_line,
    without_blanks,
)
from hwdag_files.cells import Cell, cell_lines
from hwdag_files.content import Content, UnreadableError, as_notes
from hwdag_files.marks import box, lowered, raised, struck, with_marks
from hwdag_files.odf_styles import (
    DRAW,
    FORM,
    LIBRE,
    OFFICE,
    PRESENTATION,
    STYLE,
    SVG,
    TABLE,
    TEXT,
    XML,
    Counts,
    Look,
    Styles,
    integer,
)
from hwdag_files.packages import Package
from hwdag_files.sheets import SHEET_NOTES, sheet_lines

_DC_TITLE = "{http://purl.org/dc/elements/1.1/}title"
_MOST_REPEATED = 1 << 20
"""Cells of a sheet that only repeat others; a file of a few bytes may repeat one a million million times."""

_NOTES = {
    "slide": "{} hidden slide{s} left out",
    "hidden": "{} hidden passage{s} left out",
    "faint": "{} passage{s} read in white letters, which a person may not see",
    "deleted": "{} passage{s} left out that tracked changes delete",
    **{kind: SHEET_NOTES[kind] for kind in ("sheet", "row", "column", "formula")},
    "comment": "{} comment{s} left out",
    "notes": "speaker notes of {} slide{s} read under the heading Notes",
    "picture": "{} picture{s} not read",
    "object": "{} embedded object{s}, chart{s} or formula{s} not read",
    "page": "headers and footers left out",
    "repeated": "{} repeated row{s} or cell{s} read once",
    NAMED_ONCE: NAMED_ONCE,
}
_LEFT_OUT = frozenset(
    {f"{TEXT}tracked-changes", f"{TEXT}ruby-text", f"{OFFICE}forms", f"{TEXT}number"}
    | {f"{TEXT}sequence-decls", f"{TEXT}variable-decls", f"{TEXT}user-field-decls"}
    | {f"{SVG}title", f"{SVG}desc", f"{OFFICE}event-listeners", f"{TEXT}index-title-template"}
    | {f"{OFFICE}annotation", f"{TEXT}table-of-content-source", f"{TEXT}alphabetical-index-source"}
)
_SIGNS = {f"{TEXT}tab": "\t", f"{TEXT}line-break": "\n", f"{TEXT}soft-hyphen": ""}
_GROUPS = frozenset(f"{TABLE}table-{name}" for name in ("header-rows", "rows", "row-group"))
_INVISIBLE = ("collapse", "filter")
_VALUES = ("string-value", "value", "date-value", "time-value", "boolean-value")
_MOST_COLUMNS = 1 << 14
_MOST_SPANNED = 63
_HREF = "{http://www.w3.org/1999/xlink}href"
_LENGTH = re.compile(r"(-?[0-9]{1,9}(?:\.[0-9]{1,9})?)(cm|mm|in|pt|pc|px)?")
_UNITS = {"cm": 28.35, "mm": 2.835, "in": 72.0, "pc": 12.0, "px": 0.75}
_FOOTERS = frozenset({"header", "footer", "date-time", "page-number"})


def odt_content(data: bytes) -> Content:
    """Read a text; headings and list items are marked as in Markdown."""
    reader = _Reader(data)
    reader.note_pages()
    blocks = [*reader.blocks(reader.body("text")), *reader.footnotes()]
    return reader.content(joined(blocks))


def ods_content(data: bytes) -> Content:
    """Read every sheet as a heading and the rows that are filled."""
    reader, texts = _Reader(data), list[str]()
    for sheet in reader.body("spreadsheet").iterchildren(f"{TABLE}table"):
        name = sheet.get(f"{TABLE}style-name", "")
        if reader.styles.property("table", name, f"{TABLE}display") == "false":
            reader.noted["sheet"] += 1
            continue
        lines = sheet_lines(reader.sheet_rows(sheet), reader.noted)
        texts.append(f"## {sheet.get(f'{TABLE}name', '')}\n\n" + "\n".join(lines))
    return reader.content("\n\n".join(texts))


def odp_content(data: bytes) -> Content:
    """Read a presentation; titles are headings, the paragraphs of a shape are items of a list."""
    reader, blocks = _Reader(data), list[str]()
    for number, page in enumerate(reader.body("presentation").iterchildren(f"{DRAW}page"), 1):
        name = page.get(f"{DRAW}style-name", "")
        visibility = f"{PRESENTATION}visibility"
        if reader.styles.property("drawing-page", name, visibility) == "hidden":
            reader.noted["slide"] += 1
        else:
            # why a number: without a heading it would be read below that of a slide before
            has_heading = any(block.startswith("# ") for block in blocks)
            blocks += reader.slide(page, f"Slide {number}" if has_heading else "")
    reader.title = ""  # why: the title of the file usually comes from the program or a template
    return reader.content(joined(blocks))


class _Place(NamedTuple):
    """A list that is open: its style, level and counts."""

    style: str
    level: int
    counts: Counts


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.package = package = Package(data)
        name = "META-INF/manifest.xml"
        if name in package.names and b"encryption-data" in package.read(name):
            raise UnreadableError("it is encrypted; give it without a password")
        self.root = package.xml("content.xml")
        self.roots = [package.xml("styles.xml")] if "styles.xml" in package.names else []
        self.styles = Styles(*self.roots, self.root)
        self.title = ""
        if "meta.xml" in package.names:
            self.title = next(
                (one.text or "" for one in package.xml("meta.xml").iter(_DC_TITLE)), ""
            )
        self.noted = Counter[str]()
        self.controls = {
            name: one
            for one in self.root.iter(
                f"{FORM}checkbox", f"{FORM}radio", f"{FORM}text", f"{FORM}listbox"
            )
            for name in (one.get(f"{XML}id"), one.get(f"{FORM}id"))
            if name
        }
        self._notes = list[Any]()
        self._beside = list[Any]()  # text boxes of the paragraph
        self._outline = Counts()
        self._lists = dict[str, Counts]()  # by id
        self._last = dict[str, Counts]()  # by style
        for one in self.root.iter(f"{TEXT}changed-region"):
            self.noted["deleted"] += one.find(f"{TEXT}deletion") is not None

    def note_pages(self) -> None:
        """Note headers and footers that have words."""
        names = [f"{STYLE}{name}" for name in ("header", "footer", "header-left", "footer-left")]
        found = (one for root in self.roots for one in root.iter(*names))
        words = re.compile(r"[^\W\d_]{3}")
        self.noted["page"] = any(words.search("".join(one.itertext())) for one in found)

    def body(self, kind: str) -> Any:
        """Return the element that holds all text."""
        return self.root.find(f"{OFFICE}body/{OFFICE}{kind}")

    def content(self, text: str) -> Content:
        """Return the text with its title and notes."""
        return Content(text, " ".join(self.title.split()), as_notes(self.noted, _NOTES))

    def blocks(self, element: Any, place: _Place | None = None) -> Iterator[str]:
        """Yield the paragraphs and rows within an element, which may be an item of a list."""
        for child in element:
            tag = child.tag
            if tag == f"{TEXT}p" or tag == f"{TEXT}h":
                yield from self._paragraph(child)
            elif tag == f"{TEXT}list":
                yield from self._list(child, place)
            elif tag == f"{TEXT}numbered-paragraph":
                yield from self._numbered(child)
            elif tag == f"{TABLE}table":
                yield from self._table(child)
            elif tag.startswith(DRAW):
                yield from self._drawing(child)
            elif tag == f"{OFFICE}annotation":
                self.noted["comment"] += 1
            elif self._is_hidden(child):
                self.noted["hidden"] += 1
            elif tag not in _LEFT_OUT:
                yield from self.blocks(child, place)

    def footnotes(self) -> Iterator[str]:
        """Yield the notes of the text, in the order of their marks."""
        for number, note in enumerate(self._notes, 1):
            body = note.find(f"{TEXT}note-body")
            if text := one_line(() if body is None else self.blocks(body)):
                yield f"- [{number}] {text}"

    def _is_hidden(self, element: Any) -> bool:
        if element.tag == f"{TEXT}section":
            return element.get(f"{TEXT}display") in ("none", "condition")
        return False

    def _paragraph(self, element: Any, number: str | None = None, depth: int = 0) -> Iterator[str]:
        """Yield a paragraph with its number, and the text boxes in it; None if it is in no list."""
        style = element.get(f"{TEXT}style-name", "")
        look = self.styles.look("paragraph", style)
        text = without_blanks(with_marks(self._inline(element, look)))
        boxes = list(self._boxes())
        if text:
            yield self._marked(element, text, number, depth)
        yield from boxes

    def _marked(self, element: Any, text: str, number: str | None, depth: int) -> str:
        names = {name.casefold() for name in self._names(element)}
        is_heading = element.tag == f"{TEXT}h"
        level = integer(element, f"{TEXT}outline-level") if is_heading else 0
        if is_heading and number is None and element.get(f"{TEXT}is-list-header") != "true":
            start = element.get(f"{TEXT}start-value")
            is_new = element.get(f"{TEXT}restart-numbering") == "true"
            first = integer(element, f"{TEXT}start-value") if start or is_new else None
            number = self._outline.next(self.styles.outline, level, first)
        number = (number or "").strip() if number is not None else None
        if level or "title" in names:
            whole = " ".join(f"{number or ''} {text}".split())
            if not level:
                self.title = self.title or whole
            elif len(whole) <= LONGEST_HEADING:
                return "#" * min(level, 6) + " " + whole
            return no_heading(whole)
        return no_heading(text) if number is None else item(text, number, depth)

    def _names(self, element: Any) -> Iterator[str]:
        return self.styles.names("paragraph", element.get(f"{TEXT}style-name", ""))

    def _list(self, element: Any, outer: _Place | None) -> Iterator[str]:
        style = element.get(f"{TEXT}style-name") or (outer.style if outer else "")
        if outer is not None and style == outer.style:
            place = _Place(style, outer.level + 1, outer.counts)
        else:
            place = _Place(style, outer.level + 1 if outer else 1, self._counts(element, style))
        if name := element.get(f"{XML}id"):
            self._lists[name] = place.counts
        self._last[style] = place.counts
        for one in element:
            if one.tag in (f"{TEXT}list-item", f"{TEXT}list-header"):
                yield from self._item(one, place)

    def _counts(self, element: Any, style: str) -> Counts:
        if style and style == self.styles.outline_name:
            return self._outline
        if (name := element.get(f"{TEXT}continue-list")) in self._lists:
            return self._lists[name]
        if element.get(f"{TEXT}continue-numbering") == "true" and style in self._last:
            return self._last[style]
        return Counts(style)

    def _item(self, element: Any, place: _Place) -> Iterator[str]:
        """Yield an item, whose first paragraph has its number."""
        is_first = element.tag == f"{TEXT}list-item"
        start = element.get(f"{TEXT}start-value")
        for child in element:
            if child.tag not in (f"{TEXT}p", f"{TEXT}h"):
                yield from self.blocks([child], place)
                is_first = is_first and child.tag in (f"{TEXT}number", f"{TEXT}list")
                continue
            if not is_first:
                yield from ("  " * place.level + one for one in self._paragraph(child))
                continue
            name = child.get(f"{TEXT}style-name", "")
            levels = self.styles.levels(place.style or self.styles.list_of(name))
            first = integer(element, f"{TEXT}start-value") if start else None
            number = place.counts.next(levels, place.level, first)
            written = element.find(f"{TEXT}number")
            number = number if written is None else "".join(written.itertext())
            yield from self._paragraph(child, number, place.level - 1)
            is_first = False

    def _numbered(self, element: Any) -> Iterator[str]:
        """Yield a paragraph that is in a list, though not within its element."""
        style, level = element.get(f"{TEXT}style-name", ""), integer(element, f"{TEXT}level")
        counts = self._lists.setdefault(element.get(f"{TEXT}list-id", ""), Counts(style))
        start = element.get(f"{TEXT}start-value")
        first = integer(element, f"{TEXT}start-value") if start else None
        number = counts.next(self.styles.levels(style), level, first)
        for child in element.iterchildren(f"{TEXT}p", f"{TEXT}h"):
            yield from self._paragraph(child, number, level - 1)

    def _inline(self, element: Any, look: Look) -> str:
        """Return the text within a paragraph."""
        parts = [self._text(element.text, look)]
        for child in element:
            if isinstance(child.tag, str):
                parts.append(self._piece(child, look))
            parts.append(self._text(child.tail, look))
        return "".join(parts)

    def _text(self, text: str | None, look: Look) -> str:
        if not text:
            return ""
        if look.hidden:
            self.noted["hidden"] += bool(text.strip())
            return ""
        text = text.replace("\n", " ").replace("\t", " ")
        self.noted["faint"] += bool(look.faint and text.strip())
        if look.place:
            text = raised(text) if look.place == "super" else lowered(text)
        return struck(text) if look.struck else text

    def _piece(self, element: Any, look: Look) -> str:
        tag = element.tag
        if tag == f"{TEXT}span":
            own = self.styles.look("text", element.get(f"{TEXT}style-name", ""))
            return self._inline(element, own.within(look))
        if tag in _SIGNS:
            return _SIGNS[tag]
        if tag == f"{TEXT}s":
            return " "
        if tag == f"{TEXT}note":
            self._notes.append(element)
            return f"[{len(self._notes)}]"
        if tag in (f"{TEXT}hidden-text", f"{TEXT}hidden-paragraph"):
            text = element.get(f"{TEXT}string-value") or "".join(element.itertext())
            self.noted["hidden"] += bool(text.strip())
            return ""
        if tag == f"{LIBRE}content-control" and element.get(f"{LIBRE}checkbox") == "true":
            return box(is_checked=element.get(f"{LIBRE}checked") == "true")
        if tag == f"{DRAW}control":
            return self._control(element)
        if tag.startswith(DRAW):
            shown = self._formula(element)
            self._beside += [element] if shown is None else []
            return shown or ""
        self.noted["comment"] += tag == f"{OFFICE}annotation"
        return "" if tag in _LEFT_OUT else self._inline(element, look)

    def _control(self, element: Any) -> str:
        """Return the shown text of a field of a form: a box with its label, or its text."""
        control = self.controls.get(element.get(f"{DRAW}control", ""))
        if control is None:
            return ""
        label, value = control.get(f"{FORM}label", ""), control.get(f"{FORM}current-value", "")
        if control.tag == f"{FORM}checkbox":
            state = control.get(f"{FORM}current-state") or control.get(f"{FORM}state")
            return f" {box(is_checked=state == 'checked')}{label} "
        if control.tag == f"{FORM}radio":
            state = control.get(f"{FORM}current-selected") or control.get(f"{FORM}selected")
            return f" {box(is_checked=state == 'true')}{label} "
        return f" {value or control.get(f'{FORM}value', '')} "

    def _boxes(self) -> Iterator[str]:
        """Yield the texts of the drawings that the last paragraph holds."""
        drawings, self._beside = self._beside, []
        for one in drawings:
            yield from self._drawing(one)

    def _drawing(self, element: Any) -> Iterator[str]:
        """Yield the texts of a drawing and of those it holds, or the description of a picture."""
        if element.tag in (f"{DRAW}g", f"{DRAW}a"):
            for one in element:
                if one.tag.startswith(DRAW):
                    yield from self._drawing(one)
            return
        held = [element.find(f"{DRAW}text-box"), element.find(f"{TABLE}table")]
        if element.tag != f"{DRAW}frame":
            yield from self.blocks(element)
        elif held[0] is not None:
            yield from self.blocks(held[0])
        elif held[1] is not None:
            yield from self._table(held[1])
        else:
            is_object = any(True for _ in element.iter(f"{DRAW}object", f"{DRAW}object-ole"))
            self.noted["object" if is_object else "picture"] += 1
            texts = (one.text or "" for one in element.iter(f"{SVG}desc", f"{SVG}title"))
            yield from filter(None, dict.fromkeys(map(described, texts)))

    def _formula(self, element: Any) -> str | None:
        """Return the formula that a frame within a text shows, in the words that make it."""
        inner = element.find(f"{DRAW}object")
        place = "" if inner is None else inner.get(_HREF, "").removeprefix("./")
        if (name := f"{place}/content.xml") not in self.package.names:
            return None
        root = self.package.xml(name)
        if not root.tag.endswith("}math"):
            return None
        found = [one for one in root.iter("{*}annotation") if one.text]
        return " ".join((found[0].text if found else "".join(root.itertext())).split())

    def _table(self, table: Any) -> Iterator[str]:
        if table.find(f".//{TABLE}table") is not None:  # why: such a table is usually a layout
            for cell in table.iter(f"{TABLE}table-cell"):
                if not any(one.tag == f"{TABLE}table-cell" for one in cell.iterancestors()):
                    yield from self.blocks(cell)
            return
        rows = list(_rows(table))
        if rows and not any(is_header for _, is_header in rows):
            rows[0] = rows[0][0], True  # why: few documents mark the header of a table
        cells = [[*self._cells(row, is_header=is_header)] for row, is_header in rows]
        if all(len(row) < 2 for row in cells):
            yield from filter(None, (cell.text for row in cells for cell in row))
            return
        lines = cell_lines(cells, has_names=True, noted=self.noted)
        yield (
            "\n".join(lines)
            if lines
            else "\n".join("\t".join(c.text for c in r) for r in cells if any(c.text for c in r))
        )

    def _cells(self, row: Any, *, is_header: bool) -> Iterator[Cell]:
        for cell in row.iterchildren(f"{TABLE}table-cell"):
            columns = min(integer(cell, f"{TABLE}number-columns-spanned"), _MOST_SPANNED)
            rows = min(integer(cell, f"{TABLE}number-rows-spanned"), _MOST_SPANNED)
            found = Cell(one_line(self.blocks(cell)), is_header, columns, rows)
            times = integer(cell, f"{TABLE}number-columns-repeated")
            yield from repeat(found, min(times, _MOST_SPANNED))

    def sheet_rows(self, sheet: Any) -> Iterator[list[str]]:
        """Yield the texts of the cells of each row of a sheet; a merged cell is in all its rows."""
        hidden, dropped = _hidden_columns(sheet), set[int]()
        above, left = dict[int, tuple[str, int]](), _MOST_REPEATED
        for row, _ in _rows(sheet):
            cells, below = list[str](), dict[int, tuple[str, int]]()
            for cell in row.iterchildren(f"{TABLE}table-cell", f"{TABLE}covered-table-cell"):
                text = self._value(cell) if cell.tag == f"{TABLE}table-cell" else ""
                rest = integer(cell, f"{TABLE}number-rows-spanned")
                if not text and len(cells) in above:
                    text, rest = above[len(cells)]
                if rest > 1:
                    below[len(cells)] = text, rest - 1
                times = min(integer(cell, f"{TABLE}number-columns-repeated"), _MOST_COLUMNS)
                left -= (times - 1) * bool(text)
                self.noted["repeated"] += left < 0 and times > 1
                cells += [text] * times if left >= 0 else [text, *[""] * (times - 1)]
            above = below
            while cells and not cells[-1]:
                cells.pop()
            times = integer(row, f"{TABLE}number-rows-repeated") if cells else 1
            if row.get(f"{TABLE}visibility") in _INVISIBLE:
                self.noted["row"] += times * bool(cells)
                continue
            dropped |= {at for at, cell in enumerate(cells) if cell and at in hidden}
            cells = [cell for at, cell in enumerate(cells) if at not in hidden]
            left -= (times - 1) * len(cells)
            if left < 0 and times > 1:
                self.noted["repeated"] += 1
                times = 1
            yield from repeat(cells, times)
        self.noted["column"] += len(dropped)
        for shapes in sheet.iterchildren(f"{TABLE}shapes"):
            self.noted["object"] += len(shapes)

    def _value(self, cell: Any) -> str:
        """Return the text that a cell shows; its formula if the file has no value of it."""
        look = self.styles.look("table-cell", cell.get(f"{TABLE}style-name", ""))
        lines = [self._inline(one, look) for one in cell.iterchildren(f"{TEXT}p")]
        for one in cell.iterchildren(f"{OFFICE}annotation", f"{DRAW}frame"):
            self.noted["comment" if one.tag == f"{OFFICE}annotation" else "object"] += 1
        self._beside.clear()
        text = " ".join(with_marks("\n".join(lines)).split())
        values = (cell.get(f"{OFFICE}{name}") for name in _VALUES)
        text = text or next(filter(None, values), "")
        if not text and (formula := cell.get(f"{TABLE}formula")):
            self.noted["formula"] += 1
            return str(formula.partition(":")[2] or formula)
        return text

    def slide(self, page: Any, name: str) -> Iterator[str]:
        """Yield the title of a slide, or its name, its shapes from top to bottom, and the speaker's notes."""
        shapes = [one for one in page if one.tag.startswith(DRAW)]
        kinds = {id(one): one.get(f"{PRESENTATION}class", "") for one in shapes}
        shapes = [
            one
            for one in sorted(shapes, key=_corner)
            if kinds[id(one)] not in _FOOTERS and one.get(f"{PRESENTATION}placeholder") != "true"
        ]
        titles = [one for one in shapes if kinds[id(one)] == "title"]
        heading = one_line(block for one in titles for block in self._drawing(one))
        body = [block for one in shapes if one not in titles for block in self._items(one)]
        self.noted["comment"] += len(page.findall(f"{OFFICE}annotation"))
        title = heading if 0 < len(heading) <= LONGEST_HEADING else name
        yield from [f"# {title}"] if title and (heading or body) else []
        yield from [heading] if len(heading) > LONGEST_HEADING else []
        yield from body
        spoken = page.find(f"{PRESENTATION}notes")
        frames = () if spoken is None else spoken.iterchildren(f"{DRAW}frame")
        texts = [
            block
            for one in frames
            if one.get(f"{PRESENTATION}class") == "notes"
            and one.get(f"{PRESENTATION}placeholder") != "true"
            for block in self._items(one)
        ]
        if texts:
            self.noted["notes"] += 1
            yield "### Notes"
            yield from texts

    def _items(self, shape: Any) -> list[str]:
        """Return the paragraphs of a shape; several of them are items of a list."""
        blocks = list(self._drawing(shape))
        if len(blocks) < 2 or any(is_item(block) or block.startswith(ROW) for block in blocks):
            return blocks
        return [item(block, "", 0) for block in blocks]


def _rows(table: Any, *, is_header: bool = False) -> Iterator[tuple[Any, bool]]:
    """Yield the rows of a table, and whether each is a header."""
    for child in table:
        if child.tag == f"{TABLE}table-row":
            yield child, is_header
        elif child.tag in _GROUPS:
            yield from _rows(child, is_header=is_header or child.tag == f"{TABLE}table-header-rows")


def _hidden_columns(sheet: Any) -> set[int]:
    """Return the hidden columns of a sheet, from 0."""
    hidden, at = set[int](), 0
    for one in sheet.iter(f"{TABLE}table-column"):
        times = min(integer(one, f"{TABLE}number-columns-repeated"), _MOST_COLUMNS)
        if one.get(f"{TABLE}visibility") in _INVISIBLE:
            hidden |= set(range(at, at + times))
        at += times
    return hidden


def _corner(shape: Any) -> tuple[float, float]:
    """Return how far a shape, or the highest one of a group, is from the top and the left, in points."""
    places = (one.get(f"{SVG}y") and (_length(one, "y"), _length(one, "x")) for one in shape.iter())
    return min(filter(None, places), default=(0.0, 0.0))


def _length(shape: Any, name: str) -> float:
    match = _LENGTH.fullmatch(shape.get(f"{SVG}{name}", ""))
    return float(match[1]) * _UNITS.get(match[2], 1.0) if match else 0.0

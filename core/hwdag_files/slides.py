"""Presentations to text, as a person sees their slides."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from typing import Any

from hwdag.text.headings import LONGEST_HEADING
from hwdag.text.tables import NAMED_ONCE, table_lines
from hwdag_files.blocks import described, item, joined, no_heading, one_line, without_blanks
from hwdag_files.cells import Cell, cell_lines
from hwdag_files.content import Content, as_notes
from hwdag_files.formulas import FORMULA_NOTE, MATH, formula
from hwdag_files.marks import lowered, raised, struck, with_marks
from hwdag_files.numbering import shown
from hwdag_files.packages import xml_root
from hwdag_files.values import as_shown

_A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_DIAGRAM = "{http://schemas.openxmlformats.org/drawingml/2006/diagram}"
_MC = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
_RELATION = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_REPEATED = frozenset({"dt", "ftr", "sldNum", "hdr"})
"""Kinds of placeholders that are on every slide."""

_NOTES = {
    "slide": "{} hidden slide{s} left out",
    "hidden": "{} hidden shape{s} left out",
    "outside": "{} shape{s} left out next to the slide",
    "comment": "comments on {} slide{s} left out",
    "notes": "speaker notes of {} slide{s} read under the heading Notes",
    "picture": "{} picture{s} not read",
    "formula": FORMULA_NOTE,
    "object": "{} embedded object{s}, chart{s} or diagram{s} not read",
    "page": "footers, slide numbers and texts of the slide master left out",
    NAMED_ONCE: NAMED_ONCE,
}
_FORMS = {
    "arabic": "decimal",
    "alphaLc": "lowerLetter",
    "alphaUc": "upperLetter",
    "romanLc": "lowerRoman",
    "romanUc": "upperRoman",
    "circleNum": "decimalEnclosedCircle",
    "hebrew2": "hebrew2",
    "thaiNum": "thaiNumbers",
    "thaiAlpha": "thaiLetters",
    "hindiNum": "hindiNumbers",
    "ea1": "japaneseCounting",
}
_ENDS = {"ParenBoth": ("(", ")"), "ParenR": ("", ")"), "Period": ("", "."), "Minus": ("- ", " -")}


def slides_content(data: bytes) -> Content:
    """Read a presentation; titles are headings, the paragraphs of a shape are items of a list."""
    from pptx.package import Package

    noted, blocks = Counter[str](), list[str]()
    # why not pptx.Presentation: it refuses shows and templates
    show = Package.open(io.BytesIO(data)).main_document_part.presentation
    size = show.slide_width or 0, show.slide_height or 0
    for number, slide in enumerate(show.slides, 1):
        if slide._element.get("show") in ("0", "false"):
            noted["slide"] += 1
        else:
            # why a number: without a heading it would be read below that of a slide before
            has_heading = any(block.startswith("# ") for block in blocks)
            name = f"Slide {number}" if has_heading else ""
            blocks += _Slide(slide, size, noted).blocks(name)
    layouts = {id(slide.slide_layout): slide.slide_layout for slide in show.slides}.values()
    for one in (*layouts, *(layout.slide_master for layout in layouts)):
        # why once: they are the same on every slide
        noted["page"] |= any(map(_is_text_of_layout, one.shapes))
    return Content(joined(blocks), "", as_notes(noted, _NOTES))


def _is_text_of_layout(shape: Any) -> bool:
    """Return whether a shape of a layout has text that is on the slides themselves."""
    return shape.has_text_frame and not shape.is_placeholder and bool(shape.text_frame.text.strip())


def _choose(tree: Any) -> None:
    """Replace alternatives, which python-pptx passes over, by their shapes: text boxes with formulas have them."""
    for both in [*tree.iter(f"{_MC}AlternateContent")]:
        found = [*both.iterfind(f"{_MC}Choice[1]/*")]
        if not any(one.tag.endswith(("}sp", "}grpSp")) for one in found):
            found = [*both.iterfind(f"{_MC}Fallback/*")] or found
        for shape in found:
            both.addprevious(shape)
        both.getparent().remove(both)


class _Slide:
    def __init__(self, slide: Any, size: tuple[int, int], noted: Counter[str]) -> None:
        _choose(slide._element)
        self.slide = slide
        self.size = size
        self.noted = noted

    def blocks(self, name: str) -> Iterator[str]:
        """Yield the title or a name, the shapes from top to bottom, and the notes of the speaker."""
        title = self.slide.shapes.title
        heading = "" if title is None else " ".join(one_line(self._paragraphs(title)).split())
        shapes = [one for one in _in_order(self.slide.shapes) if self._is_on_slide(one)]
        body = [block for one in shapes for block in self._shape(one, title)]
        shown_title = heading if 0 < len(heading) <= LONGEST_HEADING else name
        yield from [f"# {shown_title}"] if shown_title and (heading or body) else []
        yield from [heading] if len(heading) > LONGEST_HEADING else []
        yield from body
        kinds = {one.reltype.rsplit("/", 1)[-1] for one in self.slide.part.rels.values()}
        self.noted["comment"] += "comments" in kinds
        if self.slide.has_notes_slide:
            _choose(self.slide.notes_slide._element)
        frame = self.slide.notes_slide.notes_text_frame if self.slide.has_notes_slide else None
        if frame is not None and frame.text.strip():
            self.noted["notes"] += 1
            yield "### Notes"
            yield from self._items(frame._element)

    def _is_on_slide(self, shape: Any) -> bool:
        """Return whether a shape is at least partly on the slide; count the others."""
        places = ((shape.left, shape.width, self.size[0]), (shape.top, shape.height, self.size[1]))
        is_on = all(
            start is None or length is None or not most or (start < most and start + length >= 0)
            for start, length, most in places
        )
        self.noted["outside"] += not is_on
        return is_on

    def _shape(self, shape: Any, title: Any) -> Iterator[str]:
        element = shape._element
        name = next((one for one in element.iter() if one.tag.endswith("}cNvPr")), None)
        placeholder = next((one for one in element.iter() if one.tag.endswith("}ph")), None)
        if name is not None and name.get("hidden") in ("1", "true"):
            self.noted["hidden"] += 1
        elif placeholder is not None and placeholder.get("type") in _REPEATED:
            self.noted["page"] = 1
        elif element.tag.endswith("}grpSp"):
            for one in _in_order(shape.shapes):
                yield from self._shape(one, title)
        elif element.tag.endswith("}graphicFrame"):
            yield from self._graphic(shape)
        elif element.tag.endswith("}pic"):
            self.noted["picture"] += 1
            text = "" if name is None else described(name.get("descr", ""))
            yield from [text] if text else []
        elif title is None or element is not title._element:
            yield from self._paragraphs(shape)

    def _paragraphs(self, shape: Any) -> Iterator[str]:
        if shape.has_text_frame:
            yield from self._items(shape._element)

    def _items(self, element: Any) -> Iterator[str]:
        """Yield the paragraphs of a text; several of them are items of a list."""
        texts = list[tuple[str, str, int]]()
        counts = dict[int, tuple[tuple[str, str], int]]()
        for one in element.iter(f"{_A}p"):
            text = without_blanks(with_marks("".join(self._pieces(one))))
            properties = one.find(f"{_A}pPr")
            level = int(properties.get("lvl", "0")) if properties is not None else 0
            kind = None if properties is None else properties.find(f"{_A}buAutoNum")
            counts = {at: count for at, count in counts.items() if at <= level or not text}
            number = ""
            if text and kind is not None:
                key = kind.get("type", ""), kind.get("startAt", "1")
                before, last = counts.get(level, (key, int(key[1]) - 1))
                last = last if before == key else int(key[1]) - 1
                counts[level] = key, last + 1
                number = _number(key[0], last + 1)
            elif text:
                counts.pop(level, None)
            if text:
                texts.append((text, number, level))
        # why: paragraphs of a slide have no marks, and seldom a full stop
        for text, number, level in texts:
            yield item(text, number, level) if len(texts) > 1 or number else no_heading(text)

    def _pieces(self, paragraph: Any) -> Iterator[str]:
        for one in paragraph:
            if one.tag in (f"{_A}r", f"{_A}fld"):
                yield _run(one)
            elif one.tag == f"{_A}br":
                yield "\n"
            else:
                found = list(one.iter(f"{MATH}oMath"))
                yield from (formula(each, self.noted) for each in found)

    def _graphic(self, shape: Any) -> Iterator[str]:
        """Yield the rows of a table or chart as one block, or the texts of a diagram."""
        if shape.has_table:
            lines = self._table(shape.table)
            yield from ["\n".join(lines)] if lines else []
            return
        try:
            if shape.has_chart:
                blocks = ["\n".join(_chart(shape.chart))]
            else:
                ids = next(shape._element.iter(f"{_DIAGRAM}relIds"))
                part = self.slide.part.related_part(ids.get(f"{_RELATION}dm"))
                blocks = list(self._diagram(xml_root(part.blob)))
        except Exception:  # why: python-pptx raises all kinds of exceptions for unknown charts
            self.noted["object"] += 1
        else:
            yield from filter(None, blocks)

    def _table(self, table: Any) -> list[str]:
        rows = [
            [
                Cell(
                    one_line(self._items(cell._tc)),
                    table.first_row and number == 0,
                    cell.span_width if cell.is_merge_origin else 1,
                    cell.span_height if cell.is_merge_origin else 1,
                )
                for cell in row.cells
                if not cell.is_spanned
            ]
            for number, row in enumerate(table.rows)
        ]
        lines = cell_lines(rows, has_names=table.first_row, noted=self.noted)
        return lines or table_lines(
            [[cell.text for cell in row] for row in rows], has_header=False, noted=self.noted
        )

    def _diagram(self, root: Any) -> Iterator[str]:
        """Yield the texts of a diagram, those of a part below that of the whole."""
        below = dict[str, list[tuple[int, str]]]()
        for one in root.iter(f"{_DIAGRAM}cxn"):
            if one.get("type", "parOf") == "parOf":
                order = int(one.get("srcOrd", "0"))
                below.setdefault(one.get("srcId", ""), []).append((order, one.get("destId", "")))
        points = {one.get("modelId", ""): one for one in root.iter(f"{_DIAGRAM}pt")}
        tops = [name for name, one in points.items() if one.get("type") == "doc"]
        stack, seen = [(name, -1) for name in tops], set[str]()
        while stack:
            name, depth = stack.pop()
            if name in seen or name not in points:
                continue
            seen.add(name)
            if text := one_line(self._items(points[name])):
                yield item(text, "", max(0, depth))
            stack += [(one, depth + 1) for _, one in sorted(below.get(name, ()), reverse=True)]


def _in_order(shapes: Iterable[Any]) -> list[Any]:
    """Return shapes from top to bottom, and from left to right at the same height."""
    return sorted(shapes, key=lambda one: (one.top or 0, one.left or 0))


def _run(run: Any) -> str:
    text = "".join(one.text or "" for one in run.iter(f"{_A}t")).replace("\v", "\n")
    properties = run.find(f"{_A}rPr")
    if properties is None:
        return text
    place = properties.get("baseline", "0").rstrip("%")
    if place.startswith("-"):
        text = lowered(text)
    elif place.strip("0"):
        text = raised(text)
    return struck(text) if properties.get("strike", "noStrike") != "noStrike" else text


def _number(kind: str, number: int) -> str:
    """Return a number as PowerPoint shows it; `kind` is a name such as "arabicPeriod"."""
    form = next((form for name, form in _FORMS.items() if kind.startswith(name)), "decimal")
    before, after = next((one for name, one in _ENDS.items() if kind.endswith(name)), ("", ""))
    return f"{before}{shown(number, form)}{after}"


def _chart(chart: Any) -> Iterator[str]:
    """Yield the titles of a chart, then a row for every category, or for every point of a plane."""
    titles = [chart.chart_title] if chart.has_title else []
    for kind in ("category_axis", "value_axis"):
        try:
            axis = getattr(chart, kind)
        except ValueError:  # a pie has none
            continue
        titles += [axis.axis_title] if axis.has_title else []
    texts = (one.text_frame.text for one in titles if one.has_text_frame)
    if title := ", ".join(filter(None, (" ".join(one.split()) for one in texts))):
        yield title
        yield ""
    for plot in chart.plots:
        labels = plot.categories.flattened_labels or [[str(one)] for one in plot.categories]
        form = next((one.text or "" for one in _within(plot._element, "cat", "formatCode")), "")
        names = [" > ".join(_label(str(part), form) for part in label if part) for label in labels]
        # why apart: each series of a plane has places of its own
        groups = [list(plot.series)] if names else [[one] for one in plot.series]
        for series in groups:
            columns = [[_value(value, _format(one)) for value in one.values] for one in series]
            rows = zip_longest(names or _places(series[0]), *columns, fillvalue="")
            yield from table_lines([["", *(one.name for one in series)], *rows], has_header=True)


def _label(text: str, form: str) -> str:
    """Return a category as it is shown; a date is stored as the number of its day."""
    from openpyxl.styles.numbers import is_date_format
    from openpyxl.utils.datetime import from_excel

    if not is_date_format(form):
        return text
    try:
        return as_shown(from_excel(float(text)), form)
    except (OverflowError, ValueError):
        return text


def _places(series: Any) -> list[str]:
    """Return the first coordinates of the points of a series."""
    return [one.text or "" for one in _within(series._element, "xVal", "v")]


def _within(element: Any, outer: str, inner: str) -> Iterator[Any]:
    """Yield the elements of a name within those of another one."""
    for one in element.iter("{*}" + outer):
        yield from one.iter("{*}" + inner)


def _format(series: Any) -> str:
    found = (one for one in series._element.iter() if one.tag.endswith("}formatCode"))
    return next((one.text or "" for one in reversed(list(found))), "")


def _value(value: object, form: str) -> str:
    return "" if value is None else as_shown(value, form)

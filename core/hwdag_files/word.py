"""Word documents to text, as a person sees them: numbers of paragraphs counted, hidden text left out."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from hwdag.text.headings import LONGEST_HEADING
from hwdag.text.tables import NAMED_ONCE
from hwdag_files.blocks import described, item, joined, no_heading, one_line, without_blanks
from hwdag_files.cells import cell_lines, merged
from hwdag_files.content import Content, as_notes
from hwdag_files.formulas import FORMULA_NOTE, formula
from hwdag_files.marks import box, lowered, raised, struck, with_marks
from hwdag_files.numbering import WORD, Numbering
from hwdag_files.packages import Package
from hwdag_files.word_styles import Style, Styles, is_on, value

_BOX = "{http://schemas.microsoft.com/office/word/2010/wordml}checkbox"
_CHECKED = "{http://schemas.microsoft.com/office/word/2010/wordml}checked"

_HOLDS_NO_TEXT = (
    "pPr rPr tblPr tblPrEx tblGrid trPr tcPr sdtPr sdtEndPr sectPr instrText delInstrText rt"
)
_LEFT_OUT = frozenset(_HOLDS_NO_TEXT.split())
"""Elements without text that a person sees."""

_NOTE_MARKS = ("footnoteReference", "endnoteReference")
_SIGNS = {
    "tab": "\t",
    "ptab": "\t",
    "br": "\n",
    "cr": "\n",
    "noBreakHyphen": "\u2011",
    "softHyphen": "",
}
_BOXES = {("Wingdings", sign): True for sign in (0x78, 0xFD, 0xFE)}
_BOXES |= {("Wingdings", sign): False for sign in (0x6F, 0x71, 0x72, 0xA8)}
_BOXES |= {("Wingdings 2", sign): True for sign in (0x51, 0x52, 0x53, 0x54)}
_BOXES |= {("Wingdings 2", sign): False for sign in (0x2A, 0xA3)}
_PRIVATE = re.compile("[\uf020-\uf0ff]")

_NOTES = {
    "hidden": "{} hidden passage{s} left out",
    "faint": "{} passage{s} read in white or tiny letters, which a person may not see",
    "deleted": "{} passage{s} left out that tracked changes delete or move away",
    "comment": "{} comment{s} left out",
    "picture": "{} picture{s} not read",
    "formula": FORMULA_NOTE,
    "object": "{} embedded object{s}, chart{s} or diagram{s} not read",
    "letter": "{} letter{s} of symbol fonts not read",
    "page": "headers and footers left out",
    NAMED_ONCE: NAMED_ONCE,
}


def word_content(data: bytes) -> Content:
    """Read a Word document; headings and list items are marked as in Markdown."""
    return _Reader(Package(data)).content()


class _Reader:
    def __init__(self, package: Package) -> None:
        self.package = package
        [self.main, *_] = [
            *package.related("", "officeDocument"),
            *{"word/document.xml"} & package.names,
        ] or [""]
        if not self.main:
            raise ValueError("no document within the package")
        self.styles = Styles(self._part("styles"))
        self.numbering = Numbering(self._part("numbering"), self.styles.list_of)
        self.noted = Counter[str]()
        self.title = ""
        self.beside: list[Any] = []  # text boxes of the paragraph
        self.footnotes: list[tuple[str, str]] = []  # kind and id, in the order of their marks
        self.fields: list[str] = []  # text that open fields show at their end
        self.lists: list[int] = []  # levels of the open items
        self.pending = ""  # of paragraphs whose end is deleted

    def content(self) -> Content:
        blocks = list[str]()
        for element in self.package.children(self.main, f"{WORD}body"):
            blocks += self.blocks(element)
        blocks += self._footnotes()
        if self._part("comments") is not None:
            self.noted["comment"] = len(self._part("comments"))
        for kind in ("header", "footer"):
            for name in self.package.related(self.main, kind):
                texts = self.package.xml(name).iter(f"{WORD}t")
                if re.search(r"[^\W\d_]{3}", "".join(one.text or "" for one in texts)):
                    self.noted["page"] = 1
        return Content(joined(blocks), self.title, as_notes(self.noted, _NOTES))

    def blocks(self, element: Any) -> Iterator[str]:
        """Yield the paragraphs and rows within an element."""
        name = _name(element)
        if name == "p":
            yield from self._paragraph(element)
        elif name == "tbl":
            yield from self._table(element)
        elif name in ("del", "moveFrom"):
            self._count_deleted(element)
        elif name == "altChunk":
            self.noted["object"] += 1
        elif name not in _LEFT_OUT:
            for child in element:
                yield from self.blocks(child)

    def _paragraph(self, element: Any) -> Iterator[str]:
        properties = element.find(f"{WORD}pPr")
        own = None if properties is None else value(properties.find(f"{WORD}pStyle"))
        style_id = own or self.styles.default
        style = self.styles.get(style_id)
        text, self.pending = self.pending + self._inline(element, style), ""
        mark = None if properties is None else properties.find(f"{WORD}rPr")
        frame = None if properties is None else properties.find(f"{WORD}framePr")
        is_initial = frame is not None and frame.get(f"{WORD}dropCap") in ("drop", "margin")
        if is_initial or (mark is not None and mark.find(f"{WORD}del") is not None):
            self.pending = text
            return
        boxes, self.beside = self.beside, []
        text = without_blanks(with_marks(text))
        number = self._number(properties, style_id, style, is_blank=not text)
        if text:
            yield self._marked(text, number, _heading(properties, style), style)
        for one in boxes:
            yield from self.blocks(one)

    def _marked(self, text: str, number: tuple[str, int] | None, heading: int, style: Style) -> str:
        """Put the sign of a heading or an item before a paragraph."""
        shown = number[0].strip() if number else ""
        whole = f"{shown} {text}" if shown else text
        if style.name.casefold() == "title":
            self.title = self.title or " ".join(text.split())
        elif heading and len(whole) <= LONGEST_HEADING:
            self.lists.clear()
            return "#" * heading + " " + " ".join(whole.split())
        if number is None:
            return no_heading(whole)
        while self.lists and self.lists[-1] >= number[1]:
            self.lists.pop()
        depth = len(self.lists)
        self.lists.append(number[1])
        return item(text, shown, depth)

    def _number(
        self, properties: Any, style_id: str, style: Style, *, is_blank: bool
    ) -> tuple[str, int] | None:
        """Return the number of a paragraph, and its level; count it."""
        own = None if properties is None else properties.find(f"{WORD}numPr")
        number_id = None if own is None else value(own.find(f"{WORD}numId"))
        level = None if own is None else value(own.find(f"{WORD}ilvl"))
        by_style = self.numbering.by_style(style_id)
        at = int(level) if level and level.isdigit() else style.level
        if number_id is None:
            number_id = style.number_id or (by_style[0] if by_style else "")
        if at is None:
            at = by_style[1] if by_style else 0
        # why: Word shows the number of an empty paragraph, but not that of a hidden one
        if number_id in ("", "0") or (is_blank and self._is_hidden(properties, style)):
            return None
        number = self.numbering.next(number_id, at, self.styles.language)
        return None if number is None else (number, at)

    @staticmethod
    def _is_hidden(properties: Any, style: Style) -> bool:
        mark = None if properties is None else properties.find(f"{WORD}rPr")
        return bool(style.hidden if (own := is_on(mark, "vanish")) is None else own)

    def _inline(self, element: Any, style: Style) -> str:
        """Return the text within a paragraph: of its runs, also inside links, fields and the like."""
        return "".join(self._piece(child, style) for child in element)

    def _piece(self, element: Any, style: Style) -> str:
        name = _name(element)
        if name == "r":
            return self._run(element, style)
        if name in ("del", "moveFrom"):
            self._count_deleted(element)
        elif name == "sdt":
            return self._control(element, style)
        elif name == "oMath":
            parent = element.getparent()
            is_apart = parent is not None and _name(parent) == "oMathPara"
            return formula(element, self.noted, is_apart=is_apart)
        elif name == "AlternateContent":
            return self._alternative(element, style)
        elif name not in _LEFT_OUT:
            return self._part_of_run(element, style)
        return ""

    def _run(self, run: Any, style: Style) -> str:
        properties = run.find(f"{WORD}rPr")
        name = None if properties is None else value(properties.find(f"{WORD}rStyle"))
        own = self.styles.get(name) if name else Style()
        hidden = is_on(properties, "vanish")
        if hidden is None:
            hidden = bool(own.hidden) ^ bool(style.hidden)
        text = self._inline(run, style)
        if hidden:
            self.noted["hidden"] += bool(text.strip())
            return ""
        self.noted["faint"] += bool(text.strip()) and _is_faint(run, properties)
        font = None if properties is None else properties.find(f"{WORD}rFonts")
        if _PRIVATE.search(text):
            name = "" if font is None else font.get(f"{WORD}ascii", "")
            text = _PRIVATE.sub(lambda sign: self._symbol(name, ord(sign[0])), text)
        align = None if properties is None else value(properties.find(f"{WORD}vertAlign"))
        place = None if properties is None else value(properties.find(f"{WORD}position"))
        align = align or own.align or style.align or ""
        if any(_name(one) in _NOTE_MARKS for one in run):  # why: marks of notes are usually raised
            align = place = ""
        if align == "superscript" or (place and place.isdigit() and int(place) > 0):
            text = raised(text)
        elif align == "subscript" or (place and place.startswith("-")):
            text = lowered(text)
        is_struck = is_on(properties, "strike", "dstrike")
        if is_struck is None:
            is_struck = bool(own.struck) ^ bool(style.struck)
        return struck(text) if is_struck else text

    def _part_of_run(self, element: Any, style: Style) -> str:
        name = _name(element)
        if name == "t":
            return " ".join((element.text or "").split("\n"))
        if name in _SIGNS:
            return _SIGNS[name]
        if name == "sym":
            code = int(element.get(f"{WORD}char", "0"), 16)
            return self._symbol(element.get(f"{WORD}font", ""), code)
        if name == "fldChar":
            return self._field(element)
        if name in _NOTE_MARKS:
            self.footnotes.append((name[: -len("Reference")], element.get(f"{WORD}id", "")))
            return f"[{len(self.footnotes)}]"
        if name in ("drawing", "pict", "object"):
            return self._drawing(element)
        return self._inline(element, style)

    def _symbol(self, font: str, code: int) -> str:
        """Return the letter of a symbol font, which a person sees as a sign."""
        from mammoth.docx.dingbats import dingbats

        code = code - 0xF000 if 0xF000 <= code <= 0xF0FF else code
        if (font, code) in _BOXES:
            return box(is_checked=_BOXES[font, code])
        if (found := dingbats.get((font, code))) is None:
            self.noted["letter"] += 1
            return ""
        return chr(found)

    def _field(self, mark: Any) -> str:
        """Return the shown text of a field without stored text: a box, or the choice of a list."""
        kind = mark.get(f"{WORD}fldCharType")
        if kind == "begin":
            self.fields.append("")
            check = mark.find(f"{WORD}ffData/{WORD}checkBox")
            entries = mark.findall(f"{WORD}ffData/{WORD}ddList/{WORD}listEntry")
            if check is not None:
                state = is_on(check, "checked")
                state = is_on(check, "default") if state is None else state
                return box(is_checked=bool(state))
            if entries:
                chosen = value(mark.find(f"{WORD}ffData/{WORD}ddList/{WORD}result")) or "0"
                at = int(chosen) if chosen.isdigit() else 0
                self.fields[-1] = value(entries[at]) or "" if at < len(entries) else ""
        elif kind == "end" and self.fields:
            return self.fields.pop()
        return ""

    def _control(self, element: Any, style: Style) -> str:
        check = element.find(f"{WORD}sdtPr/{_BOX}")
        if check is None:
            return self._inline(element, style)
        state = check.find(_CHECKED)
        name = _CHECKED.replace("checked", "val")
        return box(is_checked=state is not None and state.get(name) in ("1", "true", "on"))

    def _alternative(self, element: Any, style: Style) -> str:
        """Read the newest form of a part that a file has in several; an older one if it has no text."""
        for child in element:
            before = len(self.beside)
            text = self._inline(child, style)
            if text.strip() or len(self.beside) > before:
                return text
        return ""

    def _drawing(self, element: Any) -> str:
        """Return the description of a picture; text boxes are read after the paragraph."""
        boxes = list(element.iter(f"{WORD}txbxContent"))
        self.beside += [one for one in boxes if not _within(one, element, "Fallback")]
        if boxes:
            return ""
        texts = [one.get("string", "") for one in element.iter() if _name(one) == "textpath"]
        shown = [one for one in element.iter() if _name(one) in ("docPr", "shape")]
        names = ("descr", "alt")
        texts += [text for one in shown for name in names if (text := described(one.get(name, "")))]
        inner = set(map(_name, element.iter()))
        if inner & {"chart", "relIds", "OLEObject"}:
            self.noted["object"] += 1
        elif inner & {"blip", "imagedata"}:
            self.noted["picture"] += 1
        return " ".join(dict.fromkeys(filter(None, texts)))

    def _count_deleted(self, element: Any) -> None:
        texts = (one.text or "" for one in element.iter(f"{WORD}delText", f"{WORD}t"))
        self.noted["deleted"] += bool("".join(texts).strip())

    def _table(self, table: Any) -> Iterator[str]:
        rows, headers = list[list[tuple[list[str], int, str | None]]](), list[bool]()
        for row in _rows(table):
            properties = row.find(f"{WORD}trPr")
            if properties is not None and properties.find(f"{WORD}del") is not None:
                self._count_deleted(row)
                continue
            if is_on(properties, "hidden"):
                self.noted["hidden"] += 1
                continue
            before = None if properties is None else value(properties.find(f"{WORD}gridBefore"))
            skipped = int(before) if before and before.isdigit() else 0
            gap: list[tuple[list[str], int, str | None]] = [([], min(skipped, 63), None)]
            rows.append((gap if skipped else []) + [self._cell(cell) for cell in _cells(row)])
            headers.append(bool(is_on(properties, "tblHeader")))
        is_nested = next(table.iterdescendants(f"{WORD}tbl"), None) is not None
        if is_nested or all(len(row) < 2 for row in rows):  # why: such a table is usually a layout
            yield from (block for row in rows for texts, _, _ in row for block in texts)
            return
        if headers and not any(headers):  # why: few documents mark the header of a table
            headers[0] = True
        lined = [[(one_line(texts), span, merge) for texts, span, merge in row] for row in rows]
        cells = merged(lined, headers)
        lines = cell_lines(cells, has_names=True, noted=self.noted)
        yield (
            "\n".join(lines)
            if lines
            else "\n".join("\t".join(c.text for c in r) for r in cells if any(c.text for c in r))
        )

    def _cell(self, cell: Any) -> tuple[list[str], int, str | None]:
        """Return the blocks of a cell, the columns that it spans, and how it is merged with that above."""
        properties = cell.find(f"{WORD}tcPr")
        blocks = [block for child in cell for block in self.blocks(child)]
        if properties is None:
            return blocks, 1, None
        span = value(properties.find(f"{WORD}gridSpan"))
        merge = properties.find(f"{WORD}vMerge")
        kind = None if merge is None else value(merge) or "continue"
        return blocks, min(max(int(span), 1), 63) if span and span.isdigit() else 1, kind

    def _footnotes(self) -> Iterator[str]:
        texts = dict[tuple[str, str], Any]()
        for kind in {kind for kind, _ in self.footnotes}:
            root = self._part(f"{kind}s")
            for one in () if root is None else root:
                texts[kind, one.get(f"{WORD}id", "")] = one
        self.lists.clear()
        for number, key in enumerate(self.footnotes, 1):
            blocks = self.blocks(texts[key]) if key in texts else iter(())
            if text := one_line(blocks):
                yield f"- [{number}] {text}"

    def _part(self, kind: str) -> Any:
        names = self.package.related(self.main, kind) or [f"word/{kind}.xml"]
        return self.package.xml(names[0]) if names[0] in self.package.names else None


def _heading(properties: Any, style: Style) -> int:
    outline = None if properties is None else value(properties.find(f"{WORD}outlineLvl"))
    if outline is None or not outline.isdigit():
        return style.heading
    return min(int(outline) + 1, 6) if int(outline) < 9 else 0


def _is_faint(run: Any, properties: Any) -> bool:
    """Return whether letters are white on no ground of their own, or at most two points high."""
    if properties is None:
        return False
    size = value(properties.find(f"{WORD}sz")) or ""
    if size.isdigit() and int(size) <= 4:  # half points
        return True
    if (value(properties.find(f"{WORD}color")) or "").upper() != "FFFFFF":
        return False
    around = (run, *run.iterancestors(f"{WORD}p", f"{WORD}tc", f"{WORD}tbl"))
    kinds = [f"{WORD}{kind}Pr/{WORD}shd" for kind in ("r", "p", "tc", "tbl")]
    # why the style: most styles of tables have rows of white letters on a dark ground
    kinds.append(f"{WORD}tblPr/{WORD}tblStyle")
    return all(one.find(kind) is None for one in around for kind in kinds)


def _rows(element: Any) -> Iterator[Any]:
    """Yield the rows of a table, also those within content controls."""
    for child in element:
        name = _name(child)
        if name == "tr":
            yield child
        elif name not in _LEFT_OUT and name not in ("del", "moveFrom"):
            yield from _rows(child)


def _cells(row: Any) -> Iterator[Any]:
    for child in row:
        if _name(child) == "tc":
            yield child
        elif _name(child) not in _LEFT_OUT:
            yield from _cells(child)


def _within(element: Any, end: Any, name: str) -> bool:
    while element is not end and element is not None:
        element = element.getparent()
        if element is not None and _name(element) == name:
            return True
    return False


def _name(element: Any) -> str:
    """Return the name of an element without its namespace."""
    tag = element.tag
    return tag.rpartition("}")[2] if isinstance(tag, str) else ""

"""RTF to text, as a person sees it: hidden, deleted and struck-out text, notes, tables, headings, code pages.

bytes -> control words, groups and text -> pieces of paragraphs -> blocks as in Markdown
"""

from __future__ import annotations

import codecs
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from hwdag.text.characters import without_surrogates
from hwdag.text.tables import NAMED_ONCE, table_lines
from hwdag_files.blocks import item, joined, no_heading, without_blanks
from hwdag_files.cells import cell_lines, merged
from hwdag_files.content import Content, UnreadableError, as_notes
from hwdag_files.encodings import COUNTING_HANDLER
from hwdag_files.marks import lowered, raised, struck, with_marks

MAX_DEPTH = 1000  # open groups; deeper nesting is no document
SAME_EDGE = 40  # twips, between the edges of cells of one column

_TOKEN = re.compile(
    r"(\\\*\s*)?\\([A-Za-z]{1,32})(-?\d{1,10})? ?"  # a control word, with a star if old readers skip it
    r"|\\'([0-9A-Fa-f]{2})|\\([^A-Za-z])|([{}])|([^\\{}\r\n\0]+)|[\r\n\0]+|\\",
    re.S,
)
_SIGNS = {
    "par": "\n\n", "sect": "\n\n", "page": "\n\n", "line": "\n", "lbr": "\n", "tab": "\t",
    "emdash": "—", "endash": "–", "bullet": "•", "lquote": "‘", "rquote": "’", "ldblquote": "“",
    "rdblquote": "”", "emspace": " ", "enspace": " ", "qmspace": " ", "zwnj": "\u200c", "zwj": "\u200d",
    "~": "\xa0", "_": "\u2011", "\n": "\n\n", "\r": "\n\n", "{": "{", "}": "}", "\\": "\\",
    "cell": "\x1d", "row": "\x1e", "nestcell": "\x1c", "nestrow": "\x1f",
}  # fmt: skip
"""The text of control words and symbols; separators end a cell or a row, of an inner table, too."""

_SKIPPED = (
    "annotation filetbl fldinst ftncn ftnsep ftnsepc aftncn aftnsep aftnsepc listtable"
    " nonesttables objdata pict revtbl rxe shprslt sn sp sv tc template txe xe"
)
"""Groups that are no text, or that another group repeats."""

_NO_TEXT = re.compile(f"{_SKIPPED.replace(' ', '|')}|(?:header|footer)[lrf]?")
_GROUPS = {
    **dict.fromkeys(("fonttbl", "colortbl", "stylesheet", "info", "footnote", "upr"), ""),
    **{"listtext": "number", "pntext": "number"},
}
_STARRED = frozenset({"shpinst", "ud", "nesttableprops"})
"""Groups of later versions of RTF that hold text."""

_CODE_PAGES = {
    77: "mac_roman", 128: "cp932", 129: "cp949", 134: "gb18030", 136: "big5", 161: "cp1253",
    162: "cp1254", 163: "cp1258", 177: "cp1255", 178: "cp1256", 186: "cp1257", 204: "cp1251",
    222: "cp874", 238: "cp1250", 255: "cp437",
}  # fmt: skip
"""Code pages by the character set of a font."""

_MERGES = {"clvmgf": "restart", "clvmrg": "continue", "clmrg": "left"}
"""Parts of merged cells: the first and the others of several rows, and those of the cell to the left."""

_PRIMARY = ("red", "green", "blue")
_WHITE = [255, 255, 255]
_SYMBOLS = 2  # the character set of fonts whose letters are signs
_HEADING = re.compile(r"heading ([1-9])", re.I)

_NOTES = {
    "hidden": "{} hidden passage{s} left out",
    "deleted": "{} passage{s} left out that tracked changes delete or move away",
    "comment": "{} comment{s} left out",
    "picture": "{} picture{s} not read",
    "page": "headers and footers left out",
    "faint": "{} passage{s} read in white letters, which a person may not see",
    "letter": "{} letter{s} of symbol fonts not read",
    "lost": "{} undecodable byte{s} replaced",
    "open": "the file ends too early",
    NAMED_ONCE: NAMED_ONCE,
}


@dataclass(frozen=True, slots=True)
class _State:
    """The look of text, and the group that it is in."""

    group: str = ""  # "" or a key of `_GROUPS`, "skip", "title", "number"
    is_new: bool = False  # nothing of the group was read yet
    is_hidden: bool = False
    is_deleted: bool = False
    is_struck: bool = False
    colour: int = 0  # number in the table of colours; 0 for the usual one
    ground: int = 0
    place: str = ""  # "sup" or "sub"
    font: int = -1
    fallback: int = 1  # characters after one of Unicode, for old readers
    style: int = 0
    level: int = 0  # of a heading
    depth: int = 0  # lists around the list of an item
    in_table: bool = False
    is_inner: bool = False  # describes a row of a table within a cell


_Edge = tuple[int, str | None]  # the right side of a cell, and a value of `_MERGES`
_Row = tuple[list[str], list[_Edge]]


@dataclass(slots=True)
class _Flow:
    """The text of the document, or of a note: its blocks, and the table and paragraph that are open."""

    blocks: list[str] = field(default_factory=list)
    rows: list[_Row] = field(default_factory=list)
    cells: list[str] = field(default_factory=list)
    edges: list[_Edge] = field(default_factory=list)
    inner_rows: list[_Row] = field(default_factory=list)  # of a table within a cell
    inner_cells: list[str] = field(default_factory=list)
    inner_edges: list[_Edge] = field(default_factory=list)
    merge: str | None = None  # of the cell that is described
    pieces: list[str] = field(default_factory=list)
    number: str = ""  # of an item of a list
    look: _State = _State()  # of the last text

    def text(self) -> str:
        """Return the open paragraph, and begin a new one."""
        text = without_blanks("".join(self.pieces))
        self.pieces.clear()
        return text


def rtf_content(data: bytes) -> Content:
    """Read an RTF document; headings and list items are marked as in Markdown."""
    if not data.lstrip().startswith(b"{\\rtf"):
        raise UnreadableError("it does not begin with {\\rtf, so it is no RTF document")
    return _Reader(data.decode("latin-1")).content()


class _Reader:
    def __init__(self, source: str) -> None:
        self.source = source
        self.noted = Counter[str]()
        self.state = _State()
        self.stack = list[_State]()
        self.code_page = "cp1252"
        self.font = -1  # that the table of fonts describes
        self.fonts = dict[int, int]()  # their character sets
        self.levels = dict[int, int]()  # of headings, by style
        self.bytes = bytearray()
        self.ignored = 0  # characters for old readers that are still to come
        self.colours = list[list[int]]()  # red, green and blue of each, the last one being read
        self.title = ""
        self.flows = [_Flow()]
        self.notes = list[_Flow]()

    def content(self) -> Content:
        """Return the whole document."""
        at = 0
        while match := _TOKEN.match(self.source, at):
            at = match.end()
            star, word, number, code, sign, brace, text = match.groups()
            if word == "bin":
                at += max(0, int(number or 0))
            elif word:
                self._word(word, None if number is None else int(number), is_starred=bool(star))
            elif code or text:
                self._bytes(bytes.fromhex(code) if code else text.encode("latin-1"))
            elif brace:
                self._brace(brace)
            elif sign:
                self._sign(sign)
        self._flush()
        self.noted["open"] = int(bool(self.stack))
        blocks = self._ended(self.flows[0])
        for number, note in enumerate(self.notes, 1):
            blocks.append(f"- [{number}] {' '.join(' '.join(self._ended(note)).split())}")
        text, odd = without_surrogates(_paired(joined(blocks)))
        self.noted["lost"] += odd
        title = " ".join(_paired(self.title).split())
        return Content(with_marks(text), title, as_notes(self.noted, _NOTES))

    def _brace(self, brace: str) -> None:
        self._flush()
        self.ignored = 0
        if brace == "{":
            if len(self.stack) == MAX_DEPTH:
                raise UnreadableError(f"its groups are nested more than {MAX_DEPTH} deep")
            self.stack.append(self.state)
            self.state = replace(self.state, is_new=True)
        elif self.stack:
            inner, self.state = self.state, self.stack.pop()
            if inner.group == "footnote" != self.state.group:
                self.flows.pop()

    def _word(self, word: str, number: int | None, *, is_starred: bool) -> None:
        if self.ignored and word not in ("u", "uc"):
            self.ignored -= 1
            return
        self._flush()
        if self.state.is_new:
            self._begin(word, is_starred=is_starred)
        if word == "u":
            self._text(chr((number or 0) & 0xFFFF))
            self.ignored = self.state.fallback
        elif word in _SIGNS:
            self._text(_SIGNS[word])
        elif word in _LOOKS:
            self.state = _LOOKS[word](self.state, 1 if number is None else number)
        else:
            self._set(word, number or 0)

    def _begin(self, word: str, *, is_starred: bool) -> None:
        """Change the state by the word that opens a group."""
        before = self.state.group
        group = before
        if before == "info":
            group = "title" if word == "title" else "skip"
        elif before == "upr" and word == "ud":  # the text before it is the one for old readers
            group = ""
        elif word in _GROUPS and before != "skip":
            group = _GROUPS[word] or word
        elif _NO_TEXT.fullmatch(word) or (is_starred and word not in _STARRED):
            group = "skip"
        if group == "colortbl" != before:
            self.colours = [[0, 0, 0]]
        if group == "skip" != before:
            self.noted["page"] |= word.startswith(("header", "footer"))
            self.noted["picture"] += word == "pict"
            self.noted["comment"] += word == "annotation"
        if group == "footnote" != before:
            self.flows[-1].pieces.append(f"[{len(self.notes) + 1}]")  # why not raised: a mark
            self.notes.append(_Flow())
            self.flows.append(self.notes[-1])
        is_inner = self.state.is_inner or word == "nesttableprops"
        self.state = replace(self.state, group=group, is_new=False, is_inner=is_inner)

    def _set(self, word: str, number: int) -> None:
        """Take a setting of the document or of a font."""
        if word == "f":
            self.state = replace(self.state, font=number)
            self.font = number
        elif word in _PRIMARY and self.colours:
            self.colours[-1][_PRIMARY.index(word)] = number
        elif word == "fcharset":
            self.fonts[self.font] = number
        elif word == "trowd":
            flow = self.flows[-1]
            (flow.inner_edges if self.state.is_inner else flow.edges).clear()
        elif word in _MERGES:
            self.flows[-1].merge = _MERGES[word]
        elif word == "cellx":
            flow = self.flows[-1]
            (flow.inner_edges if self.state.is_inner else flow.edges).append((number, flow.merge))
            flow.merge = None
        elif word == "ansicpg":
            with suppress(LookupError):
                self.code_page = codecs.lookup(f"cp{number}").name
        elif word in ("mac", "pc", "pca"):
            self.code_page = {"mac": "mac_roman", "pc": "cp437", "pca": "cp850"}[word]

    def _sign(self, sign: str) -> None:
        if self.ignored:
            self.ignored -= 1
        elif sign in _SIGNS:
            self._flush()
            self._text(_SIGNS[sign])

    def _bytes(self, data: bytes) -> None:
        if self.ignored:
            dropped = min(self.ignored, len(data))
            self.ignored -= dropped
            data = data[dropped:]
        self.bytes += data

    def _flush(self) -> None:
        """Decode the bytes that were read, by the font that they are in."""
        if not self.bytes:
            return
        charset = self.fonts.get(self.state.font, 0)
        text = self.bytes.decode(_CODE_PAGES.get(charset, self.code_page), COUNTING_HANDLER)
        self.bytes.clear()
        self.state = replace(self.state, is_new=False)
        if charset == _SYMBOLS and self.state.group == "":
            self.noted["letter"] += len(text.split())
        elif charset == _SYMBOLS and self.state.group == "number":
            text = "•"
        self._text(text)

    def _text(self, text: str) -> None:
        """Take text of the group that is open."""
        state, flow = self.state, self.flows[-1]
        if state.group == "title":
            self.title += text
        elif state.group == "colortbl":
            self.colours += [[0, 0, 0] for _ in range(text.count(";"))]
        elif state.group == "stylesheet":
            found = _HEADING.match(text)
            if level := state.level or int(found[1] if found else 0):
                self.levels[state.style] = level
        elif state.group == "number":
            flow.number += text
        elif state.group in ("", "footnote"):
            if text == "\n\n" or text in "\x1c\x1d\x1e\x1f":
                self._end(flow, text)
            elif state.is_deleted or state.is_hidden:
                kind = "deleted" if state.is_deleted else "hidden"
                self.noted[kind] += bool(text.strip())
            else:
                flow.look = state if text.strip() else flow.look
                self.noted["faint"] += bool(text.strip()) and self._is_white(state)
                place = {"sup": raised, "sub": lowered}.get(state.place, str)
                flow.pieces.append(struck(place(text)) if state.is_struck else place(text))

    def _is_white(self, state: _State) -> bool:
        """Return whether letters are white on no ground of their own."""
        is_known = 0 < state.colour < len(self.colours)
        return (
            is_known
            and self.colours[state.colour] == _WHITE
            and not state.ground
            and not state.in_table
        )

    def _end(self, flow: _Flow, sign: str) -> None:
        """End a paragraph, a cell or a row of a table."""
        if sign == "\x1d":
            flow.cells.append(flow.text())
        elif sign == "\x1c":
            flow.inner_cells.append(flow.text())
        elif sign == "\x1f":
            flow.inner_rows.append((flow.inner_cells, list(flow.inner_edges)))
            flow.inner_cells = []
        elif sign == "\x1e":
            flow.rows.append((flow.cells, list(flow.edges)))
            flow.cells = []
            if flow.inner_rows:
                self._end_table(flow)
                flow.rows, flow.inner_rows = flow.inner_rows, []
                self._end_table(flow)
        elif flow.look.in_table and "".join(flow.pieces).strip():
            flow.pieces.append("\n")
        elif text := flow.text():
            self._end_table(flow)
            level = min(6, flow.look.level or self.levels.get(flow.look.style, 0))
            number, flow.number = flow.number.strip(), ""
            is_bullet = not any(map(str.isalnum, number))
            if level:
                text = f"{'#' * level} {'' if is_bullet else number} {text}"
                text = " ".join(text.split())
            elif number:
                text = item(text, "" if is_bullet else number, flow.look.depth)
            else:
                text = no_heading(text)
            flow.blocks.append(text)

    def _end_table(self, flow: _Flow) -> None:
        if any(any(texts) for texts, _ in flow.rows):
            flow.blocks.append("\n".join(_table_lines(flow.rows, self.noted)))
        flow.rows = []

    def _ended(self, flow: _Flow) -> list[str]:
        """Return the blocks of a text, with the parts that are still open."""
        if flow.cells:
            flow.rows.append((flow.cells, flow.edges))
        flow.look = replace(flow.look, in_table=False)
        self._end(flow, "\n\n")
        self._end_table(flow)
        return flow.blocks


_LOOKS: Mapping[str, Callable[[_State, int], _State]] = {
    **dict.fromkeys(("v", "webhidden"), lambda state, n: replace(state, is_hidden=n > 0)),
    "deleted": lambda state, n: replace(state, is_deleted=n > 0),
    **dict.fromkeys(("strike", "striked"), lambda state, n: replace(state, is_struck=n > 0)),
    **dict.fromkeys(("super", "up"), lambda state, n: replace(state, place="sup" if n else "")),
    **dict.fromkeys(("sub", "dn"), lambda state, n: replace(state, place="sub" if n else "")),
    "cf": lambda state, n: replace(state, colour=n),
    **dict.fromkeys(
        ("highlight", "cb", "chcbpat", "cbpat"), lambda state, n: replace(state, ground=n)
    ),
    "nosupersub": lambda state, n: replace(state, place=""),
    "plain": lambda state, n: replace(
        state,
        is_hidden=False,
        is_deleted=False,
        is_struck=False,
        place="",
        font=-1,
        colour=0,
        ground=0,
    ),
    "uc": lambda state, n: replace(state, fallback=max(0, min(n, 8))),
    "s": lambda state, n: replace(state, style=n),
    "outlinelevel": lambda state, n: replace(state, level=n + 1 if 0 <= n < 9 else 0),
    "ilvl": lambda state, n: replace(state, depth=max(0, min(n, 9))),
    "intbl": lambda state, n: replace(state, in_table=n > 0),
    "pard": lambda state, n: replace(state, style=0, level=0, depth=0, in_table=False),
}
"""Changes by the words for the look of characters and paragraphs."""


def _table_lines(rows: Sequence[_Row], noted: Counter[str]) -> list[str]:
    """Return the lines of a table, whose cells span the columns between the edges of others."""
    plain = [texts for texts, _ in rows]
    if all(len(texts) == len(edges) for texts, edges in rows):
        sides = list[int]()
        for side in sorted({side for _, edges in rows for side, _ in edges}):
            sides += [side] if not sides or side > sides[-1] + SAME_EDGE else []
        spread = [_spans(texts, edges, sides) for texts, edges in rows]
        if any(span > 1 or merge for row in spread for _, span, merge in row):
            is_header = [number == 0 for number in range(len(rows))]
            if lines := cell_lines(merged(spread, is_header), has_names=True, noted=noted):
                return lines
    return table_lines(plain, noted=noted)


def _spans(
    texts: Sequence[str], edges: Sequence[_Edge], sides: Sequence[int]
) -> list[tuple[str, int, str | None]]:
    """Return the cells of a row with the columns that they span, for `merged`."""
    found, last = list[tuple[str, int, str | None]](), 0
    for text, (side, merge) in zip(texts, edges, strict=True):
        at = bisect_right(sides, side)
        span, last = at - last, max(last, at)
        if found and (merge == "left" or span < 1):
            before, columns, kind = found[-1]
            found[-1] = " ".join(filter(None, [before, text])), columns + max(0, span), kind
        else:
            found.append((text, max(1, span), merge))
    return found


def _paired(text: str) -> str:
    """Join halves of surrogate pairs; lone ones stay."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")

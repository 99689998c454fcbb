"""The text of an HTML page as a reader sees it."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from html.parser import HTMLParser
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from hwdag.text.headings import LONGEST_HEADING
from hwdag.text.tables import NAMED_ONCE
from hwdag_files.blocks import no_heading
from hwdag_files.cells import Cell, cell_lines
from hwdag_files.content import Content, UnreadableError, as_notes
from hwdag_files.encodings import COUNTING_HANDLER, decoded
from hwdag_files.marks import box, lowered, raised, struck, with_marks
from hwdag_files.mathml import mathml
from hwdag_files.numbering import shown
from hwdag_files.page_styles import apply_styles

if TYPE_CHECKING:
    from bs4 import BeautifulSoup
    from bs4.element import PageElement, Tag

_NOISE = "head script style noscript template nav svg iframe title datalist video audio canvas"
NOISE = frozenset(_NOISE.split())
"""HTML elements whose text is not part of the document."""

_BLOCK = re.compile(
    "address|article|aside|blockquote|body|caption|dd|details|dialog|div|dl|dt|fieldset|figcaption"
    "|figure|footer|form|h[1-6]|header|hr|legend|li|main|ol|p|pre|section|summary|table|tr|ul"
)
"""HTML elements that a blank line separates."""

_CELLS = ("td", "th")
_ROWS = ("tr", *_CELLS)
_PARTS = ("thead", "tbody", "tfoot", "caption", *_ROWS)
_ENDED_BY = {
    **dict.fromkeys(_CELLS, _CELLS),
    "tr": _ROWS,
    **dict.fromkeys(("thead", "tbody", "tfoot"), _PARTS),
    "li": ("li",),
    **dict.fromkeys(("dt", "dd"), ("dt", "dd")),
    "option": ("option",),
}
"""HTML elements, each with those of the same table or list that end where it begins."""

_HOLDERS = frozenset({"table", "ul", "ol", "dl", "select"})
_OF_HEAD = "html head title meta link base script style noscript template"
_IN_HEAD = frozenset(_OF_HEAD.split())
_AROUND_HEAD = 3  # open elements that may be around the head of a page, with it
_MEDIA = frozenset({"audio", "canvas", "embed", "iframe", "object", "video"})

MAX_DEPTH = 100
"""How many open elements are searched for one of the same table or list."""

# looks like a character reference by number and is invalid, or is of an absurd length
_NO_REFERENCE = re.compile("&#(?!(?:[0-9]{1,20}|[xX][0-9a-fA-F]{1,20})[^0-9a-fA-F])")
_ASCII = bytes(range(32, 127))

HTML_NOTES = {
    "hidden": "{} hidden passage{s} left out",
    "faint": "{} passage{s} read in white letters, which a person may not see",
    "picture": "{} picture{s} not read",
    "media": "{} recording{s} or embedded page{s} left out",
    "style": "the page has more styles than are applied, so hidden text may be read",
    NAMED_ONCE: NAMED_ONCE,
}
"""Notes on a page, by the kind of omission."""

HEAD_BYTES = 1 << 14
"""Where a page may declare its encoding; browsers look at the first 1,024 bytes."""

# why not bs4's own search: its time is the cube of the length, and holds the interpreter's lock
_DECLARED = re.compile(
    rb"<(?:meta|\?xml)\b[^<>]*?\b(?:charset|encoding)\s*=[\s\"']*([^\s<>\"'/;]+)", re.IGNORECASE
)

# why: spaces of <pre> must survive the cleaning of all others
_PROTECT = {ord(" "): "\ue000", ord("\t"): "\ue001"}
_RELEASE = {0xE000: " ", 0xE001: "\t", 0xE003: " "}

_ITEM, _INDENT = "\ue002", "\ue003"
_MARK = rf"{_ITEM}({_INDENT}*(?:- (?:\w{{1,20}}\. )?|-?\d+\. ))"
_FORMS = {"a": "lowerLetter", "A": "upperLetter", "i": "lowerRoman", "I": "upperRoman"}
_LISTS = frozenset({"ul", "ol", "dl"})
_STRUCK = frozenset({"del", "s", "strike"})
_LOOKS = _LISTS | _STRUCK | {"pre", "sup", "sub"}
_NAMED = "hwdag-named"  # whether an option of a list is chosen
_NOT_SHOWN = frozenset({"hidden", "password", "submit", "reset", "button", "image", "file"})
_HIDES = re.compile(
    r"display:none|visibility:(?:hidden|collapse)|font-size:(?:0[^.1-9]|[01](?:\.\d+)?p[xt])"
    r"|opacity:0(?:\.0+)?[;!]|(?:left|top|text-indent):-\d{4,}(?:\.\d+)?px|clip:rect\(0|clip-path:inset\((?:50|100)%"
)
_FLAT = re.compile(r"(?:^|;)(?:max-)?(?:height|width):0(?:px)?[;!]")
_COLOUR = re.compile(r"(?:^|;)color:([^;!]+)")
_GROUND = re.compile(r"(?:^|;)background(?:-color)?:(?!none|inherit|initial|transparent)([^;!]+)")
_WHITE = frozenset({"white", "#fff", "#ffffff", "rgb(255,255,255)"})
_HASH = "\ue006"  # of a heading, until lines that only begin like one are known
_HEADINGS = {f"h{level}": _HASH * level + " " for level in range(1, 7)}


def html_content(
    data: bytes,
    linked: Callable[[str], str] | None = None,
    noted: Counter[str] | None = None,
) -> Content:
    """Read text and title of a page. Raises `UnreadableError` if it cannot be parsed.

    Args:
        data: the page.
        linked: returns the style sheet of an address; without it, those outside of the page are not applied.
        noted: counts the omissions of `HTML_NOTES`; without it, they are among the notes.
    """
    from bs4.exceptions import ParserRejectedMarkup

    markup, notes = decoded(data, _declared_encoding(data))
    # why: after one of these bs4 takes the rest of the page for text, with its scripts
    markup = _NO_REFERENCE.sub("&amp;#", markup)
    with warnings.catch_warnings():
        # why: bs4 warns that the markup looks like XML or like a file name, which users cannot change
        warnings.simplefilter("ignore")
        try:
            page = _before_unended(markup)
            soup = parsed(page)
        except (ParserRejectedMarkup, AssertionError) as error:  # html.parser raises AssertionError
            raise UnreadableError(f"not parsable as HTML: {error}") from error
    if lost := len(markup) - len(page):
        notes = (*notes, f"{lost} characters after a tag or comment that does not end left out")
    title = soup.title.get_text(" ") if soup.title else ""
    counted = Counter[str]() if noted is None else noted
    counted["style"] += not apply_styles(soup, "\n".join(_sheets(soup, linked)))
    text = page_text(soup, counted)
    if noted is None:
        notes = (*notes, *as_notes(counted, HTML_NOTES))
    return Content(text, " ".join(title.split()), notes)


def _sheets(soup: BeautifulSoup, linked: Callable[[str], str] | None) -> Iterator[str]:
    """Yield the style sheets of a page, in its order."""
    for one in soup.find_all(["style", "link"]):
        if str(one.get("media", "all")).strip().lower() not in ("", "all", "screen"):
            continue
        if one.name == "style":
            yield one.get_text()
        elif linked is not None and "stylesheet" in (one.get("rel") or ()):
            yield linked(str(one.get("href", "")))


def parsed(markup: str) -> BeautifulSoup:
    """Parse a page, whose cells, rows and items may lack end tags."""
    return _page_class()(markup, "html.parser")


@cache
def _page_class() -> type[BeautifulSoup]:
    from bs4 import BeautifulSoup

    class Page(BeautifulSoup):
        """Closes the head, cells, rows and items before the next ones, as browsers do."""

        def handle_starttag(self, name: str, *arguments: Any, **options: Any) -> Tag | None:
            if name not in _IN_HEAD and len(self.tagStack) <= 1 + _AROUND_HEAD:
                while any(one.name == "head" for one in self.tagStack[1:]):
                    self.endData()
                    self.popTag()
            if ended := _ENDED_BY.get(name):
                first = len(self.tagStack)
                # why a limit: other tags that do not end may be there by the thousand
                for at in range(first - 1, max(0, first - MAX_DEPTH), -1):
                    if self.tagStack[at].name in _HOLDERS:
                        break
                    first = at if self.tagStack[at].name in ended else first
                self.endData()
                while len(self.tagStack) > first:
                    self.popTag()
            return super().handle_starttag(name, *arguments, **options)

    return Page


def page_text(soup: BeautifulSoup, noted: Counter[str]) -> str:
    """Return the text of a parsed page: blank lines separate blocks, tabs separate cells of a layout.

    Headings and items of lists are marked as in Markdown: "## ", "- ", "1. "; an item within another one
    and the description of a term are indented. Omissions are counted in `noted`.
    """
    # why: an item alone in its block would be taken for a heading; a heading is one within an item, too
    marked = re.sub(
        rf"(?:{_MARK}\s*)++(?!{_HASH})", r"\1", with_marks("".join(_pieces(soup, noted)))
    )
    lines = re.sub(_MARK, "", marked).split("\n")
    cells = (map(" ".join, map(str.split, line.split("\t"))) for line in lines)
    text = "\n".join("\t".join(line).strip() for line in cells)
    text = re.sub(r"\n{3,}", "\n\n", text).strip("\n").translate(_RELEASE)
    return no_heading(text).replace(_HASH, "#")


def _before_unended(markup: str) -> str:
    """Return the page up to a tag, comment or declaration that does not end; HTML5 shows no more of it.

    Older parsers look at every later "<" as well, up to the end each time.
    """
    scanner = HTMLParser()
    scanner.feed(markup)
    rest = scanner.rawdata
    is_unended = rest.startswith("<") and len(rest) > 1 and not scanner.cdata_elem
    return markup[: len(markup) - len(rest)] if is_unended else markup


def _declared_encoding(data: bytes) -> str:
    """Return the encoding that the head of a page names, if bytes of ASCII mean the same in it."""
    declared = _DECLARED.search(data, 0, HEAD_BYTES)
    name = declared[1].decode("ascii", "replace") if declared else "utf-8"
    try:
        # why: the declaration was read as ASCII, so an encoding that reads that otherwise is wrong
        is_usable = _ASCII.decode(name, COUNTING_HANDLER) == _ASCII.decode("ascii")
    except (LookupError, UnicodeError):
        is_usable = False
    return name if is_usable else "utf-8"


class _Look(NamedTuple):
    """How the text of an element is shown, by those around it."""

    is_verbatim: bool = False
    is_struck: bool = False
    place: str = ""  # "sup" or "sub"
    depth: int = 0  # open lists

    def text(self, text: str) -> str:
        """Return the text of a string of the page."""
        text = text.translate(_PROTECT) if self.is_verbatim else re.sub(r"\s+", " ", text)
        if self.place:
            text = raised(text) if self.place == "sup" else lowered(text)
        return struck(text) if self.is_struck else text

    def within(self, tag: Tag) -> _Look:
        """Return how the text within a tag is shown."""
        name, style = tag.name, _style(tag)
        if not style and name not in _LOOKS:
            return self
        place = self.place
        for one, value in (("sup", "super"), ("sub", "sub")):
            if name == one or f"vertical-align:{value};" in style:
                place = one
        return _Look(
            self.is_verbatim or name == "pre",
            self.is_struck or name in _STRUCK or "line-through" in style,
            place,
            self.depth + (name in _LISTS),
        )


def _pieces(page: Tag, noted: Counter[str], *, marks: bool = True) -> Iterator[str]:
    """Strings in reading order; a stack instead of recursion, as nesting may be deep.

    With `marks`, headings are marked. Omissions are counted in `noted`.
    """
    from bs4.element import CData, NavigableString, Tag

    stack: list[tuple[PageElement | str, _Look]] = [(page, _Look())]
    numbers = dict[int, int]()  # by list, of its last item
    while stack:
        node, look = stack.pop()
        if isinstance(node, Tag):
            if node.name in NOISE:
                noted["media"] += node.name in _MEDIA
                noted["picture"] += node.name == "svg" and node.find("text") is not None
                continue
            if _is_hidden(node):
                noted["hidden"] += bool(node.get_text().strip())
                continue
            if (whole := _whole(node, noted, marks=marks)) is not None:
                yield whole
                continue
            noted["faint"] += _is_white(node)
            noted["media"] += node.name in _MEDIA
            noted["picture"] += node.name == "img" and _says_something(node)
            before, after = _around(node, look, numbers)
            inner = look.within(node)
            stack.append((after, look))
            stack.extend((child, inner) for child in reversed(node.contents))
            stack.append((before, look))
        elif type(node) in (
            NavigableString,
            CData,
        ):  # why: the other kinds are comments and the like
            yield look.text(str(node))
        elif type(node) is str:
            yield node


def _says_something(picture: Tag) -> bool:
    """Return whether a picture is neither empty nor decoration."""
    is_tiny = any(str(picture.get(side, "")).strip() in ("0", "1") for side in ("width", "height"))
    return picture.get("alt") != "" and not is_tiny


def _whole(node: Tag, noted: Counter[str], *, marks: bool) -> str | None:
    """Return the text of an element that is read as a whole: a table, a formula or a heading."""
    if node.name == "table" and (lines := _data_table(node, noted)):
        return "\n\n" + "\n".join(lines) + "\n\n"
    if node.name.rpartition(":")[2] == "math":
        return mathml(node)
    if marks and node.name in _HEADINGS and (title := _title(node, noted)):
        return f"\n\n{_HEADINGS[node.name]}{title}\n\n"
    return None


def _around(tag: Tag, look: _Look, numbers: dict[int, int]) -> tuple[str, str]:
    """Return the signs before and after the text of an element."""
    name = tag.name
    if name in ("li", "dt", "dd"):
        # why: the description of a term belongs to it as an item does to the one around its list
        indent = _INDENT * 2 * max(0, look.depth - (name != "dd"))
        number = _number(tag, numbers) if name == "li" else "- "
        return f"\n{_ITEM}{indent}{number}", "\n"
    if name == "br":
        return "\n", ""
    if name == "q":
        return "“", "”"
    if name == "option":
        return "\n" + _choice(tag), ""
    if name == "input":
        return _entered(tag), ""
    if name in _CELLS:
        return "", "\t"
    return ("\n\n", "\n\n") if _BLOCK.fullmatch(name) else ("", "")


def _number(item: Tag, numbers: dict[int, int]) -> str:
    """Return the text before an item: its number, as the list counts it, or a dash."""
    parent = item.parent
    if parent is None or parent.name != "ol":
        return "- "
    step, key = -1 if parent.has_attr("reversed") else 1, id(parent)
    own, start = _integer(item, "value"), _integer(parent, "start")
    if key not in numbers:
        last = len(parent.find_all("li", recursive=False)) if step < 0 else 1
        numbers[key] = (last if start is None else start) - step
    numbers[key] = numbers[key] + step if own is None else own
    form = _FORMS.get(str(item.get("type", parent.get("type", "1"))))
    return f"- {shown(numbers[key], form)}. " if form else f"{numbers[key]}. "


def _integer(tag: Tag, name: str) -> int | None:
    number = str(tag.get(name, "")).strip()
    return int(number) if re.fullmatch(r"-?[0-9]{1,9}", number) else None


def _choice(option: Tag) -> str:
    """Return the box before an option of a list that names its choice."""
    holder = option.find_parent("select")
    if holder is None:
        return ""
    # why kept there: a list may have thousands of options
    is_named = holder.attrs.get(_NAMED)
    if is_named is None:
        is_named = holder.attrs[_NAMED] = str(bool(holder.find("option", selected=True)))
    return box(is_checked=option.has_attr("selected")) if is_named == "True" else ""


def _entered(field: Tag) -> str:
    """Return the shown text of a field of a form: a box, or the text that fills it."""
    kind = str(field.get("type", "text")).lower()
    if kind in ("checkbox", "radio"):
        return box(is_checked=field.has_attr("checked"))
    if kind in _NOT_SHOWN:
        return ""
    return " ".join(["", *str(field.get("value", "")).split(), ""])


def _title(heading: Tag, noted: Counter[str]) -> str:
    """Return the text of a heading; "" if it is unclosed and swallowed the text after it."""
    title = ""
    for piece in _pieces(heading, noted, marks=False):
        title += piece
        if len(title) > 2 * LONGEST_HEADING:
            return ""
    title = _unmarked(title)
    return title if len(title) <= LONGEST_HEADING else ""


def _style(tag: Tag) -> str:
    """Return the declarations of a tag in lower case without blanks, each with a semicolon."""
    style = tag.get("style")
    return "".join(str(style).lower().split()) + ";" if style else ""


def _is_white(tag: Tag) -> bool:
    """Return whether letters have the colour of their background, which is white by default."""
    found = _COLOUR.search(_style(tag))
    colour = _colour(found[1] if found else str(tag.get("color", "")))
    if not colour:
        return False
    around = (tag, *islice(tag.parents, MAX_DEPTH))
    grounds = (
        _GROUND.search(f"{_style(one)}background:{one.get('bgcolor', 'none')};") for one in around
    )
    ground = next((_colour(one[1]) for one in grounds if one), "white")
    return colour in (ground, "transparent") and bool(tag.get_text().strip())


def _colour(name: str) -> str:
    name = "".join(name.lower().split())
    return "white" if name in _WHITE else name


def _is_hidden(tag: Tag) -> bool:
    """Return whether a browser shows nothing of an element because of its tag."""
    if tag.name == "dialog" and not tag.has_attr("open"):
        return True
    # why not "until-found": such a section is folded, and unfolds when a browser finds a word in it
    is_shown = tag.get("hidden", "until-found") == "until-found"
    style = _style(tag)
    is_flat = "overflow:hidden" in style and _FLAT.search(style) is not None
    if is_shown and not is_flat and not _HIDES.search(style):
        return False
    # why: the end tag of a paragraph may be missing, and then bs4 puts the following text into it
    inner = (getattr(child, "name", None) or "" for child in tag.contents)
    return tag.name != "p" or not any(map(_BLOCK.fullmatch, inner))


def _data_table(table: Tag, noted: Counter[str]) -> list[str]:
    """Return the rows of a table with header cells, or names above numbers; nothing of a layout table."""
    if table.find("table"):  # why: such a table is usually a layout
        return []
    found = [(row, row.find_all(["td", "th"], recursive=False)) for row in table.find_all("tr")]
    if sum(len(row) for _, row in found) != len(table.find_all(["td", "th"])):
        return []  # why: cells without a row
    shown_rows = [row for tag, row in found if not _is_hidden(tag)]
    noted["hidden"] += len(found) - len(shown_rows)
    cells = [[_cell(one, noted) for one in row if not _is_hidden(one)] for row in shown_rows]
    lines = cell_lines(cells, has_names=table.find("th") is not None, noted=noted)
    caption = table.find("caption") if lines else None
    return lines if caption is None else [_one_line(caption, noted), "", *lines]


def _cell(tag: Tag, noted: Counter[str]) -> Cell:
    return Cell(
        _one_line(tag, noted), tag.name == "th", _span(tag, "colspan"), _span(tag, "rowspan")
    )


def _span(tag: Tag, name: str) -> int:
    number = str(tag.get(name, "1"))
    return max(1, int(number)) if number.isascii() and number.isdigit() and len(number) < 3 else 1


def _one_line(tag: Tag, noted: Counter[str]) -> str:
    return _unmarked("".join(_pieces(tag, noted, marks=False)))


def _unmarked(text: str) -> str:
    return " ".join(with_marks(re.sub(_MARK, " ", text)).split())

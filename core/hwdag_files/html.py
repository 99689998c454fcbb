"""The text of an HTML page as a reader sees it."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

from hwdag.text.headings import LONGEST_HEADING
from hwdag_files.cells import Cell, cell_lines
from hwdag_files.content import COUNTED, Content, UnreadableError, decoded

if TYPE_CHECKING:
    from bs4 import BeautifulSoup
    from bs4.element import PageElement, Tag

NOISE = frozenset(
    {"head", "script", "style", "noscript", "template", "nav", "svg", "iframe", "title"}
)
"""HTML elements whose text is not part of the document."""

_BLOCK = re.compile(
    "address|article|aside|blockquote|body|caption|dd|details|dialog|div|dl|dt|fieldset|figcaption"
    "|figure|footer|form|h[1-6]|header|hr|legend|li|main|ol|p|pre|section|summary|table|tr|ul"
)
"""HTML elements that stand apart, by a blank line."""

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

DEEPEST = 100
"""Open elements among which such a one is looked for."""

# what looks like a character reference by number but is none, or is of an absurd length
_NO_REFERENCE = re.compile("&#(?!(?:[0-9]{1,20}|[xX][0-9a-fA-F]{1,20})[^0-9a-fA-F])")
_ASCII = bytes(range(32, 127))

HEAD_BYTES = 1 << 14
"""Where a page may declare its encoding; browsers look at the first 1,024 bytes."""

# why not bs4's own search: it takes the cube of what it looks at, and holds the interpreter's lock
_DECLARED = re.compile(
    rb"<(?:meta|\?xml)\b[^<>]*?\b(?:charset|encoding)\s*=[\s\"']*([^\s<>\"'/;]+)", re.IGNORECASE
)

# why: spaces of <pre> must survive the cleaning of all others
_PROTECT = {ord(" "): "\ue000", ord("\t"): "\ue001"}
_RELEASE = {0xE000: " ", 0xE001: "\t"}

_ITEM = "\ue002"
_MARK = rf"{_ITEM}(- |\d+\. )"
_HEADINGS = {f"h{level}": "#" * level + " " for level in range(1, 7)}


def html_content(data: bytes) -> Content:
    """Read text and title of a page. Raises `UnreadableError` where it cannot be parsed."""
    from bs4.exceptions import ParserRejectedMarkup

    markup, notes = decoded(data, _declared_encoding(data))
    # why: after one of these bs4 takes all the rest of the page, its scripts too, for text
    markup = _NO_REFERENCE.sub("&amp;#", markup)
    with warnings.catch_warnings():
        # why: bs4 warns that the markup looks like XML or like a file name, which is no news here
        warnings.simplefilter("ignore")
        try:
            page = _before_unended(markup)
            soup = parsed(page)
        except (ParserRejectedMarkup, AssertionError) as error:  # html.parser raises the latter
            raise UnreadableError(f"not parsable as HTML: {error}") from error
    if lost := len(markup) - len(page):
        notes = (*notes, f"{lost} characters after a tag or comment that does not end left out")
    title = soup.title.get_text(" ") if soup.title else ""
    return Content(page_text(soup), " ".join(title.split()), notes)


def parsed(markup: str) -> BeautifulSoup:
    """Parse a page, also where end tags of cells, rows and items are left out."""
    return _page_class()(markup, "html.parser")


@cache
def _page_class() -> type[BeautifulSoup]:
    from bs4 import BeautifulSoup

    class Page(BeautifulSoup):
        """Closes cells, rows and items where the next ones begin, as browsers do and html.parser does not."""

        def handle_starttag(self, name: str, *arguments: Any, **options: Any) -> Tag | None:
            if ended := _ENDED_BY.get(name):
                first = len(self.tagStack)
                # why a limit: other tags that do not end may be there by the thousand
                for at in range(first - 1, max(0, first - DEEPEST), -1):
                    if self.tagStack[at].name in _HOLDERS:
                        break
                    first = at if self.tagStack[at].name in ended else first
                self.endData()
                while len(self.tagStack) > first:
                    self.popTag()
            return super().handle_starttag(name, *arguments, **options)

    return Page


def page_text(soup: BeautifulSoup) -> str:
    """Return the text of a parsed page, blocks apart by a blank line, cells of layout by a tab.

    Headings and items of lists are marked as in Markdown: "## ", "- ", "1. ".
    """
    # why: an item alone in its block would be taken for a heading; a heading is one within an item, too
    marked = re.sub(rf"(?:{_MARK}\s*)++(?!#)", r"\1", "".join(_pieces(soup)))
    lines = re.sub(_MARK, "", marked).split("\n")
    cells = (map(" ".join, map(str.split, line.split("\t"))) for line in lines)
    text = "\n".join("\t".join(line).strip() for line in cells)
    return re.sub(r"\n{3,}", "\n\n", text).strip("\n").translate(_RELEASE)


def _before_unended(markup: str) -> str:
    """The page up to a tag, comment or declaration that does not end; HTML5 shows no more of it.

    Older parsers look at every later "<" as well, up to the end each time.
    """
    scanner = HTMLParser()
    scanner.feed(markup)
    rest = scanner.rawdata
    is_unended = rest.startswith("<") and len(rest) > 1 and not scanner.cdata_elem
    return markup[: len(markup) - len(rest)] if is_unended else markup


def _declared_encoding(data: bytes) -> str:
    """The encoding that the head of a page names, if bytes of ASCII mean the same in it."""
    declared = _DECLARED.search(data, 0, HEAD_BYTES)
    name = declared[1].decode("ascii", "replace") if declared else "utf-8"
    try:
        # why: the declaration was read as ASCII, so an encoding that reads that otherwise is wrong
        is_usable = _ASCII.decode(name, COUNTED) == _ASCII.decode("ascii")
    except (LookupError, UnicodeError):
        is_usable = False
    return name if is_usable else "utf-8"


def _pieces(page: Tag, *, marks: bool = True) -> Iterator[str]:
    """Strings in reading order; a stack instead of recursion, as nesting may be deep.

    With `marks`, headings are marked.
    """
    from bs4.element import CData, NavigableString, Tag

    stack: list[tuple[PageElement | str, bool]] = [(page, False)]
    numbers = dict[int, int]()  # by list, of its last item
    while stack:
        node, is_verbatim = stack.pop()
        if isinstance(node, Tag):
            if node.name in NOISE or _is_hidden(node):
                continue
            if node.name == "table" and (lines := _data_table(node)):
                yield "\n\n" + "\n".join(lines) + "\n\n"
                continue
            if marks and node.name in _HEADINGS and (title := _title(node)):
                yield f"\n\n{_HEADINGS[node.name]}{title}\n\n"
                continue
            before = after = "\n\n" if _BLOCK.fullmatch(node.name) else ""
            before, after = ("\n", "") if node.name in ("br", "option") else (before, after)
            if node.name == "li":
                before, after = f"\n{_ITEM}- ", "\n"
                if node.parent is not None and node.parent.name == "ol":
                    numbers[id(node.parent)] = number = numbers.get(id(node.parent), 0) + 1
                    before = f"\n{_ITEM}{number}. "
            after = "\t" if node.name in ("td", "th") else after
            is_verbatim = is_verbatim or node.name == "pre"
            stack.append((after, True))
            stack.extend((child, is_verbatim) for child in reversed(node.contents))
            stack.append((before, True))
        elif type(node) in (
            NavigableString,
            CData,
        ):  # why: the other kinds are comments and the like
            text = str(node)
            yield text.translate(_PROTECT) if is_verbatim else re.sub(r"\s+", " ", text)
        elif type(node) is str:
            yield node


def _title(heading: Tag) -> str:
    """The text of a heading; none of one that does not end, so that it has what follows in it."""
    title = ""
    for piece in _pieces(heading, marks=False):
        title += piece
        if len(title) > 2 * LONGEST_HEADING:
            return ""
    title = _unmarked(title)
    return title if len(title) <= LONGEST_HEADING else ""


def _is_hidden(tag: Tag) -> bool:
    """Whether a browser shows nothing of an element, by what its tag says."""
    # why not "until-found": such a section is folded, and opens where a word of it is looked for
    is_shown = tag.get("hidden", "until-found") == "until-found"
    if is_shown and "display:none" not in "".join(str(tag.get("style", "")).lower().split()):
        return False
    # why: the end of a paragraph may be left out, and then bs4 takes what follows into it
    inner = (getattr(child, "name", None) or "" for child in tag.contents)
    return tag.name != "p" or not any(map(_BLOCK.fullmatch, inner))


def _data_table(table: Tag) -> list[str]:
    """The rows of a table that has header cells, or names above numbers; none of one that lays out a page."""
    if table.find("table"):  # why: that is layout as a rule
        return []
    found = [(row, row.find_all(["td", "th"], recursive=False)) for row in table.find_all("tr")]
    if sum(len(row) for _, row in found) != len(table.find_all(["td", "th"])):
        return []  # why: cells without a row
    cells = [list(map(_cell, row)) for tag, row in found if not _is_hidden(tag)]
    lines = cell_lines(cells, has_names=table.find("th") is not None)
    caption = table.find("caption") if lines else None
    return lines if caption is None else [_one_line(caption), "", *lines]


def _cell(tag: Tag) -> Cell:
    return Cell(_one_line(tag), tag.name == "th", _span(tag, "colspan"), _span(tag, "rowspan"))


def _span(tag: Tag, name: str) -> int:
    number = str(tag.get(name, "1"))
    return max(1, int(number)) if number.isascii() and number.isdigit() and len(number) < 3 else 1


def _one_line(tag: Tag) -> str:
    return _unmarked("".join(_pieces(tag, marks=False)))


def _unmarked(text: str) -> str:
    return " ".join(re.sub(_MARK, " ", text).split())

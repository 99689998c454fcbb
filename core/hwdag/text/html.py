"""The text of an HTML page as a reader sees it."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import TYPE_CHECKING

from hwdag.text.content import COUNTED, Content, UnreadableError, decoded
from hwdag.text.tables import table_lines

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


def html_content(data: bytes) -> Content:
    """Read text and title of a page. Raises `UnreadableError` where it cannot be parsed."""
    from bs4 import BeautifulSoup
    from bs4.exceptions import ParserRejectedMarkup

    markup, notes = decoded(data, _declared_encoding(data))
    # why: after one of these bs4 takes all the rest of the page, its scripts too, for text
    markup = _NO_REFERENCE.sub("&amp;#", markup)
    with warnings.catch_warnings():
        # why: bs4 warns that the markup looks like XML or like a file name, which is no news here
        warnings.simplefilter("ignore")
        try:
            page = _before_unended(markup)
            soup = BeautifulSoup(page, "html.parser")
        except (ParserRejectedMarkup, AssertionError) as error:  # html.parser raises the latter
            raise UnreadableError(f"not parsable as HTML: {error}") from error
    if lost := len(markup) - len(page):
        notes = (*notes, f"{lost} characters after a tag or comment that does not end left out")
    title = soup.title.get_text(" ") if soup.title else ""
    # blocks apart by a blank line, cells of a table by a tab
    lines = "".join(_pieces(soup)).split("\n")
    cells = (map(" ".join, map(str.split, line.split("\t"))) for line in lines)
    text = "\n".join("\t".join(line).strip() for line in cells)
    text = re.sub(r"\n{3,}", "\n\n", text).strip("\n").translate(_RELEASE)
    return Content(text, " ".join(title.split()), notes)


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


def _pieces(soup: BeautifulSoup) -> Iterator[str]:
    """Strings in reading order; a stack instead of recursion, as nesting may be deep."""
    from bs4.element import CData, NavigableString, Tag

    stack: list[tuple[PageElement | str, bool]] = [(soup, False)]
    while stack:
        node, is_verbatim = stack.pop()
        if isinstance(node, Tag):
            if node.name in NOISE:
                continue
            if node.name == "table" and (lines := _data_table(node)):
                yield "\n\n" + "\n".join(lines) + "\n\n"
                continue
            before = after = "\n\n" if _BLOCK.fullmatch(node.name) else ""
            before, after = ("\n", "") if node.name == "br" else (before, after)
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


def _data_table(table: Tag) -> list[str]:
    """The rows of a table that has header cells; none of one that lays out a page."""
    # why: a table within a table, or without a header cell, is layout as a rule
    if table.find("table") or not table.find("th"):
        return []
    rows = [row.find_all(["td", "th"], recursive=False) for row in table.find_all("tr")]
    rows = [row for row in rows if row]
    if sum(map(len, rows)) != len(table.find_all(["td", "th"])):
        return []  # why: cells without a row or within another one, of tags that do not end
    has_header = len(rows[0]) > 1 and all(
        cell.name == "th" or not cell.text.strip() for cell in rows[0]
    )
    caption = table.find("caption")
    above = [] if caption is None else [" ".join(caption.get_text(" ").split()), ""]
    cells = ([text for cell in row for text in _spread(cell)] for row in rows)
    return above + table_lines(cells, has_header=has_header)


def _spread(cell: Tag) -> list[str]:
    """The text of a cell for every column that it spans."""
    columns = str(cell.get("colspan", "1"))
    number = int(columns) if columns.isascii() and columns.isdigit() and len(columns) < 3 else 1
    return [cell.get_text(" ")] * max(1, number)

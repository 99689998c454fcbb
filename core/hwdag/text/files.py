"""Documents from files: text, Markdown, HTML and PDF. Whatever is left out is said."""

from __future__ import annotations

import codecs
import io
import logging
import os
import re
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING

from hwdag.errors import InputError
from hwdag.types import Document

if TYPE_CHECKING:
    from bs4 import BeautifulSoup
    from bs4.element import PageElement
    from pypdf import PdfReader

MARKDOWN_SUFFIXES = frozenset({".md", ".markdown"})
HTML_SUFFIXES = frozenset({".html", ".htm", ".xhtml"})
PDF_SUFFIXES = frozenset({".pdf"})
KNOWN_SUFFIXES = (
    frozenset({".txt", ".text", ".rst"}) | MARKDOWN_SUFFIXES | HTML_SUFFIXES | PDF_SUFFIXES
)
"""Suffixes, in lower case, that are read from a directory."""

NOISE = frozenset(
    {"head", "script", "style", "noscript", "template", "nav", "svg", "iframe", "title"}
)
"""HTML elements whose text is not part of the document."""

_BLOCK = re.compile(
    "address|article|aside|blockquote|body|caption|dd|details|dialog|div|dl|dt|fieldset|figcaption"
    "|figure|footer|form|h[1-6]|header|hr|legend|li|main|ol|p|pre|section|summary|table|tr|ul"
)
"""HTML elements that stand apart, by a blank line."""

MOST_MESSAGES = 5
"""Messages of the PDF library that are passed on for one file."""

REPLACEMENT = "\ufffd"

# why: 32 before 16, because the mark of the one begins with that of the other
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_SURROGATE = re.compile("[\ud800-\udfff]")
_ATX_HEADING = re.compile(r" {0,3}#{1,6}[ \t]+(.*)")
_FENCES = ("```", "~~~")
# what looks like a character reference by number but is none, or is of an absurd length
_NO_REFERENCE = re.compile("&#(?!(?:[0-9]{1,20}|[xX][0-9a-fA-F]{1,20})[^0-9a-fA-F])")
_ASCII = bytes(range(32, 127))
_COUNTED = "hwdag.counted"

# why: spaces of <pre> must survive the cleaning of all others
_PROTECT = {ord(" "): "\ue000", ord("\t"): "\ue001"}
_RELEASE = {0xE000: " ", 0xE001: "\t"}

# why: what pypdf says is collected through its logger, and that is one for all threads
_PYPDF_LOCK = threading.Lock()


@dataclass(frozen=True, slots=True)
class Skipped:
    """A path that gives no document, and why."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class _Content:
    text: str
    title: str = ""
    notes: tuple[str, ...] = ()


class UnreadableError(Exception):
    """Raised by the readers below with the reason why something cannot be read."""


def read_documents(
    paths: Iterable[str | os.PathLike[str]],
) -> Iterator[Document | Skipped]:
    """Read files, and directories recursively in sorted order, one at a time.

    From a directory, files with one of `KNOWN_SUFFIXES` are read; hidden names, links to
    directories, and links to files outside of it are not followed. A file that is named explicitly is read whatever its suffix is, as
    text if that is unknown. A file that is reached twice is read once.

    `Document.id` is the path as given, in POSIX style (for members of a directory: joined to the
    directory as given); the title is the first Markdown heading, the HTML title or the file's stem;
    `metadata` is `{"path": id, "notes": [...]}`, where the notes say what was replaced or lost.
    Line breaks become line feeds. Files without text are documents too.

    Raises:
        InputError: a path does not exist; nothing is read then.
    """
    given = [Path(path) for path in paths]
    for path in given:
        _require_existing(path)
    return _read_all(given)


def _require_existing(path: Path) -> None:
    try:
        path.stat()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(
            f"cannot read {path.as_posix()!r}: {reason}; give existing files or directories"
        ) from error


def _read_all(given: Sequence[Path]) -> Iterator[Document | Skipped]:
    read: dict[Path, str] = {}
    for path in given:
        for found in _members(path) if path.is_dir() else [path]:
            yield found if isinstance(found, Skipped) else _read_once(found, read)


def _read_once(path: Path, read: dict[Path, str]) -> Document | Skipped:
    """Read a file that is not in `read`, the real paths so far and the ids they were read under."""
    name = path.as_posix()
    if not path.is_file():  # why: a pipe or a device may never end
        return Skipped(name, "not a regular file, or a broken link")
    first = read.setdefault(path.resolve(), name)
    if first is not name:
        return Skipped(name, f"already read as {first!r}")
    try:
        content = _reader(path.suffix.lower())(path.read_bytes())
    except OSError as error:
        return Skipped(name, f"cannot be read: {error.strerror or error}")
    except UnreadableError as error:
        return Skipped(name, str(error))
    metadata = {"path": name, "notes": list(content.notes)}
    return Document(name, content.text, content.title or path.stem, metadata)


def _reader(suffix: str) -> Callable[[bytes], _Content]:
    if suffix in MARKDOWN_SUFFIXES:
        return _markdown
    if suffix in HTML_SUFFIXES:
        return html_content
    return _pdf if suffix in PDF_SUFFIXES else _plain


def _members(directory: Path) -> Iterator[Path | Skipped]:
    """Files below a directory: those of a folder before those of its subfolders, each sorted."""
    problems: list[OSError] = []
    found = False
    for folder, subfolders, files in os.walk(directory, onerror=problems.append):
        subfolders[:] = sorted(name for name in subfolders if not name.startswith("."))
        for member in sorted(Path(folder, name) for name in files if not name.startswith(".")):
            if member.suffix.lower() in KNOWN_SUFFIXES:
                found = True
                yield _inside(member, directory)
        for link in (Path(folder, name) for name in subfolders if Path(folder, name).is_symlink()):
            yield Skipped(link.as_posix(), "a link to a directory; name it to have it read")
    for problem in problems:
        yield Skipped(Path(problem.filename).as_posix(), f"cannot be read: {problem.strerror}")
    if not (found or problems):
        known = ", ".join(sorted(KNOWN_SUFFIXES))
        yield Skipped(directory.as_posix(), f"holds no file with a known suffix ({known})")


def _inside(member: Path, directory: Path) -> Path | Skipped:
    """A member of a directory, unless it is a link to a file elsewhere."""
    if not (member.is_symlink() and member.is_file()):
        return member
    if member.resolve().is_relative_to(directory.resolve()):
        return member
    return Skipped(
        member.as_posix(), "a link to a file outside the folder; name it to have it read"
    )


def _plain(data: bytes) -> _Content:
    text, notes = _decoded(data)
    return _Content(text, "", notes)


def _markdown(data: bytes) -> _Content:
    text, notes = _decoded(data)
    return _Content(text, _first_heading(text), notes)


def _first_heading(text: str) -> str:
    """The first heading outside of code, in either of Markdown's two styles; "" if there is none."""
    previous, is_code = "", False
    for line in text.splitlines():
        bare = line.strip()
        if bare.startswith(_FENCES):
            is_code = not is_code
        elif not is_code and (match := _ATX_HEADING.match(line)):
            return match[1].strip().rstrip("#").rstrip()
        elif not is_code and previous and bare and not bare.strip("="):
            return previous
        previous = bare
    return ""


def _decoded(data: bytes, declared: str = "utf-8") -> tuple[str, tuple[str, ...]]:
    """Text by its byte order mark or else as declared, its line breaks as line feeds; a note."""
    marked = next((pair for pair in _BYTE_ORDER_MARKS if data.startswith(pair[0])), None)
    if marked:
        data, declared = data[len(marked[0]) :], marked[1]
    elif b"\0" in data:
        raise UnreadableError("holds NUL bytes: binary, or UTF-16 without a byte order mark")
    text, lost = _SURROGATE.subn(REPLACEMENT, data.decode(declared, _COUNTED))
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    notes = f"{lost} undecodable byte{'s' * (lost > 1)} replaced"
    return text, (notes,) if lost else ()


def _count_bytes(error: UnicodeError) -> tuple[str, int]:
    """Decode each wrong byte as a lone surrogate, which no right bytes give; then they can count."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return "\udc80" * (error.end - error.start), error.end


codecs.register_error(_COUNTED, _count_bytes)


def html_content(data: bytes) -> _Content:
    """Text and title of a page. Raises `UnreadableError` where it cannot be parsed."""
    from bs4 import BeautifulSoup
    from bs4.exceptions import ParserRejectedMarkup

    markup, notes = _decoded(data, _declared_encoding(data))
    # why: after one of these bs4 takes all the rest of the page, its scripts too, for text
    markup = _NO_REFERENCE.sub("&amp;#", markup)
    with warnings.catch_warnings():
        # why: bs4 warns that the markup looks like XML or like a file name, which is no news here
        warnings.simplefilter("ignore")
        try:
            whole = _before_unended(markup)
            soup = BeautifulSoup(whole, "html.parser")
        except (ParserRejectedMarkup, AssertionError) as error:  # html.parser raises the latter
            raise UnreadableError(f"not parsable as HTML: {error}") from error
    if lost := len(markup) - len(whole):
        notes = (*notes, f"{lost} characters after a tag or comment that does not end left out")
    title = soup.title.get_text(" ") if soup.title else ""
    return _Content(_visible_text(soup), " ".join(title.split()), notes)


def _before_unended(markup: str) -> str:
    """The page up to a tag, comment or declaration that does not end; HTML5 shows no more of it.

    At the end of the input older parsers look at every later "<" as well, up to the end each time.
    """
    scanner = HTMLParser()
    scanner.feed(markup)
    rest = scanner.rawdata
    is_unended = rest.startswith("<") and len(rest) > 1 and not scanner.cdata_elem
    return markup[: len(markup) - len(rest)] if is_unended else markup


def _declared_encoding(data: bytes) -> str:
    from bs4.dammit import EncodingDetector

    name = EncodingDetector.find_declared_encoding(data, is_html=True) or "utf-8"
    try:
        # why: the declaration was read as ASCII, so an encoding that reads that otherwise is wrong
        is_usable = _ASCII.decode(name, _COUNTED) == _ASCII.decode("ascii")
    except (LookupError, UnicodeError):
        is_usable = False
    return name if is_usable else "utf-8"


def _visible_text(soup: BeautifulSoup) -> str:
    """The text of a page, blocks apart by a blank line, cells of a table by a tab."""
    lines = "".join(_pieces(soup)).split("\n")
    cells = (map(" ".join, map(str.split, line.split("\t"))) for line in lines)
    text = "\n".join("\t".join(line).strip() for line in cells)
    return re.sub(r"\n{3,}", "\n\n", text).strip("\n").translate(_RELEASE)


def _pieces(soup: BeautifulSoup) -> Iterator[str]:
    """Strings in reading order; a stack instead of recursion, as nesting may be deep."""
    from bs4.element import CData, NavigableString, Tag

    stack: list[tuple[PageElement | str, bool]] = [(soup, False)]
    while stack:
        node, is_verbatim = stack.pop()
        if isinstance(node, Tag):
            if node.name in NOISE:
                continue
            before, after = _separators(node.name)
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


def _separators(name: str) -> tuple[str, str]:
    """What stands before and after an element."""
    if _BLOCK.fullmatch(name):
        return "\n\n", "\n\n"
    if name == "br":
        return "\n", ""
    return "", "\t" if name in ("td", "th") else ""


def _pdf(data: bytes) -> _Content:
    with _pypdf_messages() as messages:
        pdf = _opened(data)
        pages = [_page_text(pdf, number) for number in range(_page_count(pdf))]
    lost = [str(number) for number, page in enumerate(pages, 1) if page is None]
    if len(lost) == len(pages):
        raise UnreadableError(f"not one of the {len(pages)} pages of the PDF can be read")
    text = "\n\n".join(page for page in pages if page)
    text, odd = _SURROGATE.subn(REPLACEMENT, text)
    notes = list(dict.fromkeys(messages))[:MOST_MESSAGES]
    if lost:
        notes.append(f"{len(lost)} of {len(pages)} pages cannot be read: {', '.join(lost)}")
    if odd:
        notes.append(f"{odd} characters that are not Unicode replaced")
    if not text.strip():
        notes.append("the pages hold no text; scanned ones need optical character recognition")
    return _Content(text, "", tuple(notes))


# why: on a damaged file pypdf raises all kinds of exceptions (KeyError, RecursionError, ...), so
# the three functions below catch Exception and say what it was


def _opened(data: bytes) -> PdfReader:
    from pypdf import PdfReader

    try:
        pdf = PdfReader(io.BytesIO(data), strict=False)
        is_open = not pdf.is_encrypted or bool(pdf.decrypt(""))
    except Exception as error:
        raise UnreadableError(f"not a readable PDF: {_said(error)}") from error
    if not is_open:
        raise UnreadableError("an encrypted PDF; save a copy without a password")
    return pdf


def _page_count(pdf: PdfReader) -> int:
    try:
        return len(pdf.pages)
    except Exception as error:
        raise UnreadableError(f"not a readable PDF: {_said(error)}") from error


def _page_text(pdf: PdfReader, number: int) -> str | None:
    """Text of a page, counted from 0; None if it cannot be read."""
    try:
        return pdf.pages[number].extract_text().replace("\r\n", "\n").replace("\r", "\n").strip()
    except Exception as error:
        logging.getLogger("pypdf").warning("page %d: %s", number + 1, _said(error))
        return None


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


@contextmanager
def _pypdf_messages() -> Iterator[list[str]]:
    """What pypdf logs meanwhile, as a list that fills up; nothing of it reaches the user's log."""
    messages: list[str] = []
    logger = logging.getLogger("pypdf")
    handler = _ListHandler(messages)
    with _PYPDF_LOCK, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        propagate, logger.propagate = logger.propagate, False
        logger.addHandler(handler)
        try:
            yield messages
        finally:
            logger.removeHandler(handler)
            logger.propagate = propagate


class _ListHandler(logging.Handler):
    """Appends messages to a list."""

    def __init__(self, messages: list[str]) -> None:
        super().__init__(logging.WARNING)
        self._messages = messages

    def emit(self, record: logging.LogRecord) -> None:
        self._messages.append(record.getMessage())

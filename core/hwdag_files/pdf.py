"""The text of a PDF, page by page: by pdfplumber with its layout, or by pypdf as the letters come."""

from __future__ import annotations

import io
import logging
import re
import signal
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from logging.handlers import BufferingHandler
from typing import TYPE_CHECKING
from unicodedata import normalize

from hwdag.text.characters import without_surrogates
from hwdag.text.words import UNSPACED
from hwdag_files import layout
from hwdag_files.content import Content, UnreadableError, said

if TYPE_CHECKING:
    from pdfplumber.pdf import PDF
    from pypdf import PdfReader

MOST_MESSAGES = 5  # messages of the libraries that are passed on for one file
MOST_CONTENT = 1 << 23  # bytes of a page, unpacked, whose layout is read
LARGE_TITLE = 1.3  # type of a title on the first page, over that of the text
WITHOUT_LAYOUT = (
    "read without its layout; for headings, columns and tables: pip install 'hwdag[documents]'"
)

_PAGE_BREAK = "\n\n"
_NO_TITLE = re.compile(
    r"\(?anonymous\)?|untitled|unbenannt|document\d*|microsoft \w+ - .*|.*\.(?:docx?|indd|dvi|tex|pdf|pptx?|rtf|odt|qxd)",
    re.I,
)
_WITHIN_WORDS = re.compile(f"(?<=[{UNSPACED}、。，！？])\n(?=[{UNSPACED}])")
# why: a word in the forms that its letters have on paper is another one than that of a question
_FORMS = re.compile("[\ufb00-\ufb06\ufb50-\ufdff\ufe80-\ufefc]+")  # ligatures, and those of Arabic
_DIVIDED = re.compile(rf"(-?)([^\W_]+)-[\n{layout.LINE_END}]([^\W_]+)")
LONGEST_LINK = 4  # letters of the middle of a compound, such as "state-of-the-art"


def pdf_content(data: bytes, *, layout_seconds: float | None = None) -> Content:
    """Read a PDF: its text, its title, where each page begins, and which pages are lost.

    Pages whose layout is not read within `layout_seconds` are read without it. That works in a main
    thread, and not on Windows.

    Raises:
        UnreadableError: it is no PDF, has a password, or no page of it can be read.
    """
    with _messages() as messages:
        pdf = _opened(data)
        laid_out, pictures, title = _laid_out(data, pdf, layout_seconds)
        pages = [
            _page_text(pdf, number) if text is None else text
            for number, text in enumerate(laid_out)
        ]
        title = _metadata_title(pdf) or title
        filled = _filled_fields(pdf)
    lost = [number for number, page in enumerate(pages, 1) if page is None]
    if len(lost) == len(pages):
        raise UnreadableError(f"not one of the {len(pages)} pages of the PDF can be read")
    text, starts = _joined(pages)
    text, odd = without_surrogates(text)
    notes = list(dict.fromkeys(record.getMessage() for record in messages.buffer))[:MOST_MESSAGES]
    if lost:
        notes.append(f"{len(lost)} of {len(pages)} pages cannot be read: {_listed(lost)}")
    if odd:
        notes.append(f"{odd} characters that are not Unicode replaced")
    if filled:
        notes.append(f"left out what a form is filled in with: {filled}")
    if not text.strip():
        notes.append("the pages hold no text: scanned, needs OCR")
    elif pictures:
        notes.append(f"pictures without text on pages {_listed(pictures)}: scanned, needs OCR")
    return Content(text, title, tuple(notes), tuple(starts))


@contextmanager
def _messages() -> Iterator[BufferingHandler]:
    """Keep what the libraries log, and nothing of it elsewhere."""
    loggers = [logging.getLogger(name) for name in ("pypdf", "pdfminer")]
    messages = BufferingHandler(1 << 20)
    before = [logger.propagate for logger in loggers]
    for logger in loggers:
        logger.propagate = False
        logger.addHandler(messages)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield messages
    finally:
        for logger, propagate in zip(loggers, before, strict=True):
            logger.removeHandler(messages)
            logger.propagate = propagate


def _joined(pages: Sequence[str | None]) -> tuple[str, list[int]]:
    """The text of all pages, and where each begins; a sentence goes on over the end of a page."""
    text, starts = "", list[int]()
    parts, length = list[str](), 0
    for page in pages:
        if page and length:
            goes_on = page[0].islower() and not text.endswith(layout.SENTENCE_END)
            parts.append("\n" if goes_on else _PAGE_BREAK)
            length += len(parts[-1])
        starts.append(length)
        if page:
            parts.append(page)
            length += len(page)
            text = page
    return "".join(parts), starts


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))


# Layout


def _laid_out(
    data: bytes, reader: PdfReader, seconds: float | None
) -> tuple[list[str | None], list[int], str]:
    """The text of each page, None where pypdf has to read it; pages of pictures; the largest heading."""
    count = len(reader.pages)
    try:
        import pdfplumber
    except ImportError:
        logging.getLogger("pypdf").warning(WITHOUT_LAYOUT)
        return [None] * count, [], ""
    pages: dict[int, layout.PageLines] = {}
    try:
        with _alarm(seconds), pdfplumber.open(io.BytesIO(data)) as pdf:
            for number, page in _pages(pdf, reader):
                pages[number] = page
    except Exception as error:  # pdfminer raises all kinds of exceptions on a damaged file
        logging.getLogger("pypdf").warning("read without its layout: %s", said(error))
    characters = sum((page.characters for page in pages.values()), Counter[float]())
    body = characters.most_common(1)[0][0] if characters else 0.0
    running = layout.running_lines(pages, body)
    blocks: dict[int, list[layout.Block]] = {}
    for (number, page), lines in zip(pages.items(), running, strict=True):
        before = blocks.get(number - 1)
        blocks[number] = layout.blocks_of(page, body, lines, before[-1] if before else None)
    ranks = _ranks(blocks.values())
    known = {word for found in blocks.values() for block in found for word in _words(block)}
    texts = [
        _rendered(blocks[number], ranks, known) if number in blocks else None
        for number in range(count)
    ]
    pictures = [
        number + 1 for number, page in pages.items() if page.has_pictures and not page.lines
    ]
    return texts, pictures, _largest_heading(blocks.get(0, ()), body)


@contextmanager
def _alarm(seconds: float | None) -> Iterator[None]:
    """Raise `TimeoutError` inside after so many seconds."""
    if seconds is None or not hasattr(signal, "SIGALRM"):
        yield
        return

    def ring(*_: object) -> None:
        raise TimeoutError(f"it takes longer than {seconds:g} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _pages(pdf: PDF, reader: PdfReader) -> Iterator[tuple[int, layout.PageLines]]:
    outline = _outline(pdf)
    for number, page in enumerate(pdf.pages):
        try:
            contents = reader.pages[number].get_contents()
            size = 0 if contents is None else len(contents.get_data())
            if size > MOST_CONTENT:  # why: pdfminer reads a megabyte in a second
                raise UnreadableError(f"{size >> 20} MB of letters and lines")
            found = layout.page_lines(page, outline)
        except TimeoutError:
            raise
        except Exception as error:
            logging.getLogger("pypdf").warning(
                "page %d read without its layout: %s", number + 1, said(error)
            )
        else:
            yield number, found
        finally:
            page.close()  # why: it holds all its letters


def _outline(pdf: PDF) -> list[str]:
    try:
        return [str(title) for _, title, *_ in pdf.doc.get_outlines()]
    except Exception:  # there is none, or it is damaged
        return []


def _words(block: layout.Block) -> list[str]:
    return re.findall(r"[^\W\d_]+(?:-[^\W\d_]+)*", " ".join(block.lines).lower())


def _ranks(pages: Iterable[Sequence[layout.Block]]) -> dict[float, int]:
    sizes = {block.size for found in pages for block in found if block.kind == "heading"}
    return {size: min(6, rank) for rank, size in enumerate(sorted(sizes, reverse=True), 1)}


def _rendered(blocks: Sequence[layout.Block], ranks: dict[float, int], known: set[str]) -> str:
    """A page as Markdown: headings, paragraphs on one line, rows of tables."""
    parts = list[str]()
    for block in blocks:
        if block.kind == "rows":
            rows = [_undivided(line, known).replace(layout.LINE_END, "") for line in block.lines]
            parts.append("\n".join(rows))
            continue
        text = _on_one_line(_undivided("\n".join(block.lines), known))
        parts.append(f"{'#' * ranks[block.size]} {text}" if block.kind == "heading" else text)
    return "\n\n".join(part for part in parts if part)


def _on_one_line(text: str) -> str:
    """Without line breaks: a blank for each, but none where words are not parted by blanks."""
    return _WITHIN_WORDS.sub("", text).replace("\n", " ")


def _undivided(text: str, known: set[str]) -> str:
    """Put words together that the end of a line divides.

    A hyphen stays that the text has elsewhere, or that is one of a compound, a number or a name.
    """

    def whole(match: re.Match[str]) -> str:
        lead, first, second = match.groups()
        is_link = bool(lead) and len(first) <= LONGEST_LINK
        is_name = len(first) == 1 or not (first + second).isalpha() or not second[0].islower()
        if is_link or is_name or f"{first}-{second}".lower() in known:
            return f"{lead}{first}-{second}"
        return lead + first + second

    return _DIVIDED.sub(whole, text)


def _largest_heading(blocks: Sequence[layout.Block], body: float) -> str:
    found = [
        block for block in blocks if block.kind == "heading" and block.size >= LARGE_TITLE * body
    ]
    return " ".join(max(found, key=lambda block: block.size).lines) if found else ""


# why: on a damaged file pypdf raises all kinds of exceptions (KeyError, RecursionError, ...), so
# the functions below catch Exception and say what it was


def _filled_fields(pdf: PdfReader) -> str:
    """How many fields of a form somebody has filled in; "" for none."""
    try:
        values = [
            value for value in pdf.get_form_text_fields().values() if str(value or "").strip()
        ]
    except Exception as error:
        return said(error)
    return f"{len(values)} field{'s' * (len(values) > 1)}" if values else ""


def _opened(data: bytes) -> PdfReader:
    from pypdf import PdfReader

    try:
        pdf = PdfReader(io.BytesIO(data), strict=False)
        is_open = not pdf.is_encrypted or bool(pdf.decrypt(""))
        if is_open:
            len(pdf.pages)
    except Exception as error:
        raise UnreadableError(f"not a readable PDF: {said(error)}") from error
    if not is_open:
        raise UnreadableError("an encrypted PDF; save a copy without a password")
    return pdf


def _metadata_title(pdf: PdfReader) -> str:
    try:
        title = " ".join(str((pdf.metadata and pdf.metadata.title) or "").split())
    except Exception:
        return ""
    is_title = any(map(str.isalpha, title)) and not _NO_TITLE.fullmatch(title)
    return without_surrogates(title)[0] if is_title else ""


def _page_text(pdf: PdfReader, number: int) -> str | None:
    try:
        text = pdf.pages[number].extract_text().replace("\r\n", "\n").replace("\r", "\n").strip()
        return _FORMS.sub(lambda forms: normalize("NFKC", forms[0]), text)
    except Exception as error:
        logging.getLogger("pypdf").warning("page %d: %s", number + 1, said(error))
        return None

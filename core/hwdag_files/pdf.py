"""The text of a PDF, page by page: with its layout, or in the order of the file if that fails."""

from __future__ import annotations

import re
import signal
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import mean
from unicodedata import normalize

from pypdfium2 import PdfDocument, PdfiumError
from pypdfium2.raw import FPDF_ERR_PASSWORD

from hwdag.text.characters import without_surrogates
from hwdag.text.languages import is_function_word
from hwdag.text.words import UNSPACED, words
from hwdag_files import layout, ocr
from hwdag_files.blocks import no_heading
from hwdag_files.content import Content, UnreadableError, has_ocr, said
from hwdag_files.marks import over_lines, with_marks
from hwdag_files.page_texts import PageText, joined, undivided
from hwdag_files.pdfium import PageReader, drawn

MOST_MESSAGES = 5  # notes on single pages of one file
LARGE_TITLE = 1.3  # type of a title on the first page, over that of the text
MOST_LISTED = 20  # pages of a note
OCR_SHARE = 0.8  # of the time for the layout, which pages that are pictures may take besides
FEWEST_LETTERS = 300  # of a page that may be garbled
LEAST_VOWELS = 0.25  # share of the letters; about 0.4 in European languages, 0.15 in English moved by three letters
LEAST_KNOWN = 0.02  # share of the words that are among the most frequent ones of some language
END_BYTES = 2048  # bytes at the end of a file that must hold the mark of its end

MIN_PRINTED_WORDS = (
    0.7  # share of the words of a title in the metadata that the first page has, too
)
_NO_TITLE = re.compile(
    r"\(?anonymous\)?|(?:untitled|unbenannt|document|slide|folie|layout)[-_ ]?\d*|microsoft \w+ - .*|"
    r".*\.(?:docx?|dotx?|indd|indb|dvi|tex|pdf|pptx?|rtf|odt|qxd|xlsx?|txt|html?|exe|eps|ps|ai)",
    re.I,
)
_WITHIN_WORDS = re.compile(f"(?<=[{UNSPACED}、。，！？])\n(?=[{UNSPACED}])")
# why: letters in their printed forms would make other words than those of a question
_FORMS = re.compile("[\ufb00-\ufb06\ufb50-\ufdff\ufe80-\ufefc]+")  # ligatures, and those of Arabic


def pdf_content(
    data: bytes,
    *,
    layout_seconds: float | None = None,
    show: Callable[[int], object] | None = None,
) -> Content:
    """Read a PDF: its text, its title, the beginnings of its pages, and the pages that are lost.

    Pages whose layout is not read within `layout_seconds` are read without it. That works in a main
    thread, and not on Windows. `show` is called with the number of pages that OCR reads, first and after each.

    Raises:
        UnreadableError: it is no PDF, has a password, or no page of it can be read.
    """
    pdf = _opened(data)
    found = _read(pdf, layout_seconds)
    _recognise(pdf, found, layout_seconds, show or (lambda pages: None))
    pages, known, title = _texts(found)
    title = _title(pdf.get_metadata_value("Title"), pages[0].text, title)
    pdf.close()
    if len(found.lost) == len(pages):
        raise UnreadableError(f"not one of the {len(pages)} pages of the PDF can be read")
    _check_fonts(found)
    text, starts = joined(pages, known)
    text, odd = without_surrogates(text)
    notes = list(dict.fromkeys(found.notes))[:MOST_MESSAGES]
    if b"%%EOF" not in data[-END_BYTES:]:
        notes.append("the end of the file is missing; pages may be missing, too")
    if found.lost:
        notes.append(
            f"{len(found.lost)} of {len(pages)} pages cannot be read: {_listed(found.lost)}"
        )
    if odd:
        notes.append(f"{odd} characters that are not Unicode replaced")
    pictures = [number for number in found.empty if found.pages[number].has_pictures]
    blank = [number for number in found.empty if number not in pictures]
    if found.confidence:
        least = min(found.confidence.values())
        notes.append(
            f"{_named(list(found.confidence))} read by OCR, mean confidence "
            f"{mean(found.confidence.values()):.2f}, the lowest of a page {least:.2f}"
        )
    if not text.strip():
        notes.append(f"the pages hold no text: scanned, {_needs_ocr()}")
    elif pictures:
        notes.append(f"pictures without text on {_named(pictures)}: scanned, {_needs_ocr()}")
    if wrong := [number for number, page in enumerate(pages) if _is_garbled(page.text)]:
        notes.append(
            f"no known words on {_named(wrong)}: fonts may name other letters than they show"
        )
    notes += _left_out(found.pages)
    if text.strip() and blank:
        notes.append(f"nothing to read on {_named(blank)}")
    return Content(text, title, tuple(notes), tuple(starts))


def _is_garbled(text: str) -> bool:
    """Return whether Latin letters have neither the vowels of a language nor its most frequent words."""
    letters = re.findall("[a-z]", normalize("NFD", text.lower()))
    is_latin = len(letters) >= max(FEWEST_LETTERS, sum(map(str.isalpha, text)) / 2)
    if not is_latin or sum(letter in "aeiouy" for letter in letters) >= LEAST_VOWELS * len(letters):
        return False
    found = [word for word in words(text) if len(word) > 1]
    return sum(map(is_function_word, found)) < LEAST_KNOWN * len(found)


def _needs_ocr() -> str:
    return "needs OCR" if has_ocr() else "needs OCR: pip install 'hwdag[ocr]'"


def _check_fonts(found: _Found) -> None:
    """Raise an error if most of the letters are unknown."""
    unknown = sum(page.unknown for page in found.pages.values())
    letters = sum(page.letters for page in found.pages.values())
    if 2 * unknown > letters:
        raise UnreadableError(
            f"its fonts do not say which letters they are, in {unknown} of {letters}: needs OCR"
        )


def _left_out(pages: Mapping[int, layout.PageLines]) -> Iterator[str]:
    for why in sorted({why for page in pages.values() for why in page.left_out}):
        where = [number for number, page in pages.items() if page.left_out[why]]
        count = sum(pages[number].left_out[why] for number in where)
        yield f"left out {count} {why}, on {_named(where)}"


def _named(pages: Sequence[int]) -> str:
    return f"page{'s' * (len(pages) > 1)} {_listed(pages)}"


def _listed(pages: Sequence[int]) -> str:
    more = f" and {len(pages) - MOST_LISTED} more" if len(pages) > MOST_LISTED else ""
    return ", ".join(str(number + 1) for number in pages[:MOST_LISTED]) + more


@dataclass(slots=True)
class _Found:
    """The reading of the pages, by their number from 0: with their layout, without it, or nothing."""

    pages: dict[int, layout.PageLines] = field(default_factory=dict)
    plain: dict[int, str] = field(default_factory=dict)
    lost: list[int] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    confidence: dict[int, float] = field(default_factory=dict)  # of the pages that OCR read

    @property
    def empty(self) -> list[int]:
        """The pages without a text."""
        return [number for number, page in self.pages.items() if not page.lines]


def _read(pdf: PdfDocument, seconds: float | None) -> _Found:
    found, outline, at = _Found(), _outline(pdf), 0
    try:
        with _alarm(seconds):
            for at in range(len(pdf)):
                _read_page(pdf, at, found, outline)
    except TimeoutError as error:
        found.notes.append(f"read without its layout: {said(error)}")
        for number in range(at, len(pdf)):
            _read_page(pdf, number, found, None)
    found.pages = layout.without_marks(found.pages)
    return found


def _recognise(
    pdf: PdfDocument, found: _Found, seconds: float | None, show: Callable[[int], object]
) -> None:
    """Read the pages that are pictures by OCR, if it is installed, within `seconds`."""
    pictures = [number for number in found.empty if found.pages[number].has_pictures]
    if not pictures or not has_ocr():
        return
    show(len(pictures))
    try:
        with _alarm(seconds and OCR_SHARE * seconds):
            for number in pictures:
                read = ocr.recognise(drawn(pdf, number, ocr.DPI))
                found.confidence[number] = read.confidence
                found.pages[number] = layout.recognised_lines(read.words, read.height)
                show(len(pictures))
    except TimeoutError as error:
        found.notes.append(f"OCR broken off: {said(error)}; allow more with max_seconds")
    except Exception as error:  # onnxruntime raises its own
        found.notes.append(f"OCR broken off: {said(error)}")


def _read_page(pdf: PdfDocument, number: int, found: _Found, outline: list[str] | None) -> None:
    """Read a page with its layout, or without it if that fails or there is no `outline`."""
    try:
        page = PageReader(pdf, number)
    except TimeoutError:
        raise
    except Exception as error:  # a damaged page
        found.lost.append(number)
        found.notes.append(f"page {number + 1}: {said(error)}")
        return
    try:
        if outline is None:
            found.plain[number] = _plain(page)
        else:
            found.pages[number] = layout.page_lines(page, outline)
    except TimeoutError:
        raise
    except Exception as error:  # whatever the error, the page has letters
        found.notes.append(f"page {number + 1} read without its layout: {said(error)}")
        found.plain[number] = _plain(page)
    finally:
        page.close()  # why: an open page holds all its letters in memory


def _plain(page: PageReader) -> str:
    return _FORMS.sub(lambda forms: normalize("NFKC", forms[0]), page.in_order())


def _texts(found: _Found) -> tuple[list[PageText], set[str], str]:
    """Return the text of each page, the words of all, and the largest heading of the first page."""
    pages = found.pages
    characters = sum((page.characters for page in pages.values()), Counter[float]())
    body = characters.most_common(1)[0][0] if characters else 0.0
    running = layout.running_lines(pages, body)
    blocks: dict[int, list[layout.Block]] = {}
    for (number, page), lines in zip(pages.items(), running, strict=True):
        before = [block for block in blocks.get(number - 1, ()) if block.kind != "note"]
        blocks[number] = layout.blocks_of(page, body, lines, before[-1] if before else None)
    ranks = _ranks(blocks.values())
    known = {word for found in blocks.values() for block in found for word in _words(block)}

    def text_of(number: int) -> PageText:
        if number not in blocks:
            return PageText(found.plain.get(number, ""))
        notes = [block for block in blocks[number] if block.kind == "note"]
        others = [block for block in blocks[number] if block.kind != "note"]
        return PageText(_rendered(others, ranks, known), _rendered(notes, ranks, known))

    texts = [text_of(number) for number in range(len(pages) + len(found.plain) + len(found.lost))]
    return texts, known, _largest_heading(blocks.get(0, ()), body)


@contextmanager
def _alarm(seconds: float | None) -> Iterator[None]:
    """Raise `TimeoutError` inside after this many seconds."""
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


def _outline(pdf: PdfDocument) -> list[str]:
    try:
        return [bookmark.get_title() for bookmark in pdf.get_toc()]
    except Exception:  # it is damaged
        return []


def _words(block: layout.Block) -> list[str]:
    return re.findall(r"[^\W\d_]+(?:-[^\W\d_]+)*", " ".join(block.lines).lower())


def _ranks(pages: Iterable[Sequence[layout.Block]]) -> dict[float, int]:
    sizes = {block.size for found in pages for block in found if block.kind == "heading"}
    return {size: min(6, rank) for rank, size in enumerate(sorted(sizes, reverse=True), 1)}


def _rendered(blocks: Sequence[layout.Block], ranks: dict[float, int], known: set[str]) -> str:
    """Return a page as Markdown: headings, paragraphs on one line, rows of tables."""
    parts = list[str]()
    for block in blocks:
        if block.kind == "rows":
            rows = [undivided(line, known).replace(layout.LINE_END, "") for line in block.lines]
            parts.append(with_marks("\n".join(rows)))
            continue
        lines = over_lines("\n".join(block.lines))
        text = with_marks(_on_one_line(undivided(lines, known)))
        is_heading = block.kind == "heading"
        parts.append(f"{'#' * ranks[block.size]} {text}" if is_heading else no_heading(text))
    return "\n\n".join(part for part in parts if part)


def _on_one_line(text: str) -> str:
    """Replace line breaks by blanks, or by nothing if blanks do not separate words."""
    return _WITHIN_WORDS.sub("", text).replace("\n", " ")


def _largest_heading(blocks: Sequence[layout.Block], body: float) -> str:
    found = [
        block for block in blocks if block.kind == "heading" and block.size >= LARGE_TITLE * body
    ]
    return with_marks(" ".join(max(found, key=lambda block: block.size).lines)) if found else ""


def _opened(data: bytes) -> PdfDocument:
    try:
        pdf = PdfDocument(data)
    except PdfiumError as error:
        if error.err_code == FPDF_ERR_PASSWORD:
            raise UnreadableError("an encrypted PDF; save a copy without a password") from None
        raise UnreadableError(f"not a readable PDF: {said(error)}") from None
    if not len(pdf):
        raise UnreadableError("a PDF without pages")
    pdf.init_forms()  # why: PDFium draws fields that no program has drawn
    return pdf


def _title(named: str, page: str, heading: str) -> str:
    """Return the title that the metadata has, unless only the first page's large heading can be one.

    Programs write the name of a file, of themselves or of last year's report into the metadata.
    """
    named = " ".join(named.split())
    words, printed = _title_words(named), set(_title_words(page))
    if not any(map(str.isalpha, named)) or _NO_TITLE.fullmatch(named):
        return heading
    is_printed = sum(word in printed for word in words) >= MIN_PRINTED_WORDS * len(words)
    return without_surrogates(named)[0] if is_printed or not heading else heading


def _title_words(text: str) -> list[str]:
    return re.findall(r"[^\W_]+", text.lower())

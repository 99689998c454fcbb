"""The text of a PDF, page by page, by the package pypdf."""

from __future__ import annotations

import io
import logging
import warnings
from logging.handlers import BufferingHandler
from typing import TYPE_CHECKING

from hwdag.text.characters import without_surrogates
from hwdag.text.content import Content, UnreadableError, said

if TYPE_CHECKING:
    from pypdf import PdfReader

MOST_MESSAGES = 5  # messages of pypdf that are passed on for one file

_PAGE_BREAK = "\n\n"


def pdf_content(data: bytes) -> Content:
    """Read a PDF: its text, where each page begins, and which pages are lost.

    Raises:
        UnreadableError: it is no PDF, has a password, or no page of it can be read.
    """
    logger, messages = logging.getLogger("pypdf"), BufferingHandler(1 << 20)
    propagate, logger.propagate = logger.propagate, False
    logger.addHandler(messages)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pages = _pages(data)
    finally:
        logger.removeHandler(messages)
        logger.propagate = propagate
    lost = [str(number) for number, page in enumerate(pages, 1) if page is None]
    if len(lost) == len(pages):
        raise UnreadableError(f"not one of the {len(pages)} pages of the PDF can be read")
    text, starts = _joined(pages)
    text, odd = without_surrogates(text)
    notes = list(dict.fromkeys(record.getMessage() for record in messages.buffer))[:MOST_MESSAGES]
    if lost:
        notes.append(f"{len(lost)} of {len(pages)} pages cannot be read: {', '.join(lost)}")
    if odd:
        notes.append(f"{odd} characters that are not Unicode replaced")
    if not text.strip():
        notes.append("the pages hold no text; scanned ones need optical character recognition")
    return Content(text, "", tuple(notes), tuple(starts))


def _joined(pages: list[str | None]) -> tuple[str, list[int]]:
    """The text of all pages, a blank line between two, and where each page begins."""
    parts, starts, length = list[str](), list[int](), 0
    for page in pages:
        if page and length:
            parts.append(_PAGE_BREAK)
            length += len(_PAGE_BREAK)
        starts.append(length)
        parts.append(page or "")
        length += len(page or "")
    return "".join(parts), starts


# why: on a damaged file pypdf raises all kinds of exceptions (KeyError, RecursionError, ...), so
# the two functions below catch Exception and say what it was


def _pages(data: bytes) -> list[str | None]:
    """The text of each page; None where it cannot be read."""
    from pypdf import PdfReader

    try:
        pdf = PdfReader(io.BytesIO(data), strict=False)
        is_open = not pdf.is_encrypted or bool(pdf.decrypt(""))
        count = len(pdf.pages) if is_open else 0
    except Exception as error:
        raise UnreadableError(f"not a readable PDF: {said(error)}") from error
    if not is_open:
        raise UnreadableError("an encrypted PDF; save a copy without a password")
    return [_page_text(pdf, number) for number in range(count)]


def _page_text(pdf: PdfReader, number: int) -> str | None:
    try:
        return pdf.pages[number].extract_text().replace("\r\n", "\n").replace("\r", "\n").strip()
    except Exception as error:
        logging.getLogger("pypdf").warning("page %d: %s", number + 1, said(error))
        return None

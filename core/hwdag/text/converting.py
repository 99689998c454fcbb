"""PDF, office and other packed files to text, in a process of their own.

A file of a few kilobytes may unpack to gigabytes, or keep a parser busy for hours. A thread cannot be
stopped, so what parses such a file is a process with a limit of memory and time.
"""

from __future__ import annotations

import io
import json
import logging
import os
import subprocess
import sys
import warnings
import zipfile
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING

from hwdag.text.characters import without_surrogates
from hwdag.text.content import Content, UnreadableError
from hwdag.text.html import html_content

if TYPE_CHECKING:
    from pypdf import PdfReader

CONVERTED_SUFFIXES = frozenset({".docx", ".pptx", ".xlsx", ".epub", ".ipynb"})
"""What the extra `documents` reads, by the package markitdown."""

PACKED_SUFFIXES = CONVERTED_SUFFIXES - {".ipynb"}

MEMORY_BYTES = 4 << 30  # of the process that parses a file
UNPACKED_BYTES = 1 << 29  # of all members of a packed file together
MOST_CHARACTERS = 1 << 27  # of a text
MOST_MESSAGES = 5  # messages of the PDF library that are passed on for one file


def convert(data: bytes, suffix: str, *, max_seconds: float) -> Content:
    """Read a file that has to be parsed; raises `UnreadableError`."""
    command = [sys.executable, "-P", "-m", "hwdag.text.converting", suffix]
    # why: the child must find what this process has found
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    try:
        done = subprocess.run(
            command,
            input=data,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=max_seconds,
            env=environment,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise UnreadableError(
            f"reading it took longer than {max_seconds:g} s; allow more with max_seconds, or give "
            "its text"
        ) from None
    try:
        found = json.loads(done.stdout)
    except ValueError:
        raise UnreadableError(
            f"reading it needs more than {MEMORY_BYTES >> 30} GB, or broke its parser (status "
            f"{done.returncode}); give its text"
        ) from None
    if "reason" in found:
        raise UnreadableError(found["reason"])
    return Content(**found | {name: tuple(found[name]) for name in ("notes", "page_starts")})


def main() -> None:
    """Parse standard input as a file with the suffix that is the argument, for `convert`."""
    answer = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # why: what a library prints is no answer
    with suppress(ImportError, ValueError, OSError):  # Windows, or a lower limit that is there
        from resource import RLIMIT_AS, setrlimit

        setrlimit(RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    try:
        found = asdict(parse(sys.stdin.buffer.read(), sys.argv[1]))
    except UnreadableError as error:
        found = {"reason": str(error)}
    with answer:
        answer.write(json.dumps(found).encode())


def parse(data: bytes, suffix: str) -> Content:
    """Read a file within this process; raises `UnreadableError`."""
    if suffix in CONVERTED_SUFFIXES:
        content = converted(data, suffix)
    else:
        content = pdf_content(data) if suffix == ".pdf" else html_content(data)
    if len(content.text) > MOST_CHARACTERS:
        raise UnreadableError(
            f"its text has {len(content.text):,} characters, more than {MOST_CHARACTERS:,}"
        )
    return content


def converted(data: bytes, suffix: str) -> Content:
    """Read an office file, a book or a notebook as Markdown; raises `UnreadableError`."""
    if suffix in PACKED_SUFFIXES:
        _check_packed(data)
    try:
        from markitdown import MarkItDown, StreamInfo
    except ImportError:
        raise UnreadableError(
            f"to read {suffix} install the extra: pip install 'hwdag[documents]'"
        ) from None
    logging.disable()
    try:
        found = MarkItDown(enable_plugins=False).convert_stream(
            io.BytesIO(data), stream_info=StreamInfo(extension=suffix)
        )
    except Exception as error:  # its parsers raise all kinds of exceptions
        raise UnreadableError(f"not a readable {suffix} file: {_said(error)}") from error
    text, odd = without_surrogates(found.markdown)
    notes = (f"{odd} characters that are not Unicode replaced",) if odd else ()
    return Content(text.replace("\r\n", "\n").strip(), (found.title or "").strip(), notes)


def _check_packed(data: bytes) -> None:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as packed:
            size = sum(member.file_size for member in packed.infolist())
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raise UnreadableError(f"not a readable package: {_said(error)}") from error
    if size > UNPACKED_BYTES:
        raise UnreadableError(
            f"it unpacks to {size >> 20:,} MB, more than the {UNPACKED_BYTES >> 20} MB that are read"
        )


def pdf_content(data: bytes) -> Content:
    """Read a PDF page by page; raises `UnreadableError`."""
    messages = _Messages()
    logger = logging.getLogger("pypdf")
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
    notes = list(dict.fromkeys(messages.found))[:MOST_MESSAGES]
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
            parts.append("\n\n")
            length += 2
        starts.append(length)
        parts.append(page or "")
        length += len(page or "")
    return "".join(parts), starts


# why: on a damaged file pypdf raises all kinds of exceptions (KeyError, RecursionError, ...), so
# the two functions below catch Exception and say what it was


def _pages(data: bytes) -> list[str | None]:
    from pypdf import PdfReader

    try:
        pdf = PdfReader(io.BytesIO(data), strict=False)
        is_open = not pdf.is_encrypted or bool(pdf.decrypt(""))
        count = len(pdf.pages) if is_open else 0
    except Exception as error:
        raise UnreadableError(f"not a readable PDF: {_said(error)}") from error
    if not is_open:
        raise UnreadableError("an encrypted PDF; save a copy without a password")
    return [_page_text(pdf, number) for number in range(count)]


def _page_text(pdf: PdfReader, number: int) -> str | None:
    try:
        return pdf.pages[number].extract_text().replace("\r\n", "\n").replace("\r", "\n").strip()
    except Exception as error:
        logging.getLogger("pypdf").warning("page %d: %s", number + 1, _said(error))
        return None


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


class _Messages(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.found.append(record.getMessage())


if __name__ == "__main__":
    main()

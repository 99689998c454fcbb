"""What is read from a file: its text, and what was lost on the way."""

from __future__ import annotations

import codecs
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hwdag.text.characters import without_surrogates

# why: 32 before 16, because the mark of the one begins with that of the other
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
MOST_WESTERN = 0.2  # share of letters with accents, quotation marks and the like
COUNTED = "hwdag.counted"
"""How wrong bytes are decoded: each as a lone surrogate, which no right bytes give."""


@dataclass(frozen=True, slots=True)
class Content:
    """The text of a file, and what it says about it.

    `page_starts` are the characters at which pages begin; `times` are pairs of a character and the second
    at which it is spoken; `metadata` is JSON.
    """

    text: str
    title: str = ""
    notes: tuple[str, ...] = ()
    page_starts: tuple[int, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    times: tuple[Sequence[float], ...] = ()


class UnreadableError(Exception):
    """Raised by the readers of files with the reason why something cannot be read."""


def as_notes(noted: Mapping[str, int], texts: Mapping[str, str]) -> tuple[str, ...]:
    """Return the texts of the kinds that were counted, in their order, with number and plural."""
    return tuple(
        text.format(number, s="s" * (number > 1))
        for kind, text in texts.items()
        if (number := noted.get(kind, 0))
    )


def said(error: Exception) -> str:
    """What a parser's exception says, with its class."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def plain_content(data: bytes) -> Content:
    """Read a text file."""
    text, notes = decoded(data)
    return Content(text, "", notes)


def decoded(data: bytes, declared: str = "utf-8") -> tuple[str, tuple[str, ...]]:
    """Decode by the byte order mark or else as declared, line breaks as line feeds; with a note."""
    marked = next((pair for pair in _BYTE_ORDER_MARKS if data.startswith(pair[0])), None)
    if marked:
        data, declared = data[len(marked[0]) :], marked[1]
    elif b"\0" in data:
        raise UnreadableError("holds NUL bytes: binary, or UTF-16 without a byte order mark")
    text, lost = without_surrogates(data.decode(declared, COUNTED))
    note = f"{lost} undecodable byte{'s' * (lost > 1)} replaced"
    if not marked and declared == "utf-8" and lost and _is_western(data, lost):
        text, note = data.decode("cp1252"), "not UTF-8: read as Windows-1252"
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text, (note,) if lost else ()


def _is_western(data: bytes, lost: int) -> bool:
    """Whether bytes that are not UTF-8 may be letters of Windows-1252, as old programs write them."""
    try:
        data.decode("cp1252")
    except UnicodeDecodeError:
        return False
    # why: what has letters of UTF-8 too is damaged, and where most are lost it is another alphabet
    return data.decode(errors="ignore").isascii() and lost < MOST_WESTERN * len(data)


def _count_bytes(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return "\udc80" * (error.end - error.start), error.end


codecs.register_error(COUNTED, _count_bytes)

"""Long texts as several documents, so that memory is bounded and each part is searched once it is built."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from hwdag.types import Document

LONGEST_DOCUMENT = 1 << 22
"""Characters of a text that stays whole: 700,000 English words, more than nearly every novel."""

PART = 1 << 20
"""Characters of a part of a longer one: about a minute of one core to build."""

_PLACES = (
    re.compile(r"\n(?=#{1,6} )"),
    re.compile(r"\n\s*\n"),
    re.compile(r"\n"),
    re.compile(r"\s"),
)
"""Places to cut a text at, best first: before a heading, after a paragraph, after a line, after a word."""

_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})", re.MULTILINE)


def in_parts(
    document: Document, longest: int = LONGEST_DOCUMENT, part: int = PART
) -> Iterator[Document]:
    """Yield a document, or the parts of one of more than `longest` characters, of about `part` characters at most.

    The first part keeps the id; the others are "ID (part 2)" and so on, and a note names their number. Code
    that a cut divides is fenced in both parts. A document with pages or times stays whole.
    """
    if len(document.text) <= longest or document.page_starts or document.times:
        yield document
        return
    texts = list(_cut(document.text, min(part, longest)))
    note = f"read in {len(texts)} parts of at most {min(part, longest):,} characters, each a document of its own"
    for number, text in enumerate(texts, start=1):
        suffix = f" (part {number})" if number > 1 else ""
        notes = [*document.notes, note] if number == 1 else []
        yield replace(
            document,
            id=document.id + suffix,
            text=text,
            title=document.title + suffix,
            metadata={**document.metadata, "notes": notes},
        )


def _cut(text: str, longest: int) -> Iterator[str]:
    start, opened = 0, ""
    while start < len(text):
        end = _end(text, start, start + longest - 2 * len(opened))
        part, opening = text[start:end], opened
        opened = _open_fence(opening + part)
        yield opening + part + (opened and f"\n{opened.strip()}\n")
        start = end


def _end(text: str, start: int, limit: int) -> int:
    """Return the end of a part: the last good place in the last quarter before the limit."""
    if limit >= len(text):
        return len(text)
    for place in _PLACES:
        if found := [
            match.end() for match in place.finditer(text, limit - (limit - start) // 4, limit)
        ]:
            return found[-1]
    return limit


def _open_fence(text: str) -> str:
    """Return the line that opens the code in which a text ends; "" if it ends outside of code."""
    opened = ""
    for match in _FENCE.finditer(text):
        if not opened:
            opened = match[1]
        elif match[1].startswith(opened):
            opened = ""
    return opened and f"{opened}\n"

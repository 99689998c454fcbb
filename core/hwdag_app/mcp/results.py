"""Results of the tools: their types, and their length, which the caps of clients limit."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, NamedTuple, NotRequired, cast

# why not from typing: in Python 3.11 pydantic needs this one for the types within a type
from typing_extensions import TypedDict

from hwdag.errors import InputError
from hwdag.types import Document

LONGEST_NAME = 200  # characters of a title or of a value of the metadata

AROUND = 400
"""Characters of a result without its items and long names."""

BRIEF = 100
"""Characters that are left of a text at least, however little room there is."""

_SCALARS = (str, int, float, bool)


class Passage(TypedDict):
    """A passage; its `id` can be fetched, with the text around it."""

    id: str
    title: str
    url: str
    text: str
    document_id: str
    spans: list[list[int]]
    score: float
    pages: NotRequired[list[int]]
    omitted_characters: NotRequired[int]


class Found(TypedDict):
    """Passages, best first. `left_out` describes missing passages and the way to get them; "" if there are none."""

    results: list[Passage]
    left_out: str
    next_cursor: NotRequired[str]


class Citation(TypedDict):
    """A sentence that supports an answer."""

    id: str
    title: str
    url: str
    text: str
    document_id: str
    start: int
    end: int
    page: NotRequired[int]
    omitted_characters: NotRequired[int]


class Answered(TypedDict):
    """An answer; `found` and `confidence` may be unknown."""

    answer: str
    found: bool | None
    confidence: float | None
    searched_for: str
    citations: list[Citation]
    left_out: str


class Fetched(TypedDict):
    """A text from `start` to `end` of a document of `characters`."""

    id: str
    title: str
    text: str
    url: str
    document_id: str
    start: int
    end: int
    characters: int
    metadata: dict[str, Any]
    left_out: str
    next_cursor: NotRequired[str]


class Listed(TypedDict):
    """A document; its `document_id` can be fetched."""

    document_id: str
    title: str
    url: str
    characters: int
    metadata: dict[str, Any]


class Documents(TypedDict):
    """Documents in the order of the index."""

    documents: list[Listed]
    left_out: str
    next_cursor: NotRequired[str]


class Heading(TypedDict):
    """A section: its heading with those above it, and its characters from `start` to `end`."""

    heading: str
    level: int
    start: int
    end: int
    page: NotRequired[int]


class OutlineResult(TypedDict):
    """The sections of a document, in order; a section contains those of a higher level that follow."""

    document_id: str
    title: str
    url: str
    characters: int
    sections: list[Heading]
    left_out: str
    next_cursor: NotRequired[str]


class Page(NamedTuple):
    """A part of a list: the items that fit, and the cursor of the next one."""

    items: list[Any]
    next_cursor: str | None

    def left_out(self, noun: str) -> str:
        """Return a sentence about the items that are missing; "" if none is."""
        if self.next_cursor is None:
            return ""
        return f"There are more {noun}: call again with cursor {self.next_cursor!r}."


def page(items: Iterable[Mapping[str, Any]], cursor: str | None, limit: int, room: int) -> Page:
    """Return at most `limit` items from a cursor on, within `room` characters, and at least one.

    The text of an item that does not fit alone is cut, and the item has the number of left-out characters.
    """
    start, room = offset(cursor), room - AROUND
    found: list[Mapping[str, Any]] = []
    for item in islice(items, start, None):
        size = length([[item]])  # a list in a result is indented
        if len(found) == limit or (found and size > room):
            return Page(found, str(start + len(found)))
        if size > room:
            item = _shortened(item, room)
        found.append(item)
        room -= size
    return Page(found, None)


def offset(cursor: str | None) -> int:
    """Return the place of a cursor. Raises `InputError` unless a tool returned it."""
    if cursor is None:
        return 0
    if not (cursor.isascii() and cursor.isdecimal()) or len(cursor) > 15:
        raise InputError(f"cursor must be one that this tool returned, got {cursor!r:.100}")
    return int(cursor)


def length(value: object) -> int:
    """Return the characters of a result as a client reads them."""
    return len(json.dumps(value, ensure_ascii=False, indent=2))


def beginning(text: str, room: int) -> str:
    """Return the longest beginning of a text, up to a blank, whose JSON has at most `room` characters."""
    cut = text[: max(BRIEF, room)]
    while len(cut) > BRIEF and (size := length(cut)) > room:
        cut = cut[: max(BRIEF, min(len(cut) - 1, len(cut) * room // size))]
    if len(cut) == len(text):
        return text
    blank = max(cut.rfind(sign) for sign in (" ", "\n"))
    return cut[: blank + 1] if blank > len(cut) // 2 else cut


def name_of(document: Document) -> str:
    """Return the title of a document, else its id, of a bounded length."""
    name = document.title or document.id
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"


def brief_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the simple values of metadata: those that a filter may name, and a reader may want."""
    return {
        key: value
        for key, value in islice(metadata.items(), 50)
        if isinstance(value, _SCALARS) and len(str(value)) <= LONGEST_NAME
    }


def _shortened(item: Mapping[str, Any], room: int) -> Mapping[str, Any]:
    if not isinstance(text := item.get("text"), str):
        return item
    kept = beginning(text, room - length([[{**item, "text": ""}]]))
    return cast(
        Mapping[str, Any], {**item, "text": kept, "omitted_characters": len(text) - len(kept)}
    )

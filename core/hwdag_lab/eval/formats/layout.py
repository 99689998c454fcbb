"""Shared by the formats: items to records, layouts, and text that may be HTML."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from hwdag_files.content import UnreadableError
from hwdag_files.html import html_content
from hwdag_lab.eval.data import unique
from hwdag_lab.eval.fields import DataError, Malformed, MalformedRecord, OnSkip, checked, json_file
from hwdag_lab.eval.schema import Record, parse_record

Raw = TypeVar("Raw")
Draft = dict[str, Any]
"""A record in the schema of `hwdag_lab.eval.data`, or a part of one, not checked yet."""


Read = Callable[..., Iterator[Record]]
"""Reads an official format; `path`, `malformed`, `on_skip` and errors as in `read_records`."""


def records(
    path: Path,
    *,
    items: Callable[[Path], Iterator[tuple[str, Raw]]],
    build: Callable[[Raw], Draft],
    merges: bool = False,
    malformed: Malformed = "error",
    on_skip: OnSkip | None = None,
) -> Iterator[Record]:
    """Return the records of a file in an official format, one at a time; see `Read`.

    Each passes through the schema, so one check serves all formats.

    Args:
        path: the file.
        items: the items of the file with their places.
        build: turns an item into a draft.
        merges: whether several items of one id are one record with all their questions. Text and
            title are those of the first item, malformed items are left out alone, and all records
            are in memory before the first is returned.
        malformed: "error" or "skip".
        on_skip: called with the error of an item that is left out.
    """
    if not merges:
        parse = unique(lambda item: parse_record(build(item)))
        return checked(items(path), parse, malformed, on_skip)
    placed = ((place, (place, item)) for place, item in items(path))
    parts = checked(placed, lambda pair: (pair[0], build(pair[1])), malformed, on_skip)
    return checked(_joined(parts), unique(parse_record), malformed, on_skip)


def _joined(parts: Iterable[tuple[str, Draft]]) -> Iterator[tuple[str, Draft]]:
    whole: dict[str, tuple[str, Draft]] = {}
    for place, built in parts:
        if (first := whole.setdefault(built["id"], (place, built)))[1] is not built:
            first[1]["questions"] += built["questions"]
    yield from whole.values()


def json_list(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield the items of a JSON list, read as a whole; their places count from 0."""
    value = json_file(path)
    if not isinstance(value, list):
        raise DataError(f"{path}: holds no JSON list; give the file as its authors publish it")
    for index, item in enumerate(value):
        yield f"{path}: item {index}", item


def passages(texts: Iterable[tuple[str, str, str]]) -> Draft:
    """Return `text` and `paragraphs` of many short texts, given as id, title and text.

    The layout is that of LongBench: "Passage 1:", title, text, a blank line. Blank texts are left
    out.
    """
    kept = [(name, t.strip(), text.strip()) for name, t, text in texts if text.strip()]
    return {
        "text": "\n\n".join(
            f"Passage {number}:\n{title}\n{text}" for number, (_, title, text) in enumerate(kept, 1)
        ),
        "paragraphs": [{"id": name, "title": title, "text": text} for name, title, text in kept],
    }


def answer_of(answer: str | None) -> str:
    """Return the gold answer. Raises `MalformedRecord` if a test set withholds it."""
    if answer is None:
        raise MalformedRecord('"answer" is missing; test sets withhold it, so give the dev set')
    return answer


def distinct(texts: Iterable[str]) -> list[str]:
    """Return stripped texts in order, without blank and repeated ones."""
    return list(dict.fromkeys(stripped for text in texts if (stripped := text.strip())))


def squeezed(text: str) -> str:
    """Return the text with single spaces between words."""
    return re.sub(r"\s+", " ", text).strip()


_ELEMENT = re.compile(r"<(?:html|body|div|p|br|pre|h[1-6])\b[^<>]*>", re.IGNORECASE)


def plain_text(text: str) -> str:
    """Return the visible text of HTML, or any other text with line feeds.

    Raises:
        MalformedRecord: the HTML cannot be parsed.
    """
    if not _ELEMENT.search(text):
        return text.replace("\r\n", "\n").replace("\r", "\n").strip()
    try:
        # why: the byte order mark overrides an encoding declared in the markup
        return html_content(codecs.BOM_UTF8 + text.encode()).text
    except UnreadableError as error:
        raise MalformedRecord(f"the article is {error}") from error

"""Notes at the foot of a PDF's page or column: lines in smaller type, of which the first has a mark or number."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hwdag_files.pieces import Line

MAX_NOTE_TYPE_RATIO = 0.93  # largest type of a note, relative to that of the text
MAX_NOTES_HEIGHT = 0.4  # largest share of the page's height for notes

_MARK = re.compile(
    r"(?:\[?\d{1,3}[\].)]*|\(\d{1,3}\)|[*†‡§¶#]{1,3}|[⁰¹²³⁴-⁹]{1,3})\s*[^\W\d]|[a-z]\)\s\w"
)


def begins_note(line: Line) -> bool:
    """Return whether a line begins with the mark of a note."""
    return bool(_MARK.match(line.text))


def note_lines(lines: Sequence[Line], body: float, height: float) -> list[int]:
    """Return which lines of a page, in reading order, are notes at the foot of the page or of a column."""
    found, at = list[int](), 0
    while at < len(lines):
        end = _end(lines, at, body) if _begins(lines, at, body) else at
        if (
            end > at
            and lines[end - 1].first.bottom - lines[at].first.top < MAX_NOTES_HEIGHT * height
        ):
            found += range(at, end)
        at = max(end, at + 1)
    return found


def _begins(lines: Sequence[Line], at: int, body: float) -> bool:
    """Return whether notes begin with a line: small with a mark, directly after the text they belong to."""
    before, line = lines[at - 1], lines[at]
    return (
        at > 0
        and begins_note(line)
        and _is_small(line, body)
        and not before.first.rows
        and not _is_small(before, body)
        and line.first.top > before.first.bottom
    )


def _end(lines: Sequence[Line], start: int, body: float) -> int:
    """Return the end of the notes: of the page, or before the text of the next column; else `start`."""
    at = start
    while at < len(lines) and _is_small(lines[at], body):
        at += 1
    goes_on_above = at < len(lines) and lines[at].first.top < lines[start].first.top
    return at if at == len(lines) or goes_on_above else start


def _is_small(line: Line, body: float) -> bool:
    return not line.first.rows and all(
        piece.size < MAX_NOTE_TYPE_RATIO * body for piece in line.pieces
    )

"""Tolerant parsing of the bullet points that a language model writes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hwdag.text.characters import without_surrogates
from hwdag.text.sentences import sentences

_THINKING = re.compile(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.DOTALL | re.IGNORECASE)
_END_OF_THINKING = re.compile(r"</think(?:ing)?>", re.IGNORECASE)
_FENCE = re.compile(r"(?:```|~~~)[^`]*$")
_HEADING = re.compile(r"#{1,6}(?:[ \t]|$)")
_SIGN = re.compile(
    r"""[*+\-–—](?:\s+|$)                              # needs a space: "-5", "**bold**"
      | [•·・●▪◦‣∙■□○]\s*                              # unmistakable
      | \*(?=[^\W\d_])(?!.*\*) | -(?=[^\W\d_])         # "*Point", but not "*emphasis* ..."
    """,
    re.VERBOSE,
)
_NUMBER = re.compile(
    r"""\(\d{1,3}\)\s* | （\d{1,3}）\s* | [①-⑳]\s*
      | \d{1,3}(?:[)）、] | [.．](?!\d))\s*             # "1.", but not "1.5"
    """,
    re.VERBOSE,
)
_CHECKBOX = re.compile(r"\[[ xX]\]\s+")
_ECHO = re.compile(r"\W*summary points?(?:\s*\d+)?\W*", re.IGNORECASE)
_EMPHASIS = ("***", "**", "*")


def parse_points(reply: str) -> list[str]:
    """Find the points of a reply, in order, each on one line; none if it has no bullets.

    Bullets may be signs or numbers of any script, nested, wrapped over lines, or fenced. Left out:
    thinking, headings, whatever precedes the first bullet or follows a blank line without being a
    bullet, echoes of the format, points without a letter or digit, and repetitions. Linear in the reply.
    """
    found: dict[str, str] = {}
    for lines in _bullets(_spoken(reply)):
        point = _plain(" ".join(" ".join(lines).split()))
        if _says_something(point) and not _ECHO.fullmatch(point):
            found.setdefault("".join(point.split()).casefold(), point)
    return list(found.values())


def parse_statement(reply: str) -> list[str]:
    """Find the sentences of a reply that is one statement without a bullet, each on one line.

    Left out: thinking, fences, headings, echoes of the format, and lines that end with a colon. Linear in
    the reply.
    """
    lines = filter(_is_told, map(str.strip, _spoken(reply).splitlines()))
    text = _plain(" ".join(" ".join(lines).split()))
    return [text[s.start : s.end] for s in sentences(text)]


def _spoken(reply: str) -> str:
    """Return the reply without its thinking."""
    # why: JSON can spell half of a pair, and a server may cut a reply between the halves
    sound, _ = without_surrogates(reply)
    # why split: some chat templates open the block themselves, so the reply only closes it
    return _END_OF_THINKING.split(_THINKING.sub("\n", sound))[-1]


def _is_told(line: str) -> bool:
    is_around = _FENCE.match(line) or _HEADING.match(line) or line.endswith((":", "："))
    return _says_something(line) and not (is_around or _ECHO.fullmatch(line))


def _bullets(reply: str) -> Iterator[list[str]]:
    current: list[str] | None = None
    for line in map(str.strip, reply.splitlines()):
        if _FENCE.match(line):
            continue
        content = _after_marker(line)
        if content is not None:
            if current is not None:
                yield current
            current = [content]
        elif current is not None and _says_something(line) and not _HEADING.match(line):
            current.append(line)
        elif current is not None:
            yield current
            current = None
    if current is not None:
        yield current


def _after_marker(line: str) -> str | None:
    marker = _SIGN.match(line) or _NUMBER.match(line)
    if marker is None:
        return None
    # why: a number after a marker belongs to the point ("* 3. Mai 1999")
    inner = _SIGN.match(line, marker.end()) or _CHECKBOX.match(line, marker.end()) or marker
    return line[inner.end() :]


def _plain(point: str) -> str:
    for mark in _EMPHASIS:
        inner = point[len(mark) : -len(mark)]
        encloses = point.startswith(mark) and point.endswith(mark) and len(point) > 2 * len(mark)
        if encloses and mark not in inner:
            return inner.strip()
    return point


def _says_something(text: str) -> bool:
    return any(map(str.isalnum, text))

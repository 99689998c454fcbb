"""Lines that are complete in themselves: messages of a chat, records of a log, "Label: value", a glossary.

Most lines of wrapped prose begin in the middle of a sentence. In a text of entries most begin alike.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

LEAST_ALIKE = 3  # lines that begin alike
SHORT_LINE = 60  # characters of a line that may be an entry without any sign
MAX_SHORTEST_SHARE = (
    0.7  # the shortest line over the longest one, at most, if lines were not wrapped
)

_MONTHS = "jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|mai|mär|okt|dez"
_DATE = (
    rf"(?:\d{{4}}[-./]\d\d?[-./]\d\d?|\d\d?[-./]\d\d?[-./]\d{{2,4}}|(?:{_MONTHS})[a-z]* +\d\d?,?)"
)
_TIME = r"\d\d?:\d\d(?::\d\d)?"
_LEVEL = r"(?:TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|FATAL|CRITICAL)\b(?!:? *$)"
_STAMP = re.compile(rf"[\[(<]?(?:{_DATE}(?:[T ,\])]|$)|{_TIME}(?![\d:])|{_LEVEL})", re.I)
_LABEL = re.compile(r"(?:\*\*|__)?[^\W\d_a-z][^\n:：|]{0,40}?(?:\*\*|__)?[:：](?:\*\*|__)?\s+\S")
_TERM = re.compile(r"[^\W\d_][^\n.;:!?]{0,40} [–—-] \S")
_SIGNS = ((_STAMP, 0.3), (_LABEL, 0.6), (_TERM, 0.8))
"""How entries begin, and the share of the lines of a block that must begin so."""

_ENDS_CLAUSE = tuple(".,;:!?…。、，；：-–")


def entries(lines: Sequence[str]) -> set[int]:
    """Return the numbers of the lines that are complete, or begin a message of several lines."""
    stamped = [number for number, line in enumerate(lines) if _STAMP.match(line)]
    filled = sum(map(bool, map(str.strip, lines)))
    # why: blank lines may part all messages
    found = set(stamped if len(stamped) >= max(LEAST_ALIKE, 0.5 * filled) else ())
    for block in _blocks(lines):
        found.update(_entries_of(lines, block))
    return found


def _blocks(lines: Sequence[str]) -> Iterator[range]:
    start = 0
    for number in range(len(lines) + 1):
        if number == len(lines) or not lines[number].strip():
            if number - start >= LEAST_ALIKE:
                yield range(start, number)
            start = number + 1


def _entries_of(lines: Sequence[str], block: range) -> Sequence[int]:
    for pattern, share in _SIGNS:
        alike = [number for number in block if pattern.match(lines[number])]
        if len(alike) >= max(LEAST_ALIKE, share * len(block)):
            return alike
    return block if _are_short([lines[number].strip() for number in block]) else ()


def _are_short(lines: Sequence[str]) -> bool:
    """Return whether lines are short, begin like a name or a number, and do not end like a clause."""
    lengths = list(map(len, lines))
    return (
        max(lengths) <= SHORT_LINE
        and min(lengths) <= MAX_SHORTEST_SHARE * max(lengths)
        and all(line[0].isupper() or line[0].isdigit() for line in lines)
        and not any(line.endswith(_ENDS_CLAUSE) for line in lines)
    )

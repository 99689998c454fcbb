"""Encoded data within a text, such as pictures, is not text, and would fill most leaves of a file."""

from __future__ import annotations

import re

LONGEST_WORD = 1000  # letters, digits and signs of Base64 without a blank

_SIGN = "[A-Za-z0-9+/=_%-]"
_DATA = rf"data:[\w/+.-]{{0,99}}(?:;[\w=.+-]{{1,99}}){{0,9}},{_SIGN}{{64,}}"
_PICTURE = re.compile(rf"!\[([^\]\n]{{0,999}})\]\(\s{{0,9}}<?{_DATA}>?[^()\n]{{0,999}}\)")
_REFERENCE = re.compile(rf"^ {{0,3}}\[[^\]\n]{{1,999}}\]:\s{{0,9}}<?{_DATA}.*\n?", re.M)
_ADDRESS = re.compile(_DATA)
_WORD = re.compile(rf"(?<!{_SIGN}){_SIGN}{{{LONGEST_WORD},}}")
_LINES = re.compile(r"^(?:[A-Za-z0-9+/]{60,80}\n){8,}(?:[A-Za-z0-9+/]{1,80}={0,2}$)?", re.M)


def without_encoded(text: str) -> tuple[str, tuple[str, ...]]:
    """Leave out encoded data, with a note; the alternative text of a Markdown picture stays."""
    if len(text) < LONGEST_WORD and "data:" not in text:
        return text, ()
    total = 0
    for pattern in (_PICTURE, _REFERENCE, _ADDRESS, _WORD, _LINES):
        text, number = pattern.subn(r"\1" if pattern is _PICTURE else "", text)
        total += number
    return text, (f"{total} piece{'s' * (total > 1)} of encoded data left out",) if total else ()

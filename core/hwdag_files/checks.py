"""Check boxes and radio buttons of a PDF's form as words of their line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hwdag_files.letters import Boxes
from hwdag_files.marks import box
from hwdag_files.words import Word


def with_checks(words: Sequence[Word], checks: Iterable[tuple[bool, Boxes]]) -> list[Word]:
    """Return the words of a page with a sign for each check box, level with the nearest words."""
    found = list(words)
    for is_set, [[left, top, right, bottom]] in checks:
        middle = (top + bottom) / 2
        level = [
            word for word in words if abs(_middle(word) - middle) < max(word.size, bottom - top) / 2
        ]
        near = min(level, key=lambda word: max(word.x0 - right, left - word.x1), default=None)
        sign = Word(box(is_checked=is_set).strip(), left, right, top, bottom, bottom - top)
        if near:
            sign = sign._replace(top=near.top, bottom=near.bottom, size=near.size, cell=near.cell)
        found.append(sign)
    return found


def _middle(word: Word) -> float:
    return (word.top + word.bottom) / 2

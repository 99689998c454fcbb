"""Lists within lists: the items that an item belongs to, "Hamar" of "parking for 18 cars"."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence

from hwdag.text.tables import fenced

LONGEST_PARENT = 100  # characters of an item that are repeated for those below it

_ITEM = re.compile(r"([ \t]*)(?:[-*+•‣◦▪●]|\(?(?:\d{1,3}|[a-z])[.)])[ \t]+(?=\S)")


class Items:
    """The items of a text, by where they begin; made in linear time."""

    def __init__(self, text: str) -> None:
        self._starts: list[int] = []
        self._paths: list[tuple[str, ...]] = []
        lines = text.splitlines(keepends=True)
        code = fenced(lines)
        above = list[tuple[int, str]]()  # indent and text
        start, is_apart = 0, True
        for number, line in enumerate(lines):
            bare = line.lstrip()
            item = None if number in code else _ITEM.match(line)
            indent = len((item[1] if item else line[: len(line) - len(bare)]).expandtabs(4))
            # why apart: a line directly below an item continues it, indented or not
            ends_list = bool(bare) and not indent and (is_apart or bare[0] in "#|")
            if item or (above and ends_list):
                while above and above[-1][0] >= indent:
                    above.pop()
                self._starts.append(start)
                self._paths.append(tuple(parent for _, parent in above))
                if item:
                    above.append((indent, _bounded(line[item.end() :])))
            start += len(line)
            is_apart = not bare

    def above(self, position: int) -> Sequence[str]:
        """Return the items that the item at a character belongs to, the outermost first."""
        at = bisect_right(self._starts, position)
        return self._paths[at - 1] if at else ()


def _bounded(item: str) -> str:
    words = item.strip().rstrip(":").split()
    text = " ".join(words)
    return text if len(text) <= LONGEST_PARENT else text[: LONGEST_PARENT + 1].rpartition(" ")[0]

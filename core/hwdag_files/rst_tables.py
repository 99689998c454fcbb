"""The two kinds of tables of reStructuredText that are drawn with signs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise, takewhile

Table = tuple[int, list[list[str]], bool]
"""The line after a table, its rows, and whether the first one names the columns."""

MAX_COLUMNS = 1 << 20  # columns of signs of a line
_LINE = re.compile(r"[-=+| ]*[-=]{2}[-=+| ]*")


def simple_rows(lines: Sequence[str], at: int) -> Table:
    """Read a table between lines of "="; text in the first column begins a row."""
    columns = [match.start() for match in re.finditer("=+", lines[at])]
    spans = list(pairwise([*columns, MAX_COLUMNS]))
    borders, rows, end = [0], list[list[str]](), at + 1
    is_apart = True
    while end < len(lines):
        line = lines[end]
        if re.fullmatch(r"\s*=+(?: +=+)*\s*", line):
            borders.append(len(rows))
            is_apart = True
            # why: lines below the last border are no part of the table
            if end + 1 == len(lines) or not lines[end + 1].strip():
                end += 1
                break
        elif not line.strip():
            is_apart = True
        elif not re.fullmatch(r"[\s-]*-{2}[\s-]*", line):
            cells = [line[a:b].strip() for a, b in spans]
            if is_apart or cells[0]:
                rows.append(cells)
            else:
                rows[-1] = [
                    f"{old} {new}".strip() for old, new in zip(rows[-1], cells, strict=True)
                ]
            is_apart = False
        end += 1
    return end, *_with_names(rows, borders[1] if len(borders) > 2 else 0)


def grid_rows(lines: Sequence[str], at: int) -> Table:
    """Read a table whose cells have lines around them; a cell over several rows or columns is in each of them."""
    table = list(takewhile(lambda line: line.lstrip().startswith(("+", "|")), lines[at:]))
    borders = [line for line in table if _LINE.fullmatch(line)]
    spans = list(
        pairwise(sorted({m.start() for line in borders for m in re.finditer(r"\+", line)}))
    )
    rows, cells, head = list[list[str]](), [""] * len(spans), 0
    for line in table[1:]:
        line = line.ljust(spans[-1][1] + 1)
        ended = [_LINE.fullmatch(line[a + 1 : b]) is not None for a, b in spans]
        if any(ended):
            rows.append(cells)
            cells = ["" if is_ended else old for is_ended, old in zip(ended, cells, strict=True)]
            head = len(rows) if "=" in line and all(ended) else head
            continue
        start = 0
        for i, (_, edge) in enumerate(spans):
            if line[edge] in "|+" or i + 1 == len(spans):
                text = line[spans[start][0] + 1 : edge].strip()
                for spanned in range(start, i + 1):
                    cells[spanned] = f"{cells[spanned]} {text}".strip()
                start = i + 1
    return at + len(table), *_with_names(rows, head)


def _with_names(rows: list[list[str]], head: int) -> tuple[list[list[str]], bool]:
    """Join the rows of the header."""
    columns = zip(*rows[:head], strict=True)
    names = [" ".join(dict.fromkeys(filter(None, column))) for column in columns]
    return ([names, *rows[head:]], True) if names else (rows, False)

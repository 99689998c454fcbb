"""Tables whose cells have lines around them, from the lines of a page.

lines -> straightened and joined -> crossings -> cells -> tables
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import numpy as np

from hwdag_files.letters import Boxes

JOIN_DISTANCE = 3.0  # points within which lines are one, continue or cross
MIN_LINE_LENGTH = 3.0  # points; a shorter line is no part of a table
MOST_CROSSINGS = 20_000  # of the lines of a table; graph paper has more

Cell = tuple[float, float, float, float]  # left, top, right, bottom
Level = tuple[float, float, float]  # position of a line, its start and its end
Point = tuple[float, float]


def ruled_tables(rules: Boxes) -> list[list[Cell]]:
    """Return the cells of each table, from the left and from the top, tables from the top."""
    width, height = rules[:, 2] - rules[:, 0], rules[:, 3] - rules[:, 1]
    level = _joined(rules[width >= height][:, [1, 0, 2]].tolist())
    upright = _joined(rules[width < height][:, [0, 1, 3]].tolist())
    return _tables(_cells(level, upright))


def _joined(lines: Iterable[Sequence[float]]) -> list[Level]:
    """Put lines together that are near each other and continue each other."""
    joined = list[Level]()
    for group in _near(sorted(map(tuple, lines))):
        place = sum(line[0] for line in group) / len(group)
        pieces = list[Level]()
        for _, start, end in sorted(group, key=lambda line: line[1:]):
            if pieces and start <= pieces[-1][2] + JOIN_DISTANCE:
                pieces[-1] = place, pieces[-1][1], max(end, pieces[-1][2])
            else:
                pieces.append((place, start, end))
        joined += [piece for piece in pieces if piece[2] - piece[1] >= MIN_LINE_LENGTH]
    return joined


def _near(lines: Iterable[tuple[float, ...]]) -> Iterator[list[tuple[float, ...]]]:
    group = list[tuple[float, ...]]()
    for line in lines:
        if group and line[0] > group[-1][0] + JOIN_DISTANCE:
            yield group
            group = []
        group.append(line)
    if group:
        yield group


def _cells(level: Sequence[Level], upright: Sequence[Level]) -> Iterator[Cell]:
    """Yield the smallest rectangle from each crossing to the right and down."""
    if not level or not upright:
        return
    y, left, right = np.array(level).T
    x, top, bottom = np.array(upright).T
    crosses = (
        (left[:, None] <= x + JOIN_DISTANCE)
        & (right[:, None] >= x - JOIN_DISTANCE)
        & (top <= y[:, None] + JOIN_DISTANCE)
        & (bottom >= y[:, None] - JOIN_DISTANCE)
    )
    if crosses.sum() > MOST_CROSSINGS:
        return
    across = [np.flatnonzero(line).tolist() for line in crosses]
    down = [np.flatnonzero(line).tolist() for line in crosses.T]
    places, heights, is_crossed = x.tolist(), y.tolist(), crosses.tolist()
    for at, line in enumerate(across):
        for number, here in enumerate(line):
            for below in down[here][bisect_right(down[here], at) :]:
                beside = (
                    other
                    for other in islice(line, number + 1, None)
                    if is_crossed[below][other] and places[other] > places[here]
                )
                if heights[below] > heights[at] and (corner := next(beside, -1)) >= 0:
                    yield places[here], heights[at], places[corner], heights[below]
                    break


def _tables(cells: Iterable[Cell]) -> list[list[Cell]]:
    """Put cells together that have a corner in common."""
    by_corner, cells = defaultdict[Point, list[int]](list), list(cells)
    for number, (x0, top, x1, bottom) in enumerate(cells):
        for corner in ((x0, top), (x0, bottom), (x1, top), (x1, bottom)):
            by_corner[corner].append(number)
    table_of = list(range(len(cells)))

    def root(number: int) -> int:
        while table_of[number] != number:
            table_of[number] = number = table_of[table_of[number]]
        return number

    for numbers in by_corner.values():
        for number in numbers[1:]:
            table_of[root(number)] = root(numbers[0])
    tables = defaultdict[int, list[Cell]](list)
    for number, cell in enumerate(cells):
        tables[root(number)].append(cell)
    found = [sorted(table, key=lambda cell: (cell[1], cell[0])) for table in tables.values()]
    return sorted((table for table in found if len(table) > 1), key=lambda table: table[0][1::-1])

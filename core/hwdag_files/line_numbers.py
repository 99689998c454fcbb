"""Numbers that count the lines of a PDF's page, in its margin or between two columns."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise
from operator import attrgetter
from statistics import median

from hwdag_files.words import WIDE_GAP, Word

STEPS = 1, 2, 5, 10  # lines from a number to the next
MIN_NUMBERS = 8  # numbers, if each line or every second one has one
FEWEST_APART = 3  # numbers of every fifth or tenth line
ALIGNMENT_TOLERANCE = 2.0  # points between the sides of numbers of one column
DISTANCE_TOLERANCE = (
    0.35  # share of the usual distance between numbers by which another one may differ
)
BROKEN = 0.2  # share of the lines with a number that begin within a sentence, at least
MIN_GAP = 0.6  # distance of a number from its line, in sizes of the type

Row = list[Word]


def without_line_numbers(words: Sequence[Word]) -> tuple[list[Word], int]:
    """Return the words of a page without the numbers of its lines, and how many there are."""
    numbers = [word for word in words if word.text.isdecimal() and len(word.text) <= 3]
    if len(numbers) < FEWEST_APART:
        return list(words), 0
    rows, left_out = _rows(words), set[int]()
    for column in _columns(numbers):
        for run in _runs(column):
            if _count_lines(run, rows):
                left_out.update(map(id, run))
    return [word for word in words if id(word) not in left_out], len(left_out)


def _rows(words: Sequence[Word]) -> list[Row]:
    """Return the words of each line over the whole page, from the top, each from the left."""
    rows = list[Row]()
    for word in sorted(words, key=attrgetter("bottom")):
        if not rows or word.bottom - rows[-1][0].bottom > 0.3 * word.size:
            rows.append([])
        rows[-1].append(word)
    return [sorted(row, key=attrgetter("x0")) for row in rows]


def _columns(numbers: Sequence[Word]) -> Iterator[list[Word]]:
    """Yield numbers that are one below the other, by their left side, their right side or their middle."""
    for place in (_right, _left, _middle):
        column = list[Word]()
        for word in sorted(numbers, key=place):
            if column and place(word) - place(column[-1]) > ALIGNMENT_TOLERANCE:
                yield sorted(column, key=attrgetter("bottom"))
                column = []
            column.append(word)
        yield sorted(column, key=attrgetter("bottom"))


def _left(word: Word) -> float:
    return word.x0


def _right(word: Word) -> float:
    return word.x1


def _middle(word: Word) -> float:
    return (word.x0 + word.x1) / 2


def _runs(column: Sequence[Word]) -> Iterator[list[Word]]:
    """Yield the numbers that grow by one step at even distances."""
    run, step = list(column[:1]), 0
    for above, below in pairwise(column):
        grows, distance = int(below.text) - int(above.text), below.bottom - above.bottom
        usual = median(b.bottom - a.bottom for a, b in pairwise(run)) if len(run) > 1 else distance
        if (
            grows in STEPS
            and step in (0, grows)
            and abs(distance - usual) <= DISTANCE_TOLERANCE * usual
        ):
            run.append(below)
            step = grows
        else:
            yield run
            run, step = [below], 0
    yield run


def _count_lines(run: Sequence[Word], rows: Sequence[Row]) -> bool:
    if len(run) < FEWEST_APART:
        return False
    step = int(run[1].text) - int(run[0].text)
    bottoms = [min(word.bottom for word in row) for row in rows]
    own = [rows[bisect_right(bottoms, number.bottom) - 1] for number in run]
    if sum(map(_is_isolated, run, own)) < 0.9 * len(run):
        return False
    if step > STEPS[1]:
        between = [
            bisect_left(bottoms, below.bottom) - bisect_right(bottoms, above.bottom)
            for above, below in pairwise(run)
        ]
        return median(between) >= step - 1
    if len(run) < MIN_NUMBERS:
        return False
    lines = [[word for word in row if word not in run] for row in own]
    filled = [line for line in lines if line]
    is_table = 2 * sum(map(_has_cells, filled)) > len(filled)
    broken = sum(line[0].text[0].islower() for line in filled)
    return not is_table and broken >= max(2, BROKEN * len(filled))


def _is_isolated(number: Word, row: Row) -> bool:
    """Return whether no other word is near a number in its line."""
    return all(
        max(other.x0 - number.x1, number.x0 - other.x1) > MIN_GAP * number.size
        for other in row
        if other is not number
    )


def _has_cells(line: Row) -> bool:
    return any(b.x0 - a.x1 > WIDE_GAP * max(a.size, b.size) for a, b in pairwise(line))

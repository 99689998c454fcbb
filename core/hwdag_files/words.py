"""The words of a page of a PDF, from its letters.

    letters -> runs, as they follow each other in the file -> rows -> words

All of it is computed on arrays; a page may have ten thousand letters.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hwdag_files.drawings import Booleans, Floats, Integers
from hwdag_files.pdfium import Letters

WORD_GAP = 0.13
"""Blank space between two words, in sizes of their type; LaTeX has 0.2 and less in a full line."""

LEVEL_SHARE = 0.2
"""Distance of two baselines that are one, in sizes of the type."""

SAME_PLACE = 0.12
"""Distance of two equal letters that are one printed twice, in sizes of the type."""

COPIES = 6  # letters among which a copy is looked for


class Word(NamedTuple):
    """Letters of one type without a gap between them."""

    text: str
    x0: float
    x1: float
    top: float
    bottom: float
    size: float
    is_bold: bool = False
    cell: int = -1  # of the table on the page that it stands in
    is_before_blank: bool = False
    is_after_blank: bool = False


def words_of(letters: Letters, cells: Integers | None = None) -> list[Word]:
    """Return the words, row by row; `cells` says in which cell of a table each letter stands."""
    if not len(letters):
        return []
    cells = np.full(len(letters), -1) if cells is None else cells
    bottoms, rows = _rows(letters, cells)
    order = np.lexsort((letters.boxes[:, 0], rows))
    order = order[~_copies(letters.only(order), rows[order])]
    letters, rows, bottoms, cells = letters.only(order), rows[order], bottoms[order], cells[order]
    is_blank = np.fromiter(map(str.isspace, letters.text), bool, len(letters))
    kept = np.flatnonzero(~is_blank)
    if not len(kept):
        return []
    before_blank, after_blank = (side[kept] for side in _beside_blanks(letters, rows, is_blank))
    letters, rows, bottoms, cells = letters.only(kept), rows[kept], bottoms[kept], cells[kept]
    x0, _, x1, _ = letters.boxes.T
    is_apart = x0[1:] - x1[:-1] > WORD_GAP * letters.size[:-1]
    begins = (np.diff(rows) != 0) | (np.diff(kept) > 1) | is_apart
    starts = np.flatnonzero(np.concatenate([[True], begins]))
    ends = [*starts[1:].tolist(), len(letters)]
    right = np.maximum.reduceat(x1, starts)
    found = zip(
        (letters.text[a:b] for a, b in zip(starts.tolist(), ends, strict=True)),
        x0[starts].tolist(),
        right.tolist(),
        (bottoms - letters.size)[starts].tolist(),
        bottoms[starts].tolist(),
        letters.size[starts].tolist(),
        letters.is_bold[starts].tolist(),
        cells[starts].tolist(),
        before_blank[np.subtract(ends, 1)].tolist(),
        after_blank[starts].tolist(),
        strict=True,
    )
    return list(map(Word._make, found))


def _beside_blanks(
    letters: Letters, rows: Integers, is_blank: Booleans
) -> tuple[Booleans, Booleans]:
    """Return which letters, sorted by place, have a blank directly after them, and which before them."""
    x0, _, x1, _ = letters.boxes.T
    # why not any blank of the row: a raised sign of another row may be between
    is_near = (np.diff(rows) == 0) & (x0[1:] - x1[:-1] < WORD_GAP * letters.size[1:])
    return np.append(is_near & is_blank[1:], False), np.append(False, is_near & is_blank[:-1])


def _rows(letters: Letters, cells: Integers) -> tuple[Floats, Integers]:
    """Return the baseline of each letter's run, and the row of letters of one style that it is in."""
    x0, bottom, size = letters.boxes[:, 0], letters.boxes[:, 3], letters.size
    breaks = (
        (np.diff(letters.style) != 0)
        | (np.diff(cells) != 0)
        | (abs(np.diff(bottom)) > LEVEL_SHARE * size[1:])
        | (np.diff(x0) < -SAME_PLACE * size[1:])
    )
    run = np.concatenate([[0], np.cumsum(breaks)])
    starts = np.flatnonzero(np.concatenate([[True], breaks]))
    level = np.add.reduceat(bottom, starts) / np.bincount(run)
    order = np.lexsort((level, cells[starts], letters.style[starts]))
    first = starts[order]
    is_new = (
        (np.diff(letters.style[first]) != 0)
        | (np.diff(cells[first]) != 0)
        | (np.diff(level[order]) > LEVEL_SHARE * size[first][1:])
    )
    row = np.empty(len(starts), np.int64)
    row[order] = np.concatenate([[0], np.cumsum(is_new)])
    return level[run], row[run]


def _copies(letters: Letters, rows: Integers) -> Booleans:
    """Return which letters, sorted by place, are printed again where they are already; bold type is made so."""
    codes = np.frombuffer(letters.text.encode("utf-32-le", "surrogatepass"), np.uint32)
    x0, found = letters.boxes[:, 0], np.zeros(len(letters), bool)
    for lag in range(1, min(COPIES, len(letters) - 1) + 1):
        found[lag:] |= (
            (codes[lag:] == codes[:-lag])
            & (rows[lag:] == rows[:-lag])
            & (x0[lag:] - x0[:-lag] < SAME_PLACE * letters.size[lag:])
        )
    return found

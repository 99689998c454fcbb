"""The words of a page of a PDF, from its letters.

    letters -> runs, as they follow each other in the file -> rows -> words

All of it is computed on arrays; a page may have ten thousand letters.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from hwdag_files.letters import UNKNOWN, Booleans, Floats, Integers, Letters, text_of

WORD_GAP = 0.13
"""Blank space between two words, in sizes of their type; LaTeX has 0.2 and less in a full line."""

NO_GAP = 0.03
"""Space between two letters, in sizes of their type, below which a blank in the file is invisible."""

LEVEL_SHARE = 0.2
"""Distance of two baselines that are one, in sizes of the type."""

SAME_PLACE = 0.12
"""Distance of two equal letters that are one printed twice, in sizes of the type."""

WIDE_GAP = 1.3
"""Blank space within a line, in sizes of its type, that separates columns or cells, not words."""

MOST_SPACING = 0.55
"""Space between letters that are set apart, at most, in sizes of their type."""

FEWEST_SPACED = 4  # letters that are set apart
SPACING_SHARE = 0.25  # of gaps that may be narrower than the spacing, as kerning is
WORDS_APART = 1.5  # the gap between words of such letters, at least, over that between letters
DIGITS_APART = (
    0.3  # sizes of the type, from which digits that are set apart are numbers of their own
)
SPACING_TOLERANCE = 0.05  # sizes of the type by which gaps of one spacing differ

_UNKNOWN = chr(UNKNOWN)
COPY_WINDOW = 6  # letters among which a copy is looked for


class Word(NamedTuple):
    """Letters of one type without a gap between them."""

    text: str
    x0: float
    x1: float
    top: float
    bottom: float
    size: float
    is_bold: bool = False
    cell: int = -1  # of the table on the page that it is in
    is_before_blank: bool = False
    is_after_blank: bool = False
    contrast: float = 255.0  # with the colour below it


def words_of(letters: Letters, cells: Integers | None = None) -> list[Word]:
    """Return the words, row by row; `cells` has the table cell of each letter, or -1."""
    if not len(letters):
        return []
    cells = np.full(len(letters), -1) if cells is None else cells
    bottoms, rows = _rows(letters, cells)
    order = np.lexsort((letters.boxes[:, 0], rows))
    order = order[~_copies(letters.only(order), rows[order])]
    letters, rows, bottoms, cells = letters.only(order), rows[order], bottoms[order], cells[order]
    is_blank = letters.is_blank
    kept = np.flatnonzero(~is_blank)
    if not len(kept):
        return []
    before_blank, after_blank = (side[kept] for side in _beside_blanks(letters, rows, is_blank))
    letters, rows, bottoms, cells = letters.only(kept), rows[kept], bottoms[kept], cells[kept]
    x0, _, x1, _ = letters.boxes.T
    begins = _begin_words(letters, rows, np.diff(kept) > 1)
    starts = np.flatnonzero(np.concatenate([[True], begins]))
    ends, text = [*starts[1:].tolist(), len(letters)], letters.text
    right = np.maximum.reduceat(x1, starts)
    found = zip(
        (text[a:b] for a, b in zip(starts.tolist(), ends, strict=True)),
        x0[starts].tolist(),
        right.tolist(),
        (bottoms - letters.size)[starts].tolist(),
        bottoms[starts].tolist(),
        letters.size[starts].tolist(),
        letters.is_bold[starts].tolist(),
        cells[starts].tolist(),
        before_blank[np.subtract(ends, 1)].tolist(),
        after_blank[starts].tolist(),
        letters.contrast[starts].tolist(),
        strict=True,
    )
    return [Word._make(word) for word in found if word[0].strip(_UNKNOWN)]


def _begin_words(letters: Letters, rows: Integers, after_blank: Booleans) -> Booleans:
    """Return a mask of the letters after the first, sorted by place, that begin a word; `after_blank` is one, too."""
    x0, _, x1, _ = letters.boxes.T
    gaps = (x0[1:] - x1[:-1]) / letters.size[:-1]
    parts = (np.diff(rows) != 0) | (gaps > WIDE_GAP)
    begins: Booleans = parts | (after_blank & (abs(gaps) > NO_GAP)) | (gaps > WORD_GAP)
    starts = np.flatnonzero(np.append(True, parts))
    ends = np.append(starts[1:], len(letters))
    lengths = ends - starts
    # why infinite: the gap at the end of a part does not belong to it
    inner = np.append(np.where(parts, np.inf, gaps), np.inf)
    ordered = inner[np.lexsort((inner, np.repeat(np.arange(len(starts)), lengths)))]
    spacing = ordered[starts + (SPACING_SHARE * (lengths - 1)).astype(np.int64)]
    is_spaced = (lengths >= FEWEST_SPACED) & (spacing > WORD_GAP) & (spacing < MOST_SPACING)
    for start, end, gap in zip(starts[is_spaced], ends[is_spaced], spacing[is_spaced], strict=True):
        own = slice(start, end - 1)
        if _is_spaced(text_of(letters.codes[start:end]), gaps[own], after_blank[own], gap):
            begins[own] = gaps[own] > max(gap + WORD_GAP, WORDS_APART * gap)
    return begins


def _is_spaced(text: str, gaps: Floats, after_blank: Booleans, spacing: float) -> bool:
    """Return whether letters are spaced by this much and are no separate signs, as in a table or a list."""
    is_even = 2 * (abs(gaps - spacing) < SPACING_TOLERANCE).sum() >= len(gaps)
    if not is_even or len(set(text)) < 3 or sum(map(str.isalnum, text)) < 0.7 * len(text):
        return False
    is_typed = after_blank[gaps < spacing + WORD_GAP].mean() > 0.5  # with a blank after each
    codes = list(map(ord, text.lower()))
    is_alphabet = all(after == code + 1 for code, after in pairwise(codes))
    if is_typed:
        return text.isalpha() and len(text) > FEWEST_SPACED and not is_alphabet
    return not is_alphabet and (spacing < DIGITS_APART or not text.isdecimal())


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
    """Return a mask of the letters, sorted by place, that repeat another at its place, as imitated bold type does."""
    codes, x0, found = letters.codes, letters.boxes[:, 0], np.zeros(len(letters), bool)
    for lag in range(1, min(COPY_WINDOW, len(letters) - 1) + 1):
        found[lag:] |= (
            (codes[lag:] == codes[:-lag])
            & (rows[lag:] == rows[:-lag])
            & (x0[lag:] - x0[:-lag] < SAME_PLACE * letters.size[lag:])
        )
    return found

"""Marks across a PDF's page, such as "DRAFT": large and pale, over the text or at one place on every page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hwdag_files.pieces import Line, lines_of, pieces_of
from hwdag_files.words import Word

MIN_TYPE_RATIO = 1.8  # smallest type of a mark, relative to that of the text
PALE = 0.6  # largest contrast of a mark over the text, relative to that of the text
MAX_CONTRAST = 0.35  # contrast of a mark on an empty part of the page
MIN_CROSSED_WORDS = (
    3  # words of the text, at least, that a mark goes over that is as dark as they are
)
MOST_WORDS = 8  # of all marks of a page; more are a drawing, such as a cloud of words
SAME_PLACE = 10.0  # points, between a mark and that of another page
CAPITAL_HEIGHT, DESCENT = 0.7, 0.21  # of letters over and below their baseline, in sizes


@dataclass(frozen=True, slots=True)
class Mark:
    """A line of large type that may be a mark."""

    line: Line
    is_over_text: bool

    def is_at_place_of(self, other: Mark) -> bool:
        """Return whether a mark of another page is at the same place."""
        one, two = self.line.first, other.line.first
        return abs(one.x0 - two.x0) < SAME_PLACE and abs(one.top - two.top) < SAME_PLACE


def part_marks(words: Sequence[Word]) -> tuple[list[Word], list[Mark]]:
    """Return the words of a page without those that may be marks, and the marks."""
    if not words:
        return [], []
    letters = np.array([len(word.text) for word in words])
    size = np.array([word.size for word in words])
    contrast = np.array([word.contrast for word in words])
    usual_size = np.median(np.repeat(size, letters))
    usual_contrast = np.median(np.repeat(contrast, letters))
    is_large = size > MIN_TYPE_RATIO * usual_size
    if not is_large.any():
        return list(words), []
    crossed = _crossed(words, is_large)
    is_mark = is_large & (
        (contrast < MAX_CONTRAST * usual_contrast)
        | ((contrast < PALE * usual_contrast) & (crossed > 0))
        | (crossed >= MIN_CROSSED_WORDS)
    )
    crosses = {id(word) for word, number in zip(words, crossed, strict=True) if number}
    marked = [word for word, found in zip(words, is_mark, strict=True) if found]
    if len({word.text for word in marked}) > MOST_WORDS:
        return list(words), []
    others = [word for word, found in zip(words, is_mark, strict=True) if not found]
    is_over_text = any(id(word) in crosses for word in marked)
    lines = lines_of(list(pieces_of(marked))) if marked else ()
    return others, [Mark(line, is_over_text) for line in lines]


def _crossed(words: Sequence[Word], is_large: np.ndarray) -> np.ndarray:
    """Count the words of the usual type that each word of large type covers."""
    sides = np.array([(word.x0, word.x1, word.bottom, word.size) for word in words])
    left, right, bottom, size = sides.T
    base = bottom - DESCENT * size
    top = base - CAPITAL_HEIGHT * size
    found = np.zeros(len(words), np.int64)
    for at in np.flatnonzero(is_large):
        is_crossed = (left < right[at]) & (right > left[at]) & (top < base[at]) & (base > top[at])
        found[at] = (is_crossed & ~is_large).sum()
    return found

"""Words of a PDF that a line crosses out, as in a contract that was changed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hwdag_files.letters import Boxes
from hwdag_files.marks import struck
from hwdag_files.words import Word

LOWEST, HIGHEST = 0.34, 0.68
"""Height of such a line above the lower side of a word, in sizes of its type."""

MAX_THICKNESS = 0.12  # of such a line, in sizes of the type
MAX_MISSING_LENGTH = 0.4  # sizes of the type by which a line may be shorter than its words
MAX_EXTRA_LENGTH = 0.6  # sizes of the type by which it may be longer


def with_struck(words: Sequence[Word], rules: Boxes) -> list[Word]:
    """Mark words that a line of their length crosses; lines of tables and forms are longer."""
    rules = rules[rules[:, 2] - rules[:, 0] > rules[:, 3] - rules[:, 1]]
    if not len(rules) or not words:
        return list(words)
    x0, x1, bottom, size = np.array(
        [(word.x0, word.x1, word.bottom, word.size) for word in words]
    ).T
    found = np.zeros(len(words), bool)
    for left, top, right, low in rules:
        height = bottom - (top + low) / 2
        crossed = (
            (height > LOWEST * size)
            & (height < HIGHEST * size)
            & (low - top < MAX_THICKNESS * size)
            & (x0 > left - MAX_MISSING_LENGTH * size)
            & (x1 < right + MAX_MISSING_LENGTH * size)
        )
        if crossed.any():
            reach = MAX_EXTRA_LENGTH * size[crossed].max()
            is_fitting = left > x0[crossed].min() - reach and right < x1[crossed].max() + reach
            found |= crossed if is_fitting else False
    return [
        word._replace(text=struck(word.text)) if is_struck else word
        for word, is_struck in zip(words, found.tolist(), strict=True)
    ]

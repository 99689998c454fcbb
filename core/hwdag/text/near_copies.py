"""Which Information Points are worth a node (not in the papers): no copies, and no number that the text has elsewhere.

A point that repeats a sentence costs a node and an edge, and condenses nothing. A small writer moves years
from one sentence to another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from hwdag.text.words import content_words, words

NEAR_COPY = 0.85
"""A point is the near-duplicate of a text with which it shares this part of the words of the longer.
A pronoun that became a name in a sentence of six words is below it, one in a sentence of twelve above."""

LONG_NUMBER = 3
"""Digits of a number that is checked, such as a year; a shorter one may be a word in the text ("eleven")."""


def originals(points: Iterable[str], texts: Sequence[str]) -> list[str]:
    """Keep the points that are no copies of `texts`, in order, nor of a point before them.

    A copy occurs in the texts word by word, across their borders too, whatever its case and
    punctuation; or it shares `NEAR_COPY` of its words, in any order, with one of them.
    """
    kept: list[str] = []
    known = [Counter(words(text)) for text in texts]
    running = _joined(word for text in texts for word in words(text))
    for point in points:
        said = words(point)
        counted = Counter(said)
        if _joined(said) in running or any(_is_near(counted, other) for other in known):
            continue
        known.append(counted)
        kept.append(point)
    return kept


def grounded(points: Iterable[str], texts: Sequence[str], heading: str = "") -> list[str]:
    """Keep the points whose long numbers occur near another content word of theirs, in order.

    Near: in one of `texts` that has the number, or the one before or after it. Words of the `heading`
    count for all of them.
    """
    given = set(words(heading))
    said = [set(content_words(text)) for text in texts]
    around = [set().union(*said[max(0, i - 1) : i + 2]) for i in range(len(said))]

    def is_grounded(point: str) -> bool:
        own = set(content_words(point))
        numbers = {word for word in own if word.isdecimal() and len(word) >= LONG_NUMBER} - given
        places = [(own - numbers) & near for near in around]
        return all(
            any(number in found and place for found, place in zip(said, places, strict=True))
            for number in numbers
        )

    return list(filter(is_grounded, points))


def _is_near(one: Counter[str], other: Counter[str]) -> bool:
    shorter, longer = sorted([one.total(), other.total()])
    return shorter >= NEAR_COPY * longer and (one & other).total() >= NEAR_COPY * longer


def _joined(found: Iterable[str]) -> str:
    return f" {' '.join(found)} "

"""Which Information Points say nothing new: copies of the text, and of each other (ours).

A point that repeats a sentence costs a node and an edge, and condenses nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from hwdag.text.words import words

NEAR_COPY = 0.85
"""A point is the near-duplicate of a text with which it shares this part of the words of the longer.
A pronoun that became a name in a sentence of six words is below it, one in a sentence of twelve above."""


def originals(points: Iterable[str], texts: Sequence[str]) -> list[str]:
    """Keep the points that are no copies of `texts`, in order, nor of a point before them.

    A copy is what occurs in the texts word by word, across their borders too, whatever its case and
    punctuation; or what shares `NEAR_COPY` of its words, in any order, with one of them.
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


def _is_near(one: Counter[str], other: Counter[str]) -> bool:
    shorter, longer = sorted([one.total(), other.total()])
    return shorter >= NEAR_COPY * longer and (one & other).total() >= NEAR_COPY * longer


def _joined(found: Iterable[str]) -> str:
    return f" {' '.join(found)} "

"""Information Points without a writer: the most central sentences of a window (not in the papers).

A sentence is central if its mean cosine to all sentences is high (LexRank in its degree form, Erkan and
Radev 2004). Every segment gets a point if the budget has room: a walk from the top cannot reach text that
no point covers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hwdag.arrays import Vectors
from hwdag.embedding.hashing import unit_rows
from hwdag.text.sentences import ends_sentence, is_question
from hwdag.text.words import words

DUPLICATE = 0.98  # cosine from which a sentence repeats another and is no second point

MIN_WORDS = 5  # of a sentence that stands alone

_LEANS = re.compile(
    r"""\W*(?: he|she|it|they|him|her|them|his|hers|its|their|theirs|this|that|these|those|i|we|you
      | my|our|your|and|or|but|so|nor|yet|because|then|thus|hence|therefore|however|moreover
      | furthermore|also|besides|meanwhile|instead|otherwise|nevertheless|which|whom?|whose|such
    )\b | [|(\[{<)\]}>,;:=\#] | -- | ```""",
    re.VERBOSE | re.IGNORECASE,
)
"""Beginnings that lean on the sentence before (English), and those of table rows, code and headings."""


@dataclass(frozen=True, slots=True, eq=False)
class CandidateSentence:
    """A sentence of a window; `segment` is the ordinal of its node, `vector` of unit length, or zero."""

    text: str
    tokens: int
    segment: int
    vector: Vectors  # (d,)


def pick_points(window: Sequence[CandidateSentence], *, token_budget: int) -> list[int]:
    """Pick the sentences of a window that become its points; return their indices in reading order.

    Sentences that stand alone come first, and of those the most central. Every segment gets one point
    before any gets a second, which has to stand alone and repeat no other point. A window that is not empty
    gets one point even beyond the budget.
    """
    if not window:
        return []
    vectors = unit_rows(np.stack([one.vector for one in window])).astype(np.float64)
    centrality = (vectors @ vectors.mean(axis=0)).tolist()
    alone = [stands_alone(one.text) for one in window]
    order = sorted(range(len(window)), key=lambda i: (not alone[i], -centrality[i]))
    picked, covered, left = list[int](), set[int](), token_budget
    for is_second in (False, True):
        for i in order:
            one = window[i]
            if i in picked or one.tokens > left or (one.segment in covered) is not is_second:
                continue
            if is_second and not (alone[i] and (vectors[picked] @ vectors[i]).max() < DUPLICATE):
                continue
            picked.append(i)
            covered.add(one.segment)
            left -= one.tokens
    return sorted(picked) or [min(range(len(window)), key=lambda i: window[i].tokens)]


def stands_alone(text: str) -> bool:
    """Return whether a text is a sentence that can be understood without its neighbours."""
    is_sentence = ends_sentence(text) and not is_question(text)
    return is_sentence and len(words(text)) >= MIN_WORDS and not _LEANS.match(text)

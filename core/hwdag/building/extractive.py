"""Information Points without a writer: sentences picked from the text (ours, beyond the papers).

A good point is central to its window (LexRank in its degree form, Erkan and Radev 2004), does not
repeat another one (maximal marginal relevance, Carbonell and Goldstein 1998), and can be understood
alone. Every segment gets a fair share: a walk from the top cannot reach text that no point covers.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from hwdag.arrays import Floats, Ints, Mask, Vectors
from hwdag.embedding.hashing import unit_rows
from hwdag.text.sentences import ends_sentence, is_question

RELEVANCE = 0.7  # share of salience in the score, the rest is (minus) redundancy; lambda of MMR
DUPLICATE = 0.98  # cosine from which a sentence says the same as another and is no second point

WORTHWHILE = 0.5
"""Beyond the coverage of the window, no sentence that is less self-contained is picked."""

SHORT, DEPENDENT, QUESTION, HEADING, FRAGMENT, NOT_PROSE = 0.5, 0.6, 0.5, 0.3, 0.3, 0.2
"""Factors of the weaknesses that make a sentence hard to understand alone."""

SHORT_WORDS = 5
HEADING_WORDS = 8
WORDS_PER_UNSPACED_LETTER = 5 / 8
LETTER_SHARE = 0.6

_OPENER = re.compile(
    r"""\W*(?: he|she|it|they|him|her|them|his|hers|its|their|theirs|this|that|these|those|i|we|you
      | my|our|your|and|or|but|so|nor|yet|because|then|thus|hence|therefore|however|moreover
      | furthermore|also|besides|meanwhile|instead|otherwise|nevertheless|which|whom?|whose|such
    )\b""",
    re.VERBOSE | re.IGNORECASE,
)
"""First words that lean on the sentence before (English)."""

_FRAGMENT = re.compile(r"[|(\[{<)\]}>,;:=]|--|```")
"""Beginnings of table rows, of code, and of text that was cut off."""

# why: Thai, Lao, Khmer, Japanese and Chinese put no spaces between words
_UNSPACED = re.compile("[\u0e00-\u0eff\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A sentence of a window; `segment` is the ordinal of its node, `vector` of unit length, or zero."""

    text: str
    tokens: int
    segment: int
    vector: Vectors  # (d,)


def pick_points(window: Sequence[Candidate], *, token_budget: int) -> list[int]:
    """Pick the sentences of a window that become its points; returns indices in reading order.

    Every segment gets one point before any gets a second, within the segment's share of the budget if
    it has such a sentence. Where the budget cannot cover all segments, neighbours are covered together.
    The rest goes to the best sentences that are left, but not to repetitions or fragments. A window
    that is not empty gets one point even beyond the budget. O(sentences * picked * dimension).
    """
    if not window:
        return []
    picker = _Picker.of(window, token_budget)
    _cover(picker, _stretches(picker))
    while picker.pick_best(picker.is_affordable & ~picker.is_covered):
        pass
    worthwhile = picker.factor >= WORTHWHILE
    while picker.pick_best(picker.is_affordable & worthwhile & (picker.redundancy < DUPLICATE)):
        pass
    return sorted(picker.picked) or [int(np.argmin(picker.tokens))]


def self_containedness(text: str) -> float:
    """Return how well a sentence can be understood alone, in (0, 1]: the product of the factors above."""
    factor = 1.0
    words = _word_count(text)
    if words < SHORT_WORDS:
        factor *= SHORT
    if _OPENER.match(text):
        factor *= DEPENDENT
    if is_question(text):
        factor *= QUESTION
    if _FRAGMENT.match(text):
        factor *= FRAGMENT
    if text.startswith("#") or (words < HEADING_WORDS and not ends_sentence(text)):
        factor *= HEADING
    if _letter_share(text) < LETTER_SHARE:
        factor *= NOT_PROSE
    return factor


def _word_count(text: str) -> float:
    """Words between spaces, or an estimate for scripts without them."""
    unspaced = len(_UNSPACED.findall(text))
    if unspaced > sum(map(str.isalpha, text)) / 2:
        return unspaced * WORDS_PER_UNSPACED_LETTER
    return len(text.split())


def _letter_share(text: str) -> float:
    kinds = [unicodedata.category(char)[0] for char in text if not char.isspace()]
    return sum(kind in "LM" for kind in kinds) / max(1, len(kinds))


@dataclass(slots=True, eq=False)
class _Picker:
    """Facts about n sentences in s segments, and the sentences picked so far."""

    vectors: Floats  # (n, d)
    tokens: Ints  # (n,)
    segment: Ints  # (n,), 0 .. s-1 in reading order
    factor: Floats  # (n,) self-containedness
    salience: Floats  # (n,) in [0, 1]
    budget: int  # the rest of it
    is_free: Mask  # (n,) not picked
    is_covered: Mask  # (n,) in a segment that has a point
    redundancy: Floats  # (n,) largest cosine to a picked sentence
    picked: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, window: Sequence[Candidate], budget: int) -> Self:
        vectors = unit_rows(np.stack([c.vector for c in window])).astype(np.float64)
        centrality = np.maximum(vectors @ vectors.mean(axis=0), 0.0)  # mean cosine to all
        factor = np.array([self_containedness(candidate.text) for candidate in window])
        # why: without a similarity above 0 all are equally central
        share = centrality / centrality.max() if centrality.max() > 0 else np.ones(len(window))
        return cls(
            vectors=vectors,
            tokens=np.array([candidate.tokens for candidate in window], dtype=np.int64),
            segment=np.unique([c.segment for c in window], return_inverse=True)[1],
            factor=factor,
            salience=share * factor,
            budget=budget,
            is_free=np.ones(len(window), dtype=np.bool_),
            is_covered=np.zeros(len(window), dtype=np.bool_),
            redundancy=np.zeros(len(window)),
        )

    @property
    def is_affordable(self) -> Mask:
        return self.is_free & (self.tokens <= self.budget)

    def pick_best(self, eligible: Mask) -> bool:
        """Pick the eligible sentence of the highest MMR score, the first of equals."""
        if not eligible.any():
            return False
        score = RELEVANCE * self.salience - (1 - RELEVANCE) * self.redundancy
        best = int(np.argmax(np.where(eligible, score, -np.inf)))
        self.picked.append(best)
        self.budget -= int(self.tokens[best])
        self.is_free[best] = False
        self.is_covered |= self.segment == self.segment[best]
        self.redundancy = np.maximum(self.redundancy, self.vectors @ self.vectors[best])
        return True


def _stretches(picker: _Picker) -> Ints:
    """Find the stretch that each sentence is in, (n,), so that one point of each is affordable.

    A stretch is a segment if the budget has room for a sentence of each, else a run of segments whose
    share of the budget pays for a sentence of middling length.
    """
    if _cheapest(picker.tokens, picker.segment).sum() <= picker.budget:
        return picker.segment
    rate = picker.budget / max(1, int(picker.tokens.sum()))
    stretch_of = np.zeros(picker.segment.max() + 1, dtype=np.int64)
    stretch, members = 0, np.zeros(0, dtype=np.int64)
    for segment in range(len(stretch_of)):
        if len(members) and rate * members.sum() >= np.median(members):
            stretch, members = stretch + 1, members[:0]
        members = np.append(members, picker.tokens[picker.segment == segment])
        stretch_of[segment] = stretch
    # why: the last run is cut short by the end of the window, so the run before it takes it in
    if stretch and rate * members.sum() < np.median(members):
        stretch_of[stretch_of == stretch] = stretch - 1
    return stretch_of[picker.segment]


def _cover(picker: _Picker, stretch: Ints) -> None:
    """Pick one sentence of each stretch, within its share where possible, the best first."""
    cheapest = _cheapest(picker.tokens, stretch)
    if cheapest.sum() > picker.budget:  # why: a single stretch then, without an affordable sentence
        return
    mass = np.bincount(stretch, weights=picker.tokens)
    share = picker.budget * mass / max(1.0, mass.sum())
    is_open = np.ones(len(cheapest), dtype=np.bool_)
    while is_open.any():
        spare = picker.budget - cheapest[is_open].sum()
        limit = np.minimum(cheapest + spare, np.maximum(share, cheapest))
        picker.pick_best(is_open[stretch] & (picker.tokens <= limit[stretch]))
        is_open[stretch[picker.picked[-1]]] = False


def _cheapest(tokens: Ints, group: Ints) -> Ints:
    """Tokens of the shortest sentence of each group, (groups,)."""
    cheapest = np.full(group.max() + 1, np.iinfo(np.int64).max)
    np.minimum.at(cheapest, group, tokens)
    return cheapest

"""What visited nodes refer to: evidence beside the walk, where E^T r does not lead (ours).

A node becomes more relevant when a visited one mentions the heading that it stands under, or shares
rare words with it that the question does not have. The n-th visited node refers with weight
1 / sqrt(n): the walk takes the surest nodes first.
"""

from __future__ import annotations

import numpy as np

from hwdag.arrays import Floats, Indices, Mask
from hwdag.config import Scoring
from hwdag.search.corpus import Corpus
from hwdag.text.words import content_words

_NONE: Indices = np.empty(0, np.intp)


class References:
    """The reference term of all nodes during one walk, `weighed`, (n,); a node takes the best one to it."""

    def __init__(
        self, corpus: Corpus, question: str, scoring: Scoring, allowed: Mask | None = None
    ) -> None:
        self._lexicon = corpus.lexicon(allowed)
        self._scoring = scoring
        self._asked = frozenset(content_words(question))
        self._mentions = np.zeros(len(corpus))
        self._echoes = np.zeros(len(corpus))
        self.weighed = np.zeros(len(corpus))
        self._visits = 0

    def visit(self, index: int, text: str) -> Indices:
        """Let the next visited node refer; the nodes that gained by it, some twice."""
        self._visits += 1
        weight = self._visits**-0.5
        named = self._lexicon.named_in(text, but=self._asked) if self._scoring.mentions else _NONE
        mentioned = _raise(self._mentions, named, np.full(len(named), weight))
        gained = np.append(mentioned, self._echo(index, text, weight))
        self.weighed[gained] = (
            self._scoring.mentions * self._mentions[gained]
            + self._scoring.echoes * self._echoes[gained]
        )
        return gained

    def _echo(self, index: int, text: str, weight: float) -> Indices:
        if not self._scoring.echoes:
            return _NONE
        rows, scores = self._lexicon.echoes(set(content_words(text)) - self._asked)
        own = scores[rows == index]  # what a perfect echo would have
        if not len(own):
            return _NONE
        return _raise(self._echoes, rows, weight * np.minimum(scores / own, 1.0))


def _raise(values: Floats, rows: Indices, to: Floats) -> Indices:
    """Raise values to at least `to`, in place; the rows where that changed something."""
    higher = to > values[rows]
    values[rows[higher]] = to[higher]
    return rows[higher]

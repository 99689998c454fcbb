"""What visited nodes refer to: evidence beside the walk, where E^T r does not lead (ours).

A question with two hops names the first and asks for the second; the sentence that answers the
first names the second. So a node becomes more relevant when a visited one mentions the heading that
it stands under, or shares rare words with it that the question does not have. How much the model
attended from the visited node to the question, r of PECAN App. C, decides how much.
"""

from __future__ import annotations

import numpy as np

from hwdag.arrays import Floats, Indices, Mask
from hwdag.config import Scoring
from hwdag.search.corpus import Corpus
from hwdag.text.words import content_words


class References:
    """The reference term of all nodes during one walk; a node takes the best reference to it.

    Attributes:
        weighed: the term of every node before it is scaled, (n,).
        peak: the largest relevance so far: relevances count on its scale.
    """

    def __init__(
        self, corpus: Corpus, question: str, scoring: Scoring, allowed: Mask | None = None
    ) -> None:
        self._lexicon = corpus.lexicon(allowed)
        self._scoring = scoring
        self._asked = frozenset(content_words(question))
        self._mentions = np.zeros(len(corpus))
        self._echoes = np.zeros(len(corpus))
        self.weighed = np.zeros(len(corpus))
        self.peak = 0.0

    def visit(self, index: int, text: str, relevance: float) -> Indices:
        """Pass on the relevance r of a node that was read; the nodes that gained by it, or twice."""
        self.peak = max(self.peak, relevance)
        gained = np.append(self._mention(text, relevance), self._echo(index, text, relevance))
        self.weighed[gained] = (
            self._scoring.mentions * self._mentions[gained]
            + self._scoring.echoes * self._echoes[gained]
        )
        return gained

    def _mention(self, text: str, relevance: float) -> Indices:
        if not self._scoring.mentions:
            return np.empty(0, np.intp)
        named = self._lexicon.named_in(text, but=self._asked)
        return _raise(self._mentions, named, np.full(len(named), relevance))

    def _echo(self, index: int, text: str, relevance: float) -> Indices:
        if not self._scoring.echoes:
            return np.empty(0, np.intp)
        rows, scores = self._lexicon.echoes(set(content_words(text)) - self._asked)
        own = scores[rows == index]  # what a perfect echo would have
        if not len(own):
            return np.empty(0, np.intp)
        return _raise(self._echoes, rows, relevance * np.minimum(scores / own, 1.0))


def _raise(values: Floats, rows: Indices, to: Floats) -> Indices:
    """Raise values to at least `to`, in place; the rows where that changed something."""
    higher = to > values[rows]
    values[rows[higher]] = to[higher]
    return rows[higher]

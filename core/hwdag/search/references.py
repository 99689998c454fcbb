"""What visited nodes refer to: evidence beside the walk, where E^T r does not lead (ours).

A question with two hops names the first and asks for the second; the sentence that answers the
first names the second. So a node becomes more relevant when a visited one mentions the heading that
it stands under, or shares rare words with it that the question does not have. How much the model
attended from the visited node to the question, r of PECAN App. C, decides how much.
"""

from __future__ import annotations

import numpy as np

from hwdag.config import Scoring
from hwdag.search.corpus import Corpus, Floats, Mask
from hwdag.text.words import content_words


class References:
    """The reference term of all nodes during one walk; a node takes the best reference to it."""

    def __init__(
        self, corpus: Corpus, question: str, scoring: Scoring, allowed: Mask | None = None
    ) -> None:
        self._corpus = corpus
        self._allowed = allowed
        self._scoring = scoring
        self._asked = frozenset(content_words(question))
        self._mentions = np.zeros(len(corpus))
        self._echoes = np.zeros(len(corpus))
        self._peak = 0.0

    @property
    def total(self) -> Floats:
        """The weighted term of every node, (n,); relevances are on the scale of the largest one."""
        if not self._peak:
            return np.zeros(len(self._corpus))
        scoring = self._scoring
        return (scoring.mentions * self._mentions + scoring.echoes * self._echoes) / self._peak

    def visit(self, index: int, relevance: float) -> None:
        """Pass on the relevance r of a node that was read."""
        self._peak = max(self._peak, relevance)
        text, lexicon = self._corpus.nodes[index].text, self._corpus.lexicon
        if self._scoring.mentions:
            named = lexicon.named_in(text, but=self._asked)
            self._mentions[named] = np.maximum(self._mentions[named], relevance)
        if self._scoring.echoes:
            scores = lexicon.scores(set(content_words(text)) - self._asked, self._allowed)
            if scores[index] > 0:  # its own score is what a perfect echo would have
                echo = np.minimum(scores / scores[index], 1.0)
                np.maximum(self._echoes, relevance * echo, out=self._echoes)

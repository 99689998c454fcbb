"""Similarity of nodes to a question: embeddings, words, paragraphs and the topic of a conversation."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from hwdag.arrays import Floats, Mask, Vectors
from hwdag.config import Scoring
from hwdag.corpus.view import View


class Similarity:
    """Similarity of every node to a question's `words` and embedding, at least 0; 0 if it is not seen.

    Cosine similarity clipped at 0 (GARLIC 3.2.2); with `scoring.bm25_weight`, mixed with BM25 after both
    were stretched to [0, 1], as the two are on different scales; with `scoring.paragraph_weight`, mixed with
    the highest similarity of a leaf of the same paragraph. With several question embeddings, a node uses its highest cosine.
    A `topic`, (n,), is added: that of a conversation (`hwdag.search.follow_ups`), or the codes that a
    question names (`hwdag.search.references`).

    Attributes:
        first: cosine similarity to the first embedding of the question, (n,).
        latest: that to the one that was added last, (n,).
        cosine: the highest of all, (n,).
    """

    def __init__(
        self,
        view: View,
        words: Collection[str],
        vector: Vectors,
        scoring: Scoring,
        topic: Floats | None = None,
    ) -> None:
        self._corpus, self._scoring, self._topic = view.corpus, scoring, topic
        self._keep = view.mask
        self.first = self.latest = self.cosine = view.corpus.similarity(vector)
        self._words: Floats | None = None
        if scoring.bm25_weight > 0 and self._keep.any():
            self._words = stretched(view.lexicon.scores(words), self._keep)

    def add(self, vectors: Vectors) -> None:
        """Take further embeddings of the question into account, (k, dimension)."""
        for vector in vectors:
            self.latest = self._corpus.similarity(vector)
            self.cosine = np.maximum(self.cosine, self.latest)

    @property
    def words(self) -> Floats:
        """BM25 of every node, stretched to [0, 1], (n,)."""
        return np.zeros(len(self._corpus)) if self._words is None else self._words

    @property
    def values(self) -> Floats:
        """The similarity of every node, (n,)."""
        if self._topic is None:
            return self._of_question
        found = self._of_question
        return np.where(self._keep, found / (found.max(initial=0.0) or 1.0) + self._topic, 0.0)

    @property
    def _of_question(self) -> Floats:
        share, found = self._scoring.bm25_weight, self.cosine
        if self._words is not None:
            found = (1 - share) * stretched(found, self._keep) + share * self._words
        found = np.where(self._keep, found, 0.0)
        share = self._scoring.paragraph_weight
        if share == 0:
            return found
        best = self._corpus.best_in_paragraph(found)
        return np.where(self._keep, (1 - share) * found + share * best, 0.0)


def stretched(values: Floats, keep: Mask) -> Floats:
    """Values moved and scaled so that those kept span [0, 1]; if all are equal, 1 for all above 0."""
    low, high = values[keep].min(), values[keep].max()
    if high <= low:
        return np.where(values > 0, 1.0, 0.0)
    return np.asarray(np.clip((values - low) / (high - low), 0.0, 1.0))

"""What a node's score is made of beside attention: how like the question it is, and what refers to it.

References are ours: evidence beside the walk, where E^T r does not lead. A node becomes more relevant
when a visited one mentions the heading that it stands under, or shares rare words with it that the
question does not have. The n-th visited node refers with weight 1 / sqrt(n).
"""

from __future__ import annotations

import numpy as np

from hwdag.arrays import Floats, Indices, Mask, Vectors
from hwdag.config import Scoring
from hwdag.search.corpus import Corpus
from hwdag.text.words import asked_words, content_words


class Similarity:
    """Similarity of every node to a question, at least 0; 0 for nodes that are not allowed.

    Cosine similarity clipped at 0 (GARLIC 3.2.2); with `scoring.sparse`, mixed with BM25 after both
    were stretched to [0, 1], as the two are on different scales; with `scoring.paragraph`, mixed with
    the highest similarity of a leaf of the same paragraph. Of several embeddings the most similar counts.
    With a `topic`, (n,), of a conversation, similarity and topic are added (`hwdag.search.conversation`).

    Attributes:
        first: cosine similarity to the first embedding of the question, (n,).
        latest: that to the one that was added last, (n,).
        cosine: the highest of all, (n,).
    """

    def __init__(
        self,
        corpus: Corpus,
        question: str,
        vector: Vectors,
        scoring: Scoring,
        allowed: Mask | None = None,
        topic: Floats | None = None,
    ) -> None:
        self._corpus, self._scoring, self._topic = corpus, scoring, topic
        allowed = corpus.visible(allowed)
        self._keep = np.ones(len(corpus), bool) if allowed is None else allowed
        self.first = self.latest = self.cosine = corpus.similarity(vector)
        self._words: Floats | None = None
        if scoring.sparse > 0 and self._keep.any():
            words = corpus.lexicon(allowed).scores(asked_words(question))
            self._words = stretched(words, self._keep)

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
        share, found = self._scoring.sparse, self.cosine
        if self._words is not None:
            found = (1 - share) * stretched(found, self._keep) + share * self._words
        found = np.where(self._keep, found, 0.0)
        share = self._scoring.paragraph
        if share == 0:
            return found
        best = self._corpus.best_in_paragraph(found)
        return np.where(self._keep, (1 - share) * found + share * best, 0.0)


def stretched(values: Floats, keep: Mask) -> Floats:
    """Values moved and scaled so that those kept span [0, 1]; where all are equal, 1 for all above 0."""
    low, high = values[keep].min(), values[keep].max()
    if high <= low:
        return np.where(values > 0, 1.0, 0.0)
    return np.asarray(np.clip((values - low) / (high - low), 0.0, 1.0))


_NONE: Indices = np.empty(0, np.intp)


class References:
    """What visited nodes refer to: a node takes the best reference of each kind to it.

    Attributes:
        mentions: how much visited nodes mention the heading of every node, (n,).
        echoes: how much every node shares the rare words of visited ones, (n,).
    """

    def __init__(self, corpus: Corpus, question: str, allowed: Mask | None = None) -> None:
        self._lexicon = corpus.lexicon(allowed)
        self._asked = frozenset(content_words(question))
        self.mentions = np.zeros(len(corpus))
        self.echoes = np.zeros(len(corpus))
        self._visits = 0

    def visit(self, index: int, text: str) -> Indices:
        """Let the next visited node refer; the nodes that gained by it, some twice."""
        self._visits += 1
        weight = self._visits**-0.5
        named = self._lexicon.named_in(text, but=self._asked)
        mentioned = _raise(self.mentions, named, np.full(len(named), weight))
        return np.append(mentioned, self._echo(index, text, weight))

    def _echo(self, index: int, text: str, weight: float) -> Indices:
        rows, scores = self._lexicon.echoes(set(content_words(text)) - self._asked)
        own = scores[rows == index]  # what a perfect echo would have
        if not len(own):
            return _NONE
        return _raise(self.echoes, rows, weight * np.minimum(scores / own, 1.0))


def _raise(values: Floats, rows: Indices, to: Floats) -> Indices:
    """Raise values to at least `to`, in place; the rows where that changed something."""
    higher = to > values[rows]
    values[rows[higher]] = to[higher]
    return rows[higher]

"""Which node next: attention propagated along the edges, similarity, and references.

The first two are the papers' (GARLIC 3.2.2, PECAN Eq. 1), what visited nodes refer to is ours. Pure:
no model, no I/O. z = E^T r is kept up to date as nodes are visited, one row of E at a time.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hwdag.config import Scoring
from hwdag.search.corpus import Corpus, Floats, Indices, Mask
from hwdag.search.references import References


class Frontier:
    """The scores of all nodes during one walk.

    Args:
        corpus: the graph.
        similarity: of every node to the question, not negative, (n,).
        allowed: nodes that may be scored and shown at all, (n,); None allows all.
        scoring: how the parts are scaled and weighed; None is the papers' formula.
        references: what visited nodes refer to; None leaves that part out.
    """

    def __init__(
        self,
        corpus: Corpus,
        similarity: Floats,
        allowed: Mask | None = None,
        *,
        scoring: Scoring | None = None,
        references: References | None = None,
    ) -> None:
        self._corpus = corpus
        self._scoring = scoring or Scoring.garlic()
        self._references = references
        self._allowed = np.ones(len(corpus), bool) if allowed is None else allowed
        # why: before its weight, so that a walk without similarity still knows its top-level nodes
        self._likeness = self._scaled(np.where(self._allowed, similarity, 0.0))
        self._propagated = np.zeros(len(corpus))  # z
        self._open = self._allowed.copy()
        self._unread = self._allowed.copy()
        self.left_out = False
        """Whether a node was closed because it did not fit."""

    @property
    def likeness(self) -> Floats:
        """Scaled similarity to the question, before its weight, (n,)."""
        return self._likeness

    @property
    def similarity(self) -> Floats:
        """The similarity part of every node's score, (n,)."""
        return self._scoring.similarity * self._likeness

    @property
    def attention(self) -> Floats:
        """The attention part of every node's score, from z = E^T r, (n,)."""
        z = np.where(self._allowed, self._propagated, 0.0)
        return self._scoring.attention * self._scaled(z)

    @property
    def reference(self) -> Floats:
        """The reference part of every node's score, (n,)."""
        if self._references is None:
            return np.zeros(len(self._corpus))
        return np.where(self._allowed, self._references.total, 0.0)

    @property
    def score(self) -> Floats:
        """Sum of the parts, (n,)."""
        return self.attention + self.similarity + self.reference

    @property
    def open(self) -> Mask:
        """Nodes that can still be visited, (n,)."""
        return self._open

    def visit(self, index: int, relevance: float) -> None:
        """Mark a node as read and pass its relevance r on along its edges.

        Copies of an extractive point, one level further down, have the same text and so the same
        relevance: they count as visited too and pass it on. What lies inside the text of the node
        has been read with it.
        """
        for read in (index, self._corpus.inside(index)):
            self._open[read] = False
            self._unread[read] = False
        for node in (index, *self._corpus.copies(index)):
            children, weights = self._corpus.children(int(node))
            self._propagated[children] += relevance * weights
        if self._references is not None:
            self._references.visit(index, relevance)

    def ranking(self) -> Indices:
        """Unread nodes by score, best first, whether they fit or not."""
        scores = self.score
        order: Indices = np.argsort(-scores, kind="stable")
        unread: Indices = order[self._unread[order]]
        return unread

    def best(self, cost: Callable[[int], int], room: int, count: int = 1) -> list[int]:
        """The `count` open nodes with the highest scores that fit together; fewer, if no more do.

        Nodes that do not fit are closed for good: room only ever shrinks. Ties go to the earlier
        node. None of them lies inside the text of another.
        """
        scores = np.where(self._open, self.score, -1.0)
        chosen: list[int] = []
        while len(chosen) < count and (scores >= 0).any():
            index = int(scores.argmax())
            scores[index] = -1.0
            if cost(index) > room:
                self._open[index] = False
                self.left_out = True
                continue
            chosen.append(index)
            scores[self._corpus.inside(index)] = -1.0
            room -= cost(index)
        return chosen

    def _scaled(self, values: Floats) -> Floats:
        """Values over their sum or their peak; zeros where that is 0, so that the term drops out."""
        unit = values.sum() if self._scoring.scale == "share" else values.max(initial=0.0)
        return values / unit if unit > 0 else np.zeros_like(values)

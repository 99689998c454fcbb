"""Which node next: attention propagated along the edges, plus similarity (GARLIC 3.2.2, PECAN Eq. 1).

Pure: no model, no I/O. z = E^T r is kept up to date as nodes are visited, one row of E at a time.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hwdag.search.corpus import Corpus, Floats, Indices, Mask


class Frontier:
    """The scores of all nodes during one walk.

    Args:
        corpus: the graph.
        similarity: of every node to the question, not negative, (n,).
        allowed: nodes that may be scored and shown at all, (n,); None allows all.
    """

    def __init__(self, corpus: Corpus, similarity: Floats, allowed: Mask | None = None) -> None:
        self._corpus = corpus
        self._allowed = np.ones(len(corpus), bool) if allowed is None else allowed
        self._similarity = _share(np.where(self._allowed, similarity, 0.0))
        self._propagated = np.zeros(len(corpus))  # z
        self._open = self._allowed.copy()
        self._unread = self._allowed.copy()
        self.left_out = False
        """Whether a node was closed because it did not fit."""

    @property
    def similarity(self) -> Floats:
        """Each node's share of all similarity, sim / sum(sim), (n,)."""
        return self._similarity

    @property
    def attention(self) -> Floats:
        """Each node's share of all propagated attention, z / sum(z), (n,)."""
        return _share(np.where(self._allowed, self._propagated, 0.0))

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

    def ranking(self) -> Indices:
        """Unread nodes by score, best first, whether they fit or not."""
        scores = self.attention + self._similarity
        order: Indices = np.argsort(-scores, kind="stable")
        unread: Indices = order[self._unread[order]]
        return unread

    def best(self, cost: Callable[[int], int], room: int) -> int | None:
        """The open node with the highest score whose cost fits; None if none does.

        Nodes that do not fit are closed for good: room only ever shrinks. Ties go to the earlier
        node.
        """
        scores = np.where(self._open, self.attention + self._similarity, -1.0)
        while self._open.any():
            index = int(scores.argmax())
            if cost(index) <= room:
                return index
            self._open[index] = False
            self.left_out = True
            scores[index] = -1.0
        return None


def _share(values: Floats) -> Floats:
    """Values divided by their sum; zeros where the sum is 0, so that the term drops out."""
    total = values.sum()
    return values / total if total > 0 else np.zeros_like(values)

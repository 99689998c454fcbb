"""Which node next: attention propagated along the edges, similarity, and references.

The first two are the papers' (GARLIC 3.2.2, PECAN Eq. 1); the references of visited nodes are not in the papers. Pure:
no model, no I/O. z = E^T r and the scores are kept up to date as nodes are visited: a choice among a
million nodes takes milliseconds, since only values that a visit changed are computed again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from hwdag.arrays import Floats, Indices, Mask
from hwdag.config import Scale, Scoring
from hwdag.corpus.view import View
from hwdag.search.question import Question
from hwdag.search.references import References
from hwdag.types import Node

Costs = Callable[[Sequence[int]], Sequence[int]]
"""Tokens that each of these nodes takes, or a larger number if that fits, too."""

RERANK_CANDIDATES = 48
"""Nodes that a ranker chooses from, as many as in its training (`examples/train_navigator`)."""

MOST_MISFITS = 100
"""Give up after this many nodes that do not fit. Later candidates are barely relevant, and each attempt
fetches and tokenizes a text. With 1,000, nothing more was found in a pool of
70,148 nodes (180 questions, 256 and 512 tokens)."""

MOST_AT_ONCE = 128  # nodes that are fetched at a time to see which of them fit


class NodeRanker(Protocol):
    """A navigator during one search (`hwdag.search.navigator.NavigatorRanker`)."""

    def rank(self, frontier: Frontier, nodes: Indices, scores: Floats) -> Floats:
        """Return how soon to read open nodes with these scores, best first, (k,); on any scale."""

    def visit(self, index: int, node: Node) -> Floats | None:
        """Take note of a visited node; the similarity of all nodes, (n,), if that changed it."""


class ScoreParts(NamedTuple):
    """The parts of the score of one node, scaled and weighed."""

    attention: float
    similarity: float
    reference: float


class Frontier:
    """The scores of all nodes during one walk.

    `similarity` is that of every node to the question, not negative, (n,). Without `scoring` the papers'
    formula is used. A `ranker` chooses among the nodes with the highest scores.
    """

    def __init__(
        self,
        view: View,
        similarity: Floats,
        *,
        scoring: Scoring | None = None,
        scale: Scale = "share",
        references: References | None = None,
        ranker: NodeRanker | None = None,
    ) -> None:
        self._corpus, self._visible = view.corpus, view.mask
        self._ranker = ranker
        self._scoring, self._scale = scoring or Scoring.papers(), scale
        self._references = references
        # why: before its weight, so that a walk without similarity still knows its top-level nodes
        self.similarity = self._scaled(similarity, self._visible)
        self._propagated = np.zeros(len(view))  # z
        self._unit = 0.0  # that z is scaled by
        self._reached = np.empty(0, np.intp)  # whose z may be positive
        self._is_reached = np.zeros(len(view), bool)
        self._unread = self._visible.copy()
        self._open = self._visible.copy()
        self._score = self._scores(slice(None))
        self._gained: list[Indices] = []  # nodes with new references since the last choice
        self._ranked: Indices = np.empty(0, np.intp)  # by the ranker at the last choice, best first
        self._misfits = 0
        self._is_without_points = False

    @classmethod
    def of(
        cls,
        view: View,
        question: Question,
        similarity: Floats,
        scoring: Scoring,
        scale: Scale = "peak",
        ranker: NodeRanker | None = None,
    ) -> Frontier:
        """Return the scores for a question before anything is read, with the references that visited nodes will make."""
        references = References(view, question) if scoring.references else None
        options: dict[str, Any] = {"scoring": scoring, "scale": scale}
        return cls(view, similarity, **options, references=references, ranker=ranker)

    def set_similarity(self, similarity: Floats) -> None:
        """Replace the similarity of every node to the question, (n,)."""
        self.similarity = self._scaled(similarity, self._visible)
        self._score = self._scores(slice(None))

    @property
    def mentions(self) -> Floats:
        """How much visited nodes mention the heading of every node, (n,)."""
        return self._zeros if self._references is None else self._references.mentions

    @property
    def echoes(self) -> Floats:
        """How much every node shares the rare words of visited ones, (n,)."""
        return self._zeros if self._references is None else self._references.echoes

    @property
    def _zeros(self) -> Floats:
        return np.zeros(len(self._corpus))

    @property
    def left_out(self) -> bool:
        """Whether a node was closed because it did not fit."""
        return self._misfits > 0

    @property
    def open(self) -> Mask:
        """Nodes that can still be visited, (n,)."""
        return self._open

    def parts(self, index: int) -> ScoreParts:
        """Return the parts of the score of a visible node at this moment."""
        one = np.array([index])
        return ScoreParts(
            float(self._attention(one)[0]),
            self._scoring.similarity * float(self.similarity[index]),
            float(self._reference(one)[0]),
        )

    def visit(self, index: int, node: Node | None = None) -> None:
        """Mark a node as visited, with the nodes inside its text; add its references."""
        visited = np.append(self._corpus.inside(index), index)
        self._unread[visited] = False
        self._close(visited)
        if node is None:
            return
        if self._references is not None:
            self._gained.append(self._references.visit(index, node.text))
        if self._ranker is not None and (similarity := self._ranker.visit(index, node)) is not None:
            self.set_similarity(similarity)

    def close_points(self) -> None:
        """Leave leaves alone open."""
        if not self._is_without_points:
            self._close(self._corpus.points)
            self._is_without_points = True

    def pass_on(self, index: int, relevance: float) -> None:
        """Pass the relevance r of a visited node, and of its copies a level down, on along their edges."""
        for node in self._parents(index):
            children, weights = self._corpus.children(node)
            seen = self._visible[children]
            children = children[seen]
            self._propagated[children] += relevance * weights[seen]
            new = children[~self._is_reached[children]]
            self._is_reached[new] = True
            self._reached = np.append(self._reached, new)
        z = self._propagated[self._reached]
        if self._scale == "peak":  # over the nodes that are yet to be read
            self._unit = float(z[self._unread[self._reached]].max(initial=0.0))
        else:
            self._unit = float(z.sum()) if self._scale == "share" else 1.0

    def passes_on(self, index: int) -> bool:
        """Return whether there is an edge to pass relevance on along."""
        return any(len(self._corpus.children(node)[0]) for node in self._parents(index))

    def _parents(self, index: int) -> tuple[int, ...]:
        """Return a node and its copies."""
        copies = self._corpus.copies(index)
        return (index, *copies[self._visible[copies]].tolist())

    def ranking(self, count: int) -> Indices:
        """Return the `count` best unread nodes by score, best first, whether they fit or not."""
        if count <= 0:
            return np.empty(0, np.intp)
        unread = np.flatnonzero(self._unread)
        return unread[highest(self._sum(unread), count)]

    def best(self, costs: Costs, room: int) -> int | None:
        """Return the open node to read next, of those that fit; None if none does.

        It has the highest score, or the ranker prefers it among the `RERANK_CANDIDATES` highest. Nodes that
        do not fit are closed for good, even if one whose heading is shown for another later would take a
        few tokens less. Ties go to the earlier node.
        """
        # only if a part of a score or its scale changed
        changed = np.concatenate([self._reached, *self._gained])
        self._score[changed] = self._scores(changed)
        self._gained = []
        if self._ranker is not None:
            fitting = self._fitting(costs, room)
            if not len(fitting):
                return None
            ranks = self._ranker.rank(self, fitting, self._score[fitting])
            self._ranked = fitting[np.lexsort((fitting, -ranks))]
            return int(self._ranked[0])
        for index, cost in self._candidates(costs):
            if cost <= room:
                return index
            self._misfits += 1
            self._close(np.array([index]))
        return None

    def _fitting(self, costs: Costs, room: int) -> Indices:
        """Return those of the first `RERANK_CANDIDATES` open nodes that fit, best first; at least one, if any."""
        if not len(self._ranked):  # prefetch the texts that later choices need
            costs(highest(self._score, MOST_AT_ONCE).tolist())
        while True:
            first = self.first(RERANK_CANDIDATES)
            is_misfit = np.array(costs(first.tolist()), np.int64) > room
            before = self._misfits + np.cumsum(is_misfit) - is_misfit
            first, is_misfit = first[before < MOST_MISFITS], is_misfit[before < MOST_MISFITS]
            self._misfits += int(np.count_nonzero(is_misfit))
            self._close(first[is_misfit])
            if not is_misfit.all() or not len(first):
                return first[~is_misfit]

    def first(self, count: int) -> Indices:
        """Return the `count` best open nodes, best first; of copies the best."""
        wanted = count
        while True:
            found = highest(self._score, wanted)
            distinct = self._corpus.distinct(found)
            if len(distinct) >= count or len(found) < wanted:
                return distinct[:count]
            wanted *= 2

    def runners_up(self, index: int, count: int) -> list[int]:
        """Return the `count` best open nodes of the last choice other than the chosen one and its copies."""
        same = {index, *self._corpus.inside(index).tolist(), *self._corpus.copies(index).tolist()}
        ranked = self._ranked.tolist()
        found = [i for i in ranked if i not in same]
        if len(found) < count:
            best = highest(self._score, count + len(same) + len(ranked)).tolist()
            found += [i for i in best if i not in same and i not in ranked]
        return found[:count]

    def _candidates(self, costs: Costs) -> Iterator[tuple[int, int]]:
        """Open nodes, best first, with their costs, which need texts: a few at once."""
        wanted, is_complete = 1, False
        while not is_complete:  # nodes that did not fit are closed by then
            found = highest(self._score, wanted).tolist()
            is_complete = len(found) < wanted
            for index, cost in zip(found, costs(found), strict=True):
                if self._misfits >= MOST_MISFITS:
                    return
                yield index, cost
            wanted = min(2 * wanted, MOST_AT_ONCE)

    def _close(self, indices: Indices) -> None:
        self._open[indices] = False
        self._score[indices] = -np.inf

    def _scores(self, indices: Indices | slice) -> Floats:
        """Return the scores of these nodes, -inf for those that are not open."""
        return np.where(self._open[indices], self._sum(indices), -np.inf)

    def _sum(self, indices: Indices | slice) -> Floats:
        """Return the sum of the parts of these nodes' scores."""
        similarity = self._scoring.similarity * self.similarity[indices]
        return (self._reference(indices) + similarity) + self._attention(indices)

    def _attention(self, indices: Indices | slice) -> Floats:
        """Return the attention part of these nodes' scores, from z = E^T r."""
        z = self._propagated[indices]
        return self._scoring.attention * (z / self._unit) if self._unit > 0 else np.zeros_like(z)

    def _reference(self, indices: Indices | slice) -> Floats:
        if self._references is None:
            return np.zeros(1)
        found = self._references.mentions[indices] + self._references.echoes[indices]
        return self._scoring.references * found

    def _scaled(self, values: Floats, among: Mask) -> Floats:
        """Values over their sum or their peak among these nodes, 0 for others; all 0 if that is 0."""
        if self._scale == "none":
            return np.where(among, values, 0.0)
        seen = values[among]
        unit = seen.sum() if self._scale == "share" else seen.max(initial=0.0)
        return np.where(among, values / unit, 0.0) if unit > 0 else np.zeros_like(values)


def highest(values: Floats, count: int) -> Indices:
    """Return the `count` highest finite values, best first, ties to the earlier one; in linear time."""
    rows = np.flatnonzero(values >= max(_bound(values, count), np.finfo(np.float64).min))
    found = values[rows]
    if len(rows) > count:
        least = np.partition(found, -count)[-count]
        above, level = rows[found > least], rows[found == least]
        rows = np.sort(np.append(above, level[: count - len(above)]))
        found = values[rows]
    return rows[np.argsort(-found, kind="stable")]


BLOCK = 256  # values that are looked at together; only their highest one is compared with others


def _bound(values: Floats, count: int) -> float:
    """Return a bound that at least `count` values reach: the `count`-th highest of the blocks, or -inf."""
    blocks = len(values) // BLOCK
    if blocks < count:
        return -np.inf
    peaks = values[: blocks * BLOCK].reshape(blocks, BLOCK).max(axis=1)
    return float(np.partition(peaks, -count)[-count])

"""The request to a method, the nodes that it finds, and the part that fits into the budget."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from hwdag.arrays import Floats
from hwdag.search.budget import read_after
from hwdag.types import Node, Usage


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """A question, and the room for its evidence.

    `budget` is the number of node tokens that the reader may get; for methods that are not
    `bounded`, the number that fits into its context. `cost` gives the tokens of a text as a node.
    """

    question: str
    budget: int
    cost: Callable[[str], int]


@dataclass(frozen=True, slots=True)
class Scored:
    """A node and its score; scores compare within one search only."""

    node: Node
    score: float


@dataclass(frozen=True, slots=True)
class Found:
    """The nodes that a method found, in reading order.

    Nodes are read in this order; a node that exceeds the rest of the budget is skipped. `usage` is
    the cost of finding them. `left_out` means that the method itself had to leave something out.
    `unread` were found too, best first; they only fill up `k`. `carried` holds the data that the method
    needs again to answer.
    """

    ranked: Sequence[Scored]
    usage: Usage = field(default_factory=Usage)
    notes: tuple[str, ...] = ()
    left_out: bool = False
    unread: Sequence[Scored] = ()
    carried: object = None


def rank_by_score(nodes: Sequence[Node], scores: Floats | NDArray[np.float32]) -> Found:
    """Return nodes by score, (nodes,), best first; ties keep their order."""
    order = np.argsort(-scores, kind="stable")
    return Found([Scored(nodes[i], float(scores[i])) for i in order])


def fit_to_budget(
    ranked: Sequence[Scored], cost: Callable[[str], int], budget: int
) -> tuple[list[Scored], list[Scored]]:
    """Return the nodes that fit, taken in turn, and the rest; `cost` gives the tokens of a text as a node."""
    taken: list[Scored] = []
    left: list[Scored] = []
    for scored in ranked:
        text = read_after(taken[-1].node if taken else None, scored.node)
        # why: encoding thousands is slow
        fits = may_fit(text, budget) and cost(text) <= budget
        (taken if fits else left).append(scored)
        budget -= cost(text) if fits else 0
    return taken, left


def may_fit(text: str, budget: int) -> bool:
    """Return false if a node certainly costs more than `budget`: every word is at least one token.

    `Node.tokens` may be larger, because a node is read as one line, without its line breaks.
    """
    return len(text.split()) <= budget


def without_repeats(ranked: Iterable[Scored]) -> Iterator[Scored]:
    """Yield nodes without repeated texts; the first of equal texts stays."""
    seen: set[str] = set()
    for scored in ranked:
        if scored.node.text not in seen:
            seen.add(scored.node.text)
            yield scored

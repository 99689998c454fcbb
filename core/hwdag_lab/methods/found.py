"""What a retriever is asked, what it finds, and what of that fits into a budget."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from hwdag.arrays import Floats
from hwdag.config import SearchConfig
from hwdag.search.context import read_after
from hwdag.types import Node, Usage


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """What a retriever is asked.

    `budget` are the node tokens that it may put before the reader, or for methods that are not
    `bounded` those that fit into its context; `cost` is what a text takes of them as a node.
    """

    question: str
    budget: int
    config: SearchConfig
    cost: Callable[[str], int]


@dataclass(frozen=True, slots=True)
class Scored:
    """A node and how well it fits the question; scores of one query compare, no others do."""

    node: Node
    score: float


@dataclass(frozen=True, slots=True)
class Found:
    """What a retriever found, in the order in which it is read.

    Nodes are taken in this order; one that does not fit into what is left of the budget is passed
    over and the next one is tried. `usage` is what the language model spent on finding them.
    `left_out` tells that the method itself left something out, because the budget had no room.
    `beyond` were found too, best first, and are not read; they only fill up a `k`. `carried` is
    what the method itself needs again for the answer.
    """

    ranked: Sequence[Scored]
    usage: Usage = field(default_factory=Usage)
    notes: tuple[str, ...] = ()
    left_out: bool = False
    beyond: Sequence[Scored] = ()
    carried: object = None


def ranked(nodes: Sequence[Node], scores: Floats | NDArray[np.float32]) -> Found:
    """Nodes by their scores, (nodes,), best first; equal ones as they were."""
    order = np.argsort(-scores, kind="stable")
    return Found([Scored(nodes[i], float(scores[i])) for i in order])


def fitting(
    ranked: Sequence[Scored], cost: Callable[[str], int], budget: int
) -> tuple[list[Scored], list[Scored]]:
    """Nodes in turn as long as they fit, and those that do not; `cost` is that of a text as a node."""
    taken: list[Scored] = []
    left: list[Scored] = []
    for scored in ranked:
        text = read_after(taken[-1].node if taken else None, scored.node)
        # why: encoding thousands is slow
        fits = may_cost(text, budget) and cost(text) <= budget
        (taken if fits else left).append(scored)
        budget -= cost(text) if fits else 0
    return taken, left


def may_cost(text: str, budget: int) -> bool:
    """False where a node certainly costs more than `budget`: its line has a token for every word.

    `Node.tokens` cannot tell: a text with line breaks may take more tokens than the line it becomes.
    """
    return len(text.split()) <= budget


def distinct(ranked: Iterable[Scored]) -> Iterator[Scored]:
    """Nodes without those whose text has come before."""
    seen: set[str] = set()
    for scored in ranked:
        if scored.node.text not in seen:
            seen.add(scored.node.text)
            yield scored

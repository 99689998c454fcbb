"""The initial set of a walk: top-level nodes that are read before anything is scored (GARLIC 3.2)."""

from __future__ import annotations

from typing import Literal

from hwdag.arrays import Indices, Mask
from hwdag.search.context import Context
from hwdag.search.corpus import Corpus
from hwdag.search.frontier import Frontier, highest

FETCHED_AT_ONCE = 32  # nodes that are fetched together; the first that does not fit ends the set


def initial_set(
    corpus: Corpus,
    frontier: Frontier,
    context: Context,
    share: float | Literal["auto", "equal"],
    allowed: Mask | None,
) -> list[int]:
    """All top-level nodes; where their share of the budget is too small, the most similar ones.

    The share is that of the config, see `SearchConfig.initial_share`. The most similar node may take
    more than the share, but with a share of 0 the set is empty. What does not fit ends the set: the
    budget that is left is better spent by the walk than on less similar top nodes that happen to be
    short. In document order.
    """
    top = corpus.top(allowed)
    if isinstance(share, str):
        share = _share_of(corpus, top, allowed, may_be_none=share == "auto")
    if share == 0:
        return []
    room = int(context.budget * share)
    # why no more than the budget: every node takes a token
    order = top[highest(frontier.likeness[top], context.budget + 1)].tolist()
    chosen: list[int] = []
    for start in range(0, len(order), FETCHED_AT_ONCE):
        some = order[start : start + FETCHED_AT_ONCE]
        for index, cost in zip(some, context.costs(some), strict=True):
            if cost > (room if chosen else context.budget):
                return sorted(chosen)
            chosen.append(index)
            room -= cost
    return sorted(chosen)


def _share_of(corpus: Corpus, top: Indices, allowed: Mask | None, *, may_be_none: bool) -> float:
    """Of the budget, 1 / number of levels (after GARLIC 4.4); none for extractive top nodes.

    All that these say is among the leaves.
    """
    height = max(1, corpus.height(allowed))
    extractive = height > 1 and not corpus.any_generated(top)
    return 0.0 if extractive and may_be_none else 1 / height

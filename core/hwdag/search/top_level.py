"""The nodes that a walk begins with: the top level of every document (GARLIC 3.2, PECAN 3.2)."""

from __future__ import annotations

from hwdag.search.frontier import highest
from hwdag.search.state import SearchState

FETCHED_AT_ONCE = 32  # nodes


def initial_set(state: SearchState) -> list[int]:
    """Return all top-level nodes; if their share of the budget is too small, the most similar ones.

    The most similar node may take more than the share, but with a share of 0 the set is empty. A node
    that does not fit ends the set: the walk spends the rest better. In document order.
    """
    if (share := _share(state)) == 0:
        return []
    budget, top = state.budget, state.view.top
    room = int(budget.limit * share)
    # why no more than the budget: every node takes a token
    order = top[highest(state.frontier.similarity[top], budget.limit + 1)].tolist()
    chosen: list[int] = []
    for start in range(0, len(order), FETCHED_AT_ONCE):
        batch = order[start : start + FETCHED_AT_ONCE]
        for index, cost in zip(batch, budget.costs(batch), strict=True):
            if cost > (room if chosen else budget.limit):
                return sorted(chosen)
            chosen.append(index)
            room -= cost
    return sorted(chosen)


def _share(state: SearchState) -> float:
    """Return the share of the budget for the top level (`MethodDefaults.initial_share`)."""
    rules, view = state.request.plan.rules, state.view
    # why 0: extractive top-level nodes only repeat leaves
    is_read = rules.follows_papers or view.corpus.any_generated(view.top)
    return rules.initial_share if is_read else 0.0

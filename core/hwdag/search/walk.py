"""Walk the graph with a model: read, ask "enough?", pass relevance on, take the best node, repeat.

GARLIC 3.2, PECAN 3.2 and App. A.2, B, C. `[node][answer slot]` in a forward gives the node's relevance
to the question and p_yes; then the slot is cropped from the cache. Where p_yes ends no walk there is no
slot. A forward has more nodes where the next ones can be foreseen (`hwdag.search.speculation`).
Relations: `hwdag.search.select` chooses without a model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from hwdag.arrays import Indices
from hwdag.lm.base import WalkSession
from hwdag.search.context import FIRST_POSITION, Budget, choice, visited, with_headings
from hwdag.search.frontier import Frontier, highest
from hwdag.search.progress import ProgressControl
from hwdag.search.speculation import Speculation
from hwdag.types import OnStep, Step

FETCHED_AT_ONCE = 32  # nodes of the initial set


def walk(
    frontier: Frontier,
    session: WalkSession,
    progress: ProgressControl,
    budget: Budget,
    initial: Sequence[int],
    on_step: OnStep,
) -> list[Step]:
    """Read the `initial` set, then the best node, again and again, until it is enough.

    When it is enough is for the progress control to say (GARLIC 3.2.1). The walk also ends where no
    node fits into the budget, or none is left.
    """
    steps: list[Step] = []
    kept = 0  # nodes in the cache
    speculation = Speculation(session, frontier, budget, probes=progress.steers)

    def take(index: int, step: Step, place: int, attention: float, p_yes: float | None) -> None:
        nonlocal kept
        relevance = (place + FIRST_POSITION) * attention  # r of PECAN App. C
        frontier.pass_on(index, relevance)
        keep = budget.keeps(step.node)
        kept += keep
        steps.append(replace(step, relevance=relevance, p_yes=p_yes, kept=keep))
        progress.take(steps[-1])
        on_step(steps[-1])

    # why those that are not kept first: they do not change what the others attend to
    initial = sorted(initial, key=lambda i: budget.keeps(*budget.fetch([i])))
    for keep, group in groupby(initial, lambda i: budget.keeps(*budget.fetch([i]))):
        if progress.reason:
            break
        together = list(group)
        places = enumerate(together, len(steps) + FIRST_POSITION)
        new = [_initial(frontier, budget, first, position) for position, first in places]
        texts, p_yes = with_headings([step.node for step in new]), None
        if keep and progress.steers:
            reading = session.read(texts)
            attention, p_yes = reading.attention, reading.p_yes
        else:
            attention = session.append(texts) if keep else session.peek(texts)
        means = zip(together, new, attention.tolist(), strict=True)
        for place, (first, step, mean) in enumerate(means, kept):
            take(first, step, place, mean, p_yes if step is new[-1] else None)
    while not progress.reason and (index := frontier.best(budget.costs, budget.room)) is not None:
        speculation.guess(index)
        text = budget.text(*budget.fetch([index]))
        step = choice(frontier, budget, index, len(steps) + FIRST_POSITION)
        read = speculation.read(text, keep=budget.keeps(step.node))
        take(index, step, kept, *read)
    speculation.end()
    return steps


def initial_set(frontier: Frontier, budget: Budget, top: Indices, share: float) -> list[int]:
    """All top-level nodes; where their share of the budget is too small, the most similar ones.

    The most similar node may take more than the share, but with a share of 0 the set is empty. What
    does not fit ends the set: the walk spends the rest better. In document order.
    """
    if share == 0:
        return []
    room = int(budget.limit * share)
    # why no more than the budget: every node takes a token
    order = top[highest(frontier.likeness[top], budget.limit + 1)].tolist()
    chosen: list[int] = []
    for start in range(0, len(order), FETCHED_AT_ONCE):
        batch = order[start : start + FETCHED_AT_ONCE]
        for index, cost in zip(batch, budget.costs(batch), strict=True):
            if cost > (room if chosen else budget.limit):
                return sorted(chosen)
            chosen.append(index)
            room -= cost
    return sorted(chosen)


def _initial(frontier: Frontier, budget: Budget, index: int, position: int) -> Step:
    """Take a node of the initial set, which nothing but its similarity has chosen."""
    similarity = frontier.parts(index).similarity
    return Step(position, visited(frontier, budget, index), True, 0.0, similarity)

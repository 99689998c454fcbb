"""Choose nodes without a model, from the question and the texts alone (ours).

A node's score is its similarity to the question (embedding and BM25), raised where what was chosen
before refers to it; a navigator then chooses among the best (`hwdag.search.navigator`). Relations:
`hwdag.search.walk` reads every node before it chooses the next one.
"""

from __future__ import annotations

from collections.abc import Sequence

from hwdag.search.budget import FIRST_POSITION, Budget, choice
from hwdag.search.frontier import Frontier
from hwdag.search.stopping import Interruption
from hwdag.search.table_rows import RowOrder
from hwdag.types import OnStep, Step


def select(
    frontier: Frontier,
    budget: Budget,
    interruption: Interruption,
    on_step: OnStep,
    order: RowOrder | None = None,
    initial: Sequence[int] = (),
) -> list[Step]:
    """Choose the best node, again and again, until the budget is used or nothing is left.

    The `initial` nodes come first. Of the rows of a table, the `order` says which comes first.
    """
    steps = list[Step]()
    while not interruption.reason:
        if len(steps) < len(initial):
            index = initial[len(steps)]
        elif (best := frontier.best(budget.costs, budget.room)) is not None:
            index = order.first(best) if order else best
        else:
            break
        steps.append(choice(frontier, budget, index, len(steps) + FIRST_POSITION))
        on_step(steps[-1])
    return steps

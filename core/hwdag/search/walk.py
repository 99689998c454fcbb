"""Walk the graph with a model: read, ask "enough?", pass relevance on, take the best node, repeat.

GARLIC 3.2, PECAN 3.2 and App. A.2, B, C. `[node][answer slot]` in a forward gives the node's relevance
to the question and p_yes; then the slot is cropped from the cache. Where p_yes ends no walk there is no
slot, and where points do not stay in the context either, only they are read (ours). A forward has more
nodes where the next ones can be foreseen (`hwdag.search.speculation`). Relations: `hwdag.search.select`
chooses without a model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from hwdag.arrays import Indices
from hwdag.lm.base import WalkSession
from hwdag.search.budget import FIRST_POSITION, Budget, choice, visited, with_headings
from hwdag.search.frontier import Frontier, highest
from hwdag.search.speculation import Speculation
from hwdag.search.stopping import ProgressControl
from hwdag.search.table_rows import RowOrder
from hwdag.text.headings import searched_text
from hwdag.types import OnStep, Step

FETCHED_AT_ONCE = 32  # nodes of the initial set


def walk(
    frontier: Frontier,
    session: WalkSession,
    progress: ProgressControl,
    budget: Budget,
    initial: Sequence[int],
    on_step: OnStep,
    *,
    reads_along: bool = True,
    order: RowOrder | None = None,
) -> list[Step]:
    """Read the `initial` set, then the best node, again and again, until it is enough.

    When it is enough is for the progress control to say (GARLIC 3.2.1). The walk also ends where no
    node fits into the budget, or none is left. Unless it `reads_along` (ours), the reader only looks at
    points: what has no edges passes nothing on, so it can be read together with others later. Of the rows
    of a table, the `order` says which comes first.
    """
    visits = _Visits(frontier, session, progress, budget, on_step, reads_along)
    visits.begin(initial)
    while not progress.reason and (index := frontier.best(budget.costs, budget.room)) is not None:
        visits.go_to(order.first(index) if order else index)
    visits.speculation.end()
    return visits.steps


class _Visits:
    """The steps of a walk, and what the reader has before it."""

    def __init__(
        self,
        frontier: Frontier,
        session: WalkSession,
        progress: ProgressControl,
        budget: Budget,
        on_step: OnStep,
        reads_along: bool,
    ) -> None:
        self._frontier, self._session, self._progress = frontier, session, progress
        self._budget, self._on_step, self._reads_along = budget, on_step, reads_along
        self.speculation = Speculation(session, frontier, budget, probes=progress.steers)
        self.steps: list[Step] = []
        self._kept = 0  # nodes in the cache

    def begin(self, initial: Sequence[int]) -> None:
        """Read the initial set, in a forward of those that stay in the cache and one of the others."""
        # why the others first: they do not change what the rest attends to
        for stay, group in groupby(sorted(initial, key=self._stays), self._stays):
            if self._progress.reason:
                return
            together = list(group)
            places = enumerate(together, len(self.steps) + FIRST_POSITION)
            new = [_initial(self._frontier, self._budget, i, position) for position, i in places]
            texts, p_yes = with_headings([step.node for step in new]), None
            if stay and self._progress.steers:
                reading = self._session.read(texts)
                attention, p_yes = reading.attention, reading.p_yes
            else:
                read = self._session.append if stay else self._session.peek
                attention = read(texts)
            means = zip(together, new, attention.tolist(), strict=True)
            for i, (index, step, mean) in enumerate(means):
                self._take(index, step, mean, p_yes if step is new[-1] else None, 0 if stay else i)

    def go_to(self, index: int) -> None:
        """Visit the best node."""
        text = self._budget.text(*self._budget.fetch([index]))
        stays = self._stays(index)
        if stays:
            self.speculation.guess(index)
        step = choice(self._frontier, self._budget, index, len(self.steps) + FIRST_POSITION)
        if stays:
            self._take(index, step, *self.speculation.read(text))
        elif self._frontier.passes_on(index):
            self.speculation.end()
            [mean] = self._session.peek([searched_text(step.node)]).tolist()
            self._take(index, step, mean)
        else:
            self._take(index, step)

    def _stays(self, index: int) -> bool:
        return self._reads_along and self._budget.keeps(*self._budget.fetch([index]))

    def _take(
        self,
        index: int,
        step: Step,
        attention: float | None = None,
        p_yes: float | None = None,
        behind: int = 0,
    ) -> None:
        """Note a visit; `behind` so many nodes of its forward that do not stay."""
        relevance = None
        if attention is not None:
            place = self._kept + behind + FIRST_POSITION
            relevance = place * attention  # r of PECAN App. C
            self._frontier.pass_on(index, relevance)
        self._kept += self._stays(index)
        keep = self._budget.keeps(step.node)
        self.steps.append(replace(step, relevance=relevance, p_yes=p_yes, kept=keep))
        self._progress.take(self.steps[-1])
        self._on_step(self.steps[-1])


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

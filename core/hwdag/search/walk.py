"""Walk the graph with a model: read, ask "enough?", pass relevance on, take the best node, repeat.

GARLIC 3.2, PECAN 3.2 and App. A.2, B, C. `[node][answer slot]` in a forward gives the node's relevance
to the question and p_yes; then the slot is cropped from the cache. If p_yes cannot end the walk, no slot
is appended. If points are also evicted, only points are read (not in the papers). Relations:
`hwdag.search.select` chooses without a model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from hwdag.corpus.view import View
from hwdag.search.budget import FIRST_POSITION, with_headings
from hwdag.search.evidence import Evidence
from hwdag.search.question import Question
from hwdag.search.reading import read_along, read_for_answer
from hwdag.search.request import SearchRequest
from hwdag.search.state import SearchState
from hwdag.search.top_level import initial_set
from hwdag.search.whole_section import whole_section
from hwdag.text.headings import searched_text
from hwdag.types import Step


def walk_graph(view: View, question: Question, request: SearchRequest) -> Evidence:
    """Read the initial set, then the best node, again and again, until it is enough.

    The stopping rule decides when it is enough (GARLIC 3.2.1). The walk also ends if no node fits into the
    budget, or none is left. Leaves pass nothing on, so they are read together later, unless the plan
    needs each of them read (not in the papers).
    """
    state = SearchState(view, question, request)
    visits = _Visits(state)
    visits.begin(initial_set(state))
    for wanted in whole_section(state):
        if not state.stopping.reason:
            visits.go_to(wanted)
    while not state.stopping.reason and (index := state.best()) is not None:
        visits.go_to(index)
    note = "the reader walked along edges of attention"
    if request.plan.reads_during_search:
        read = read_along(state, visits.steps)
    else:
        read = read_for_answer(state, state.in_order(visits.steps))
    return state.evidence(read, note, answerability=state.answerability(read.steps))


class _Visits:
    """The steps of a walk, and the nodes in the reader's cache."""

    def __init__(self, state: SearchState) -> None:
        self._state, self._session, self._budget = state, state.session, state.budget
        self.steps: list[Step] = []
        self._kept = 0  # nodes in the cache

    def begin(self, initial: Sequence[int]) -> None:
        """Read the initial set, in a forward of those that stay in the cache and one of the others."""
        stopping = self._state.stopping
        # why the others first: they do not change the attention of the rest
        for stay, group in groupby(sorted(initial, key=self._stays), self._stays):
            if stopping.reason:
                return
            together = list(group)
            new = [self._state.take_initial(index) for index in together]
            texts, p_yes = with_headings([step.node for step in new]), None
            if stay and stopping.steers:
                reading = self._session.read(texts)
                attention, p_yes = reading.attention, reading.p_yes
            else:
                read = self._session.append if stay else self._session.score_only
                attention = read(texts)
            means = zip(together, new, attention.tolist(), strict=True)
            for i, (index, step, mean) in enumerate(means):
                self._note(index, step, mean, p_yes if step is new[-1] else None, 0 if stay else i)

    def go_to(self, index: int) -> None:
        """Visit the best node."""
        text = self._budget.text(*self._budget.fetch([index]))
        stays = self._stays(index)
        step = self._state.take_best(index)
        if stays and self._state.stopping.steers:
            reading = self._session.read([text])
            self._note(index, step, float(reading.attention[0]), reading.p_yes)
        elif stays:
            self._note(index, step, float(self._session.append([text])[0]))
        elif self._state.frontier.passes_on(index):
            [mean] = self._session.score_only([searched_text(step.node)]).tolist()
            self._note(index, step, mean)
        else:
            self._note(index, step)

    def _stays(self, index: int) -> bool:
        """Return whether a node is read now and stays in the cache."""
        reads = self._state.request.plan.reads_during_search
        return reads and self._budget.keeps(*self._budget.fetch([index]))

    def _note(
        self,
        index: int,
        step: Step,
        attention: float | None = None,
        p_yes: float | None = None,
        before: int = 0,
    ) -> None:
        """Note a visit; `before` it were that many nodes of its forward that do not stay."""
        relevance = None
        if attention is not None:
            relevance = (self._kept + before + FIRST_POSITION) * attention  # r of PECAN App. C
            self._state.frontier.pass_on(index, relevance)
        self._kept += self._stays(index)
        keep = self._budget.keeps(step.node)
        self.steps.append(replace(step, relevance=relevance, p_yes=p_yes, kept=keep))
        self._state.stopping.take(self.steps[-1])
        self._state.report(self.steps[-1])

"""Choose nodes without a model, from the question and the texts alone (not in the papers).

A node's score is its similarity to the question (embedding and BM25), raised if nodes that were chosen
before refer to it; a navigator then chooses among the best (`hwdag.search.navigator`). Relations:
`hwdag.search.walk` reads every node before it chooses the next one.
"""

from __future__ import annotations

from collections.abc import Sequence

from hwdag.corpus.view import View
from hwdag.search.evidence import Evidence
from hwdag.search.question import Question
from hwdag.search.reading import read_for_answer, read_until_enough
from hwdag.search.request import SearchRequest
from hwdag.search.state import SearchState
from hwdag.search.whole_section import whole_section
from hwdag.types import OnStep, Step


def select_evidence(view: View, question: Question, request: SearchRequest) -> Evidence:
    """Choose nodes by their scores; the reader reads them in that order if p_yes may end the search."""
    state, note = SearchState(view, question, request), "no model chose the nodes"
    whole = whole_section(state)
    if request.plan.reads_during_search:
        read = read_until_enough(state, state.in_order(chosen(state, lambda step: None, whole)))
        note += "; the reader said when it had enough"
    else:
        read = read_for_answer(state, state.in_order(chosen(state, state.report, whole)))
    return state.evidence(read, note, answerability=state.answerability(read.steps))


def chosen(state: SearchState, on_step: OnStep, initial: Sequence[int] = ()) -> list[Step]:
    """Take the best node, again and again, until no node fits into the budget; `initial` nodes first."""
    steps, first = list[Step](), iter(initial)
    while not state.request.deadline.reason:
        if (index := next(first, None)) is None and (index := state.best()) is None:
            break
        steps.append(state.take_best(index))
        on_step(steps[-1])
    return steps

"""Read for a question about the whole of the documents (not in the papers).

No sentence resembles such a question (`hwdag.search.overview_questions`). So half of the budget is for how
the documents begin, or for the best leaves of each for the decisions of a time; the rest is searched as always.
Relations: `hwdag.search.select` chooses the rest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hwdag.arrays import Indices
from hwdag.config import NEVER, OVERVIEW_TOKENS
from hwdag.corpus.view import View
from hwdag.search.evidence import Evidence
from hwdag.search.overview_questions import asks_for_report
from hwdag.search.question import Question
from hwdag.search.reading import read_together
from hwdag.search.request import SearchRequest
from hwdag.search.select import chosen
from hwdag.search.state import SearchState

SHARE = 0.5
"""Share of the budget that is for the beginnings."""

MOST_BEGUN = 256
"""Documents at most whose beginnings are read, evenly spaced in a larger collection; also the best leaves to choose from."""


def read_overview(view: View, question: Question, request: SearchRequest) -> Evidence:
    """Read how the documents begin, then the best leaves, all at once, whatever the method."""
    plan = request.plan
    rules = replace(plan.rules, has_points=False)
    request = replace(
        request,
        plan=replace(plan, rules=rules, confidence=NEVER),
        prompts=replace(request.prompts, answer=request.prompts.overview),
        max_new_tokens=max(request.max_new_tokens, OVERVIEW_TOKENS),
    )
    state = SearchState(view, replace(question, history=()), request)
    state.frontier.close_points()
    about = "how the documents begin"
    if is_report := asks_for_report(question.text):
        about = "the best of every document"
    steps = chosen(state, state.report, (best_of_each if is_report else beginnings)(state))
    kept = [step for step in steps if step.kept]
    note = f"the question is about the whole, so half of the budget is for {about}"
    documents, left_out = view.in_turn()[1], ""
    if left := documents - len({step.node.document_id for step in kept}):
        left_out = f"{left} of {documents} documents are left out"
        note += f"; {left_out}"
    return state.evidence(
        read_together(state, steps, kept),
        note,
        left_out=left_out,
        is_ranked=False,
        answerability=None if kept else state.answerability(()),
        max_new_tokens=OVERVIEW_TOKENS,
        is_quoted=not request.reader.card.writes,
    )


def best_of_each(state: SearchState) -> list[int]:
    """Return the best leaf of every document, then the second best, and so on, for `SHARE` of the budget."""
    best = state.frontier.first(MOST_BEGUN).tolist()
    turns, taken = list[int](), Counter[str]()
    for node in state.budget.fetch(best):
        turns.append(taken[node.document_id])
        taken[node.document_id] += 1
    return _fitting(state, [best[i] for i in np.argsort(turns, kind="stable")])


def beginnings(state: SearchState) -> list[int]:
    """Return the first leaf of every document, then the second of each, and so on, for `SHARE` of the budget.

    If not even the first ones fit, return those of evenly spaced documents.
    """
    budget = state.budget
    room = int(SHARE * budget.room)
    leaves, documents = state.view.in_turn()
    firsts = _spaced(leaves[:documents], MOST_BEGUN)
    fit = room // int(np.median(budget.costs(firsts.tolist()) or 1))
    if documents > min(fit, MOST_BEGUN):
        leaves = _spaced(firsts, max(1, fit))
    return _fitting(state, leaves[:room].tolist())  # every leaf takes a token


def _fitting(state: SearchState, leaves: Sequence[int]) -> list[int]:
    """Return the first leaves that fit into `SHARE` of the budget, in place of a header the leaf below it."""
    room, chosen = int(SHARE * state.budget.room), list[int]()
    last = [state.view.corpus.document_of(index).stop - 1 for index in leaves]
    nodes = zip(leaves, last, state.budget.fetch(leaves), strict=True)
    found = [*dict.fromkeys(min(i + state.is_header(i, node), end) for i, end, node in nodes)]
    for index, cost in zip(found, state.budget.costs(found), strict=True):
        if cost <= room:  # a leaf may be a long line of a log
            chosen.append(index)
            room -= cost
    return chosen


def _spaced(indices: Indices, most: int) -> Indices:
    """Return at most this many of these, evenly spaced."""
    places = np.linspace(0, len(indices) - 1, min(most, len(indices)))
    return indices[places.round().astype(np.intp)]

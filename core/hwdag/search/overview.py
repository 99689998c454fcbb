"""Questions about the whole of the documents: "What is this about?", "Summarize the report." (not in the papers).

No sentence resembles such a question. So half of the budget is for how the documents begin, and the rest is
searched as always. Whether a question is one is decided from its embedding, by a logistic regression that
`benchmarks/overviews.py` fits and reports. It holds for the default embedder, which knows English.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from hwdag.arrays import Indices, Vectors
from hwdag.config import NEVER, OVERVIEW_TOKENS
from hwdag.corpus.view import View
from hwdag.embedding.base import Embedder
from hwdag.search.budget import Budget
from hwdag.search.evidence import Evidence
from hwdag.search.question import Question
from hwdag.search.reading import read_together
from hwdag.search.request import SearchRequest
from hwdag.search.select import chosen
from hwdag.search.state import SearchState

COEFFICIENTS = Path(__file__).with_suffix(".json")

_DOCUMENTS = """
all article articles book books contract document documents everything file files meeting notes page pages
paper papers pdf pdfs report reports story text texts transcript
"""
DOCUMENTS = frozenset(_DOCUMENTS.split())

SHARE = 0.5
"""Of the budget, for the beginnings."""

MOST_BEGUN = 256
"""Documents whose beginnings are looked at, of a larger collection evenly spaced ones."""


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
    steps = chosen(state, state.report, beginnings(view, state.budget))
    kept = [step for step in steps if step.kept]
    note = "the question is about the whole, so half of the budget is for how the documents begin"
    documents = view.in_turn()[1]
    if left := documents - len({step.node.document_id for step in kept}):
        note += f"; {left} of {documents} documents are left out"
    return state.evidence(
        read_together(state, steps, kept),
        note,
        answerability=None if kept else state.answerability(()),
        max_new_tokens=OVERVIEW_TOKENS,
        is_quoted=not request.reader.card.writes,
    )


def asks_for_overview(embedder: Embedder, vector: Vectors) -> bool:
    """Return whether a question with this embedding, (dimension,), is about the whole of the documents."""
    is_known = getattr(embedder, "fingerprint", None) == fitted_weights()["embedder"]
    is_usual = vector.shape == fitted_weights()["weights"].shape and bool(vector.any())
    return is_known and is_usual and logit_of(vector, fitted_weights()) > 0


def names_documents(words: Iterable[str]) -> bool:
    """Return whether one of a question's words means the documents: a text, a report, the files, everything."""
    return not DOCUMENTS.isdisjoint(words)


def logit_of(vector: Vectors, model: Mapping[str, Any]) -> float:
    """Log-odds by the model of an embedding, (dimension,)."""
    return float(model["intercept"] + np.dot(model["weights"], vector / np.linalg.norm(vector)))


def beginnings(view: View, budget: Budget) -> list[int]:
    """Return the first leaf of every document, then the second of each, and so on, for `SHARE` of the budget.

    If not even the first ones fit, return those of evenly spaced documents.
    """
    room = int(SHARE * budget.room)
    leaves, documents = view.in_turn()
    firsts = _spaced(leaves[:documents], MOST_BEGUN)
    fit = room // int(np.median(budget.costs(firsts.tolist()) or 1))
    if documents > min(fit, MOST_BEGUN):
        leaves = _spaced(firsts, max(1, fit))
    chosen = list[int]()
    candidates = leaves[:room].tolist()  # every leaf takes a token
    for index, cost in zip(candidates, budget.costs(candidates), strict=True):
        if cost <= room:  # a leaf may be a long line of a log
            chosen.append(index)
            room -= cost
    return chosen


def _spaced(indices: Indices, most: int) -> Indices:
    """Return at most this many of these, evenly spaced."""
    places = np.linspace(0, len(indices) - 1, min(most, len(indices)))
    return indices[places.round().astype(np.intp)]


@cache
def fitted_weights() -> Mapping[str, Any]:
    """Return the values that `benchmarks/overviews.py` fitted, and their embedder."""
    found: dict[str, Any] = json.loads(COEFFICIENTS.read_text("utf-8"))
    return found | {"weights": np.array(found["weights"])}

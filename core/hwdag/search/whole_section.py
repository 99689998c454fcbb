"""Questions that ask for all: "Which parts are below their minimum?", "What was decided?" (not in the papers).

Rows of a table and items of a list resemble the question more or less, and the answer needs each of them.
So the table, list or section with the best nodes is read whole, with those below it, if they fit into most
of the budget.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from hwdag.search.budget import section_of, with_headings
from hwdag.search.state import SearchState
from hwdag.text.headings import ABOVE

SECTION_SHARE = 0.75
"""Of the budget, for a section that is read whole."""

VOTERS, VOTES = 16, 3
"""The best nodes that choose the section, and how many of them count for one section."""

MAX_DISTANCE = 64
"""Nodes before and after the best one that are looked at."""

_ALL = re.compile(
    r"(?:^(?:list|name|give)\b(?=.*\b[^\W\d_]+s\b)|\b(?:(?<!at )(?<!after )all|every|"
    r"(?:which|what|who) (?:[^\W\d_]+ ){0,3}(?:are|were|have)\b|"
    r"(?<![^\W\d_] )(?<![^\W\d_][,;] )(?:which|what) (?!does\b)[^\W\d_]{3,}(?<![isu])s\b|"
    r"what (?:was |did (?:[^\W\d_]+ ){1,3})(?:decide|discuss|agree|resolve)(?:e?d)?\b|"
    r"alle[nrs]?|sämtliche\w*|jede[nrs]?|welche\w* (?:.*\b)?(?:sind|waren|haben|hatten|wurden|werden|müssen|können|gibt es)|"
    r"was (?:wurde|haben|hat)\b.*\b(?:beschlossen|besprochen|entschieden|vereinbart)|"
    r"tou(?:s|te|tes) les|quel(?:le)?s|qu['’]a-t-on|qu['’]ont|tod[oa]s|cuáles|quiénes|qué (?:[^\W\d_]+s|se \w+[óo])|"
    r"tutt[ie]|quali|welke|alle|quais)\b)",
    re.I,
)


def asks_for_all(question: str) -> bool:
    """Return whether a question asks for several things: "Which parts are ...?", "all", "welche ... sind"."""
    return _ALL.search(question) is not None


def whole_section(state: SearchState) -> list[int]:
    """Return the leaves of the section with the best nodes, in order, if the question asks for all of it; else []."""
    if not asks_for_all(state.question.text) or state.request.plan.rules.follows_papers:
        return []
    voters = state.frontier.first(VOTERS).tolist()
    votes: dict[tuple[str, str], list[int]] = {}
    for index, node in zip(voters, state.budget.fetch(voters), strict=True):
        if node.level == 1:
            votes.setdefault(section_of(node), []).append(index)
    if not votes:
        return []
    similarity = state.frontier.similarity
    section, chosen = max(
        votes.items(), key=lambda one: sum(sorted(similarity[one[1]], reverse=True)[:VOTES])
    )
    rows = state.view.corpus.document_of(chosen[0])
    before = range(chosen[0] - 1, max(rows.start, chosen[0] - MAX_DISTANCE) - 1, -1)
    after = range(chosen[0], min(rows.stop, chosen[0] + MAX_DISTANCE))
    for below in (True, False):
        found = sorted(
            index for part in (before, after) for index in _within(state, section, part, below)
        )
        texts = with_headings(state.budget.fetch(found))
        if sum(state.budget.counts(texts)) <= SECTION_SHARE * state.budget.room:
            return [index for index in found if state.frontier.open[index]]
    return []


def _within(
    state: SearchState, section: tuple[str, str], indices: Sequence[int], below: bool
) -> Iterator[int]:
    """Yield indices as long as their leaves are in a section, or `below` it."""
    for index, node in zip(indices, state.budget.fetch(indices), strict=True):
        key, heading = section_of(node)
        is_below = below and heading.startswith(section[1] + ABOVE)
        if node.level > 1 or key != section[0] or not (heading == section[1] or is_below):
            return
        if not state.is_header(index, node):
            yield index

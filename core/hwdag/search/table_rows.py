"""Rows of tables: which of them match a question best (not in the papers).

Rows of a table resemble each other, so similarity hardly separates them. The right one is known by
a question word that no other row has, not counting words of the table's heading.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from hwdag.search.budget import Budget, section_of
from hwdag.search.frontier import MOST_AT_ONCE, Frontier
from hwdag.text.languages import is_function_word
from hwdag.text.tables import ROW
from hwdag.text.words import words
from hwdag.types import Node, Step


class TableRowPreference:
    """Which row of a table comes before another: one that has all its words of the question, and more.

    Rows are compared among the nodes that score highest at first, whose texts a search fetches at once.
    """

    def __init__(self, asked: Collection[str], frontier: Frontier, budget: Budget) -> None:
        self._frontier, self._budget = frontier, budget
        indices = frontier.first(MOST_AT_ONCE).tolist()
        self._better = {
            indices[row]: [indices[other] for other in others]
            for row, others in dominating_rows(asked, budget.fetch(indices)).items()
        }

    def first(self, index: int) -> int:
        """Return the open row that comes before this one, if there is one that fits; else this one."""
        if not (better := self._better.get(index)):
            return index
        is_open, room = self._frontier.open, self._budget.room
        others = [other for other in better if is_open[other]]
        costs = self._budget.bounds(others)
        fitting = (other for other, cost in zip(others, costs, strict=True) if cost <= room)
        return next(fitting, index)


def matching_rows(asked: Collection[str], steps: Sequence[Step]) -> list[Step]:
    """Leave out the rows that another one comes before."""
    left_out = dominating_rows(asked, [step.node for step in steps])
    return [step for i, step in enumerate(steps) if i not in left_out]


def dominating_rows(asked: Collection[str], nodes: Sequence[Node]) -> dict[int, list[int]]:
    """Map each row to the rows of its table that have all its question words, and more.

    With each come those others, the one with the most words first. Words of the heading do not count, since
    they separate no rows. For a question about two rows neither is found.
    """
    told = {word for word in asked if not is_function_word(word)}
    better: dict[int, list[int]] = {}
    for rows in _tables(nodes):
        shared = {
            i: told & (set(words(nodes[i].text)) - set(words(nodes[i].heading))) for i in rows
        }
        order = sorted(rows, key=lambda i: -len(shared[i]))
        for row in rows:
            if others := [other for other in order if shared[row] < shared[other]]:
                better[row] = others
    return better


def _tables(nodes: Sequence[Node]) -> Iterator[list[int]]:
    """Yield the numbers of the rows of each table, without its header."""
    tables: dict[tuple[str, str], list[int]] = {}
    for i, node in enumerate(nodes):
        if node.text.rpartition("\n")[2].startswith(ROW):
            tables.setdefault(section_of(node), []).append(i)
    for rows in tables.values():
        with_names = [i for i in rows if ": " in nodes[i].text]  # which the header has not
        yield with_names or rows

"""The later of two statements first, if a question asks for the present (not in the papers).

A document is dated by its headings, its metadata, the name of its file or its first sentences, and a
sentence by its own "with effect from". A later statement supersedes an earlier one if it has all words of
the question that the earlier one has, and is nearly as similar to the question.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from hwdag.corpus.view import View
from hwdag.text.dates import asks_for_present, dates_in, document_date, effective_date
from hwdag.text.headings import ABOVE
from hwdag.text.languages import is_function_word
from hwdag.text.words import words
from hwdag.types import Node, Step, later_first

BEGINNING_LEAVES = 3
"""Nodes at the beginning of a document in which its date is looked for."""

SAME_SUBJECT_SIMILARITY = 0.6
"""Share of the similarity of the earlier statement that the later one has at least."""

Metadata = Callable[[str], Mapping[str, Any]]
"""The metadata of a document by its id."""


class Latest:
    """The dates of the nodes of one search, and the order that follows from them."""

    def __init__(self, view: View, metadata: Metadata, asked: Collection[str]) -> None:
        self._corpus, self._metadata = view.corpus, metadata
        self._asked = {
            word for word in asked if not (is_function_word(word) or asks_for_present(word))
        }
        self._of_documents: dict[str, str] = {}
        self._dates: dict[str, str] = {}

    def dated(self, index: int, node: Node) -> Node:
        """Date a node; return it with its date above its headings, unless it shows that itself."""
        date = effective_date(node.text) or next(
            (date for part in reversed(node.heading.split(ABOVE)) for date in dates_in(part)), ""
        )
        self._dates[node.id] = date or self._of_document(index, node.document_id)
        if date or not (date := self._dates[node.id]):
            return node
        return replace(node, heading=ABOVE.join(filter(None, [date, node.heading])))

    def later_first(self, steps: Sequence[Step]) -> list[Step]:
        """Return steps in their order, but a later statement before those that it supersedes."""
        marked = [
            replace(
                step,
                supersedes=tuple(
                    other.position
                    for other in steps
                    if self._is_superseded(other.node, step.node)
                    and step.similarity >= SAME_SUBJECT_SIMILARITY * other.similarity
                ),
            )
            for step in steps
        ]
        return later_first(marked)

    def _is_superseded(self, earlier: Node, later: Node) -> bool:
        """Return whether a later node has all words of the question that the earlier one has.

        Words of both headings do not count: they are the subject of everything under them.
        """
        if not self._dates[earlier.id] < self._dates[later.id]:
            return False
        one, other = (set(words(node.heading)) for node in (earlier, later))
        shared = self._asked.intersection(words(earlier.text)) - (one & other)
        return bool(shared) and shared.issubset(words(f"{later.heading} {later.text}"))

    def _of_document(self, index: int, key: str) -> str:
        """Return the date of a document: "" if unknown."""
        if key not in self._of_documents:
            beginning = list(self._corpus.document_of(index))[:BEGINNING_LEAVES]
            lines = [node.text for node in self._corpus.fetch(beginning)]
            self._of_documents[key] = document_date(key, self._metadata(key), lines)
        return self._of_documents[key]

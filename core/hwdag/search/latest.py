"""The later of two statements first, if a question asks for the present (not in the papers).

A document is dated by its headings, its metadata, the name of its file or its first sentences; a sentence
by its own "with effect from", or by the entry of a log that it is in. A later statement supersedes an
earlier one if it has all words of the question that the earlier one has, and their similarities to the
question are of one size. It need not have the value that a question asks to confirm ("still on 14 June?"),
nor, if it changes something ("postponed"), a word that asks for a value ("cost").
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from hwdag.corpus.view import View
from hwdag.search.question import Question
from hwdag.text.dates import (
    asks_for_present,
    asks_to_confirm,
    dates_in,
    document_date,
    effective_date,
    entry_date,
    says_change,
    without_days,
)
from hwdag.text.headings import ABOVE
from hwdag.text.languages import is_function_word
from hwdag.text.words import STOPWORDS, words
from hwdag.types import Node, Step, later_first

BEGINNING_LEAVES = 3
"""Nodes at the beginning of a document in which its date is looked for."""

LONGEST_ENTRY = 12
"""Nodes of an entry of a log, at most: "2025-04-10: The export was removed."."""

SAME_SUBJECT_SIMILARITY = 0.6
"""Share of the higher of two similarities that the lower one has at least, if both are about one thing."""

LEAST_SIMILARITY = 0.4
"""The same share, if they have two words of the question or more in common, or the question has the earlier value."""

_VALUE_WORDS = """
cost costs price prices pay pays paid charge charged amount due held take takes place happen happens find
found located address number day date time deadline name kosten kostet preis zahlen zahlt bezahlen
betrag beträgt fällig statt findet adresse anschrift nummer tag datum uhrzeit frist cuesta cuestan precio
paga importe dirección número fecha hora plazo coûte coûtent prix payer montant adresse numéro jour heure
délai costa costano prezzo indirizzo numero giorno data ora scadenza kost kosten prijs adres nummer datum
custa custam preço endereço dia prazo
"""
VALUE_WORDS = frozenset(_VALUE_WORDS.split())
"""Words that ask for a value and do not name its subject: a change of the fee need not say "cost"."""

LONGEST_ENDING = 2
"""Letters by which two forms of a word differ at most: "chair" and "chairs"."""

Metadata = Callable[[str], Mapping[str, Any]]
"""The metadata of a document by its id."""


class Latest:
    """The dates of the nodes of one search, and the order that follows from them."""

    def __init__(self, view: View, metadata: Metadata, question: Question) -> None:
        self._corpus, self._metadata = view.corpus, metadata
        self._confirms = asks_to_confirm(question.text)
        self._asked = subject_words(question)
        # why: "What is the current price?" has no other words
        self._only = self._asked if VALUE_WORDS.issuperset(self._asked) else frozenset[str]()
        self._beginnings: dict[str, list[str]] = {}
        self._of_documents: dict[str, str] = {}
        self._dates: dict[str, str] = {}

    def dated(self, index: int, node: Node) -> Node:
        """Date a node; return it with its date above its headings, unless it shows that itself."""
        date = effective_date(node.text) or entry_date(node.text)
        date = date or self._of_entry(index, node.document_id)
        date = date or next(
            (date for part in reversed(node.heading.split(ABOVE)) for date in dates_in(part)), ""
        )
        self._dates[node.id] = date = date or self._of_document(index, node.document_id)
        if not date or date in dates_in(f"{node.heading}\n{node.text}"):
            return node
        return replace(node, heading=ABOVE.join(filter(None, [date, node.heading])))

    def later_first(self, steps: Sequence[Step]) -> list[Step]:
        """Return steps in their order, but a later statement before those that it supersedes."""
        marked = [
            replace(
                step,
                date=self._dates[step.node.id],
                supersedes=tuple(
                    other.position for other in steps if self._is_superseded(other, step)
                ),
            )
            for step in steps
        ]
        return later_first(marked)

    def _is_superseded(self, earlier: Step, later: Step) -> bool:
        """Return whether a later node has the words of the question that the earlier one has.

        Words of both headings do not count: they are the subject of everything under them.
        """
        one, other = earlier.node, later.node
        if not self._dates[one.id] < self._dates[other.id]:
            return False
        above = set(words(one.heading)) & set(words(other.heading))
        shared = _held(self._asked, words(one.text)) - above
        if says_change(other.text) or VALUE_WORDS.issuperset(shared):
            shared -= VALUE_WORDS - self._only
        is_sure = len(shared) > 1 or self._confirms
        least = LEAST_SIMILARITY if is_sure else SAME_SUBJECT_SIMILARITY
        lower, higher = sorted((earlier.similarity, later.similarity))
        if not shared or lower < least * higher:
            return False
        return shared == _held(shared, words(f"{other.heading} {other.text}"))

    def _of_entry(self, index: int, key: str) -> str:
        """Return the date of the entry of a log that a leaf is in: "" without."""
        rows = self._corpus.document_of(index)
        if not any(map(entry_date, self._beginning(rows, key))):
            return ""
        before = range(max(rows.start, index - LONGEST_ENTRY), index)
        dates = (entry_date(node.text) for node in reversed(self._corpus.fetch(before)))
        return next(filter(None, dates), "")

    def _beginning(self, rows: range, key: str) -> list[str]:
        if key not in self._beginnings:
            self._beginnings[key] = [
                node.text for node in self._corpus.fetch(rows[:BEGINNING_LEAVES])
            ]
        return self._beginnings[key]

    def _of_document(self, index: int, key: str) -> str:
        """Return the date of a document: "" if unknown."""
        if key not in self._of_documents:
            lines = self._beginning(self._corpus.document_of(index), key)
            self._of_documents[key] = document_date(key, self._metadata(key), lines)
        return self._of_documents[key]


def subject_words(question: Question) -> set[str]:
    """Return the words of a question that name its subject, without days and values that it asks to confirm."""
    found = question.words
    days = set(found) - set(words(without_days(question.text)))
    values = set(_values(found)) if asks_to_confirm(question.text) else set()
    return {word for word in question.content_words if not _is_empty(word)} - days - values


def _values(found: Sequence[str]) -> Iterator[str]:
    """Yield numbers that are no part of a name, with their units: "35 euro" of "still 35 euro", not "bus 12"."""
    for before, word, after in zip(found, found[1:], [*found[2:], ""], strict=False):
        if word.isdecimal() and _is_empty(before):
            yield from (word, after)


def _is_empty(word: str) -> bool:
    return word in STOPWORDS or is_function_word(word) or asks_for_present(word)


def _held(wanted: Iterable[str], found: Sequence[str]) -> set[str]:
    """Return the wanted words that are among those found, maybe with another ending."""
    return {word for word in wanted if any(_is_form_of(word, other) for other in found)}


def _is_form_of(one: str, other: str) -> bool:
    shorter, longer = sorted((one, other), key=len)
    ending = len(longer) - len(shorter)
    return longer.startswith(shorter) and (
        ending <= LONGEST_ENDING if len(shorter) > 3 else not ending
    )

"""References: a visited node raises the score of nodes that it mentions or echoes (not in the papers).

A node becomes more relevant if a visited node mentions its heading or its number ("see section 9.3"), or
shares rare words with it that the question does not have. The n-th visited node refers with weight 1 / sqrt(n).
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from hwdag.arrays import Floats, Indices
from hwdag.corpus.view import View
from hwdag.search.question import Question
from hwdag.text.words import content_words, section_references

CODES = 0.5
"""Weight of the codes that a question names, compared with a similarity of at most 1: no embedding tells codes apart."""

_NONE: Indices = np.empty(0, np.intp)


class References:
    """References of visited nodes: a node takes the best reference of each kind to it.

    Attributes:
        mentions: how much visited nodes mention the heading of every node, (n,).
        echoes: how much every node shares the rare words of visited ones, (n,).
    """

    def __init__(self, view: View, question: Question) -> None:
        self._corpus, self._lexicon = view.corpus, view.lexicon
        self._asked = frozenset(question.content_words)
        self.mentions = np.zeros(len(view))
        self.echoes = np.zeros(len(view))
        self._visits = 0

    def visit(self, index: int, text: str) -> Indices:
        """Let the next visited node refer; the nodes that gained by it, some twice."""
        self._visits += 1
        weight = self._visits**-0.5
        named = self._lexicon.named_in(text, but=self._asked)
        if numbers := section_references(text):
            own = self._corpus.document_of(index)
            found = self._lexicon.numbered(numbers)
            named = np.append(named, found[(found >= own.start) & (found < own.stop)])
        mentioned = _raise(self.mentions, named, np.full(len(named), weight))
        return np.append(mentioned, self._echo(index, text, weight))

    def _echo(self, index: int, text: str, weight: float) -> Indices:
        rows, scores = self._lexicon.echoes(set(content_words(text)) - self._asked)
        own = scores[rows == index]  # of a perfect echo
        if not len(own):
            return _NONE
        return _raise(self.echoes, rows, weight * np.minimum(scores / own, 1.0))


def named_codes(view: View, codes: Collection[str]) -> Floats:
    """Return how much every node has the codes of a question, such as "4.2", at most `CODES`, (n,)."""
    scores = view.lexicon.scores(codes)
    return np.asarray(CODES * scores / (scores.max(initial=0.0) or 1.0))


def _raise(values: Floats, rows: Indices, to: Floats) -> Indices:
    """Raise values to at least `to`, in place; return the rows that changed."""
    higher = to > values[rows]
    values[rows[higher]] = to[higher]
    return rows[higher]

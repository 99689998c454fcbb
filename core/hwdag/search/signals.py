"""What a walk knows about the nodes that it may read next, as numbers for a navigator (ours)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from hwdag.arrays import Floats, Indices, Mask
from hwdag.search.corpus import Corpus
from hwdag.search.frontier import Frontier
from hwdag.search.similarity import Similarity
from hwdag.text.words import content_words
from hwdag.types import Node

TOUCHED, HALF = 0.1, 0.5
"""Shares of a paragraph from which on it counts as found, and as read."""


@dataclass(frozen=True, slots=True)
class _Facts:
    """What never changes about a node during a walk."""

    paragraph: Indices  # its leaves
    share: float
    heading: tuple[str, str]
    words: frozenset[str]  # of the question, in the text
    asked: float
    heading_words: frozenset[str]  # of the question
    heading_asked: float


class Signals:
    """The signals of nodes during one walk; `visit` is told of every node that was read."""

    def __init__(
        self,
        corpus: Corpus,
        question: str,
        similarity: Similarity,
        frontier: Frontier,
        fetch: Callable[[Sequence[int]], Sequence[Node]],
        allowed: Mask | None = None,
    ) -> None:
        self._corpus, self._similarity, self._frontier = corpus, similarity, frontier
        self._fetch = fetch
        seen = similarity.first if allowed is None else similarity.first[allowed]
        self._size = len(seen)
        self._mean = float(seen.mean()) if len(seen) else 0.0
        self._spread = float(seen.std()) + 1e-6 if len(seen) else 1.0
        rarity = corpus.lexicon(allowed).rarity(set(content_words(question)))
        whole = sum(rarity.values()) or 1.0
        self._asked = {word: value / whole for word, value in rarity.items()}
        self._facts: dict[int, _Facts] = {}
        self._read: list[int] = []
        self._covered: set[str] = set()  # words of the question
        self._paragraphs: Counter[int] = Counter()  # nodes that were read, by first leaf
        self._shares: dict[int, float] = {}  # of the same paragraphs
        self._headings: Counter[tuple[str, str]] = Counter()

    def visit(self, index: int) -> None:
        """Take note that a node was read."""
        [facts] = self._known([index])
        self._read.append(index)
        self._covered |= facts.words | facts.heading_words
        paragraph = int(facts.paragraph[0])
        self._paragraphs[paragraph] += 1
        self._shares[paragraph] = self._shares.get(paragraph, 0.0) + facts.share
        self._headings[facts.heading] += 1

    def of(self, indices: Indices, scores: Floats) -> Floats:
        """The signals of some open nodes, with their scores, best first; (k, signals)."""
        known = self._known(indices.tolist())
        likeness, similarity = self._frontier.likeness, self._similarity
        cosine, navigated = similarity.first[indices], similarity.cosine[indices]
        like = likeness[indices]
        first = [int(facts.paragraph[0]) for facts in known]
        best = np.array([likeness[facts.paragraph].max() for facts in known])
        read = np.array([self._shares.get(key, 0.0) for key in first])
        share = np.array([facts.share for facts in known])
        near = self._nearness(indices)
        columns = (
            scores,
            like,
            self._frontier.mentions[indices],
            self._frontier.echoes[indices],
            cosine,
            (cosine - self._mean) / self._spread,
            navigated,
            (navigated - self._mean) / self._spread,
            similarity.latest[indices],
            similarity.words[indices],
            best,
            like / np.maximum(best, 1e-6),
            like >= best,
            [self._paragraphs[key] for key in first],
            read,
            read >= HALF,
            share,
            (read < TOUCHED) & (read + share >= TOUCHED),
            (read < HALF) & (read + share >= HALF),
            near.max(axis=1),
            near.mean(axis=1),
            [self._headings[facts.heading] for facts in known],
            [facts.asked for facts in known],
            [self._weight(facts.words - self._covered) for facts in known],
            [facts.heading_asked for facts in known],
            np.full(len(indices), np.log1p(len(self._read))),
            np.full(len(indices), len(self._paragraphs)),
            np.full(len(indices), np.log(self._size)),
            np.full(len(indices), self._spread),
            np.full(len(indices), scores.max()),
        )
        return np.stack([np.asarray(column, np.float64) for column in columns], axis=1)

    def _nearness(self, indices: Indices) -> Floats:
        """Cosine to everything that was read, (k, reads); a 0 where nothing was."""
        if not self._read:
            return np.zeros((len(indices), 1))
        found = self._corpus.vectors(indices.tolist()) @ self._corpus.vectors(self._read).T
        return np.asarray(found, np.float64)

    def _known(self, indices: Sequence[int]) -> list[_Facts]:
        if missing := [index for index in indices if index not in self._facts]:
            for index, node in zip(missing, self._fetch(missing), strict=True):
                self._facts[index] = self._facts_of(index, node)
        return [self._facts[index] for index in indices]

    def _facts_of(self, index: int, node: Node) -> _Facts:
        paragraph = self._corpus.paragraph(index)
        [own] = self._corpus.lengths(np.array([index])).tolist()
        whole = int(self._corpus.lengths(paragraph).sum())
        words, heading = set(content_words(node.text)), set(content_words(node.heading))
        asked = self._asked.keys()
        return _Facts(
            paragraph,
            own / whole if whole else 1.0,
            (node.document_id, node.heading),
            frozenset(words & asked),
            self._weight((words | heading) & asked),
            frozenset(heading & asked),
            len(heading & asked) / max(1, len(heading)),
        )

    def _weight(self, words: set[str] | frozenset[str]) -> float:
        """Share that some words of the question have of its rarity."""
        return sum(self._asked[word] for word in words)

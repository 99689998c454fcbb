"""Features by which a navigator ranks open nodes: similarity, paragraphs read so far, words of the question."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from hwdag.arrays import Floats, Indices, Mask, Vectors
from hwdag.corpus.corpus import Corpus
from hwdag.corpus.similarity import Similarity
from hwdag.corpus.view import View
from hwdag.search.frontier import Frontier
from hwdag.search.question import Question
from hwdag.text.headings import parted
from hwdag.text.words import content_words
from hwdag.types import Node

FEATURES = (
    "score",  # of the frontier
    "similarity",
    "mentions",
    "echoes",
    "cosine",  # to the question
    "cosine_z",  # in standard deviations from the mean over all nodes
    "navigated",  # the highest to any form of the question
    "navigated_z",
    "latest",  # to the form that was added last
    "words",  # BM25
    "paragraph_best",  # similarity of the best leaf of the paragraph
    "of_paragraph_best",  # share of it that the node has
    "is_paragraph_best",
    "paragraph_reads",  # nodes of the paragraph that were read
    "paragraph_read",  # share of it
    "is_half",
    "share",  # of the paragraph that the node is
    "would_touch",
    "would_half",
    "nearest",  # cosine to the most similar node that was read
    "nearest_mean",
    "heading_reads",  # nodes that were read under the same heading
    "asked",  # share of the question's words that node or heading have, weighed by rarity
    "asked_new",  # the same for words of the text that no node had which was read
    "heading_asked",  # share of the heading's words that are in the question
    "reads",  # logarithm
    "paragraphs_read",
    "nodes",  # logarithm
    "spread",  # standard deviation of the cosine
    "top",  # the highest score
)
"""The inputs of a scorer, in this order."""

MAX_DEVIATIONS = 5.0
"""Standard deviations beyond which a feature counts no more."""

LEAST_SPREAD = 1e-4

TOUCHED, HALF = 0.1, 0.5  # shares of a paragraph that count as read


class _Facts:
    """Facts about nodes that never change during a walk, a row per node; `rows` adds new ones.

    Paragraphs and headings are numbered as they are met. Words are those of the question, as columns.
    """

    def __init__(
        self,
        corpus: Corpus,
        fetch: Callable[[Sequence[int]], Sequence[Node]],
        asked: dict[str, int],
    ) -> None:
        self._corpus, self._fetch, self._columns = corpus, fetch, asked
        self._rows: dict[int, int] = {}
        self._paragraphs: dict[int, int] = {}  # by first leaf
        self._headings: dict[tuple[str, str], int] = {}
        self._named: dict[str, set[str]] = {}  # words of headings
        self.paragraph: Indices = np.empty(0, np.intp)
        self.heading: Indices = np.empty(0, np.intp)
        self.share: Floats = np.empty(0)  # of the paragraph that the node is
        self.heading_asked: Floats = np.empty(0)  # share of the heading's words
        self.words: Mask = np.empty((0, len(asked)), bool)  # in the text
        self.heading_words: Mask = np.empty((0, len(asked)), bool)
        self.vectors: Vectors = corpus.vectors([])
        self.leaves: Indices = np.empty(0, np.intp)  # of paragraphs, one after the other
        self.first_leaf: Indices = np.empty(0, np.intp)  # where those of each paragraph begin

    def rows(self, indices: Sequence[int]) -> Indices:
        """Return the rows of these nodes, (k,)."""
        if new := [index for index in indices if index not in self._rows]:
            self._add(new, self._fetch(new))
        return np.array([self._rows[index] for index in indices], np.intp)

    def _add(self, indices: Sequence[int], nodes: Sequence[Node]) -> None:
        self._rows |= {index: row for row, index in enumerate(indices, len(self._rows))}
        paragraphs = [self._corpus.paragraph(index) for index in indices]
        shares = [self._share(*one) for one in zip(indices, paragraphs, strict=True)]
        self.share = np.append(self.share, shares)
        ordinals = [self._paragraph(paragraph) for paragraph in paragraphs]
        self.paragraph = np.append(self.paragraph, ordinals)
        keys = [(node.document_id, node.heading) for node in nodes]
        ordinals = [self._headings.setdefault(key, len(self._headings)) for key in keys]
        self.heading = np.append(self.heading, ordinals)
        named = [self._words_of(node.heading) for node in nodes]
        shares = [len(words & self._columns.keys()) / max(1, len(words)) for words in named]
        self.heading_asked = np.append(self.heading_asked, shares)
        self.heading_words = np.concatenate([self.heading_words, self._marked(named)])
        texts = [content_words(node.text) for node in nodes]
        self.words = np.concatenate([self.words, self._marked(texts)])
        self.vectors = np.concatenate([self.vectors, self._corpus.vectors(indices)])

    def _share(self, index: int, paragraph: Indices) -> float:
        *leaves, own = self._corpus.lengths(np.append(paragraph, index)).tolist()
        return own / whole if (whole := sum(leaves)) else 1.0

    def _words_of(self, heading: str) -> set[str]:
        if heading not in self._named:
            self._named[heading] = set(content_words(parted(heading)[1]))
        return self._named[heading]

    def _paragraph(self, leaves: Indices) -> int:
        first = int(leaves[0])
        if first not in self._paragraphs:
            self._paragraphs[first] = len(self._paragraphs)
            self.first_leaf = np.append(self.first_leaf, len(self.leaves))
            self.leaves = np.append(self.leaves, leaves)
        return self._paragraphs[first]

    def _marked(self, texts: Sequence[Iterable[str]]) -> Mask:
        marked = np.zeros((len(texts), len(self._columns)), bool)
        for row, words in zip(marked, texts, strict=True):
            row[[self._columns[word] for word in words if word in self._columns]] = True
        return marked


class NodeFeatures:
    """The features of nodes during one walk; `visit` gets every node that was read."""

    def __init__(
        self,
        view: View,
        question: Question,
        similarity: Similarity,
        fetch: Callable[[Sequence[int]], Sequence[Node]],
    ) -> None:
        self._similarity = similarity
        seen = view.values_of(similarity.first)
        self._size = len(seen)
        self._mean = float(seen.mean()) if len(seen) else 0.0
        self._spread = float(seen.std()) + 1e-6 if len(seen) else 1.0
        rarity = view.lexicon.rarity(question.asked_words)
        self._weights = np.array(list(rarity.values())) / (sum(rarity.values()) or 1.0)
        self._facts = _Facts(view.corpus, fetch, {word: i for i, word in enumerate(rarity)})
        self._read: Indices = np.empty(0, np.intp)  # rows of the facts
        self._covered = np.zeros(len(rarity), bool)  # words of the question

    def visit(self, index: int) -> None:
        """Take note that a node was read."""
        row = self._facts.rows([index])
        self._read = np.append(self._read, row)
        self._covered |= (self._facts.words | self._facts.heading_words)[row[0]]

    def of(self, frontier: Frontier, indices: Indices, scores: Floats) -> Floats:
        """Return the features of some open nodes, with their scores, best first; (k, features)."""
        facts, rows = self._facts, self._facts.rows(indices.tolist())
        similarity = self._similarity
        cosine, navigated = similarity.first[indices], similarity.cosine[indices]
        like, share, paragraph = (
            frontier.similarity[indices],
            facts.share[rows],
            facts.paragraph[rows],
        )
        peaks = np.maximum.reduceat(frontier.similarity[facts.leaves], facts.first_leaf)
        best = peaks[paragraph]
        paragraphs, headings = facts.paragraph[self._read], facts.heading[self._read]
        of_paragraph, of_heading = len(peaks), int(facts.heading.max()) + 1
        reads = np.bincount(paragraphs, minlength=of_paragraph)
        read = np.bincount(paragraphs, facts.share[self._read], of_paragraph)[paragraph]
        near = self._nearness(rows)
        words = facts.words[rows]
        columns = (
            scores,
            like,
            frontier.mentions[indices],
            frontier.echoes[indices],
            cosine,
            (cosine - self._mean) / self._spread,
            navigated,
            (navigated - self._mean) / self._spread,
            similarity.latest[indices],
            similarity.words[indices],
            best,
            like / np.maximum(best, 1e-6),
            like >= best,
            reads[paragraph],
            read,
            read >= HALF,
            share,
            (read < TOUCHED) & (read + share >= TOUCHED),
            (read < HALF) & (read + share >= HALF),
            near.max(axis=1),
            near.mean(axis=1),
            np.bincount(headings, minlength=of_heading)[facts.heading[rows]],
            (words | facts.heading_words[rows]) @ self._weights,
            (words & ~self._covered) @ self._weights,
            facts.heading_asked[rows],
            np.log1p(len(self._read)),
            np.count_nonzero(reads),
            np.log(self._size),
            self._spread,
            scores.max(),
        )
        found = np.empty((len(indices), len(columns)))
        for i, column in enumerate(columns):
            found[:, i] = column
        return found

    def _nearness(self, rows: Indices) -> Floats:
        """Cosine to everything that was read, (k, reads); a 0 if nothing was."""
        if not len(self._read):
            return np.zeros((len(rows), 1))
        vectors = self._facts.vectors
        return np.asarray(vectors[rows] @ vectors[self._read].T, np.float64)

"""BM25 over passages: those that share rare words with the question.

Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009, in Lucene's
variant. All scores are computed when the passages are indexed (BM25S, Lù, arXiv 2407.03618).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from scipy.sparse import csc_array

from hwdag.arrays import Floats
from hwdag.options import at_least, between
from hwdag.text.words import content_words
from hwdag.types import Document, Node
from hwdag_lab.methods.document_retriever import DocumentRetriever
from hwdag_lab.methods.found import Found, SearchRequest, rank_by_score
from hwdag_lab.methods.passages import PassageConfig, Passages


@dataclass(frozen=True, slots=True, eq=False)
class WordedPassages:
    """One document, cut, with the words of every passage."""

    nodes: tuple[Node, ...]
    words: tuple[list[str], ...]


@dataclass(frozen=True, slots=True)
class BM25Config(PassageConfig):
    """The passages and constants of BM25.

    Attributes:
        granularity: how a document is cut: "300" or "100" for chunks of whole sentences with at most
            that many tokens, "sentence", or "passage" for paragraphs with the heading above them.
        contextual: search every passage together with its heading, or the title of its document.
        k1: how fast repetitions of a word stop counting; the paper advises 1.2 to 2.
        b: how much long passages are held back; the paper advises 0.5 to 0.8.
    """

    k1: float = at_least(0, 1.5)
    b: float = between(0, 1, 0.75)


@dataclass(frozen=True, slots=True, eq=False)
class BM25Index:
    """The contribution of each word to the score of each passage.

    Why not bm25s: if JAX is installed, it starts JAX, and JAX takes three quarters of a GPU's memory.
    """

    columns: Mapping[str, int]
    added: csc_array  # (passages, words)

    @classmethod
    def of(cls, passages: Sequence[Sequence[str]], config: BM25Config) -> BM25Index:
        """Index the words of passages."""
        columns = {word: i for i, word in enumerate(dict.fromkeys(chain(*passages)))}
        counts = [
            (row, columns[word], count)
            for row, words in enumerate(passages)
            for word, count in Counter(words).items()
        ]
        rows, words, tf = np.array(counts, np.int64).reshape(-1, 3).T
        n = np.bincount(words, minlength=len(columns))
        lengths = np.array([*map(len, passages)]) / max(1, tf.sum()) * len(passages)
        idf = np.log1p((len(passages) - n + 0.5) / (n + 0.5))
        added = idf[words] * tf / (tf + config.k1 * (1 - config.b + config.b * lengths[rows]))
        return cls(columns, csc_array((added, (rows, words)), (len(passages), len(columns))))

    def scores(self, query: Sequence[str]) -> Floats:
        """Score of every passage, (passages,); a word that a query repeats counts as often."""
        known = [self.columns[word] for word in query if word in self.columns]
        return np.asarray(self.added[:, known].sum(axis=1))


class BM25Retriever(DocumentRetriever[WordedPassages]):
    """Passages by the BM25 score of the question's words.

        score(q, p) = sum over words w of q: idf(w) tf / (tf + k1 (1 - b + b |p| / mean |p|))
        idf(w) = ln(1 + (N - n + 1/2) / (n + 1/2))

    tf counts w in p, |p| is the number of words of p, and n of all N passages contain w. Words are
    the content words of `hwdag.text.words`: any language, lower-cased, not stemmed, without English
    stopwords. N, n and the mean length cover the documents in scope only. Passages without a common
    word come last, in reading order.
    """

    name = "bm25"
    uses = ("reader", "prompts")
    Config = BM25Config
    config: BM25Config

    def _build(self, document: Document) -> WordedPassages:
        passages = Passages.of(document, self.config, self.reader)
        return WordedPassages(passages.nodes, tuple(map(content_words, passages.indexed)))

    def _retrieve(self, request: SearchRequest, built: Mapping[str, WordedPassages]) -> Found:
        index = self._joined(built, self._indexed)
        nodes = [node for document in built.values() for node in document.nodes]
        return rank_by_score(nodes, index.scores(content_words(request.question)))

    def _indexed(self, documents: tuple[WordedPassages, ...]) -> BM25Index:
        return BM25Index.of([words for one in documents for words in one.words], self.config)

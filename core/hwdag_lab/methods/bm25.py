"""BM25 over passages: those that share rare words with the question.

Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009, in Lucene's
variant as computed by bm25s (Lù, arXiv 2407.03618).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

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
    """What BM25 ranks, and how.

    Attributes:
        granularity: how a document is cut: "300" or "100" for chunks of whole sentences with at most
            that many tokens, "sentence", or "passage" for paragraphs with the heading above them.
        contextual: search every passage together with its heading, or the title of its document.
        k1: how fast repetitions of a word stop counting; the paper advises 1.2 to 2.
        b: how much long passages are held back; the paper advises 0.5 to 0.8.
    """

    k1: float = at_least(0, 1.5)
    b: float = between(0, 1, 0.75)


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
        known = [
            w
            for w in content_words(request.question)
            if index is not None and w in index.vocab_dict
        ]
        nodes = [node for document in built.values() for node in document.nodes]
        return rank_by_score(nodes, index.get_scores(known) if known else np.zeros(len(nodes)))

    def _indexed(self, documents: tuple[WordedPassages, ...]) -> Any:
        """The bm25s index of some documents; None for a collection without words, which it refuses."""
        import bm25s

        passages = [words for document in documents for words in document.words]
        if not any(passages):
            return None
        # why: importing it sets its logger to DEBUG
        logging.getLogger("bm25s").setLevel(logging.WARNING)
        index = bm25s.BM25(method="lucene", k1=self.config.k1, b=self.config.b, backend="numpy")
        index.index(passages, show_progress=False)
        return index

"""BM25 over passages: what shares rare words with the question.

Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009; Lucene's
variant of the formula, as bm25s computes it (Lù, arXiv 2407.03618).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np

from hwdag.errors import InputError
from hwdag.lm.base import Reader
from hwdag.text.words import content_words
from hwdag.types import Document, Node
from hwdag_lab.methods.document_retriever import DocumentRetriever, OtherModels
from hwdag_lab.methods.found import Found, Query, ranked
from hwdag_lab.methods.passages import Granularity, Passages, checked_granularity


@dataclass(frozen=True, slots=True, eq=False)
class WordedPassages:
    """One document, cut, with the words of every passage."""

    nodes: tuple[Node, ...]
    words: tuple[list[str], ...]


class BM25Retriever(DocumentRetriever[WordedPassages]):
    """Passages by the BM25 score of the question's words.

        score(q, p) = sum over words w of q: idf(w) tf / (tf + k1 (1 - b + b |p| / mean |p|))
        idf(w) = ln(1 + (N - n + 1/2) / (n + 1/2))

    tf counts w in p, |p| its words, n the passages with w among all N. The words are the content
    words of `hwdag.text.words`: of any language, lower-cased, not stemmed, without the English
    stopwords. N, n and the mean length are those of the documents that are searched, so with
    `document_ids` the others do not show through. Passages without a common word come last, in
    reading order.

    Args:
        reader: see `DocumentRetriever`.
        granularity: how documents are cut.
        contextual: search every passage behind its heading, or its document's title.
        k1: how fast repetitions of a word stop counting; the paper advises 1.2 to 2.
        b: how much the length of a passage counts; the paper advises 0.5 to 0.8.
        models: prompts; see `DocumentRetriever`.

    Raises:
        InputError: a negative k1, or a b that is not in [0, 1].
    """

    name = "bm25"
    uses = ("reader", "prompts")

    def __init__(
        self,
        reader: Reader | str | None = None,
        *,
        granularity: Granularity = "300",
        contextual: bool = False,
        k1: float = 1.5,
        b: float = 0.75,
        **models: Unpack[OtherModels],
    ) -> None:
        if not (0 <= k1 < float("inf") and 0 <= b <= 1):
            raise InputError(f"BM25 needs a finite k1 >= 0 and a b in [0, 1], got {k1!r} and {b!r}")
        self._k1, self._b = k1, b
        self._granularity = checked_granularity(granularity)
        self._contextual = contextual
        super().__init__(reader, **models)

    def _build(self, document: Document) -> WordedPassages:
        passages = Passages.of(
            document, self._granularity, self.reader, contextual=self._contextual
        )
        return WordedPassages(passages.nodes, tuple(map(content_words, passages.indexed)))

    def _retrieve(self, query: Query, built: Mapping[str, WordedPassages]) -> Found:
        index = self._joined(built, self._indexed)
        known = [
            w for w in content_words(query.question) if index is not None and w in index.vocab_dict
        ]
        nodes = [node for document in built.values() for node in document.nodes]
        return ranked(nodes, index.get_scores(known) if known else np.zeros(len(nodes)))

    def _indexed(self, documents: tuple[WordedPassages, ...]) -> Any:
        """bm25s over documents; None for a collection without a single word, which it refuses."""
        import bm25s

        passages = [words for document in documents for words in document.words]
        if not any(passages):
            return None
        # why: its logger is set to DEBUG on import, which all handlers of the root logger would show
        logging.getLogger("bm25s").setLevel(logging.WARNING)
        index = bm25s.BM25(method="lucene", k1=self._k1, b=self._b, backend="numpy")
        index.index(passages, show_progress=False)
        return index

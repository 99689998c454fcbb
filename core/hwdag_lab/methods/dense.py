"""Dense retrieval: passages by similarity of embeddings to the question.

Karpukhin et al., "Dense Passage Retrieval", arXiv 2004.04906, with any embedder.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from hwdag.arrays import Vectors
from hwdag.embedding.checked import embedded, embedded_question
from hwdag.types import Document, Node
from hwdag_lab.methods.document_retriever import DocumentRetriever
from hwdag_lab.methods.found import Found, SearchRequest, rank_by_score
from hwdag_lab.methods.passages import PassageConfig, Passages


@dataclass(frozen=True, slots=True, eq=False)
class EmbeddedPassages:
    """One document, cut, with the embedding of every passage."""

    nodes: tuple[Node, ...]
    vectors: Vectors  # (nodes, dimension)


class DenseRetriever(DocumentRetriever[EmbeddedPassages]):
    """Passages by dot product with the question, which is the cosine for unit vectors.

    Ties keep reading order.
    """

    name = "dense"
    uses = ("reader", "prompts", "embedder", "cache")
    Config: ClassVar[type[PassageConfig]] = PassageConfig
    config: PassageConfig

    def _build(self, document: Document) -> EmbeddedPassages:
        passages = Passages.of(document, self.config, self.reader)
        return EmbeddedPassages(passages.nodes, embedded(self.embedder, passages.indexed))

    def _retrieve(self, request: SearchRequest, built: Mapping[str, EmbeddedPassages]) -> Found:
        asked = embedded_question(self.embedder, request.question)
        scores = np.concatenate([passages.vectors @ asked for passages in built.values()])
        nodes = [node for passages in built.values() for node in passages.nodes]
        return rank_by_score(nodes, scores)

"""Dense retrieval: passages whose embedding is nearest to that of the question.

Karpukhin et al., "Dense Passage Retrieval", arXiv 2004.04906, with any embedder.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Unpack

import numpy as np

from hwdag.arrays import Vectors
from hwdag.lm.base import Reader
from hwdag.types import Document, Node
from hwdag_lab.methods.document_retriever import DocumentRetriever, OtherModels
from hwdag_lab.methods.found import Found, Query, ranked
from hwdag_lab.methods.passages import Granularity, Passages, checked_granularity


@dataclass(frozen=True, slots=True, eq=False)
class EmbeddedPassages:
    """One document, cut, with the embedding of every passage."""

    nodes: tuple[Node, ...]
    vectors: Vectors  # (nodes, dimension)


class DenseRetriever(DocumentRetriever[EmbeddedPassages]):
    """Passages by the similarity of their embeddings to the question's.

    That is the dot product: the cosine for embedders with unit vectors. Equally near passages stay in
    reading order.

    Args:
        reader: see `DocumentRetriever`.
        granularity: how documents are cut; None for the method's own cut.
        contextual: embed every passage behind its heading, or its document's title.
        models: prompts, embedder and cache; see `DocumentRetriever`.
    """

    name = "dense"
    uses = ("reader", "prompts", "embedder", "cache")
    cut: ClassVar[Granularity] = "300"

    def __init__(
        self,
        reader: Reader | str | None = None,
        *,
        granularity: Granularity | None = None,
        contextual: bool = False,
        **models: Unpack[OtherModels],
    ) -> None:
        self._granularity = checked_granularity(self.cut if granularity is None else granularity)
        self._contextual = contextual
        super().__init__(reader, **models)

    def _build(self, document: Document) -> EmbeddedPassages:
        passages = Passages.of(
            document, self._granularity, self.reader, contextual=self._contextual
        )
        return EmbeddedPassages(passages.nodes, self.embedder.embed(passages.indexed))

    def _retrieve(self, query: Query, built: Mapping[str, EmbeddedPassages]) -> Found:
        asked = self.embedder.embed_query(query.question)
        scores = np.concatenate([passages.vectors @ asked for passages in built.values()])
        nodes = [node for passages in built.values() for node in passages.nodes]
        return ranked(nodes, scores)

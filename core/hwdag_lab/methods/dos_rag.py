"""DOS RAG: the chunks most similar to the question, put back into the order of the document.

Laitenberger et al., arXiv 2506.03989: dense retrieval of chunks of 100 tokens that end with
sentences, as many as the budget holds, read in their original order.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from hwdag.embedding.base import Embedder
from hwdag.lm.base import Reader
from hwdag.text.prompts import SearchPrompts
from hwdag_lab.methods.dense import DenseRetriever, EmbeddedPassages
from hwdag_lab.methods.found import Found, Query, fitting
from hwdag_lab.methods.passages import Granularity


class DosRagRetriever(DenseRetriever):
    """Dense retrieval in the order of the documents.

    Args:
        reader: see `DenseRetriever`, as the following.
        prompts: the two turns in which the answer is asked for.
        embedder: what is similar.
        granularity: how documents are cut.
        contextual: embed every passage behind its heading, or its document's title.
        cache: a file of finished embeddings.
    """

    name = "dos-rag"

    def __init__(
        self,
        reader: Reader | str | None = None,
        prompts: SearchPrompts | None = None,
        embedder: Embedder | str | None = None,
        granularity: Granularity = "100",
        *,
        contextual: bool = False,
        cache: str | Path | None = None,
    ) -> None:
        super().__init__(reader, prompts, embedder, granularity, contextual=contextual, cache=cache)

    def _retrieve(self, query: Query, built: Mapping[str, EmbeddedPassages]) -> Found:
        best_first = super()._retrieve(query, built).ranked
        taken, left = fitting(best_first, query.cost, query.budget)
        nodes = (node for passages in built.values() for node in passages.nodes)
        place = {node.id: i for i, node in enumerate(nodes)}
        return Found(sorted(taken, key=lambda one: place[one.node.id]), beyond=left)

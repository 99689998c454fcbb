"""DOS RAG: dense retrieval, read in document order.

Laitenberger et al., arXiv 2506.03989: chunks of 100 tokens that end with sentences, as many as fit
into the budget, in their original order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hwdag_lab.methods.dense import DenseRetriever, EmbeddedPassages
from hwdag_lab.methods.found import Found, SearchRequest, fit_to_budget
from hwdag_lab.methods.passages import Granularity, PassageConfig


@dataclass(frozen=True, slots=True)
class DosRagConfig(PassageConfig):
    """How a document is cut; see `PassageConfig`. The default is the paper's."""

    granularity: Granularity = "100"


class DosRagRetriever(DenseRetriever):
    """Dense retrieval in document order."""

    name = "dos-rag"
    Config = DosRagConfig

    def _retrieve(self, request: SearchRequest, built: Mapping[str, EmbeddedPassages]) -> Found:
        best_first = super()._retrieve(request, built).ranked
        taken, left = fit_to_budget(best_first, request.cost, request.budget)
        nodes = (node for passages in built.values() for node in passages.nodes)
        place = {node.id: i for i, node in enumerate(nodes)}
        return Found(sorted(taken, key=lambda one: place[one.node.id]), unread=left)

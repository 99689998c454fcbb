"""Options of RAPTOR."""

from __future__ import annotations

from dataclasses import dataclass

from hwdag_lab.methods.options import check_counts, check_shares


@dataclass(frozen=True, slots=True)
class RaptorConfig:
    """How trees are built and traversed.

    The chunk length is the paper's; dimensions, threshold, max_components, max_cluster_tokens and
    seed are those of the authors' code (`cluster_utils.py`). The other defaults are ours.

    Attributes:
        chunk_tokens: of a leaf; leaves end with sentences.
        summary_tokens: at most this many tokens per summary.
        ratio: tokens of an extractive summary per token of its cluster.
        dimensions: that UMAP reduces to.
        threshold: probability from which a node belongs to a cluster.
        max_components: of a mixture.
        max_cluster_tokens: larger clusters are split; the writer's context is never exceeded.
        min_nodes: a layer of fewer nodes is the top. The authors stop below dimensions + 2.
        max_layers: of summaries.
        top_k: nodes chosen per layer in tree traversal; None takes as many as the budget pays for.
        seed: of UMAP and of the mixtures.
    """

    chunk_tokens: int = 100
    summary_tokens: int = 200
    ratio: float = 0.28
    dimensions: int = 10
    threshold: float = 0.1
    max_components: int = 50
    max_cluster_tokens: int = 3500
    min_nodes: int = 12
    max_layers: int = 5
    top_k: int | None = None
    seed: int = 224

    def __post_init__(self) -> None:
        least = {
            "chunk_tokens": 8,
            "summary_tokens": 8,
            "dimensions": 2,
            "max_components": 1,
            "max_cluster_tokens": 8,
            "min_nodes": 2,
            "max_layers": 0,
            "top_k": 1,
            "seed": 0,
        }
        check_counts(self, least, may_be_none=("top_k",))
        check_shares(self, ("ratio", "threshold"))

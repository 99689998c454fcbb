"""RAPTOR (Sarthi et al. 2024, arXiv 2401.18059): a tree of summaries of clusters of similar nodes.

    chunks -> [ embed -> soft clusters -> a summary of each ] until few nodes remain

One tree per document. The collapsed tree ranks the nodes of all layers alike; tree traversal goes
down from the top layer along the children.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Literal, Unpack, get_args

import numpy as np

from hwdag.arrays import Floats, Vectors
from hwdag.errors import ContextTooSmall, UnknownOption
from hwdag.types import Document, Node
from hwdag_lab.methods.document_retriever import ModelOptions
from hwdag_lab.methods.found import Found, Query, Scored, distinct
from hwdag_lab.methods.raptor.clustering import clusters
from hwdag_lab.methods.raptor.config import RaptorConfig
from hwdag_lab.methods.summaries import Summarizer
from hwdag_lab.methods.trees import (
    GrowingTree,
    SummarizingRetriever,
    SummaryTree,
    repetitions_last,
)

Mode = Literal["collapsed", "tree"]
"""Rank all nodes alike, or go down layer by layer."""

SUMMARY = "Write a summary of the following, including as many key details as possible: {text}:"
"""The paper's prompt."""


class RaptorRetriever(SummarizingRetriever[SummaryTree]):
    """RAPTOR, in either of its retrieval modes.

    Several documents are trees side by side: the collapsed trees are ranked as one, and traversal
    begins with the top layers of all.

    Deviations from the authors' code, on purpose: everything is seeded; every node belongs to a
    cluster; layers too small for UMAP are one cluster; the collapsed tree goes on to the next node
    that fits into the budget; verbatim nodes whose sentences have all come before are ranked last
    (extractive summaries repeat their leaves, which the paper's written ones do not).

    Args:
        mode: "collapsed" or "tree".
        config: how trees are built and traversed.
        models: reader, prompts, writer, embedder and cache; see `DocumentRetriever`.
    """

    def __init__(
        self,
        *,
        mode: Mode = "collapsed",
        config: RaptorConfig | None = None,
        **models: Unpack[ModelOptions],
    ) -> None:
        if mode not in get_args(Mode):
            raise UnknownOption(f'mode must be "collapsed" or "tree", got {mode!r}')
        self.mode = mode
        self.config = config or RaptorConfig()
        super().__init__(**models)

    @property
    def name(self) -> str:  # type: ignore[override]
        """`raptor-collapsed` or `raptor-tree`."""
        return f"raptor-{self.mode}"

    def _build(self, document: Document) -> SummaryTree:
        config, tree = self.config, GrowingTree(document, self.reader, self.embedder)
        summarizer = self._summarizer(SUMMARY, limit=config.summary_tokens, ratio=config.ratio)
        options = self._clustering(summarizer)
        layer = tree.add_chunks(config.chunk_tokens)
        while len(layer) >= config.min_nodes and tree.height <= config.max_layers:
            groups = clusters(tree.vectors, tree.costs, options)
            if len(groups) >= len(layer):
                tree.notes.append(
                    f"{document.id}: the {len(layer)} nodes of level {tree.height} fell into "
                    f"{len(groups)} clusters, so this level is the top"
                )
                break
            indices = [[layer[i] for i in group] for group in groups]
            layer = tree.add_summaries(indices, summarizer)
        return tree.finished()

    def _clustering(self, summarizer: Summarizer) -> RaptorConfig:
        """With clusters that the writer can read; raises `ContextTooSmall` if that is not a node."""
        options, capacity = self.config, summarizer.capacity
        if capacity is None:
            return options
        longest = max(self.config.chunk_tokens, self.config.summary_tokens)
        if capacity < longest:
            raise ContextTooSmall(
                f"beside the summary prompt and a summary of {self.config.summary_tokens} tokens, "
                f"the writer's context has room for {capacity} tokens, but a node may have "
                f"{longest}; lower chunk_tokens and summary_tokens, or use another writer"
            )
        return replace(options, max_cluster_tokens=min(options.max_cluster_tokens, capacity))

    def _retrieve(self, query: Query, built: Mapping[str, SummaryTree]) -> Found:
        vector = self.embedder.embed_query(query.question)
        forest = Forest.of(list(built.values()), vector)
        if self.mode == "collapsed":
            order = forest.collapsed()
        elif self.config.top_k is not None:
            order = forest.traversed(self.config.top_k)
        else:
            order = forest.traversed_within(query.budget)
        notes = tuple(note for tree in built.values() for note in tree.notes)
        ranked = distinct(Scored(forest.nodes[i], float(forest.similarity[i])) for i in order)
        return Found(repetitions_last(list(ranked)), notes=notes)


@dataclass(frozen=True, slots=True, eq=False)
class Forest:
    """All trees as one, and the similarity of every node to a question."""

    nodes: Sequence[Node]
    children: Sequence[Sequence[int]]
    roots: Sequence[int]  # nodes of the top layer of each tree
    costs: Sequence[int]
    similarity: Floats  # (nodes,)

    @classmethod
    def of(cls, trees: Sequence[SummaryTree], query: Vectors) -> Forest:
        """Concatenate trees; indices become global."""
        firsts = [0, *accumulate(len(tree.nodes) for tree in trees)]
        shifted = list(zip(firsts, trees, strict=False))
        return cls(
            [node for tree in trees for node in tree.nodes],
            [[first + i for i in below] for first, tree in shifted for below in tree.children],
            [first + i for first, tree in shifted for i in tree.top],
            [cost for tree in trees for cost in tree.costs],
            np.concatenate([tree.similarity(query) for tree in trees]),
        )

    def collapsed(self) -> list[int]:
        """All nodes, the most similar first."""
        return self._best(range(len(self.nodes)), len(self.nodes))

    def traversed(self, k: int) -> list[int]:
        """The k best of the top layers, then the k best of their children, and so on."""
        order: list[int] = []
        layer: Sequence[int] = self.roots
        while layer:
            chosen = self._best(layer, k)
            order += chosen
            layer = sorted({child for i in chosen for child in self.children[i]})
        return order

    def traversed_within(self, budget: int) -> list[int]:
        """Traversal with k = 1, 2, ... as long as its nodes all fit into the budget.

        So the last layer, the leaves, is never cut off by summaries above it. What a traversal with
        k + 1 would add follows, for the rest of the budget.
        """
        order, k = self.traversed(1), 1
        while True:
            wider = self.traversed(k + 1)
            if len(wider) == len(order) or self._cost(wider) > budget:
                return list(dict.fromkeys([*order, *wider]))
            order, k = wider, k + 1

    def _best(self, indices: Sequence[int], k: int) -> list[int]:
        return sorted(indices, key=lambda i: -self.similarity[i])[:k]

    def _cost(self, indices: Iterable[int]) -> int:
        return sum(self.costs[i] for i in indices)

"""RAPTOR (Sarthi et al. 2024, arXiv 2401.18059): a tree of summaries of clusters of similar nodes.

    chunks -> [ embed -> soft clusters -> a summary of each ] until few nodes remain

One tree per document. The collapsed tree ranks the nodes of all layers together; tree traversal
descends from the top layer.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import accumulate
from math import isqrt
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hwdag.arrays import Floats, Vectors
from hwdag.embedding.checked import embedded_question
from hwdag.errors import ContextTooSmall, InputError
from hwdag.options import CheckedOptions, at_least, share
from hwdag.text.chunking import pack
from hwdag.types import Document, Node
from hwdag_lab.methods.found import Found, Scored, SearchRequest, without_repeats
from hwdag_lab.methods.summaries import Summarizer
from hwdag_lab.methods.trees import GrowingTree, SummarizingRetriever, SummaryTree, repetitions_last


@dataclass(frozen=True, slots=True)
class RaptorConfig(CheckedOptions):
    """How trees are built and traversed.

    The chunk length is that of the paper; dimensions, threshold, max_components, max_cluster_tokens
    and seed are those of the authors' code (`cluster_utils.py`). The other defaults are ours.

    Attributes:
        mode: rank all nodes together ("collapsed"), or descend layer by layer ("tree").
        chunk_tokens: size of a leaf; leaves end with sentences.
        summary_tokens: longest summary.
        ratio: tokens of an extractive summary per token of its cluster.
        dimensions: dimensions after UMAP.
        threshold: lowest probability at which a node belongs to a cluster.
        max_components: most components of a mixture.
        max_cluster_tokens: larger clusters are split; never more than the writer's context.
        min_nodes: a layer of fewer nodes is the top. The authors stop below dimensions + 2.
        max_layers: most layers of summaries.
        top_k: nodes per layer in tree traversal; None takes as many as the budget allows.
        seed: seed of UMAP and the mixtures.
    """

    mode: Literal["collapsed", "tree"] = "collapsed"
    chunk_tokens: int = at_least(8, 100)
    summary_tokens: int = at_least(8, 200)
    ratio: float = share(0.28)
    dimensions: int = at_least(2, 10)
    threshold: float = share(0.1)
    max_components: int = at_least(1, 50)
    max_cluster_tokens: int = at_least(8, 3500)
    min_nodes: int = at_least(2, 12)
    max_layers: int = at_least(0, 5)
    top_k: int | None = at_least(1, None)
    seed: int = at_least(0, 224)


SUMMARY = "Write a summary of the following, including as many key details as possible: {text}:"
"""The prompt of the paper."""


class RaptorRetriever(SummarizingRetriever[SummaryTree]):
    """RAPTOR, with both retrieval modes.

    Each document has a tree. Collapsed trees are ranked as one, and traversal starts at the top
    layers of all. docs/systems/raptor.md lists the differences from the paper.
    """

    Config = RaptorConfig
    config: RaptorConfig

    @property
    def name(self) -> str:  # type: ignore[override]
        """`raptor-collapsed` or `raptor-tree`."""
        return f"raptor-{self.config.mode}"

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
        """Return the options, with clusters that the writer can read; raises `ContextTooSmall`."""
        options, capacity = self.config, summarizer.capacity
        longest = max(self.config.chunk_tokens, self.config.summary_tokens)
        if capacity < longest:
            raise ContextTooSmall(
                f"next to the summary prompt and a summary of {self.config.summary_tokens} tokens, "
                f"the writer's context has room for {capacity} tokens, but a node may have "
                f"{longest}; lower chunk_tokens and summary_tokens, or use another writer"
            )
        return replace(options, max_cluster_tokens=min(options.max_cluster_tokens, capacity))

    def _retrieve(self, request: SearchRequest, built: Mapping[str, SummaryTree]) -> Found:
        vector = embedded_question(self.embedder, request.question)
        forest = Forest.of(list(built.values()), vector)
        if self.config.mode == "collapsed":
            order = forest.collapsed()
        elif self.config.top_k is not None:
            order = forest.traversed(self.config.top_k)
        else:
            order = forest.traversed_within(request.budget)
        notes = tuple(note for tree in built.values() for note in tree.notes)
        ranked = without_repeats(
            Scored(forest.nodes[i], float(forest.similarity[i])) for i in order
        )
        return Found(repetitions_last(list(ranked)), notes=notes)


@dataclass(frozen=True, slots=True, eq=False)
class Forest:
    """All trees as one, with the similarity of every node to the question."""

    nodes: Sequence[Node]
    children: Sequence[Sequence[int]]
    roots: Sequence[int]  # nodes of the top layer of each tree
    costs: Sequence[int]
    similarity: Floats  # (nodes,)

    @classmethod
    def of(cls, trees: Sequence[SummaryTree], query: Vectors) -> Forest:
        """Concatenate trees and renumber their nodes."""
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
        """Return all nodes, most similar first."""
        return self._best(range(len(self.nodes)), len(self.nodes))

    def traversed(self, k: int) -> list[int]:
        """Return the k best of the top layers, then the k best of their children, and so on."""
        order, layer = list[int](), self.roots
        while layer:
            chosen = self._best(layer, k)
            order += chosen
            layer = sorted({child for i in chosen for child in self.children[i]})
        return order

    def traversed_within(self, budget: int) -> list[int]:
        """Traverse with k = 1, 2, ... while all nodes fit into the budget.

        So summaries never push out the leaves. The additional nodes of k + 1 follow, for the rest
        of the budget.
        """
        order, k = self.traversed(1), 1
        while True:
            wider = self.traversed(k + 1)
            if len(wider) == len(order) or sum(self.costs[i] for i in wider) > budget:
                return list(dict.fromkeys([*order, *wider]))
            order, k = wider, k + 1

    def _best(self, indices: Sequence[int], k: int) -> list[int]:
        return sorted(indices, key=lambda i: -self.similarity[i])[:k]


Members = NDArray[np.intp]

LOCAL_NEIGHBORS = 10  # in UMAP's second stage (the authors' code)
FEWEST_NEIGHBORS = 2  # UMAP's own minimum

SMALLEST_VARIANCE = 1e-4
"""Added to the variances of a component, as a share of the mean variance of the points.

scikit-learn's 1e-6 ignores the scale of the points; in layers this small, BIC then chooses
components that collapse onto a few points. Chosen from 1e-3 to 1e-6 for clusters of moderate size
on five training texts, without looking at any question.
"""

RECLUSTERINGS = 3
"""How often a cluster that is too long is clustered again before it is cut in order."""

_ONE_AT_A_TIME = threading.Lock()  # numba's threads and the warning filters belong to the process


def clusters(
    vectors: Vectors, tokens: Sequence[int], options: RaptorConfig
) -> list[tuple[int, ...]]:
    """Cluster nodes; each is in at least one cluster, a tuple of ascending indices.

    UMAP reduces the embeddings twice: over the whole layer with about sqrt(n) neighbours, which
    finds broad themes, then within each theme with few neighbours. Each stage fits a Gaussian
    mixture whose number of components BIC chooses. A node belongs to every component with more than
    `threshold` probability, and always to the most probable one.

    A cluster longer than `max_cluster_tokens` is clustered again, and cut into runs in reading
    order if that does not help. Only a single node may be longer. Deterministic for a seed.
    `vectors` are unit or zero vectors, (nodes, dimension).
    """
    found: set[tuple[int, ...]] = set()
    costs = np.asarray(tokens, dtype=np.int64)
    pending = [(members, RECLUSTERINGS) for members in soft_clusters(vectors, options)]
    while pending:
        members, again = pending.pop()
        if len(members) == 1 or costs[members].sum() <= options.max_cluster_tokens:
            found.add(tuple(members.tolist()))
        elif again and len(pieces := soft_clusters(vectors[members], options)) > 1:
            pending += [(members[piece], again - 1) for piece in pieces]
        else:
            runs = pack(costs[members].tolist(), options.max_cluster_tokens)
            found.update(tuple(members[run.start : run.stop].tolist()) for run in runs)
    return sorted(found)


def soft_clusters(vectors: Vectors, options: RaptorConfig) -> list[Members]:
    """Return both stages. Equal vectors count as one point, and their nodes share all clusters."""
    if not len(vectors):
        return []
    points, point_of = np.unique(vectors, axis=0, return_inverse=True)
    found = [
        members[piece]
        for members in _stage(points, isqrt(len(points) - 1), options)
        for piece in _stage(points[members], LOCAL_NEIGHBORS, options)
    ]
    return [np.flatnonzero(np.isin(point_of, cluster)) for cluster in found]


def mixture(points: Floats, options: RaptorConfig) -> list[Members]:
    """Return overlapping clusters by a Gaussian mixture with the number of components that minimises BIC.

    The smallest of equal numbers wins. Components without members are dropped.
    """
    from sklearn.mixture import GaussianMixture

    points = points.astype(np.float64)
    most = min(options.max_components, max(1, len(points) // 2))
    floor = max(SMALLEST_VARIANCE * float(points.var(axis=0).mean()), np.finfo(np.float32).eps)
    with _quietly():
        fits = (
            GaussianMixture(count, reg_covar=floor, random_state=options.seed).fit(points)
            for count in range(1, most + 1)
        )
        best = min(fits, key=lambda fit: float(fit.bic(points)))
        shares = best.predict_proba(points)  # (points, components)
    belongs = shares > options.threshold
    belongs[np.arange(len(points)), shares.argmax(axis=1)] = True
    return [np.flatnonzero(column) for column in belongs.T if column.any()]


def reduce_by_umap(vectors: Vectors, neighbors: int, options: RaptorConfig) -> Floats:
    """Reduce unit vectors by UMAP with cosine: (n, d) -> (n, m), m the smaller of dimensions and d.

    Takes at least `dimensions + 2` vectors. Raises `InputError` without umap-learn.
    """
    with _quietly():
        reducer = _umap().UMAP(
            n_neighbors=min(max(FEWEST_NEIGHBORS, neighbors), len(vectors) - 1),
            n_components=min(options.dimensions, vectors.shape[1]),
            metric="cosine",
            # why: the spectral start is not repeatable even with a seed, because ARPACK draws its own
            # random numbers for equal eigenvalues, and it fails on the smallest layers
            init="pca",
            random_state=options.seed,
            n_jobs=1,
            # why: opposite vectors would count as disconnected, and those are placed at NaN
            disconnection_distance=float("inf"),
        )
        return np.asarray(reducer.fit_transform(vectors), dtype=np.float64)


def _stage(vectors: Vectors, neighbors: int, options: RaptorConfig) -> list[Members]:
    if len(vectors) < options.dimensions + 2:
        return [np.arange(len(vectors))]
    return mixture(reduce_by_umap(vectors, neighbors, options), options)


def _umap() -> Any:
    try:
        import umap
    except ImportError as error:
        raise InputError(
            f'RAPTOR needs umap-learn ({error}); install it with: pip install "hwdag[lab]"'
        ) from error
    return umap


@contextmanager
def _quietly() -> Iterator[None]:
    """Silence the libraries' warnings, one caller at a time.

    They warn that a seed makes UMAP sequential, that an optional library is missing, and that
    mixtures did not converge. numba, which UMAP uses, sets the threads of all of OpenMP; torch gets
    its own number back, because with fewer threads than that (OMP_THREAD_LIMIT) some of its kernels
    compute nonsense.
    """
    from threadpoolctl import threadpool_limits

    with _ONE_AT_A_TIME, threadpool_limits(), warnings.catch_warnings():
        for category in (UserWarning, ImportWarning, FutureWarning, RuntimeWarning):
            warnings.filterwarnings(
                "ignore", category=category, module=r"(umap|sklearn|pynndescent)\b"
            )
        yield

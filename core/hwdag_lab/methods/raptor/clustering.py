"""Soft clusters of the nodes of a layer (RAPTOR, arXiv 2401.18059).

UMAP reduces the embeddings twice: over the whole layer with about sqrt(n) neighbours, which finds
broad themes, then within each of these with few neighbours. A Gaussian mixture is fitted at both
stages, its number of components chosen by BIC; a node belongs to every component that it has more
than `threshold` probability for, and always to its most probable one, so that none is lost.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import isqrt
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hwdag.arrays import Floats, Vectors
from hwdag.building.windows import pack
from hwdag.errors import InputError
from hwdag_lab.methods.raptor.config import RaptorConfig

Members = NDArray[np.intp]

LOCAL_NEIGHBORS = 10
"""Of UMAP's second stage (the authors' code)."""

FEWEST_NEIGHBORS = 2
"""UMAP's own minimum."""

SMALLEST_VARIANCE = 1e-4
"""Added to the variances of a component, as a share of the mean variance of the points.

scikit-learn's 1e-6 does not know the scale of the points, and with layers as small as these BIC
chooses components that have collapsed onto a few of them. This share was
chosen among 1e-3 to 1e-6 for clusters of moderate size on five training texts (5 to 12 nodes on
average), without looking at any question.
"""

RECLUSTERINGS = 3
"""How often a cluster beyond the token limit is clustered again before it is cut in order."""

_ONE_AT_A_TIME = threading.Lock()  # numba's threads and the warning filters are the process's own


def clusters(
    vectors: Vectors, tokens: Sequence[int], options: RaptorConfig
) -> list[tuple[int, ...]]:
    """Clusters of nodes, as ascending indices; each node is in one at least.

    What is longer than `max_cluster_tokens` is clustered again, and cut into runs in reading order where
    that does not help. Only a single node may be longer. Deterministic for a seed.

    Args:
        vectors: unit or zero vectors, (nodes, dimension).
        tokens: of each node.
        options: see there.
    """
    found: set[tuple[int, ...]] = set()
    costs = np.asarray(tokens, dtype=np.int64)
    pending = [(members, RECLUSTERINGS) for members in soft_clusters(vectors, options)]
    while pending:
        members, again = pending.pop()
        if len(members) == 1 or costs[members].sum() <= options.max_cluster_tokens:
            found.add(_indices(members))
        elif again and len(pieces := soft_clusters(vectors[members], options)) > 1:
            pending += [(members[piece], again - 1) for piece in pieces]
        else:
            runs = pack(costs[members].tolist(), options.max_cluster_tokens)
            found.update(_indices(members[run.start : run.stop]) for run in runs)
    return sorted(found)


def soft_clusters(vectors: Vectors, options: RaptorConfig) -> list[Members]:
    """Both stages; equal vectors are one point, and their nodes share all clusters."""
    if not len(vectors):
        return []
    points, point_of = np.unique(vectors, axis=0, return_inverse=True)
    return [np.flatnonzero(np.isin(point_of, cluster)) for cluster in _two_stages(points, options)]


def mixture(points: Floats, options: RaptorConfig) -> list[Members]:
    """Overlapping clusters by a Gaussian mixture whose number of components minimises BIC.

    Of equal numbers the smallest wins. Components without any member are left out.
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


def reduced(vectors: Vectors, neighbors: int, options: RaptorConfig) -> Floats:
    """UMAP of unit vectors by cosine: (n, d) -> (n, m), where m is the smaller of dimensions and d.

    Raises:
        InputError: umap-learn is not installed, or there are fewer than `dimensions + 2` vectors.
    """
    if len(vectors) < options.dimensions + 2:
        raise InputError(
            f"UMAP to {options.dimensions} dimensions needs {options.dimensions + 2} vectors, got "
            f"{len(vectors)}"
        )
    with _quietly():
        umap: Any = _umap()
        reducer = umap.UMAP(
            n_neighbors=min(max(FEWEST_NEIGHBORS, neighbors), len(vectors) - 1),
            n_components=min(options.dimensions, vectors.shape[1]),
            metric="cosine",
            # why: the spectral start is not repeatable even with a seed, since ARPACK draws its own
            # random numbers where eigenvalues coincide, and it fails on the smallest layers
            init="pca",
            random_state=options.seed,
            n_jobs=1,
            # why: opposite vectors would count as disconnected, and those are placed at NaN
            disconnection_distance=float("inf"),
        )
        points: Floats = np.asarray(reducer.fit_transform(vectors), dtype=np.float64)
    return points


def _two_stages(vectors: Vectors, options: RaptorConfig) -> Iterator[Members]:
    for members in _stage(vectors, isqrt(len(vectors) - 1), options):
        for piece in _stage(vectors[members], LOCAL_NEIGHBORS, options):
            yield members[piece]


def _stage(vectors: Vectors, neighbors: int, options: RaptorConfig) -> list[Members]:
    if len(vectors) < options.dimensions + 2:
        return [np.arange(len(vectors))]
    return mixture(reduced(vectors, neighbors, options), options)


def _umap() -> ModuleType:
    try:
        import umap
    except ImportError as error:
        raise InputError(
            f'RAPTOR needs umap-learn ({error}); install it with: pip install "hwdag[lab]"'
        ) from error
    module: ModuleType = umap
    return module


@contextmanager
def _quietly() -> Iterator[None]:
    """Without the warnings of the libraries, one caller at a time.

    They tell of no parallel UMAP with a seed, of an optional library that is missing, and of
    mixtures that did not converge. Numba, which UMAP is made with, sets the number of threads of all
    of OpenMP; torch gets its own number back, since some of its kernels compute nonsense where
    OMP_THREAD_LIMIT allows fewer than that number.
    """
    from threadpoolctl import threadpool_limits

    with _ONE_AT_A_TIME, threadpool_limits(), warnings.catch_warnings():
        for category in (UserWarning, ImportWarning, FutureWarning, RuntimeWarning):
            warnings.filterwarnings(
                "ignore", category=category, module=r"(umap|sklearn|pynndescent)\b"
            )
        yield


def _indices(members: Members) -> tuple[int, ...]:
    return tuple(members.tolist())

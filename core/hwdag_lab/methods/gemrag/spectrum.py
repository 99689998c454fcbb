"""The graph of the memories as an operator, its leading eigenvectors, and their themes.

The weight of the edge from node t to node v is the sum of the cosines of t's utility questions to
the text of v. Let a_t be the sum of the unit vectors of t's questions, and c_v the unit vector of
v's text. The weight is a_t . c_v, and all n x n weights are the product of two n x d matrices:

    S = (A C^T + C A^T) / 2             symmetric, which the printed sum is not
    W = S - diag(S)                     with m > 1 questions S - I has no zero diagonal
    D = diag(sum over v of |W[t, v]|)
    L = D^-1/2 W D^-1/2

L x is computed from A and C in O(n d), without an n x n matrix. Only the degrees need every weight
once, block by block, because cosines may be negative: a signed sum could be zero or negative, and
eigenvalues would leave [-1, 1]. Without negative weights this is the printed L.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hwdag.arrays import Floats, Vectors
from hwdag.embedding.hashing import unit_rows

BLOCK = 256  # rows of weights in memory at a time

DENSE_BELOW = 64
"""Fewer nodes use a dense solver, which is as fast and never breaks down."""

DENSE_AT_LAST = 2048  # and up to this many, if Lanczos' method breaks down

LANCZOS_VECTORS = 40
SEED = 224  # of the start vector of Lanczos' method

SAME = 1e-9
"""Smaller components of an eigenvector, as a share of the largest, are rounding errors."""


@dataclass(frozen=True, slots=True, eq=False)
class Affinity:
    """The weights W of a graph of n nodes in d dimensions, and its degrees."""

    questions: Floats  # A, (n, d)
    texts: Floats  # C, (n, d)
    own: Floats  # diagonal of S, (n,)
    degrees: Floats  # (n,)

    @classmethod
    def of(cls, questions: Vectors, texts: Vectors) -> Affinity:
        """Measure a graph.

        Args:
            questions: sums of the unit vectors of every node's questions, (n, d).
            texts: unit vectors of every node's text, (n, d); zero rows are nodes without edges.
        """
        a, c = (np.ascontiguousarray(matrix, np.float64) for matrix in (questions, texts))
        return cls(a, c, np.einsum("nd,nd->n", a, c), _degrees(questions, texts))

    def __len__(self) -> int:
        return len(self.texts)

    def among(self, nodes: NDArray[np.intp]) -> Affinity:
        """Return the subgraph of nodes without edges to the others."""
        return Affinity(
            self.questions[nodes], self.texts[nodes], self.own[nodes], self.degrees[nodes]
        )

    def weights(self, rows: Sequence[int] | NDArray[np.intp]) -> Floats:
        """Return rows of W, (rows, n)."""
        at = np.asarray(rows, np.intp)
        found: Floats = (self.questions[at] @ self.texts.T + self.texts[at] @ self.questions.T) / 2
        found[np.arange(len(at)), at] = 0.0
        return found

    def laplacian(self, x: Floats) -> Floats:
        """Return l x, (n,) -> (n,)."""
        scale = self._scale()
        y = x.reshape(-1) * scale
        product = (self.questions @ (self.texts.T @ y) + self.texts @ (self.questions.T @ y)) / 2
        return np.asarray(scale * (product - self.own * y), np.float64)

    def dense(self) -> Floats:
        """Return l as a matrix, (n, n); for few nodes."""
        scale = self._scale()
        return np.asarray(scale[:, None] * self.weights(range(len(self))) * scale, np.float64)

    def _scale(self) -> Floats:
        with np.errstate(divide="ignore"):
            return np.where(self.degrees > 0, self.degrees**-0.5, 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class Spectrum:
    """Eigenvalues of L by falling magnitude, and their eigenvectors.

    Each eigenvector is turned so that its largest component is positive.
    """

    values: Floats  # (k,)
    vectors: Floats  # (n, k)

    def themes(self, count: int, members: int) -> list[tuple[int, ...]]:
        """Return the top components of each of the first eigenvectors: nodes, strongest first.

        An eigenvector with both signs separates two groups. The theme is the group of its largest
        component.
        """
        return [top(self.vectors[:, k], members) for k in range(min(count, len(self.values)))]

    def estimated_themes(self, near_one: float, gap: float) -> int | None:
        """Remark 2: the first d >= 2 whose ratio to the first eigenvalue is near 1, then a gap.

        None if there is no such d.
        """
        if len(self.values) < 2 or self.values[0] <= 0:
            return None
        ratios = self.values / self.values[0]
        for d in range(2, len(ratios)):
            if ratios[d - 1] >= 1 - near_one and ratios[d - 1] - ratios[d] > gap:
                return d
        return None


def top(component: Floats, members: int) -> tuple[int, ...]:
    """Return at most `members` nodes with the largest positive components, largest first."""
    order = np.argsort(-component, kind="stable")[:members]
    least = SAME * max(float(np.abs(component).max(initial=0.0)), np.finfo(np.float64).tiny)
    return tuple(int(i) for i in order if component[i] > least)


def spectrum(affinity: Affinity, count: int) -> Spectrum:
    """Return the `count` eigenvalues of largest magnitude (fewer for fewer nodes); deterministic.

    Those that did not converge are left out. Nodes without edges are in no eigenvector.
    """
    joined = np.flatnonzero(affinity.degrees > 0)
    count = min(count, len(affinity))
    inner = affinity.among(joined)
    is_small = len(inner) <= max(DENSE_BELOW, count + 1)
    found = by_dense(inner, count) if is_small else by_lanczos(inner, count)
    vectors = np.zeros((len(affinity), len(found.values)))
    vectors[joined] = found.vectors
    return Spectrum(found.values, vectors)


def by_dense(affinity: Affinity, count: int) -> Spectrum:
    """Return dense solver, O(n^3)."""
    values, vectors = np.linalg.eigh(affinity.dense())
    return _ordered(values, vectors, count)


def by_lanczos(affinity: Affinity, count: int) -> Spectrum:
    """Return SciPy's Lanczos method, O(n d) per step; `count` is less than the number of nodes.

    Every node has an edge. If the method breaks down, as it may for equal eigenvalues, few nodes
    use the dense solver, and many get no eigenvectors.
    """
    from scipy.sparse.linalg import ArpackError, ArpackNoConvergence, LinearOperator, eigsh

    size = len(affinity)
    operator: Any = LinearOperator((size, size), matvec=affinity.laplacian, dtype=np.float64)
    start = np.random.default_rng(SEED).normal(size=size)
    kept = min(size, max(LANCZOS_VECTORS, 2 * count + 1))
    try:
        values, vectors = eigsh(operator, k=count, which="LM", v0=start, ncv=kept)
    except ArpackNoConvergence as error:
        values, vectors = error.eigenvalues, error.eigenvectors
    except ArpackError:
        if size <= DENSE_AT_LAST:
            return by_dense(affinity, count)
        values, vectors = np.zeros(0), np.zeros((size, 0))
    return _ordered(values, vectors, count)


def question_sums(questions: Vectors, firsts: NDArray[np.intp], scale: int) -> Vectors:
    """Return a of the graph: the mean of the unit vectors of each node's questions, times `scale`.

    Questions of node t are rows firsts[t] to firsts[t + 1], at least one. If every node has `scale`
    questions, this is their sum; nodes with fewer weigh the same as others.
    """
    sums = np.add.reduceat(unit_rows(questions).astype(np.float64), firsts[:-1], axis=0)
    return np.asarray(scale * sums / np.diff(firsts)[:, None], np.float32)


def _degrees(questions: Vectors, texts: Vectors) -> Floats:
    """Return the row sums of |W|, every pair computed once, in single precision."""
    left = np.concatenate([questions, texts], axis=1, dtype=np.float32)
    right = np.concatenate([texts, questions], axis=1, dtype=np.float32)
    total = np.zeros(len(texts))
    for start in range(0, len(texts), BLOCK):
        block = left[start : start + BLOCK] @ right[start:].T
        np.abs(block, out=block)
        rows = len(block)
        block[np.arange(rows), np.arange(rows)] = 0.0
        total[start : start + rows] += block.sum(axis=1, dtype=np.float64)
        total[start + rows :] += block[:, rows:].sum(axis=0, dtype=np.float64)
    return total / 2


def _ordered(values: Floats, vectors: Floats, count: int) -> Spectrum:
    order = np.argsort(-np.abs(values), kind="stable")[:count]
    chosen = vectors[:, order]
    largest = chosen.max(axis=0, initial=0.0) >= -chosen.min(axis=0, initial=0.0)
    signs = np.where(largest, 1.0, -1.0)
    return Spectrum(np.asarray(values[order], np.float64), np.asarray(chosen * signs, np.float64))

"""The Hierarchical Weighted DAG of one document, as arrays (GARLIC 3.1, PECAN 3.1).

Nodes are ordered by level, chunks first. `edges` is E: row i holds the share of attention that
point i pays to each node of its window and sums to 1 (chunks have empty rows). `raw` has the same
sparsity and holds the attention before normalisation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hwdag.arrays import Floats
from hwdag.errors import IndexCorrupt, InputError
from hwdag.types import Node, Span

if TYPE_CHECKING:
    import networkx as nx
    from scipy.sparse import csr_array

ROW_SUM_TOLERANCE = 1e-6


@dataclass(frozen=True, eq=False)
class HWDAG:
    """Nodes by level and the weights between them; immutable, safe to share between threads."""

    nodes: tuple[Node, ...]
    edges: csr_array  # (n, n), rows sum to 1
    raw: csr_array  # (n, n), mean attention

    def __repr__(self) -> str:
        return f"HWDAG({len(self.nodes)} nodes, {self.height} levels, {self.edges.nnz} edges)"

    @classmethod
    def from_rows(cls, nodes: Sequence[Node], rows: Sequence[EdgeRow]) -> HWDAG:
        """Build from one `EdgeRow` per node that has out-edges, in any order; raises `InputError`."""
        from scipy.sparse import csr_array  # a fourth of the time of `import hwdag.index`

        n = len(nodes)
        ordered = sorted(rows, key=lambda row: row.parent)
        parents = [row.parent for row in ordered]
        are_nodes = len(set(parents)) == len(parents) and set(parents) <= set(range(n))
        if not are_nodes or not all(len(row.children) for row in rows):
            raise InputError(
                f"{n} nodes need at most one edge row each, with children, got rows of {parents}"
            )
        counts = np.zeros(n, np.int32)
        counts[parents] = [len(row.children) for row in ordered]
        indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
        indices = np.concatenate([np.empty(0), *(row.children for row in ordered)]).astype(np.int32)
        raw = np.concatenate([np.empty(0), *(row.raw for row in ordered)])
        return cls(
            tuple(nodes),
            csr_array((row_shares(raw, indptr), indices, indptr), shape=(n, n)),
            csr_array((raw, indices.copy(), indptr.copy()), shape=(n, n)),
        )

    def __len__(self) -> int:
        return len(self.nodes)

    @cached_property
    def levels(self) -> NDArray[np.int32]:
        """Level of every node, (n,), non-decreasing."""
        return np.array([node.level for node in self.nodes], dtype=np.int32)

    @property
    def _parents(self) -> NDArray[np.intp]:
        """The parent of each edge, (edges,)."""
        return np.repeat(np.arange(len(self)), np.diff(self.edges.indptr))

    @property
    def height(self) -> int:
        """Number of levels."""
        return int(self.levels[-1]) if len(self) else 0

    def at_level(self, level: int) -> NDArray[np.intp]:
        """Return the indices of the nodes of one level."""
        return np.flatnonzero(self.levels == level)

    @property
    def top(self) -> NDArray[np.intp]:
        """Indices of the nodes of the highest level."""
        return self.at_level(self.height)

    def children(self, index: int) -> tuple[NDArray[np.int32], Floats]:
        """Return the out-edges of a node: indices and weights."""
        row = slice(self.edges.indptr[index], self.edges.indptr[index + 1])
        return self.edges.indices[row], self.edges.data[row]

    def check_integrity(self) -> None:
        """Raise `IndexCorrupt` unless every invariant of the graph holds.

        Levels are 1, 2, ... without gaps and in order; edges point exactly one level down, at most
        one from a node to another; every point has out-edges, finite and non-negative, that sum to
        1; every node has text, tokens and sources; ids are unique.
        """
        for problem in self._problems():
            raise IndexCorrupt(f"the graph is not a valid HWDAG: {problem}")

    def _problems(self) -> Iterator[str]:
        """Yield problems lazily: a later check may assume that the earlier ones passed."""
        if len({node.id for node in self.nodes}) != len(self):
            yield "two nodes share an id"
        for node in self.nodes:
            if not node.text.strip() or not 1 <= node.tokens < 2**31 or not node.sources:
                yield f"node {node.id} lacks text, tokens or sources"
        levels = self.levels.tolist()
        if levels[:1] not in ([], [1]) or any(b - a not in (0, 1) for a, b in pairwise(levels)):
            yield "levels are not 1, 2, ... in order"
        yield from self._malformed_arrays()
        yield from self._wrong_edges()

    def _malformed_arrays(self) -> Iterator[str]:
        n, edges, raw = len(self), self.edges, self.raw
        if edges.shape != (n, n) or raw.shape != (n, n):
            yield f"{n} nodes but edges of shape {edges.shape} and {raw.shape}"
        if not (
            np.array_equal(edges.indptr, raw.indptr) and np.array_equal(edges.indices, raw.indices)
        ):
            yield "raw and normalised edges differ in sparsity"
        counts = np.diff(edges.indptr)
        if edges.indptr[0] != 0 or (counts < 0).any() or counts.sum() != len(edges.indices):
            yield "the row pointers of the edges are not ascending"
        if ((edges.indices < 0) | (edges.indices >= n)).any():
            yield "an edge points to a node that does not exist"

    def _wrong_edges(self) -> Iterator[str]:
        data = np.concatenate([self.edges.data, self.raw.data])
        if not np.isfinite(data).all() or (data < 0).any():
            yield "an edge is negative or not finite"
        parents = self._parents
        if (self.levels[parents] - self.levels[self.edges.indices] != 1).any():
            yield "an edge does not point exactly one level down"
        if len(np.unique(parents * len(self) + self.edges.indices)) != len(parents):
            yield "two edges lead from one node to the same other node"
        sums = np.bincount(parents, weights=self.edges.data, minlength=len(self))
        if (np.abs(sums - (self.levels > 1)) > ROW_SUM_TOLERANCE).any():
            yield "the out-edges of a point do not sum to 1, or a chunk has out-edges"

    def to_dict(self, *, least_weight: float = 0.0) -> dict[str, Any]:
        """Return nodes, edges and a layout as JSON-able values.

        Keys: `nodes` (of `Node.to_dict()`), `edges` ([parent, child, weight], by ordinal, none below
        `least_weight`), and `x`, the horizontal place of every node in [0, 1], with levels as layers.
        """
        columns = (self._parents, self.edges.indices, self.edges.data)
        edges = zip(*(column.tolist() for column in columns), strict=True)
        return {
            "nodes": [node.to_dict() for node in self.nodes],
            "edges": [[i, j, weight] for i, j, weight in edges if weight >= least_weight],
            "x": self.places().tolist(),
        }

    def places(self) -> Floats:
        """Return the horizontal place of every node in [0, 1], (n,), as GARLIC Figure 5 draws levels.

        Leaves are in document order, points above the weighted mean of their children, evenly spaced.
        """
        x = np.zeros(len(self))
        for level in range(1, self.height + 1):
            rows = np.asarray(self.at_level(level))
            wanted = np.arange(len(rows)) if level == 1 else self.edges[rows] @ x
            order = np.argsort(wanted, kind="stable")
            x[rows[order]] = (np.arange(len(rows)) + 0.5) / len(rows)
        return x

    def to_networkx(self) -> nx.DiGraph[str]:
        """Return a `networkx.DiGraph` over node ids, for analysis and export.

        Nodes have level, text, origin, tokens and document_id; edges have weight (their share) and
        attention (before normalisation).
        """
        import networkx as nx

        graph: nx.DiGraph[str] = nx.DiGraph()
        for node in self.nodes:
            names = ("level", "text", "origin", "tokens", "document_id")
            graph.add_node(node.id, **{name: getattr(node, name) for name in names})
        edges = zip(self._parents, self.edges.indices, self.edges.data, self.raw.data, strict=True)
        for i, j, weight, raw in edges:
            ends = self.nodes[i].id, self.nodes[j].id
            graph.add_edge(*ends, weight=float(weight), attention=float(raw))
        return graph


@dataclass(frozen=True, slots=True, eq=False)
class EdgeRow:
    """Out-edges of one point: indices of its window's nodes, and the raw attention to each."""

    parent: int
    children: NDArray[np.intp] | NDArray[np.int32]  # (k,)
    raw: Floats  # (k,) mean attention, positive sum


def row_shares(raw: Floats, indptr: NDArray[Any]) -> Floats:
    """Normalise raw attention by the sum of its row (GARLIC 3.1). Raises `InputError` for other numbers."""
    counts = np.diff(indptr)
    with np.errstate(over="ignore", invalid="ignore"):  # refused below
        sums = np.add.reduceat(raw, indptr[:-1][counts > 0]) if len(raw) else raw
    if not ((raw >= 0).all() and (sums > 0).all() and (sums < np.inf).all()):
        raise InputError(
            f"attention of points to their windows sums to {sums.min()} to {sums.max()}, so it cannot be "
            "normalised; a model that overflows in half precision gives such numbers: load it in "
            "bfloat16 or float32"
        )
    return np.asarray(raw / np.repeat(sums, counts[counts > 0]))


def union_of_spans(spans: Sequence[Span]) -> tuple[Span, ...]:
    """Sort spans and merge overlapping or touching ones."""
    merged: list[Span] = []
    for span in sorted(spans):
        if merged and span.start <= merged[-1].end:
            merged[-1] = Span(merged[-1].start, max(merged[-1].end, span.end))
        else:
            merged.append(span)
    return tuple(merged)

"""The graphs of all documents as one graph, for walks. Numbers only, shared by all walks.

A corpus is a snapshot that never changes; documents that come and go make another one, which shares
all arrays that are the same.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hwdag.arrays import Floats, Indices, Ints, Mask, Vectors
from hwdag.corpus.block import Block
from hwdag.corpus.segments import SEGMENT_NODES, Segment, packed, settled
from hwdag.threads import in_threads
from hwdag.types import Node

Fetch = Callable[[Sequence[tuple[int, int]]], Sequence[Node | None]]
"""Nodes by number of the document and position in it; None for one that is gone."""


class Vanished(Exception):
    """A document was deleted while it was being searched; a newer snapshot does not have it."""


@dataclass(frozen=True, eq=False)
class Corpus:
    """Documents in order of number; node indices are global, and `read` is asked for nodes with texts.

    Rows of deleted documents may remain; `alive` masks them.
    """

    read: Fetch
    segments: tuple[Segment, ...] = ()

    def extended(self, blocks: Iterable[Block]) -> Corpus:
        """Add documents, whose numbers ascend and are larger than all that were there."""
        return self.joined(packed(blocks))

    def joined(
        self, segments: Iterable[Segment], keep: Callable[[Segment], Segment] = lambda new: new
    ) -> Corpus:
        """Add the documents of more segments, in order; `keep` may move a new one elsewhere."""
        found = self.segments
        for segment in segments:
            *rest, last = settled((*found, segment))
            found = (*rest, keep(last))
        return Corpus(self.read, found)

    def without(self, numbers: Collection[int]) -> Corpus:
        """Leave out these documents; numbers that are unknown or dead do not matter."""
        removed = np.array(sorted(numbers), np.int64)
        return Corpus(self.read, settled(part.without(removed) for part in self.segments))

    @cached_property
    def _starts(self) -> list[int]:
        """Index of the first node of every segment, and the number of nodes."""
        sizes = [len(segment) for segment in self.segments]
        return [0, *np.cumsum(sizes, dtype=np.int64).tolist()]

    def parts(self) -> Iterator[tuple[int, Segment]]:
        """Yield every segment with the index of its first node."""
        return zip(self._starts, self.segments, strict=False)

    def __len__(self) -> int:
        return self._starts[-1]

    @cached_property
    def numbers(self) -> Sequence[int]:
        """Numbers of the living documents, ascending."""
        return tuple(n for part in self.segments for n in part.numbers[part.alive].tolist())

    @cached_property
    def alive(self) -> Mask | None:
        """Nodes of living documents, (n,); None if nothing is dead."""
        if all(segment.alive.all() for segment in self.segments):
            return None
        return np.concatenate([segment.rows_of(segment.alive) for segment in self.segments])

    def within(self, numbers: Collection[int]) -> Mask:
        """Nodes of these documents, as far as they live, (n,)."""
        wanted = np.array(sorted(numbers), np.int64)
        masks = (
            segment.rows_of(segment.alive & np.isin(segment.numbers, wanted))
            for segment in self.segments
        )
        return np.concatenate([np.empty(0, bool), *masks])

    @cached_property
    def points(self) -> Indices:
        """All nodes that are no leaves, ascending."""
        levels = [segment.levels for segment in self.segments]
        return np.flatnonzero(np.concatenate([np.empty(0, np.intp), *levels]) > 1)

    @cached_property
    def has_points(self) -> bool:
        """Whether there is more than leaves."""
        points = self.points
        return bool(len(points)) if self.alive is None else bool(self.alive[points].any())

    def any_generated(self, indices: Indices) -> bool:
        """Return whether an LM wrote the text of any of these nodes."""
        return any(segment.generated[rows].any() for _, segment, rows in self._divided(indices))

    def fetch(self, indices: Sequence[int]) -> list[Node]:
        """Nodes with their texts, (k,). Raises `Vanished` for one whose document is gone."""
        places = np.array(indices, np.intp)
        numbers, rows = np.empty_like(places), np.empty_like(places)
        for mine, segment, within in self._divided(places):
            documents = segment.first.searchsorted(within, side="right") - 1
            numbers[mine] = segment.numbers[documents]
            rows[mine] = within - segment.first[documents]
        addresses = list(zip(numbers.tolist(), rows.tolist(), strict=True))
        found = list[Node]()
        for (number, _), node in zip(addresses, self.read(addresses), strict=True):
            if node is None:
                raise Vanished(f"document number {number} was deleted")
            found.append(node)
        return found

    def _place(self, index: int) -> tuple[int, Segment, int]:
        """Index of the first node of a node's segment, the segment, and the row within it."""
        at = bisect_right(self._starts, index) - 1
        return self._starts[at], self.segments[at], index - self._starts[at]

    def _divided(self, indices: Indices) -> Iterator[tuple[Indices, Segment, Indices]]:
        """Yield each segment with some of these nodes: which ones, the segment, and their rows in it."""
        if len(self.segments) == 1:
            yield np.arange(len(indices)), self.segments[0], indices
            return
        at = np.searchsorted(self._starts, indices, side="right") - 1
        for ordinal in np.unique(at).tolist():
            mine = np.flatnonzero(at == ordinal)
            yield mine, self.segments[ordinal], indices[mine] - self._starts[ordinal]

    def children(self, index: int) -> tuple[Indices, Floats]:
        """Out-edges of a node: indices and weights."""
        start, segment, row = self._place(index)
        edges = slice(segment.indptr[row], segment.indptr[row + 1])
        first = start + int(segment.first[segment.document_of(row)])
        return first + segment.children[edges].astype(np.intp), segment.weights[edges]

    def similarity(self, query: NDArray[np.float32]) -> Floats:
        """Cosine similarity of every node to a query, clipped at 0, (n,)."""
        each = map if len(self) <= SEGMENT_NODES else in_threads
        found = each(lambda segment: segment.similarity(query), self.segments)
        similarity = np.concatenate([np.empty(0, np.float32), *found])
        return np.asarray(np.maximum(similarity, 0.0), np.float64)

    def vectors(self, indices: Iterable[int]) -> Vectors:
        """Embeddings of some nodes, (k, dimension)."""
        wanted = np.fromiter(indices, np.intp)
        found = np.empty((len(wanted), self.segments[0].vectors.shape[1]), np.float32)
        for mine, segment, rows in self._divided(wanted):
            found[mine] = segment.vectors[rows]
        return found

    def paragraph(self, index: int) -> Indices:
        """Return the leaves of the paragraph that a node begins in, ascending; itself if there are none."""
        start, segment, row = self._place(index)
        number, (first, leaves) = segment.paragraph_of[row], segment.paragraph_leaves
        # why none: a leaf may begin before the paragraph, and be picked from within it
        if number == 0 or first[number] == first[number + 1]:
            return np.array([index])
        return np.asarray(start + leaves[first[number] : first[number + 1]])

    def lengths(self, indices: Indices) -> Ints:
        """Characters of nodes of one document that are slices of it, (k,); 0 for others."""
        start, segment, _ = self._place(int(indices[0]))
        return np.asarray(segment.ends[indices - start] - segment.starts[indices - start])

    def best_in_paragraph(self, values: Floats) -> Floats:
        """Return the highest of these values among the leaves of a node's paragraph, (n,).

        A text that is in no paragraph of its document has its own.
        """
        best = values.copy()
        for start, segment in self.parts():
            mine, paragraph = values[start : start + len(segment)], segment.paragraph_of
            leaves = segment.levels == 1
            peaks = np.zeros(paragraph.max(initial=0) + 1)
            np.maximum.at(peaks, paragraph[leaves], mine[leaves])
            inside = np.flatnonzero(paragraph)
            best[start + inside] = peaks[paragraph[inside]]
        return best

    def distinct(self, indices: Indices) -> Indices:
        """Drop nodes whose span equals that of an earlier node."""
        if not self.has_points:
            return indices
        slices = np.empty((len(indices), 3), np.int64)
        for mine, segment, rows in self._divided(indices):
            document = np.searchsorted(segment.first, rows, side="right") - 1
            slices[mine] = np.stack(
                [segment.numbers[document], segment.starts[rows], segment.ends[rows]], axis=1
            )
        other = slices[:, 1] < 0  # no slice, so like no other node
        slices[other] = np.stack([-1 - indices[other]] * 3, axis=1)
        return indices[np.sort(np.unique(slices, axis=0, return_index=True)[1])]

    def document_of(self, index: int) -> range:
        """Return the nodes of the document of a node."""
        start, segment, row = self._place(index)
        document = segment.document_of(row)
        return range(start + segment.first[document], start + segment.first[document + 1])

    def inside(self, index: int) -> Indices:
        """Return other nodes whose text is a slice of this one's text: reading them too adds nothing."""
        return self._slices(index, np.greater_equal, np.less_equal)

    def copies(self, index: int) -> Indices:
        """Return other nodes with the very same slice: an extractive point that was picked again."""
        return self._slices(index, np.equal, np.equal)

    def _slices(self, index: int, starts: np.ufunc, ends: np.ufunc) -> Indices:
        """Return other slices of the same document with starts and ends so related to those of this one."""
        start, segment, row = self._place(index)
        begin, end = int(segment.starts[row]), int(segment.ends[row])
        if begin < 0:
            return np.empty(0, np.intp)
        document = segment.document_of(row)
        rows = np.arange(segment.first[document], segment.first[document + 1])
        held = starts(segment.starts[rows], begin) & ends(segment.ends[rows], end)
        found = start + rows[held]
        return np.asarray(found[found != index])

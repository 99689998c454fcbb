"""Arrays of many documents one after the other, never changed: a segment, as in Lucene.

New documents make new small segments, and neighbours of about the same size are joined, so that every
node is copied a few times at most. A deleted document is only marked until half of its segment is.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hwdag.arrays import Indices, Ints, Mask
from hwdag.corpus.block import Block, NodeArrays, Postings
from hwdag.errors import IndexCorrupt

SEGMENT_NODES = 1 << 16
"""Nodes of a segment, unless a single document has more; one change copies at most this many."""

GROWTH = 2  # a segment has more than twice the nodes of the next one, or the two are joined


_OF_NODES = ("levels", "generated", "starts", "ends", "paragraphs", "vectors", "lengths")
_OF_EDGES = ("children", "weights")


@dataclass(frozen=True, eq=False, kw_only=True)
class Segment(NodeArrays):
    """Documents in order of number, one row per node.

    `numbers` of the documents ascend, (documents,); `first` is the first row of each, and the number of
    rows, (documents + 1,); `alive` are those not deleted. `mapped` is the file of the arrays, if any.
    """

    numbers: Ints
    first: Ints
    alive: Mask
    mapped: mmap.mmap | None = None

    @classmethod
    def of(cls, block: Block) -> Segment:
        """Return a segment of one document; no array is copied."""
        return cls(
            numbers=np.array([block.number], np.int64),
            first=np.array([0, len(block)], np.int64),
            alive=np.ones(1, bool),
            **{field.name: getattr(block, field.name) for field in fields(NodeArrays)},
        )

    @cached_property
    def living(self) -> int:
        """Number of nodes of living documents."""
        return int(np.diff(self.first)[self.alive].sum())

    @cached_property
    def tops(self) -> Indices:
        """Rows on the highest level of their document."""
        document = np.repeat(np.arange(len(self.numbers)), np.diff(self.first))
        heights = np.zeros(len(self.numbers), np.int32)
        np.maximum.at(heights, document, self.levels)
        return np.flatnonzero(self.levels == heights[document])

    @cached_property
    def paragraph_of(self) -> Indices:
        """The paragraph of every row, counted over all documents from 1; 0 if it is in none."""
        document = np.repeat(np.arange(len(self.numbers)), np.diff(self.first))
        keys = document * (int(self.paragraphs.max(initial=0)) + 1) + self.paragraphs
        inside = self.paragraphs > 0
        found = np.zeros(len(self), np.intp)
        found[inside] = 1 + np.unique(keys[inside], return_inverse=True)[1]
        return found

    @cached_property
    def paragraph_leaves(self) -> tuple[Ints, Indices]:
        """Return the place where each paragraph begins in its rows, (paragraphs + 2,), and the rows of all leaves."""
        leaves = np.flatnonzero(self.levels == 1)
        paragraphs = self.paragraph_of[leaves]
        sizes = np.bincount(paragraphs, minlength=int(self.paragraph_of.max(initial=0)) + 1)
        return _sums(sizes), leaves[np.argsort(paragraphs, kind="stable")]

    def similarity(self, query: NDArray[np.float32]) -> NDArray[np.float32]:
        """Product of every vector and a query, (n,). Raises `IndexCorrupt` for one that is not finite."""
        if self.mapped is not None:
            # twice as fast if it has to come from a disk
            self.mapped.madvise(mmap.MADV_WILLNEED)
        # why einsum: BLAS rounds a row differently, depending on the rows around it
        found = np.einsum("ij,j->i", self.vectors, query)
        if self.mapped is not None:
            if not np.isfinite(found).all():
                raise IndexCorrupt(
                    "an embedding in the arrays of the index is not finite; delete the folder "
                    "NAME.arrays, which is made anew"
                )
            # why: else all vectors stay in the memory of the process; the system has them in its cache
            self.mapped.madvise(mmap.MADV_DONTNEED)
        return np.asarray(found)

    def rows_of(self, documents: Mask) -> Mask:
        """Rows of these documents, (documents,) to (n,)."""
        return np.repeat(documents, np.diff(self.first))

    def document_of(self, row: int) -> int:
        """Ordinal of the document of a row."""
        return int(self.first.searchsorted(row, side="right")) - 1

    def without(self, numbers: Ints) -> Segment:
        """Mark these documents dead; `numbers` are ascending, others in it do not matter."""
        low, high = np.searchsorted(numbers, [self.numbers[0], self.numbers[-1] + 1])
        removed = numbers[low:high]
        at = np.searchsorted(self.numbers, removed)
        at = at[self.numbers[at] == removed] if len(removed) else at
        if not self.alive[at].any():
            return self
        alive = self.alive.copy()
        alive[at] = False
        return replace(self, alive=alive)

    def compacted(self) -> Segment:
        """Return the living documents alone."""
        if self.alive.all():
            return self
        keep = self.rows_of(self.alive)
        fan_out = np.diff(self.indptr)
        edges = np.repeat(keep, fan_out)
        numbers = self.numbers[self.alive]
        return Segment(
            numbers=numbers,
            first=_sums(np.diff(self.first)[self.alive]),
            alive=np.ones(len(numbers), bool),
            indptr=_sums(fan_out[keep]),
            words=self.words.kept(keep),
            names=self.names.kept(keep),
            **{name: getattr(self, name)[keep] for name in _OF_NODES},
            **{name: getattr(self, name)[edges] for name in _OF_EDGES},
        )

    @classmethod
    def joined(cls, segments: Sequence[Segment]) -> Segment:
        """Return the living documents of all of them, in this order; at least one segment."""
        parts = [segment.compacted() for segment in segments]
        if len(parts) == 1:
            return parts[0]
        rows = _sums([len(part) for part in parts])[:-1].tolist()

        def together(name: str) -> NDArray[Any]:
            return np.concatenate([getattr(part, name) for part in parts])

        return cls(
            numbers=together("numbers"),
            first=_sums(np.concatenate([np.diff(part.first) for part in parts])),
            alive=together("alive"),
            mapped=None,
            indptr=_sums(np.concatenate([np.diff(part.indptr) for part in parts])),
            words=Postings.joined([part.words for part in parts], rows),
            names=Postings.joined([part.names for part in parts], rows),
            **{name: together(name) for name in (*_OF_NODES, *_OF_EDGES)},
        )


def packed(blocks: Iterable[Block]) -> Iterator[Segment]:
    """Blocks in their order as full segments and a last one; holds one segment's blocks at most."""
    waiting: list[Segment] = []
    size = 0
    for block in blocks:
        if waiting and size + len(block) > SEGMENT_NODES:
            yield Segment.joined(waiting)
            waiting, size = [], 0
        waiting.append(Segment.of(block))
        size += len(block)
    if waiting:
        yield Segment.joined(waiting)


def settled(segments: Iterable[Segment]) -> tuple[Segment, ...]:
    """Return the same documents in few segments.

    One that is more than half dead is rewritten; neighbours are joined if the left one is not
    larger than `GROWTH` times the right one and they fit into one segment.
    """
    kept: list[Segment] = []
    for segment in segments:
        if not segment.alive.any():
            continue
        kept.append(segment.compacted() if 2 * segment.living < len(segment) else segment)
        while len(kept) > 1:
            left, right = kept[-2].living, kept[-1].living
            if left + right > SEGMENT_NODES or left > GROWTH * right:
                break
            kept[-2:] = [Segment.joined(kept[-2:])]
    return tuple(kept)


def _sums(sizes: Sequence[int] | Ints) -> Ints:
    """Running sums with a 0 before them, (k + 1,)."""
    return np.append(0, np.cumsum(sizes)).astype(np.int64)

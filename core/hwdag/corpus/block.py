"""The arrays that a search needs of one document, so that a million nodes fit into memory.

Texts stay in the store until a node is read. Words are stored as hashes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from hwdag.arrays import Floats, Ints, Vectors
from hwdag.errors import InputError
from hwdag.graph.dag import HWDAG
from hwdag.text.draft import Draft
from hwdag.text.headings import parted, searched_text
from hwdag.text.words import codes, content_words, section_number
from hwdag.types import Node

LONGEST_NAME = 8
"""Most words in a heading that is looked up in texts; longer headings are rarely repeated whole."""


@dataclass(frozen=True, slots=True, eq=False)
class Postings:
    """An inverted index: for each key, the rows that contain it and how often.

    The entries of key i are `indptr[i]:indptr[i + 1]`.
    """

    keys: Ints  # (k,) ascending, unique
    indptr: Ints  # (k + 1,)
    rows: NDArray[np.int32]  # (p,) ascending within a key
    counts: NDArray[np.int32]  # (p,) at least 1

    @classmethod
    def of(cls, found: Iterable[tuple[int, int, int]]) -> Postings:
        """Build from (key, row, count) in any order; each (key, row) at most once."""
        table = np.array(sorted(found), np.int64).reshape(-1, 3)
        keys, rows, counts = table[:, 0], table[:, 1], table[:, 2]
        unique, first = np.unique(keys, return_index=True)
        indptr = np.append(first, len(keys)).astype(np.int64)
        return cls(unique, indptr, rows.astype(np.int32), counts.astype(np.int32))

    @classmethod
    def joined(cls, parts: Sequence[Postings], offsets: Sequence[int]) -> Postings:
        """Concatenate postings; the rows of part i start at `offsets[i]`."""
        keys = np.concatenate([part.keys for part in parts])
        sizes = np.concatenate([np.diff(part.indptr) for part in parts])
        shifts = np.repeat(np.array(offsets, np.int32), [len(part.rows) for part in parts])
        rows = np.concatenate([part.rows for part in parts]) + shifts
        counts = np.concatenate([part.counts for part in parts])
        # stable, to keep the rows of a key in order
        order = np.argsort(keys, kind="stable")
        begin = np.cumsum(sizes) - sizes
        entries = ranges(begin[order], (begin + sizes)[order])
        keys, sizes = keys[order], sizes[order]
        first = np.flatnonzero(np.append(True, keys[1:] != keys[:-1])[: len(keys)])
        indptr = np.append((np.cumsum(sizes) - sizes)[first], len(rows))
        return cls(keys[first], indptr, rows[entries], counts[entries])

    def kept(self, keep: NDArray[np.bool_]) -> Postings:
        """Drop all rows but those marked in `keep`, (n,), and renumber the rest."""
        stays = keep[self.rows]
        ordinal = np.repeat(np.arange(len(self.keys)), np.diff(self.indptr))[stays]
        sizes = np.bincount(ordinal, minlength=len(self.keys))
        left = sizes > 0
        position = np.cumsum(keep, dtype=np.int32) - np.int32(1)
        indptr = np.append(0, np.cumsum(sizes[left])).astype(np.int64)
        rows, counts = position[self.rows[stays]], self.counts[stays]
        return Postings(self.keys[left], indptr, rows, counts)

    def check(self, count: int) -> None:
        """Raise `InputError` unless these are valid postings over `count` rows."""
        keys, indptr, rows = self.keys, self.indptr, self.rows
        is_filled = is_indptr(indptr, len(keys), len(rows)) and bool((np.diff(indptr) > 0).all())
        demand(is_filled and len(rows) == len(self.counts), "its postings")
        demand(bool((keys[1:] > keys[:-1]).all()), "keys out of order in its postings")
        if len(rows):
            in_range = rows.min() >= 0 and rows.max() < count and self.counts.min() >= 1
            demand(bool(in_range), "a node that does not exist in its postings")
            rising = rows[1:] > rows[:-1]
            rising[indptr[1:-1] - 1] = True  # the next key starts here
            demand(bool(rising.all()), "nodes out of order in its postings")

    def find(self, keys: Ints) -> tuple[Ints, Ints]:
        """Return start and end of the entries of each key; an empty range for an unknown key."""
        if not len(self.keys):
            return np.zeros_like(keys), np.zeros_like(keys)
        at = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        known = self.keys[at] == keys
        return np.where(known, self.indptr[at], 0), np.where(known, self.indptr[at + 1], 0)


def demand(holds: bool, what: str) -> None:
    """Raise `InputError(what)` unless the condition holds."""
    if not holds:
        raise InputError(what)


def is_indptr(indptr: NDArray[np.integer], rows: int, entries: int) -> bool:
    """Return whether these are valid row pointers for this number of rows and entries."""
    ends = len(indptr) == rows + 1 and indptr[0] == 0 and indptr[-1] == entries
    return bool(ends and (indptr[1:] >= indptr[:-1]).all())


def ranges(begin: Ints, end: Ints) -> Ints:
    """Return `begin[0], ..., end[0] - 1, begin[1], ...` as one array."""
    sizes = end - begin
    before = np.cumsum(sizes) - sizes
    entries: Ints = np.arange(sizes.sum()) + np.repeat(begin - before, sizes)
    return entries


@dataclass(frozen=True, eq=False, kw_only=True)
class NodeArrays:
    """The arrays of n nodes; never modified.

    Attributes:
        generated: whether an LM wrote the text, (n,).
        starts: start of the node's text in its document, (n,); -1 if the text is not one slice of
            the document, likewise in `ends`.
        paragraphs: number of the paragraph the text starts in, (n,), from 1 per document, or 0.
        indptr: start of each node's edges, (n + 1,).
        children: position of the child within its document, (edges,).
        weights: share of the parent's attention, (edges,).
        vectors: embeddings, (n, dimension).
        lengths: number of content words in the searched text of each node, (n,).
        words: nodes by `word_key` each of their words.
        names: nodes by `word_key` their heading's words, joined by spaces; counts are 1.
    """

    levels: NDArray[np.int32]
    generated: NDArray[np.bool_]
    starts: Ints
    ends: Ints
    paragraphs: NDArray[np.int32]
    indptr: Ints
    children: NDArray[np.int32]
    weights: Floats
    vectors: Vectors
    lengths: NDArray[np.int32]
    words: Postings
    names: Postings

    def __len__(self) -> int:
        return len(self.levels)

    def check(self, first: Ints) -> None:
        """Raise `InputError` for arrays on which a search could fail or never end.

        `first` holds the first row of each document, then the number of rows. Vectors are only
        counted, since they may be in a mapped file.
        """
        count, edges = len(self), len(self.weights)
        columns = (
            self.generated,
            self.starts,
            self.ends,
            self.paragraphs,
            self.lengths,
            self.vectors,
        )
        demand(all(len(column) == count for column in columns), "the number of its nodes")
        demand(is_indptr(first, len(first) - 1, count), "the rows of its documents")
        demand(is_indptr(self.indptr, count, edges), "the row pointers of its edges")
        demand(len(self.children) == edges, "the number of its edges")
        demand(bool((self.levels >= 1).all()), "its levels")
        slices = (self.starts >= -1).all() and (self.starts <= self.ends).all()
        demand(bool(slices), "the slices of nodes")
        demand(bool((self.paragraphs >= 0).all()), "the paragraphs of nodes")
        demand(bool((self.lengths >= 0).all()), "the lengths of nodes")
        demand(bool(((self.weights >= 0) & (self.weights <= 1)).all()), "the weights of its edges")
        sizes, fan_out = np.diff(first), np.diff(self.indptr)
        begin = np.repeat(np.repeat(first[:-1], sizes), fan_out)  # of the parent's document
        inside = self.children < np.repeat(np.repeat(sizes, sizes), fan_out)
        demand(bool((inside & (self.children >= 0)).all()), "a child that does not exist")
        parents = np.repeat(self.levels, fan_out)
        below = parents - self.levels[begin + self.children] == 1
        demand(bool(below.all()), "an edge that does not lead one level down")
        self.words.check(count)
        self.names.check(count)


@dataclass(frozen=True, eq=False, kw_only=True)
class Block(NodeArrays):
    """The arrays of one document; `number` identifies its version in the store."""

    number: int

    @classmethod
    def of(cls, number: int, draft: Draft, graph: HWDAG, vectors: Vectors) -> Block:
        """Build the arrays of a document."""
        sources = [node.sources[0] for node in graph.nodes]
        lengths, words, names = indexed(graph.nodes)
        spans = np.array([verbatim(node) for node in graph.nodes], np.int64).reshape(-1, 2)
        paragraphs = np.array(draft.outline.paragraphs_of(sources), np.int32)
        return cls(
            number=number,
            levels=graph.levels,
            generated=np.array([node.origin == "generated" for node in graph.nodes], bool),
            starts=spans[:, 0].copy(),
            ends=spans[:, 1].copy(),
            paragraphs=np.where(spans[:, 0] < 0, np.int32(0), paragraphs),
            indptr=graph.edges.indptr.astype(np.int64),
            children=graph.edges.indices.astype(np.int32),
            weights=graph.edges.data.astype(np.float64),
            vectors=vectors,
            lengths=lengths,
            words=words,
            names=names,
        )


def indexed(nodes: Sequence[Node]) -> tuple[NDArray[np.int32], Postings, Postings]:
    """Return the length of each node in words, nodes by word, and nodes by heading."""
    texts = map(searched_text, nodes)
    counted = [Counter(content_words(text) + codes(text)) for text in texts]
    lengths = np.array([counter.total() for counter in counted], np.int32)
    for node, counter in zip(nodes, counted, strict=True):
        starts = {section_number(node.text), section_number(parted(node.heading)[1] + " ")}
        counter.update(map(number_word, starts - {""}))
    words = Postings.of(
        (word_key(word), row, count)
        for row, counter in enumerate(counted)
        for word, count in counter.items()
    )
    names = Postings.of(
        (word_key(" ".join(name)), row, 1)
        for row, node in enumerate(nodes)
        # brackets only tell namesakes apart
        if 0 < len(name := content_words(parted(node.heading)[1].partition("(")[0])) <= LONGEST_NAME
    )
    return lengths, words, names


def number_word(number: str) -> str:
    """Return the word by which sections of a number are indexed, which no text has."""
    return f"§{number}"


def verbatim(node: Node) -> tuple[int, int]:
    """Return the node's text as a slice of its document; (-1, -1) if it is not exactly one slice."""
    if node.origin == "generated" or len(node.sources) != 1:
        return -1, -1
    return node.sources[0].start, node.sources[0].end


@lru_cache(maxsize=1 << 16)
def word_key(word: str) -> int:
    """Hash a word to 64 bits, the same on every machine; collisions do not happen in practice."""
    digest = blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)

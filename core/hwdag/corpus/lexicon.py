"""The words of all nodes: BM25 scores, and which nodes a text refers to by the name of a section.

The graph leads down from a point to its sources; evidence for a question with two hops is often
elsewhere, in another section that a visited sentence names or shares its rare words with. These are
terms of the score (ours, beyond the papers), not edges of the graph.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain, groupby, pairwise

import numpy as np

from hwdag.arrays import Floats, Indices, Ints, Mask
from hwdag.corpus.block import LONGEST_NAME, number_word, ranges, word_key
from hwdag.corpus.segments import Segment
from hwdag.text.words import content_words

K1, B = 1.5, 0.75  # saturation of term frequency and weight of the length in BM25

RARE_IN_NODES = 1000
RARE_SHARE = 0.01
"""A word is rare if at most 1000 nodes have it, or 1 %, whichever is more: more frequent words
are uninformative and slow to look up."""

FEW_ROWS = 64
"""If fewer than one row in this many is concerned, the rows are sorted instead of summing all rows: a
third less time for a step among a million nodes."""

_VisibleSegment = tuple[int, Segment, Mask | None]
"""A segment with the index of its first node, and which of its nodes may be seen."""


@dataclass(frozen=True, slots=True, eq=False)
class _Entries:
    """Where the entries of some words begin and end in the postings of every segment."""

    keys: Ints  # (words,) ascending
    begin: Ints  # (segments, words)
    end: Ints  # (segments, words)

    def only(self, which: Mask) -> _Entries:
        return _Entries(self.keys[which], self.begin[:, which], self.end[:, which])


class Lexicon:
    """Words of the nodes that one search may see, `visible`, (n,); None for all.

    Why not a library: those fix document frequencies when they index, but nodes that a filter leaves out
    must not show in anybody's scores, so they are taken from the nodes that may be seen.
    """

    def __init__(self, segments: Sequence[Segment], visible: Mask | None = None) -> None:
        starts = np.cumsum([0, *map(len, segments)]).tolist()
        self._size: int = starts[-1]
        self._parts: list[_VisibleSegment] = [
            (start, segment, None if visible is None else visible[start:stop])
            for segment, (start, stop) in zip(segments, pairwise(starts), strict=True)
        ]
        self._visible = visible
        self._known: dict[int, int] = {}

    def scores(self, query: Collection[str]) -> Floats:
        """BM25 of every node for these words, (n,): Lucene's variant, Robertson & Zaragoza 2009.

        Frequencies and the mean length are those of the visible nodes; others score 0.
        """
        scores = np.zeros(self._size)
        rows, found = self._scored(self._entries(query))
        scores[rows] = found
        return scores

    def rarity(self, words: Collection[str]) -> dict[str, float]:
        """Return how rare each of these words is among the visible nodes: its weight in BM25."""
        entries = self._entries(words)
        known = dict(zip(entries.keys.tolist(), self._rarity(entries).tolist(), strict=True))
        return {word: known[word_key(word)] for word in words}

    def echoes(self, words: Collection[str]) -> tuple[Indices, Floats]:
        """Nodes that have any of these words, ascending, and their BM25 for the rare ones."""
        entries = self._entries(words)
        few = max(RARE_IN_NODES, RARE_SHARE * self._count)
        return self._scored(entries.only(self._frequencies(entries) <= few))

    def numbered(self, numbers: Collection[str]) -> Indices:
        """Visible nodes of sections and clauses that begin with one of these numbers, ascending."""
        return self._scored(self._entries(list(map(number_word, numbers))))[0]

    def named_in(self, text: str, *, but: Collection[str] = ()) -> Indices:
        """Visible nodes under a heading that occurs in `text`, word for word, ascending.

        Headings of the words `but` alone are left out: words of the question itself are no news.
        """
        keys, known = _name_keys(text), set(but)
        runs = (
            run for is_known, run in groupby(content_words(text), known.__contains__) if is_known
        )
        keys = np.setdiff1d(keys, _keys(chain.from_iterable(map(_names, map(list, runs)))), True)
        rows: list[Indices] = [np.empty(0, np.intp)]
        for start, segment, seen in self._parts:
            # a node is under one heading, so none is found twice
            named = np.sort(segment.names.rows[ranges(*segment.names.find(keys))])
            rows.append(start + (named if seen is None else named[seen[named]]).astype(np.intp))
        return np.concatenate(rows)

    @cached_property
    def _count(self) -> int:
        if self._visible is None:
            return self._size
        return int(np.count_nonzero(self._visible))

    @cached_property
    def _words(self) -> int:
        return sum(
            int(segment.lengths.sum(dtype=np.int64, where=True if seen is None else seen))
            for _, segment, seen in self._parts
        )

    def _entries(self, words: Collection[str]) -> _Entries:
        keys = _keys(words)
        found = [segment.words.find(keys) for _, segment, _ in self._parts]
        begin, end = np.array(found, np.int64).reshape(len(found), 2, len(keys)).transpose(1, 0, 2)
        return _Entries(keys, begin, end)

    def _rarity(self, entries: _Entries) -> Floats:
        frequency = self._frequencies(entries)
        return np.asarray(np.log1p((self._count - frequency + 0.5) / (frequency + 0.5)))

    def _frequencies(self, entries: _Entries) -> Ints:
        """Number of visible nodes that have each word, (words,)."""
        if self._visible is None:
            return np.asarray((entries.end - entries.begin).sum(axis=0))
        keys = entries.keys.tolist()
        new = [i for i, key in enumerate(keys) if key not in self._known]
        self._known.update((keys[i], self._count_visible(entries, i)) for i in new)
        return np.array([self._known[key] for key in keys], np.int64)

    def _count_visible(self, entries: _Entries, word: int) -> int:
        return sum(
            int(np.count_nonzero(seen[segment.words.rows[begin:end]]))
            for (_, segment, seen), begin, end in zip(
                self._parts, entries.begin[:, word], entries.end[:, word], strict=True
            )
            if seen is not None and begin < end
        )

    def _scored(self, entries: _Entries) -> tuple[Indices, Floats]:
        """Visible nodes that have any of the words, ascending, and their scores."""
        rows, scores = [np.empty(0, np.intp)], [np.empty(0)]
        if self._words:
            rarity = self._rarity(entries)
            for part, begin, end in zip(self._parts, entries.begin, entries.end, strict=True):
                found, summed = self._scored_in(part, begin, end, rarity)
                rows.append(part[0] + found)
                scores.append(summed)
        return np.concatenate(rows), np.concatenate(scores)

    def _scored_in(
        self, part: _VisibleSegment, begin: Ints, end: Ints, rarity: Floats
    ) -> tuple[Indices, Floats]:
        """Rows of one segment that have any of the words, ascending, and their scores."""
        _, segment, seen = part
        places = ranges(begin, end)
        rows, weights = segment.words.rows[places], np.repeat(rarity, end - begin)
        if seen is not None:
            kept = seen[rows]
            places, rows, weights = places[kept], rows[kept], weights[kept]
        counts, mean = segment.words.counts[places], self._words / self._count
        norm = K1 * (1 - B + B * segment.lengths[rows] / mean)
        scored = weights * counts * (K1 + 1) / (counts + norm)
        if FEW_ROWS * len(rows) < len(segment):
            few, place = np.unique(rows, return_inverse=True)
            return few.astype(np.intp), np.bincount(place, scored).astype(np.float64)
        summed = np.bincount(rows, scored).astype(np.float64)
        found = np.flatnonzero(summed > 0)
        return found, summed[found]


@lru_cache(maxsize=1024)
def _name_keys(text: str) -> Ints:
    """Return the keys of all runs of words of a text that may be a heading, ascending."""
    return _keys(_names(content_words(text)))


def _names(words: Sequence[str]) -> Iterator[str]:
    for length in range(1, LONGEST_NAME + 1):
        yield from (" ".join(words[i : i + length]) for i in range(len(words) - length + 1))


def _keys(words: Iterable[str]) -> Ints:
    """Keys of words, ascending, none twice: sums over them do not depend on their order."""
    return np.array(sorted(set(map(word_key, words))), np.int64)

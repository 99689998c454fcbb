"""The words of all nodes: BM25 scores, and which nodes a text refers to by the name of a section.

The graph leads down from a point to its sources; evidence for a question with two hops lies beside
them, in another section that a visited sentence names or shares its rare words with. These are
terms of the score (ours, beyond the papers), not edges of the graph.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hwdag.text.words import content_words

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]
Mask = NDArray[np.bool_]

K1, B = 1.5, 0.75
"""Saturation of term frequency and weight of the length in BM25."""

LONGEST_NAME = 8
"""Words of a heading that is looked for in texts; longer ones are hardly ever repeated whole."""


class Lexicon:
    """An inverted index, built once per corpus; immutable.

    Why not a library: those fix document frequencies when they index, but what a filter leaves out
    must not show in anybody's scores, so they are taken from the nodes that may be seen.

    Args:
        texts: of the nodes, as they are searched (behind their headings).
        headings: that the nodes stand under, "" for none.
    """

    def __init__(self, texts: Sequence[str], headings: Sequence[str]) -> None:
        self._texts = texts
        self._headings = headings

    def scores(self, query: Collection[str], allowed: Mask | None = None) -> Floats:
        """BM25 of every node for these words, (n,): Lucene's variant, Robertson & Zaragoza 2009.

        Frequencies and the mean length are those of the nodes `allowed`; others score 0.
        """
        lengths, postings = self._index
        scores = np.zeros(len(lengths))
        kept = lengths if allowed is None else lengths[allowed]
        if not kept.sum():
            return scores
        norm = K1 * (1 - B + B * lengths / kept.mean())
        for word in sorted(set(query) & postings.keys()):
            rows, counts = postings[word]
            if allowed is not None:
                rows, counts = rows[allowed[rows]], counts[allowed[rows]]
            rarity = np.log1p((len(kept) - len(rows) + 0.5) / (len(rows) + 0.5))
            scores[rows] += rarity * counts * (K1 + 1) / (counts + norm[rows])
        return scores

    def named_in(self, text: str, *, but: Collection[str] = ()) -> Indices:
        """Nodes under a heading that occurs in `text`, word for word.

        Headings that consist of the words `but` alone are left out: what the question says itself
        is no news.
        """
        found, known = content_words(text), set(but)
        names = {
            tuple(found[i : i + length])
            for length in range(1, LONGEST_NAME + 1)
            for i in range(len(found) - length + 1)
        }
        rows = [self._under[name] for name in names & self._under.keys() if not known >= {*name}]
        return np.unique(np.concatenate(rows)) if rows else np.empty(0, np.intp)

    @cached_property
    def _index(self) -> tuple[Floats, dict[str, tuple[Indices, Floats]]]:
        """Words of every node, (n,), and for every word the nodes that have it and how often."""
        rows: dict[str, list[int]] = {}
        counts: dict[str, list[int]] = {}
        lengths = np.zeros(len(self._texts))
        for i, text in enumerate(self._texts):
            found = Counter(content_words(text))
            lengths[i] = found.total()
            for word, count in found.items():
                rows.setdefault(word, []).append(i)
                counts.setdefault(word, []).append(count)
        return lengths, {
            word: (np.array(rows[word], dtype=np.intp), np.array(counts[word], dtype=np.float64))
            for word in rows
        }

    @cached_property
    def _under(self) -> dict[tuple[str, ...], Indices]:
        """Nodes by the words of their heading; what is in brackets tells namesakes apart."""
        under: dict[tuple[str, ...], list[int]] = {}
        for i, heading in enumerate(self._headings):
            name = tuple(content_words(heading.partition("(")[0]))
            if 0 < len(name) <= LONGEST_NAME:
                under.setdefault(name, []).append(i)
        return {name: np.array(nodes, dtype=np.intp) for name, nodes in under.items()}

"""The nodes of a corpus that one search may see: masked once, with one lexicon."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from hwdag.arrays import Floats, Indices, Mask
from hwdag.corpus.corpus import Corpus
from hwdag.corpus.lexicon import Lexicon


@dataclass(frozen=True, eq=False)
class View:
    """A corpus without deleted documents and without those that a search may not see.

    Attributes:
        corpus: all nodes, whose indices are those of the view.
        visible: the nodes that are seen, (n,); None for all.
    """

    corpus: Corpus
    visible: Mask | None

    @classmethod
    def of(cls, corpus: Corpus, allowed: Mask | None = None) -> Self:
        """View the nodes that are `allowed`, (n,), and alive; all living ones by default."""
        alive = corpus.alive
        if allowed is None or alive is None:
            return cls(corpus, alive if allowed is None else allowed)
        return cls(corpus, np.asarray(allowed & alive))

    def __len__(self) -> int:
        return len(self.corpus)

    @cached_property
    def mask(self) -> Mask:
        """The nodes that are seen, (n,)."""
        return np.ones(len(self.corpus), bool) if self.visible is None else self.visible

    @cached_property
    def lexicon(self) -> Lexicon:
        """The words of the nodes that are seen."""
        return Lexicon(self.corpus.segments, self.visible)

    @cached_property
    def top(self) -> Indices:
        """The highest level of every document, ascending."""
        tops = [start + segment.tops for start, segment in self.corpus.parts()]
        rows = np.concatenate([np.empty(0, np.intp), *tops])
        return np.asarray(rows[self.mask[rows]])

    def in_turn(self) -> tuple[Indices, int]:
        """Return the leaves of all documents, and the number of those documents.

        The first leaf of every document comes first, then the second of every one, and so on.
        """
        found, owners = [np.empty(0, np.intp)], [np.empty(0, np.intp)]
        for start, segment in self.corpus.parts():
            rows = np.flatnonzero(segment.levels == 1)
            rows = rows[self.mask[start + rows]]
            found.append(start + rows)
            owners.append(start + np.searchsorted(segment.first, rows, side="right"))
        leaves = np.concatenate(found)
        _, first, of = np.unique(np.concatenate(owners), return_index=True, return_inverse=True)
        turns = np.arange(len(leaves)) - first[of]
        return leaves[np.argsort(turns, kind="stable")], len(first)

    def values_of(self, values: Floats) -> Floats:
        """Return those of these values, (n,), that belong to nodes that are seen."""
        return values if self.visible is None else values[self.visible]

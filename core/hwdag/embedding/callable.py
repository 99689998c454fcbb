"""Any pair of functions as an embedder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np

from hwdag.arrays import Vectors
from hwdag.embedding.checked import as_rows
from hwdag.embedding.hashing import unit_rows

EmbedTexts = Callable[[list[str]], Sequence[Sequence[float]]]
EmbedQuery = Callable[[str], Sequence[float]]


class CallableEmbedder:
    """Two functions as an Embedder, for passages and for a query; their vectors are normalised.

    The index records the name but cannot load a model by it: pass the embedder to `load` again.
    """

    def __init__(self, embed: EmbedTexts, embed_query: EmbedQuery, *, name: str) -> None:
        self._embed = embed
        self._embed_query = embed_query
        self.name = name

    @cached_property
    def dimension(self) -> int:
        """Length of a vector; calls the function once."""
        return len(self.embed_query(self.name))

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return the unit vectors, (texts, dimension). Raises `InputError` if a vector is missing."""
        if not texts:
            return np.zeros((0, self.dimension), dtype=np.float32)
        return unit_rows(as_rows(self.name, self._embed(list(texts)), len(texts)))

    def embed_query(self, text: str) -> Vectors:
        """Return a unit vector, (dimension,)."""
        vector: Vectors = unit_rows(as_rows(self.name, [self._embed_query(text)], 1))[0]
        return vector

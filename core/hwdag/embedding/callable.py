"""Embedders that are not sentence-transformers: any pair of functions will do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np

from hwdag.arrays import Vectors
from hwdag.embedding.hashing import unit_rows
from hwdag.errors import ModelError

EmbedTexts = Callable[[list[str]], Sequence[Sequence[float]]]
EmbedQuery = Callable[[str], Sequence[float]]


class CallableEmbedder:
    """Two functions as an Embedder: passages to vectors, a query to a vector; both are normalised.

    An index records the name, but nothing can be loaded by it: pass the embedder again to `load`.
    """

    def __init__(self, embed: EmbedTexts, embed_query: EmbedQuery, *, name: str) -> None:
        self._embed = embed
        self._embed_query = embed_query
        self.name = name

    @cached_property
    def dimension(self) -> int:
        """Length of a vector; asks the model once."""
        return len(self.embed_query(self.name))

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors, (texts, dimension). Raises `ModelError` where a vector is missing."""
        if not texts:
            return np.zeros((0, self.dimension), dtype=np.float32)
        vectors = self._embed(list(texts))
        lengths = {len(vector) for vector in vectors}
        if len(vectors) != len(texts) or len(lengths) != 1:
            raise ModelError(
                f"{self.name} made {len(vectors)} vectors of lengths {sorted(lengths)} for "
                f"{len(texts)} texts; it must give one vector per text, all of one length"
            )
        return unit_rows(np.asarray(vectors, dtype=np.float32))

    def embed_query(self, text: str) -> Vectors:
        """A unit vector, (dimension,)."""
        vectors = np.asarray([self._embed_query(text)], dtype=np.float32)
        vector: Vectors = unit_rows(vectors)[0]
        return vector

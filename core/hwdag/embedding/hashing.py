"""A deterministic embedder without a model: hashed bags of words."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np

from hwdag.arrays import Vectors
from hwdag.errors import InputError
from hwdag.text.words import words


class HashingEmbedder:
    """Bag-of-words vectors by feature hashing, the same on every machine and in every run.

    For tests, and if no model is available. Texts are similar if they share words; similarities
    are never negative. A text without words gets the zero vector.
    """

    def __init__(self, dimension: int = 256) -> None:
        if dimension < 1:
            raise InputError(f"an embedding needs at least 1 dimension, got {dimension}")
        self.dimension = dimension
        self.name = f"hashing-{dimension}"  # accepted by `load_embedder`

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return the unit or zero vectors, (texts, dimension)."""
        counts = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for row, text in enumerate(texts):
            np.add.at(counts[row], self._buckets(text), 1.0)
        return unit_rows(counts)

    def embed_query(self, text: str) -> Vectors:
        """Embed a query as a passage, (dimension,)."""
        vector: Vectors = self.embed([text])[0]
        return vector

    def _buckets(self, text: str) -> list[int]:
        # crc32, because Python's hash of a string differs between runs
        return [
            zlib.crc32(word.encode("utf-8", "surrogatepass")) % self.dimension
            for word in words(text)
        ]


def unit_rows(vectors: Vectors) -> Vectors:
    """Divide rows by their lengths and keep zero rows; float32, (n, d) -> (n, d)."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(lengths > 0, lengths, 1.0), dtype=np.float32)

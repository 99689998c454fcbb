"""Embeddings that are computed once, whatever process asks for them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hwdag.arrays import Vectors
from hwdag.embedding.base import Embedder
from hwdag.embedding.checked import embedded
from hwdag.store.calls import CallCache, key_of, vectors_of


class CachedEmbedder:
    """An embedder that embeds no passage twice. Questions are not cached."""

    def __init__(self, embedder: Embedder, cache: CallCache) -> None:
        self._embedder = embedder
        self._cache = cache

    @property
    def name(self) -> str:
        """Name of the embedder."""
        return self._embedder.name

    @property
    def dimension(self) -> int:
        """Dimension of the embedder."""
        return self._embedder.dimension

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return embeddings, (texts, dimension), from the cache if it has them."""
        if not texts:
            return np.zeros((0, self.dimension), np.float32)
        calls, keys = self._cache.fresh(), [key_of("embed", self.name, text) for text in texts]

        def call(missing: list[int]) -> list[dict[str, Vectors]]:
            found = embedded(self._embedder, [texts[i] for i in missing])
            return [{"vectors": vector[None]} for vector in found]

        fits = vectors_of([1] * len(texts), self.dimension)
        rows = calls.results(keys, fits, call, size=len(texts))
        return np.concatenate([row["vectors"] for row in rows])

    def embed_query(self, text: str) -> Vectors:
        """Return the embedding of a question, (dimension,)."""
        return self._embedder.embed_query(text)

"""Embeddings that are computed once, whatever process asks for them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hwdag.arrays import Vectors
from hwdag.building.calls import Calls, Embeddings
from hwdag.embedding.base import Embedder
from hwdag.store.calls import CallCache, key_of


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
        """Embeddings, (texts, dimension), from the cache where it has them."""
        if not texts:
            return np.zeros((0, self.dimension), np.float32)
        calls, keys = Calls(self._cache), [key_of("embed", self.name, text) for text in texts]

        def call(missing: list[int]) -> list[Vectors]:
            return list(self._embedder.embed([texts[i] for i in missing])[:, None])

        rows = calls.results(
            keys,
            Embeddings([1] * len(texts), self.dimension),
            call,
            size=len(texts),
        )
        return np.concatenate(rows)

    def embed_query(self, text: str) -> Vectors:
        """Embedding of a question, (dimension,)."""
        return self._embedder.embed_query(text)

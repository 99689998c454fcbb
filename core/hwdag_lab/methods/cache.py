"""Finished model calls and embeddings in one file: with the documents, all that opens a method again.

retriever = RaptorRetriever.from_documents(documents, cache="calls.sqlite")
retriever = RaptorRetriever.from_documents(documents, cache="calls.sqlite")  # pays no call again

Everything is kept by all that it depends on, so a file never needs to be told what has changed, and
methods may share one. It holds what documents said: who deletes one for good deletes the file too.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hwdag.arrays import Vectors
from hwdag.building.calls import Calls, Embeddings
from hwdag.embedding.base import Embedder
from hwdag.store.calls import CallCache, key_of


class CachedEmbedder:
    """An embedder that embeds no passage twice; questions go to the embedder itself."""

    def __init__(self, embedder: Embedder, cache: CallCache) -> None:
        self._embedder = embedder
        self._cache = cache

    @property
    def name(self) -> str:
        """Of the embedder."""
        return self._embedder.name

    @property
    def dimension(self) -> int:
        """Of the embedder."""
        return self._embedder.dimension

    def embed(self, texts: Sequence[str]) -> Vectors:
        """(texts, dimension); by text and name of the embedder from the cache."""
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
        """(dimension,)."""
        return self._embedder.embed_query(text)

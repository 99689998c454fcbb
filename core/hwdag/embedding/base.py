"""The protocol of an embedding model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from hwdag.arrays import Vectors


@runtime_checkable
class Embedder(Protocol):
    """Maps texts to vectors whose dot product is their similarity, usually of unit length.

    Encoders trained with the inner product (Dragon, DPR) keep their lengths.
    """

    @property
    def name(self) -> str:
        """Name recorded in the index."""

    @property
    def dimension(self) -> int:
        """Length of a vector."""

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Embed passages, (texts, dimension)."""

    def embed_query(self, text: str) -> Vectors:
        """Embed a query, (dimension,); differs from `embed` for two-encoder models."""

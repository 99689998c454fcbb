"""What the core asks of an embedding model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from hwdag.arrays import Vectors


@runtime_checkable
class Embedder(Protocol):
    """Texts to vectors whose dot product is their similarity; of unit length as a rule.

    Encoders that were trained with the inner product (Dragon, DPR) keep their lengths.
    """

    @property
    def name(self) -> str:
        """Recorded in the index."""

    @property
    def dimension(self) -> int:
        """Length of a vector."""

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Passages to vectors, (texts, dimension)."""

    def embed_query(self, text: str) -> Vectors:
        """A query to a vector, (dimension,); differs from `embed` for two-encoder models."""

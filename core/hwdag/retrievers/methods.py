"""The names of the retrievers that can be saved; imports none of them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

METHODS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "bm25": ("hwdag.retrievers.bm25", "BM25Retriever"),
        "dense": ("hwdag.retrievers.dense", "DenseRetriever"),
        "raptor": ("hwdag.retrievers.raptor", "RaptorRetriever"),
        "memwalker": ("hwdag.retrievers.memwalker", "MemWalkerRetriever"),
        "youra": ("hwdag.retrievers.youra", "YouraRetriever"),
        "graphreader": ("hwdag.retrievers.graphreader", "GraphReaderRetriever"),
        "gem-rag": ("hwdag.retrievers.gemrag", "GemRagRetriever"),
    }
)
"""Module and class by method; a module is imported when its method is asked for."""

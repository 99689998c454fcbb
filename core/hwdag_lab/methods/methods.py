"""The names of the retrievers that can be saved; imports none of them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

METHODS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "bm25": ("hwdag_lab.methods.bm25", "BM25Retriever"),
        "dense": ("hwdag_lab.methods.dense", "DenseRetriever"),
        "raptor": ("hwdag_lab.methods.raptor", "RaptorRetriever"),
        "memwalker": ("hwdag_lab.methods.memwalker", "MemWalkerRetriever"),
        "youra": ("hwdag_lab.methods.youra", "YouraRetriever"),
        "graphreader": ("hwdag_lab.methods.graphreader", "GraphReaderRetriever"),
        "gem-rag": ("hwdag_lab.methods.gemrag", "GemRagRetriever"),
    }
)
"""Module and class by method; a module is imported when its method is asked for."""

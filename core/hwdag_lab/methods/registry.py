"""All methods other than HWDAG by name; a module is imported when its method is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from hwdag.checks import one_of

if TYPE_CHECKING:  # why: the command line lists names without importing a method
    from hwdag_lab.methods.document_retriever import DocumentRetriever

METHODS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "bm25": ("bm25", "BM25Retriever"),
        "dense": ("dense", "DenseRetriever"),
        "dos-rag": ("dos_rag", "DosRagRetriever"),
        "linear-rag": ("linear_rag", "LinearRagRetriever"),
        "raptor": ("raptor", "RaptorRetriever"),
        "memwalker": ("memwalker", "MemWalkerRetriever"),
        "graphreader": ("graphreader", "GraphReaderRetriever"),
        "gem-rag": ("gemrag", "GemRagRetriever"),
        "youra": ("youra", "YouraRetriever"),
        "longllmlingua": ("longllmlingua", "LongLLMLinguaRetriever"),
        "truncate-middle": ("truncate_middle", "TruncateMiddleRetriever"),
        "full-context": ("full_context", "FullContextRetriever"),
    }
)
"""Module in this package, and class, by method."""


def retriever_class(method: str) -> type[DocumentRetriever[Any]]:
    """Return the class of a method. Raises `UnknownOption` for an unknown name."""
    module, name = METHODS[one_of("method", method, METHODS)]
    found = getattr(import_module(f"hwdag_lab.methods.{module}"), name)
    return cast("type[DocumentRetriever[Any]]", found)

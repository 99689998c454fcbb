"""RAPTOR: recursive abstractive processing for tree-organized retrieval (arXiv 2401.18059)."""

from __future__ import annotations

from hwdag_lab.methods.raptor.retriever import Mode, RaptorConfig, RaptorRetriever

__all__ = ["Mode", "RaptorConfig", "RaptorRetriever"]

"""RAPTOR: recursive abstractive processing for tree-organized retrieval (arXiv 2401.18059)."""

from __future__ import annotations

from hwdag_lab.methods.raptor.config import RaptorConfig
from hwdag_lab.methods.raptor.retriever import Mode, RaptorRetriever

__all__ = ["Mode", "RaptorConfig", "RaptorRetriever"]

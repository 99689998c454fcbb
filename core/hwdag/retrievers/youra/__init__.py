"""YOURA: the sentences whose attention reacts most to the question (arXiv 2409.13695)."""

from __future__ import annotations

from hwdag.retrievers.youra.config import YouraConfig
from hwdag.retrievers.youra.retriever import YouraRetriever

__all__ = ["YouraConfig", "YouraRetriever"]

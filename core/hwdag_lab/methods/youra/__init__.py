"""YOURA: the sentences whose attention reacts most to the question (arXiv 2409.13695)."""

from __future__ import annotations

from hwdag_lab.methods.youra.retriever import YouraConfig, YouraRetriever

__all__ = ["YouraConfig", "YouraRetriever"]

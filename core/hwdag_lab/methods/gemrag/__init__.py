"""GEM-RAG: graphical eigen memories for retrieval-augmented generation (arXiv 2409.15566)."""

from __future__ import annotations

from hwdag_lab.methods.gemrag.retriever import GemRagConfig, GemRagRetriever

__all__ = ["GemRagConfig", "GemRagRetriever"]

"""GEM-RAG: graphical eigen memories for retrieval-augmented generation (arXiv 2409.15566)."""

from __future__ import annotations

from hwdag_lab.methods.gemrag.config import GemRagConfig, Mode, Themes
from hwdag_lab.methods.gemrag.retriever import GemRagRetriever

__all__ = ["GemRagConfig", "GemRagRetriever", "Mode", "Themes"]

"""LongLLMLingua: the words that the question makes most expected (arXiv 2310.06839)."""

from __future__ import annotations

from hwdag_lab.methods.longllmlingua.retriever import LongLLMLinguaConfig, LongLLMLinguaRetriever

__all__ = ["LongLLMLinguaConfig", "LongLLMLinguaRetriever"]

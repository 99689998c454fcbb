"""MeMWalker: interactive reading of a tree of summaries (arXiv 2310.05029)."""

from __future__ import annotations

from hwdag_lab.methods.memwalker.config import MemWalkerConfig
from hwdag_lab.methods.memwalker.retriever import MemWalkerRetriever

__all__ = ["MemWalkerConfig", "MemWalkerRetriever"]

"""GraphReader: an agent that explores a graph of key elements and facts (arXiv 2406.14550)."""

from __future__ import annotations

from hwdag_lab.methods.graphreader.config import GraphReaderConfig
from hwdag_lab.methods.graphreader.exploration import Exploration, ExploredPath, FunctionCall
from hwdag_lab.methods.graphreader.retriever import GraphReaderRetriever

__all__ = [
    "Exploration",
    "ExploredPath",
    "FunctionCall",
    "GraphReaderConfig",
    "GraphReaderRetriever",
]

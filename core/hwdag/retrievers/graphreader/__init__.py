"""GraphReader: an agent that explores a graph of key elements and facts (arXiv 2406.14550)."""

from __future__ import annotations

from hwdag.retrievers.graphreader.config import GraphReaderConfig
from hwdag.retrievers.graphreader.exploration import Exploration
from hwdag.retrievers.graphreader.retriever import GraphReaderRetriever
from hwdag.retrievers.graphreader.statistics import (
    CallStatistics,
    GraphStatistics,
    call_statistics,
    graph_statistics,
)
from hwdag.retrievers.graphreader.walk import ExploredPath, FunctionCall

__all__ = [
    "CallStatistics",
    "Exploration",
    "ExploredPath",
    "FunctionCall",
    "GraphReaderConfig",
    "GraphReaderRetriever",
    "GraphStatistics",
    "call_statistics",
    "graph_statistics",
]

"""GraphReader: an agent that explores a graph of key elements and facts (arXiv 2406.14550)."""

from __future__ import annotations

from hwdag_lab.methods.graphreader.config import GraphReaderConfig
from hwdag_lab.methods.graphreader.exploration import Exploration
from hwdag_lab.methods.graphreader.retriever import GraphReaderRetriever
from hwdag_lab.methods.graphreader.statistics import (
    CallStatistics,
    GraphStatistics,
    call_statistics,
    graph_statistics,
)
from hwdag_lab.methods.graphreader.walk import ExploredPath, FunctionCall

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

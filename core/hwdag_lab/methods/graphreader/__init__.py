"""GraphReader: an agent that explores a graph of key elements and facts (arXiv 2406.14550)."""

from __future__ import annotations

from hwdag_lab.methods.graphreader.config import GraphReaderConfig
from hwdag_lab.methods.graphreader.counts import (
    CallStatistics,
    GraphStatistics,
    call_statistics,
    graph_statistics,
)
from hwdag_lab.methods.graphreader.exploration import Exploration
from hwdag_lab.methods.graphreader.path import ExploredPath, FunctionCall
from hwdag_lab.methods.graphreader.retriever import GraphReaderRetriever

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

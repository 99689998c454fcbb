"""The names of `llama_index_hwdag`, where LlamaIndex's integrations are looked for."""

from llama_index_hwdag import (
    CoreRetriever,
    HWDAGIndex,
    HWDAGQueryEngine,
    HWDAGReranker,
    HWDAGRetriever,
)

__all__ = ["CoreRetriever", "HWDAGIndex", "HWDAGQueryEngine", "HWDAGReranker", "HWDAGRetriever"]

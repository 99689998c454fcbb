"""hwdag for LlamaIndex: an index, a retriever, a query engine and an LLM.

    index = HWDAGIndex.from_documents(SimpleDirectoryReader("notes").load_data())
    index.as_query_engine(answer_mode="walk").query("Who wrote it?")

`CoreRetriever` wraps every other retriever of the core:

    retriever = CoreRetriever.from_documents(documents, BM25Retriever, k=5)

Importing the package registers the index type for `load_index_from_storage`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

try:
    import llama_index.core  # noqa: F401
except ModuleNotFoundError as error:
    if error.name not in ("llama_index", "llama_index.core"):
        raise
    raise ImportError(
        'llama_index_hwdag needs llama-index-core: pip install "hwdag[llama-index]"'
    ) from error

from llama_index_hwdag.index_struct import HWDAGIndexStruct, register

_LAZY = {
    "CoreRetriever": "llama_index_hwdag.retriever",
    "HWDAGBuildEndEvent": "llama_index_hwdag.events",
    "HWDAGBuildStartEvent": "llama_index_hwdag.events",
    "HWDAGChatEngine": "llama_index_hwdag.chat_engine",
    "HWDAGDocumentEndEvent": "llama_index_hwdag.events",
    "HWDAGDocumentStartEvent": "llama_index_hwdag.events",
    "HWDAGIndex": "llama_index_hwdag.base",
    "HWDAGLLM": "llama_index_hwdag.llm",
    "HWDAGQueryEngine": "llama_index_hwdag.query_engine",
    "HWDAGReranker": "llama_index_hwdag.reranker",
    "HWDAGRetriever": "llama_index_hwdag.retriever",
    "HWDAGStepEvent": "llama_index_hwdag.events",
    "HWDAGWindowEvent": "llama_index_hwdag.events",
}

__all__ = [*sorted(_LAZY), "HWDAGIndexStruct"]

if TYPE_CHECKING:
    from llama_index_hwdag.base import HWDAGIndex as HWDAGIndex
    from llama_index_hwdag.chat_engine import HWDAGChatEngine as HWDAGChatEngine
    from llama_index_hwdag.events import HWDAGBuildEndEvent as HWDAGBuildEndEvent
    from llama_index_hwdag.events import HWDAGBuildStartEvent as HWDAGBuildStartEvent
    from llama_index_hwdag.events import HWDAGDocumentEndEvent as HWDAGDocumentEndEvent
    from llama_index_hwdag.events import HWDAGDocumentStartEvent as HWDAGDocumentStartEvent
    from llama_index_hwdag.events import HWDAGStepEvent as HWDAGStepEvent
    from llama_index_hwdag.events import HWDAGWindowEvent as HWDAGWindowEvent
    from llama_index_hwdag.llm import HWDAGLLM as HWDAGLLM
    from llama_index_hwdag.query_engine import HWDAGQueryEngine as HWDAGQueryEngine
    from llama_index_hwdag.reranker import HWDAGReranker as HWDAGReranker
    from llama_index_hwdag.retriever import CoreRetriever as CoreRetriever
    from llama_index_hwdag.retriever import HWDAGRetriever as HWDAGRetriever

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Load a public name on first use (PEP 562)."""
        if name not in _LAZY:
            msg = f"module {__name__!r} has no attribute {name!r}"
            raise AttributeError(msg)
        return getattr(import_module(_LAZY[name]), name)


def _opened(**options: Any) -> HWDAGIndex:
    """Load an index of this type for LlamaIndex."""
    from llama_index_hwdag.base import HWDAGIndex

    return HWDAGIndex(**options)


register(cast("type[HWDAGIndex]", _opened))

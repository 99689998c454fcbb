"""hwdag for LangChain: an index that is a retriever, and its reader as an LLM.

index = HWDAGIndex.from_documents(documents)
chain = {"context": index | join, "question": RunnablePassthrough()} | prompt | index.as_llm()

`CoreRetriever` wraps every other retriever of the core:

retriever = CoreRetriever.from_documents(documents, BM25Retriever, k=5)

Names are loaded on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

try:
    import langchain_core  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != "langchain_core":
        raise
    raise ImportError(
        'langchain_hwdag needs langchain-core: pip install "hwdag[langchain]"'
    ) from error

_LAZY = {
    "BUILD_EVENT": "langchain_hwdag.events",
    "CoreRetriever": "langchain_hwdag.core_retriever",
    "HWDAGIndex": "langchain_hwdag.index",
    "HWDAGLLM": "langchain_hwdag.llm",
    "HWDAGReranker": "langchain_hwdag.reranker",
    "HWDAGRetriever": "langchain_hwdag.retrievers",
    "STEP_EVENT": "langchain_hwdag.events",
}

__all__ = sorted(_LAZY)

if TYPE_CHECKING:
    from langchain_hwdag.core_retriever import CoreRetriever as CoreRetriever
    from langchain_hwdag.events import BUILD_EVENT as BUILD_EVENT
    from langchain_hwdag.events import STEP_EVENT as STEP_EVENT
    from langchain_hwdag.index import HWDAGIndex as HWDAGIndex
    from langchain_hwdag.llm import HWDAGLLM as HWDAGLLM
    from langchain_hwdag.reranker import HWDAGReranker as HWDAGReranker
    from langchain_hwdag.retrievers import HWDAGRetriever as HWDAGRetriever

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Load a public name on first use (PEP 562)."""
        if name not in _LAZY:
            msg = f"module {__name__!r} has no attribute {name!r}"
            raise AttributeError(msg)
        return getattr(import_module(_LAZY[name]), name)

"""The LlamaIndex face of hwdag: an index, a retriever, a query engine and an LLM.

    index = HWDAGIndex.from_documents(SimpleDirectoryReader("notes").load_data())
    index.as_query_engine(answer_mode="walk").query("Who wrote it?")

Every other retriever of the core is one of LlamaIndex's too:

    retriever = CoreRetriever.from_documents(documents, BM25Retriever, k=5)

Importing it registers the index type, so that `load_index_from_storage` knows it.
"""

from __future__ import annotations

try:
    import llama_index.core  # noqa: F401
except ModuleNotFoundError as error:
    if error.name not in ("llama_index", "llama_index.core"):
        raise
    raise ImportError(
        'llama_index_hwdag needs llama-index-core: pip install "hwdag[llama-index]"'
    ) from error

from llama_index_hwdag.base import HWDAGIndex
from llama_index_hwdag.core_retriever import CoreRetriever
from llama_index_hwdag.llm import HWDAGLLM
from llama_index_hwdag.query_engine import HWDAGQueryEngine
from llama_index_hwdag.retriever import HWDAGRetriever
from llama_index_hwdag.retriever_face import HWDAGStepEvent
from llama_index_hwdag.storage import HWDAGIndexStruct, register

__all__ = [
    "HWDAGLLM",
    "CoreRetriever",
    "HWDAGIndex",
    "HWDAGIndexStruct",
    "HWDAGQueryEngine",
    "HWDAGRetriever",
    "HWDAGStepEvent",
]

register(HWDAGIndex)

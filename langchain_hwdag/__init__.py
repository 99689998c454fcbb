"""The LangChain face of hwdag: an index that is a retriever, and the same weights as an LLM.

index = HWDAGIndex.from_documents(documents)
chain = {"context": index | join, "question": RunnablePassthrough()} | prompt | index.as_llm()

Every other retriever of the core is one of LangChain's too:

retriever = CoreRetriever.from_documents(documents, BM25Retriever, k=5)
"""

from __future__ import annotations

try:
    import langchain_core  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != "langchain_core":
        raise
    raise ImportError(
        'langchain_hwdag needs langchain-core: pip install "hwdag[langchain]"'
    ) from error

from langchain_hwdag.core_retriever import CoreRetriever
from langchain_hwdag.index import HWDAGIndex
from langchain_hwdag.llm import HWDAGLLM
from langchain_hwdag.retriever_face import STEP_EVENT
from langchain_hwdag.retrievers import HWDAGRetriever

__all__ = ["HWDAGLLM", "STEP_EVENT", "CoreRetriever", "HWDAGIndex", "HWDAGRetriever"]

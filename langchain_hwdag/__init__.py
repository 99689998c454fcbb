"""The LangChain face of hwdag: an index that is a retriever, and the same weights as an LLM.

index = HWDAGIndex.from_documents(documents)
chain = {"context": index | join, "question": RunnablePassthrough()} | prompt | index.as_llm()
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

from langchain_hwdag.index import HWDAGIndex
from langchain_hwdag.llm import HWDAGLLM
from langchain_hwdag.retrievers import STEP_EVENT, HWDAGRetriever

__all__ = ["HWDAGLLM", "STEP_EVENT", "HWDAGIndex", "HWDAGRetriever"]

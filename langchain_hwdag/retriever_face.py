"""A search of the core as a LangChain retriever: what all retrievers of this face share."""

from __future__ import annotations

import asyncio
import threading
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from langchain_core.callbacks import (
    AsyncCallbackManagerForRetrieverRun,
    CallbackManagerForRetrieverRun,
    adispatch_custom_event,
    dispatch_custom_event,
)
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableConfig
from pydantic import ConfigDict, InstanceOf, field_validator

from hwdag.config import SearchConfig, checked_k
from hwdag.retrievers.base import Retriever
from hwdag.types import Step
from langchain_hwdag.adapters import node_document, step_event

STEP_EVENT = "hwdag.step"
"""Name of the custom event that every visited node fires."""

OnStep = Callable[[Step], None]


class RetrieverFace(BaseRetriever):
    """Searches with a retriever of the core; the nodes that it reads are the documents.

    Relations: `HWDAGRetriever` walks graphs, `CoreRetriever` takes any retriever of the core; both
    explain the options.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    search: InstanceOf[SearchConfig] | None = None
    k: int | None = None
    document_ids: tuple[str, ...] | None = None
    return_sources: bool = False

    @abstractmethod
    def _core(self) -> Retriever:
        """What searches."""

    @field_validator("search", mode="before")
    @classmethod
    def _options(cls, value: object) -> object:
        return SearchConfig.from_dict(value) if isinstance(value, Mapping) else value

    @field_validator("k", mode="before")
    @classmethod
    def _whole_number(cls, value: int | None) -> int | None:
        return checked_k(value)

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        config: RunnableConfig = {"callbacks": run_manager.get_child()}
        return self._retrieve(
            query,
            k,
            lambda step: dispatch_custom_event(STEP_EVENT, step_event(step), config=config),
        )

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        config: RunnableConfig = {"callbacks": run_manager.get_child()}
        return await _in_thread(
            lambda report: self._retrieve(query, k, report),
            lambda step: adispatch_custom_event(STEP_EVENT, step_event(step), config=config),
        )

    def _retrieve(self, query: str, k: int | None, on_step: OnStep) -> list[Document]:
        core, wanted = self._core(), checked_k(self.k if k is None else k)
        retrieval = core.search(
            query, config=self.search, document_ids=self.document_ids, k=wanted, on_step=on_step
        )
        steps = retrieval.steps if wanted is None else retrieval.best(wanted)
        return [
            node_document(step, retrieval, return_sources=self.return_sources) for step in steps
        ]


def unwrapped(value: object) -> object:
    """The core's retriever of a retriever of this face; anything else as it is."""
    return value._core() if isinstance(value, RetrieverFace) else value


async def _in_thread(
    search: Callable[[OnStep], list[Document]], on_step: Callable[[Step], Awaitable[Any]]
) -> list[Document]:
    """Search in a thread and await `on_step` here, in order, while the search goes on.

    Handlers so run in the caller's task. If that is cancelled, the search ends at its next node.
    """
    loop = asyncio.get_running_loop()
    steps = asyncio.Queue[Step | None]()
    abandoned = threading.Event()

    def report(step: Step) -> None:
        if abandoned.is_set():
            raise asyncio.CancelledError
        loop.call_soon_threadsafe(steps.put_nowait, step)

    searching = asyncio.create_task(asyncio.to_thread(search, report))
    searching.add_done_callback(lambda _: steps.put_nowait(None))
    try:
        while (step := await steps.get()) is not None:
            await on_step(step)
        return await searching
    finally:
        abandoned.set()
        searching.cancel()  # nothing happens if it is done

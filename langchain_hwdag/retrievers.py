"""The walk as a LangChain retriever."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Self

from langchain_core.callbacks import (
    AsyncCallbackManagerForRetrieverRun,
    CallbackManagerForRetrieverRun,
    adispatch_custom_event,
    dispatch_custom_event,
)
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableConfig
from pydantic import ConfigDict, Field, InstanceOf, field_validator

from hwdag.config import BuildConfig, SearchConfig, checked_k
from hwdag.index import HWDAGIndex as CoreIndex
from hwdag.text.prompts import Prompts
from hwdag.types import Step
from langchain_hwdag.adapters import (
    as_core_document,
    as_embedder,
    as_reader,
    as_writer,
    node_document,
    step_event,
)

STEP_EVENT = "hwdag.step"
"""Name of the custom event that every visited node fires."""

OnStep = Callable[[Step], None]


class HWDAGRetriever(BaseRetriever):
    """Walks the graphs of an index for a question; the visited nodes are the documents.

    Without `k` the walk decides how much is enough, and nodes come in visiting order. With `k`
    exactly min(k, available) come, best first. Every document carries its provenance under
    `metadata["hwdag"]`; every visited node is a custom event `hwdag.step` as it happens.

    Relations: `HWDAGIndex` is this plus changes to the index.

    Attributes:
        index: the core index; a `langchain_hwdag.HWDAGIndex` is taken for its core.
        search: budget, progress control, heads; a dict is read as the options of `SearchConfig`.
        k: number of nodes; `invoke(question, k=...)` overrides it for one call.
        document_ids: only these documents are walked; None for all.
        return_sources: give the passages of the original document that a node rests on as the
            text, instead of the node's own.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    index: CoreIndex = Field(exclude=True, repr=False)
    search: InstanceOf[SearchConfig] | None = None
    k: int | None = None
    document_ids: tuple[str, ...] | None = None
    return_sources: bool = False

    @classmethod
    def from_documents(
        cls,
        documents: Iterable[Document],
        *,
        reader: object = None,
        writer: object = None,
        embedder: object = None,
        config: BuildConfig | None = None,
        prompts: Prompts | None = None,
        search: SearchConfig | None = None,
        k: int | None = None,
        path: str | Path | None = None,
        show_progress: bool = False,
    ) -> Self:
        """Build the graphs of whole documents; the core does the chunking.

        Args:
            documents: their ids (or a hash of their content) and metadata are kept; what is blank
                is listed in `index.report.skipped`.
            reader: the local model: a `HuggingFacePipeline` or a `ChatHuggingFace` over one (the
                loaded weights are used), an hwdag `Reader`, a model name, or None for the embedded
                default.
            writer: who writes Information Points: a chat model, an LLM, a chain to text, an hwdag
                `Writer`, a function, or None for the reader itself.
            embedder: LangChain `Embeddings`, an hwdag `Embedder`, a sentence-transformers name, or
                None for the embedded default.
            config: how documents become graphs.
            prompts: replacements for the papers' prompts.
            search: kept for retrieval.
            k: kept for retrieval.
            path: file that every finished document is written to; one that exists is continued.
            show_progress: bars on standard error.
        """
        checked_k(k)  # why: before an expensive build, not after it
        core = CoreIndex.from_documents(
            map(as_core_document, documents),
            reader=as_reader(reader),
            writer=as_writer(writer),
            embedder=as_embedder(embedder),
            config=config,
            prompts=prompts,
            path=path,
            progress=show_progress,
        )
        return cls(index=core, search=search, k=k)

    @field_validator("index", mode="before")
    @classmethod
    def _core(cls, value: object) -> object:
        return value.index if isinstance(value, HWDAGRetriever) else value

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
        wanted = checked_k(self.k if k is None else k)
        before = self.index.documents
        retrieval = self.index.search(
            query, config=self.search, document_ids=self.document_ids, k=wanted, on_step=on_step
        )
        steps = retrieval.steps if wanted is None else retrieval.best(wanted)
        # why: somebody else may delete or insert a document during the walk
        sources = {**self.index.documents, **before}
        return [
            node_document(
                step,
                retrieval,
                sources[step.node.document_id],
                return_sources=self.return_sources,
            )
            for step in steps
        ]


async def _in_thread(
    walk: Callable[[OnStep], list[Document]], on_step: Callable[[Step], Awaitable[Any]]
) -> list[Document]:
    """Walk in a thread and await `on_step` here, in order, while the walk goes on.

    Handlers so run in the caller's task. If that is cancelled, the walk ends at its next node.
    """
    loop = asyncio.get_running_loop()
    steps = asyncio.Queue[Step | None]()
    abandoned = threading.Event()

    def report(step: Step) -> None:
        if abandoned.is_set():
            raise asyncio.CancelledError
        loop.call_soon_threadsafe(steps.put_nowait, step)

    walking = asyncio.create_task(asyncio.to_thread(walk, report))
    walking.add_done_callback(lambda _: steps.put_nowait(None))
    try:
        while (step := await steps.get()) is not None:
            await on_step(step)
        return await walking
    finally:
        abandoned.set()
        walking.cancel()  # nothing happens if it is done

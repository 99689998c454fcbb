"""The walk as a LangChain retriever."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, Self, Unpack

from langchain_core.documents import Document
from langchain_core.load.serializable import SerializedConstructor, SerializedNotImplemented
from pydantic import Field, field_validator

from hwdag.checks import under_one_name
from hwdag.config import BuildConfig, config_with
from hwdag.index import HWDAGIndex as CoreIndex
from hwdag.text.prompts import Prompts
from langchain_hwdag.adapters import as_embedder, as_reader, as_writer
from langchain_hwdag.base_retriever import CoreSearchRetriever, SearchOptions, unwrapped
from langchain_hwdag.documents import as_core_document
from langchain_hwdag.events import build_progress, building


class MakingOptions(SearchOptions, total=False):
    """What `from_documents` takes besides the documents."""

    reader: object
    writer: object
    answerer: object
    embedder: object
    method: str | None
    config: BuildConfig | None
    prompts: Prompts | None
    path: str | Path | None
    show_progress: bool


class HWDAGRetriever(CoreSearchRetriever):
    """Walks the graphs of an index for a question; the visited nodes are the documents.

    Without `k` the walk decides how much is enough, and nodes come in visiting order.

    Relations: `HWDAGIndex` is this plus changes to the index; `CoreRetriever` is the same over any
    other retriever of the core.

    Attributes:
        index: the core index, or the path of its file; a `langchain_hwdag.HWDAGIndex` is taken for
            its core. Over a file `dumps` and pickling keep the path, which `loads` opens with the
            models that the file names; over an index in memory both are refused.
    """

    index: CoreIndex = Field(exclude=True, repr=False)

    @classmethod
    def from_documents(
        cls,
        documents: Iterable[Document],
        embedding: object = None,
        *,
        reader: object = None,
        writer: object = None,
        answerer: object = None,
        embedder: object = None,
        method: str | None = None,
        config: BuildConfig | None = None,
        prompts: Prompts | None = None,
        path: str | Path | None = None,
        show_progress: bool = False,
        **search: Unpack[SearchOptions],
    ) -> Self:
        """Build the graphs of whole documents; the core does the chunking.

        Args:
            documents: their ids (or a hash of their content) and metadata are kept; what is blank
                is listed in `report.skipped`.
            embedding: what vector stores call `embedder`.
            reader: the local model: a `HuggingFacePipeline` or a `ChatHuggingFace` over one (the
                loaded weights are used), an hwdag `Reader`, a model name, or None for the embedded
                default.
            writer: who writes Information Points: a chat model, an LLM, a chain to text, an hwdag
                `Writer`, a function, or None for the reader itself. LangChain's models are asked
                one prompt at a time, with `model.with_config(max_concurrency=8)` eight.
            answerer: who answers in `index.answer`: the same kinds; None for the reader.
            embedder: LangChain `Embeddings`, an hwdag `Embedder`, a sentence-transformers name, or
                None for the embedded default.
            method: that of the config, for short (`hwdag.BuildConfig`).
            config: how documents become graphs.
            prompts: replacements for the papers' prompts.
            path: file that every finished call is written to; one that exists is continued.
            show_progress: bars on standard error.
            search: kept for retrieval; see `CoreSearchRetriever`.
        """
        made: Self = cls(index=CoreIndex(), **search)  # type: ignore[arg-type]  # pydantic makes tuples
        found = [as_core_document(document) for document in documents]
        made.index = CoreIndex.from_documents(
            found,
            reader=as_reader(reader),
            writer=as_writer(writer),
            answerer=as_writer(answerer),
            embedder=as_embedder(under_one_name(embedder=embedder, embedding=embedding)),
            config=config_with(config, method),
            prompts=prompts,
            path=path,
            show_progress=build_progress([document.id for document in found], show_progress),
        )
        made._report = made.index.report
        return made

    @classmethod
    async def afrom_documents(
        cls,
        documents: Iterable[Document],
        embedding: object = None,
        **options: Unpack[MakingOptions],
    ) -> Self:
        """`from_documents` in a thread; a task that is cancelled ends the build, not what is done."""
        return await building(partial(cls.from_documents, documents, embedding, **options))

    @field_validator("index", mode="before")
    @classmethod
    def _of_the_core(cls, value: object) -> object:
        return CoreIndex.load(value) if isinstance(value, str | Path) else unwrapped(value)

    @property
    def core(self) -> CoreIndex:
        """The index without a framework: graphs, `search`, `answer`, `save` to one file."""
        return self.index

    @classmethod
    def is_lc_serializable(cls) -> bool:
        """Yes; see `to_json` for what is not."""
        return True

    @property
    def lc_attributes(self) -> dict[str, Any]:
        """The arguments that `dumps` writes as JSON."""
        found: dict[str, Any] = {"index": str(self.index.path)}
        if self.search is not None:
            found["search"] = asdict(self.search)
        return found

    def to_json(self) -> SerializedConstructor | SerializedNotImplemented:
        """What LangChain's `dumps` writes; an index in memory is marked as what `loads` refuses."""
        return self.to_json_not_implemented() if self.index.path is None else super().to_json()

"""The walk as a LangChain retriever."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Self

from langchain_core.documents import Document
from pydantic import Field, field_validator

from hwdag.config import BuildConfig, SearchConfig, checked_k
from hwdag.index import HWDAGIndex as CoreIndex
from hwdag.text.prompts import Prompts
from langchain_hwdag.adapters import as_core_document, as_embedder, as_reader, as_writer
from langchain_hwdag.retriever_face import RetrieverFace, unwrapped


class HWDAGRetriever(RetrieverFace):
    """Walks the graphs of an index for a question; the visited nodes are the documents.

    Without `k` the walk decides how much is enough, and nodes come in visiting order. With `k`
    exactly min(k, available) come, best first. Every document carries its provenance under
    `metadata["hwdag"]`; every visited node is a custom event `hwdag.step` as it happens.

    Relations: `HWDAGIndex` is this plus changes to the index; `CoreRetriever` is the same over any
    other retriever of the core.

    Attributes:
        index: the core index; a `langchain_hwdag.HWDAGIndex` is taken for its core.
        search: budget, progress control, heads; a dict is read as the options of `SearchConfig`.
        k: number of nodes; `invoke(question, k=...)` overrides it for one call.
        document_ids: only these documents are walked; None for all.
        return_sources: give the passages of the original document that a node rests on as the
            text, instead of the node's own.
    """

    index: CoreIndex = Field(exclude=True, repr=False)

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
    def _of_the_core(cls, value: object) -> object:
        return unwrapped(value)

    def _core(self) -> CoreIndex:
        return self.index

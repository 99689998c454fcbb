"""Any retriever of the core as a LangChain retriever."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, Self

from langchain_core.documents import Document
from pydantic import Field, field_validator

from hwdag.config import SearchConfig
from hwdag.retriever import Retriever, finished, make_retriever
from hwdag.search.passages import Returns
from langchain_hwdag.adapters import MODELS, as_core_document
from langchain_hwdag.base_retriever import CoreSearchRetriever, Filters, unwrapped
from langchain_hwdag.events import build_progress, building


class CoreRetriever(CoreSearchRetriever):
    """Searches with any retriever of the core: BM25, dense, RAPTOR, MeMWalker, HWDAG itself.

    Without `k` come the nodes that fit into the token budget, in the order in which the reader
    reads them. With `k` exactly min(k, available) come, best first. Every document carries its
    provenance under `metadata["hwdag"]`; every node that is read is a custom event `hwdag.step`.

    Relations: `HWDAGRetriever` is the same over `hwdag.HWDAGIndex`, and has its options of building.

    Attributes:
        retriever: anything that satisfies `hwdag.retriever.Retriever`; a retriever of this
            package is taken for the core's one in it.
        search: token budget and heads; a dict is read as the options of `SearchConfig`.
        k: number of nodes; as the following three also an option of `invoke`.
        document_ids: only these documents are searched; None for all.
        filters: only documents whose metadata match are searched: a filter of
            `hwdag.filters`, such as `{"lang": "de"}`.
        returns: "nodes" as they were read; "sources", with what a node rests on in the original
            document as its text, one per line; or "passages", the whole paragraphs that these are
            in, each once.
    """

    retriever: Retriever = Field(exclude=True, repr=False)

    @classmethod
    def from_documents(
        cls,
        documents: Iterable[Document],
        retriever: str | type[Retriever] | Retriever,
        *,
        search: SearchConfig | None = None,
        k: int | None = None,
        document_ids: Iterable[str] | None = None,
        filters: Filters = None,
        returns: Returns = "nodes",
        show_progress: bool = False,
        **options: Any,
    ) -> Self:
        """Insert documents into a retriever of the core.

        Args:
            documents: their ids (or a hash of their content) and metadata are kept; what is blank
                is listed in `report.skipped`.
            retriever: the name of a method ("raptor") or a class, which is made with `options`, or
                a finished one, which keeps the documents that it holds.
            search: see the class, as the following.
            k: number of nodes.
            document_ids: only these documents.
            filters: only documents whose metadata match.
            returns: nodes, or what they rest on.
            show_progress: bars on standard error.
            options: arguments of the class; as `reader`, `writer` and `embedder` also LangChain's
                models, as in `HWDAGRetriever.from_documents`.

        Raises:
            InputError: an id is taken by a document with other content.
            UnknownOption: a finished retriever and `options`.
            TypeError: the class has no such option.
        """
        if isinstance(retriever, str):
            from hwdag_lab.methods.registry import (
                retriever_class,  # why here: nothing else needs it
            )

            retriever = retriever_class(retriever)
        wrapped = cls(
            retriever=make_retriever(unwrapped(retriever), options, MODELS),
            search=search,
            k=k,
            document_ids=document_ids,  # type: ignore[arg-type]  # pydantic makes it a tuple
            filters=filters,
            returns=returns,
        )
        found = [as_core_document(document) for document in documents]
        progress = build_progress([document.id for document in found], show_progress)
        wrapped._report = wrapped.retriever.insert(found, show_progress=progress)
        return wrapped

    @classmethod
    async def afrom_documents(
        cls,
        documents: Iterable[Document],
        retriever: str | type[Retriever] | Retriever,
        **options: Any,
    ) -> Self:
        """`from_documents` in a thread; a task that is cancelled ends the build, not what is done."""
        return await building(partial(cls.from_documents, documents, retriever, **options))

    @field_validator("retriever", mode="before")
    @classmethod
    def _of_the_core(cls, value: object) -> Retriever:
        return finished(unwrapped(value))

    @property
    def core(self) -> Retriever:
        """The retriever without a framework: `search`, `answer`, `insert`, `delete`."""
        return self.retriever

"""Any retriever of the core as a LangChain retriever."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, Self

from langchain_core.documents import Document
from pydantic import Field, field_validator

from hwdag.retriever import Retriever, finished, make_retriever
from langchain_hwdag.adapters import MODELS
from langchain_hwdag.base_retriever import CoreSearchRetriever, SearchOptions, unwrapped
from langchain_hwdag.documents import as_core_document
from langchain_hwdag.events import build_progress, building


class CoreRetriever(CoreSearchRetriever):
    """Searches with any retriever of the core: BM25, dense, RAPTOR, MeMWalker, HWDAG itself.

    Relations: `HWDAGRetriever` is the same over `hwdag.HWDAGIndex`, and has its options of building.

    Attributes:
        retriever: anything that satisfies `hwdag.retriever.Retriever`; a retriever of this
            package is taken for the core's one in it.
    """

    retriever: Retriever = Field(exclude=True, repr=False)

    @classmethod
    def from_documents(
        cls,
        documents: Iterable[Document],
        retriever: str | type[Retriever] | Retriever,
        *,
        show_progress: bool = False,
        **options: Any,
    ) -> Self:
        """Insert documents into a retriever of the core.

        Args:
            documents: their ids (or a hash of their content) and metadata are kept; what is blank
                is listed in `report.skipped`.
            retriever: the name of a method of `hwdag_lab` ("raptor") or a class, which is made with
                `options`, or a finished one, which keeps the documents that it holds.
            show_progress: bars on standard error.
            options: how to search, as the fields, and arguments of the class; as `reader`, `writer` and
                `embedder` also LangChain's models, as in `HWDAGRetriever.from_documents`.

        Raises:
            InputError: an id is taken by a document with other content.
            UnknownOption: a finished retriever and arguments of a class.
            TypeError: the class has no such option.
        """
        ours = {k: v for k, v in options.items() if k in SearchOptions.__annotations__}
        theirs = {k: v for k, v in options.items() if k not in ours}
        if isinstance(retriever, str):
            # why here: nothing else needs the lab
            from hwdag_lab.methods.registry import retriever_class

            retriever = retriever_class(retriever)
        wrapped = cls(retriever=make_retriever(unwrapped(retriever), theirs, MODELS), **ours)
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

"""Any retriever of the core as a LangChain retriever."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, Self

from langchain_core.documents import Document
from pydantic import Field, field_validator

from hwdag.methods import retriever_class
from hwdag.retriever import Retriever, finished, make_retriever
from langchain_hwdag.adapters import MODELS
from langchain_hwdag.base_retriever import CoreSearchRetriever, SearchOptions, unwrapped
from langchain_hwdag.documents import as_core_document
from langchain_hwdag.events import build_progress, building


class CoreRetriever(CoreSearchRetriever):
    """Searches with any retriever of the core: BM25, dense, RAPTOR, MeMWalker, HWDAG itself.

    Relations: `HWDAGRetriever` wraps an `hwdag.HWDAGIndex`, and takes its options of building.

    Attributes:
        retriever: anything that satisfies `hwdag.retriever.Retriever`, or a retriever of this package.
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
            documents: their ids (or a hash of their content) and metadata are kept; blank ones are
                listed in `report.skipped`.
            retriever: the name of a method of `hwdag_lab` ("raptor"), a class, or a finished
                retriever, which keeps the documents that it holds.
            show_progress: bars on standard error.
            options: the fields of this class, and arguments of the retriever's class. `reader`,
                `writer` and `embedder` may be LangChain's models (`MakingOptions`).

        Raises:
            InputError: another document has the same id.
            UnknownOption: arguments of a class with a finished retriever.
            TypeError: the class has no such option.
        """
        ours = {k: v for k, v in options.items() if k in SearchOptions.__annotations__}
        theirs = {k: v for k, v in options.items() if k not in ours}
        if isinstance(retriever, str):
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
        """Run `from_documents` in a thread; cancelling the task ends the build, and keeps what is finished."""
        return await building(partial(cls.from_documents, documents, retriever, **options))

    @field_validator("retriever", mode="before")
    @classmethod
    def _of_the_core(cls, value: object) -> Retriever:
        return finished(unwrapped(value))

    @property
    def core(self) -> Retriever:
        """The retriever of the core: `search`, `answer`, `insert`, `delete`."""
        return self.retriever

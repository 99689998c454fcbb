"""Any retriever of the core as a LangChain retriever."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

from langchain_core.documents import Document
from pydantic import Field, PrivateAttr, field_validator

from hwdag.build.report import BuildReport
from hwdag.config import SearchConfig
from hwdag.retrievers.base import Retriever
from hwdag.retrievers.given import as_core_retriever, made_retriever
from langchain_hwdag.adapters import MODELS, as_core_document
from langchain_hwdag.retriever_face import RetrieverFace, unwrapped


class CoreRetriever(RetrieverFace):
    """Searches with any retriever of the core: BM25, dense, RAPTOR, MeMWalker, HWDAG itself.

    Without `k` come the nodes that fit into the token budget, in the order in which the reader
    reads them. With `k` exactly min(k, available) come, best first. Every document carries its
    provenance under `metadata["hwdag"]`; every node that is read is a custom event `hwdag.step`.

    Relations: `HWDAGRetriever` is the same over `hwdag.HWDAGIndex`, and has its options of building.

    Attributes:
        retriever: anything that satisfies `hwdag.retrievers.base.Retriever`; a retriever of this
            face is taken for the core's one in it.
        search: token budget and heads; a dict is read as the options of `SearchConfig`.
        k: number of nodes; `invoke(question, k=...)` overrides it for one call.
        document_ids: only these documents are searched; None for all.
        return_sources: give the passages of the original document that a node rests on as the
            text, instead of the node's own.
    """

    retriever: Retriever = Field(exclude=True, repr=False)

    _report: BuildReport | None = PrivateAttr(default=None)

    @classmethod
    def from_documents(
        cls,
        documents: Iterable[Document],
        retriever: type[Retriever] | Retriever,
        *,
        search: SearchConfig | None = None,
        k: int | None = None,
        document_ids: Iterable[str] | None = None,
        return_sources: bool = False,
        show_progress: bool = False,
        **options: Any,
    ) -> Self:
        """Insert documents into a retriever of the core.

        Args:
            documents: their ids (or a hash of their content) and metadata are kept; what is blank
                is listed in `report.skipped`.
            retriever: a class, which is made with `options`, or a finished one, which keeps the
                documents that it holds.
            search: see the class, as the following.
            k: number of nodes.
            document_ids: only these documents.
            return_sources: original passages as text.
            show_progress: bars on standard error.
            options: arguments of the class; as `reader`, `writer` and `embedder` also LangChain's
                models, as in `HWDAGRetriever.from_documents`.

        Raises:
            InputError: an id is taken by a document with other content.
            UnknownOption: a finished retriever and `options`.
            TypeError: the class has no such option.
        """
        face = cls(
            retriever=made_retriever(unwrapped(retriever), options, MODELS),
            search=search,
            k=k,
            document_ids=None if document_ids is None else tuple(document_ids),
            return_sources=return_sources,
        )
        face._report = face.retriever.insert(
            map(as_core_document, documents), progress=show_progress
        )
        return face

    @property
    def report(self) -> BuildReport | None:
        """What `from_documents` did: documents skipped, cost."""
        return self._report

    @field_validator("retriever", mode="before")
    @classmethod
    def _of_the_core(cls, value: object) -> Retriever:
        return as_core_retriever(unwrapped(value))

    def _core(self) -> Retriever:
        return self.retriever

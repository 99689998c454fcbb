"""The index as LangChain's `DocumentIndex`: a retriever that documents can be put into."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from langchain_core.documents import Document
from langchain_core.indexing import DeleteResponse, UpsertResponse
from langchain_core.indexing.base import DocumentIndex

from hwdag.config import BuildConfig, SearchConfig, checked_k, refuse
from hwdag.errors import InputError
from hwdag.index import HWDAGIndex as CoreIndex
from hwdag.lm.base import Writer
from hwdag.text.prompts import Prompts
from langchain_hwdag.adapters import (
    as_core_document,
    as_embedder,
    as_langchain_document,
    as_reader,
    as_writer,
)
from langchain_hwdag.llm import DEFAULT_NEW_TOKENS, HWDAGLLM
from langchain_hwdag.retrievers import HWDAGRetriever

FILE_NAME = "index.hwdag"
"""The one file in a folder of `save_local`."""


class HWDAGIndex(HWDAGRetriever, DocumentIndex):
    """Graphs of whole documents; a retriever over them, and the target of `indexing.index`.

    `index(docs, record_manager, target, cleanup="incremental", source_id_key="source",
    key_encoder="sha256")` builds graphs of new documents only.

    Relations: a thin face on `hwdag.HWDAGIndex`, which is the attribute `index`.
    """

    # why: pydantic merges the configs of all bases, and that of DocumentIndex ignores extra names
    model_config = HWDAGRetriever.model_config

    @classmethod
    def from_texts(
        cls,
        texts: Iterable[str],
        metadatas: Iterable[Mapping[str, Any]] | None = None,
        ids: Iterable[str] | None = None,
        **options: Any,
    ) -> Self:
        """Build from plain texts; `options` are those of `from_documents`.

        Raises:
            InputError: not one metadata and one id per text.
        """
        listed = list(texts)
        with_metadata = [{} for _ in listed] if metadatas is None else list(metadatas)
        with_ids = [None for _ in listed] if ids is None else list(ids)
        if not len(listed) == len(with_metadata) == len(with_ids):
            raise InputError(
                f"{len(listed)} texts need as many metadatas and ids, got {len(with_metadata)} and "
                f"{len(with_ids)}; leave out what you do not have"
            )
        documents = [
            Document(id=identity, page_content=text, metadata=dict(metadata))
            for text, metadata, identity in zip(listed, with_metadata, with_ids, strict=True)
        ]
        return cls.from_documents(documents, **options)

    def upsert(
        self, items: Sequence[Document], /, *, show_progress: bool = False, **unknown: Any
    ) -> UpsertResponse:
        """Build what is new or changed; the same content under the same id costs nothing.

        Blank documents cannot be indexed: their ids are under `failed`.
        """
        refuse(unknown, "upsert", "show_progress")
        documents = [as_core_document(item) for item in items]
        report = self.index.refresh(documents, progress=show_progress)
        skipped = {identity for identity, _ in report.skipped}
        return UpsertResponse(
            succeeded=[document.id for document in documents if document.id not in skipped],
            failed=[document.id for document in documents if document.id in skipped],
        )

    def add_documents(
        self, documents: Iterable[Document], *, show_progress: bool = False
    ) -> list[str]:
        """`upsert`, as vector stores call it; returns the ids that are in the index now."""
        return self.upsert(list(documents), show_progress=show_progress)["succeeded"]

    def delete(self, ids: list[str] | None = None, **unknown: Any) -> DeleteResponse:
        """Remove documents with their graphs; ids that are not there are no failure.

        Raises:
            InputError: no list of ids was given.
        """
        refuse(unknown, "delete", "ids")
        if ids is None:
            raise InputError("delete needs ids; to remove everything pass the ids of all documents")
        present = self.index.documents
        found = [identity for identity in dict.fromkeys(ids) if identity in present]
        for identity in found:
            self.index.delete(identity)
        return DeleteResponse(num_deleted=len(found), succeeded=found, num_failed=0, failed=[])

    def get(self, ids: Sequence[str], /, **unknown: Any) -> list[Document]:
        """Whole documents by id, in the order of `ids`; those that are not there are left out."""
        refuse(unknown, "get", "ids")
        documents = self.index.documents
        return [
            as_langchain_document(documents[identity])
            for identity in dict.fromkeys(ids)
            if identity in documents
        ]

    def as_retriever(
        self,
        *,
        search: SearchConfig | None = None,
        k: int | None = None,
        document_ids: Iterable[str] | None = None,
        return_sources: bool = False,
    ) -> HWDAGRetriever:
        """A retriever over this index, which sees later changes; None takes the index's own value.

        Args:
            search: see `HWDAGRetriever`, as all others.
            k: number of nodes.
            document_ids: only these documents.
            return_sources: original passages as text.
        """
        return HWDAGRetriever(
            index=self.index,
            search=self.search if search is None else search,
            k=self.k if k is None else k,
            document_ids=self.document_ids if document_ids is None else tuple(document_ids),
            return_sources=return_sources or self.return_sources,
        )

    def as_llm(self, *, max_new_tokens: int = DEFAULT_NEW_TOKENS) -> HWDAGLLM:
        """The reader's weights as a LangChain LLM.

        Raises:
            InputError: the reader reads only (every `hwdag.HuggingFaceLM` also writes).
        """
        reader = self.index.reader
        if not isinstance(reader, Writer):
            raise InputError(
                f"the reader {reader.name} cannot write; use another LangChain model in the chain"
            )
        return HWDAGLLM(reader=reader, max_new_tokens=max_new_tokens)

    def save_local(self, folder: str | Path) -> None:
        """Write the index as `index.hwdag` into a folder, in place of one that is there."""
        target = Path(folder) / FILE_NAME
        target.parent.mkdir(parents=True, exist_ok=True)
        unfinished = target.with_suffix(".saving")
        unfinished.unlink(missing_ok=True)
        self.index.save(unfinished)
        unfinished.replace(target)

    @classmethod
    def load_local(
        cls,
        folder: str | Path,
        *,
        reader: object = None,
        writer: object = None,
        embedder: object = None,
        config: BuildConfig | None = None,
        prompts: Prompts | None = None,
        search: SearchConfig | None = None,
        k: int | None = None,
    ) -> Self:
        """Open what `save_local` wrote; changes to the index are written to the file.

        Models are those that the file names, unless given, and are loaded on first use. LangChain
        `Embeddings` cannot be loaded by a name: give those that the index was built with. Arguments
        are as in `from_documents`, errors as in `hwdag.HWDAGIndex.load`.
        """
        checked_k(k)
        core = CoreIndex.load(
            Path(folder) / FILE_NAME,
            reader=as_reader(reader),
            writer=as_writer(writer),
            embedder=as_embedder(embedder),
            config=config,
            prompts=prompts,
        )
        return cls(index=core, search=search, k=k)

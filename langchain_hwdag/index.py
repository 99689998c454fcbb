"""The index as LangChain's `DocumentIndex`: a retriever that documents can be put into."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self, Unpack

from langchain_core.documents import Document
from langchain_core.indexing import DeleteResponse, UpsertResponse
from langchain_core.indexing.base import DocumentIndex

from hwdag.checks import refuse, under_one_name
from hwdag.config import REPLY_TOKENS, BuildConfig
from hwdag.errors import InputError, UnknownOption
from hwdag.filters import Filter
from hwdag.index import HWDAGIndex as CoreIndex
from hwdag.text.prompts import Prompts
from langchain_hwdag.adapters import as_embedder, as_reader, as_writer
from langchain_hwdag.base_retriever import SearchOptions
from langchain_hwdag.documents import (
    as_core_document,
    as_documents,
    as_langchain_document,
    with_ids,
)
from langchain_hwdag.events import build_progress, building
from langchain_hwdag.llm import HWDAGLLM
from langchain_hwdag.retrievers import HWDAGRetriever, MakingOptions

FILTERS = {"filter": "filters"}
"""Names of vector stores, and ours."""

FILE_NAME = "index.hwdag"
"""The one file in a folder of `save_local`."""


class HWDAGIndex(HWDAGRetriever, DocumentIndex):
    """Graphs of whole documents; a retriever over them, and the target of `indexing.index`.

    `index(docs, record_manager, target, cleanup="incremental", source_id_key="source",
    key_encoder="sha256")` builds graphs of new documents only.

    Relations: a thin layer over `hwdag.HWDAGIndex`, which is the attribute `index`.
    """

    # why: pydantic merges the configs of all bases, and that of DocumentIndex ignores extra names
    model_config = HWDAGRetriever.model_config

    @classmethod
    def from_texts(
        cls,
        texts: Iterable[str],
        embedding: object = None,
        metadatas: Iterable[Mapping[str, Any]] | None = None,
        *,
        ids: Iterable[str] | None = None,
        **options: Unpack[MakingOptions],
    ) -> Self:
        """Build from plain texts; `options` are those of `from_documents`.

        Raises:
            InputError: not one metadata and one id per text.
        """
        return cls.from_documents(as_documents(texts, metadatas, ids), embedding, **options)

    @classmethod
    async def afrom_texts(
        cls,
        texts: Iterable[str],
        embedding: object = None,
        metadatas: Iterable[Mapping[str, Any]] | None = None,
        *,
        ids: Iterable[str] | None = None,
        **options: Unpack[MakingOptions],
    ) -> Self:
        """`from_texts` in a thread; see `afrom_documents`."""
        made = as_documents(texts, metadatas, ids)
        return await cls.afrom_documents(made, embedding, **options)

    def upsert(
        self, items: Sequence[Document], /, *, show_progress: bool = False, **unknown: Any
    ) -> UpsertResponse:
        """Build what is new or changed; the same content under the same id costs nothing.

        Blank documents cannot be indexed: their ids are under `failed`.
        """
        refuse(unknown, "upsert", "show_progress")
        documents = [as_core_document(item) for item in items]
        ids = [document.id for document in documents]
        self._report = self.index.refresh(
            documents, show_progress=build_progress(ids, show_progress)
        )
        skipped = {identity for identity, _ in self._report.skipped}
        return UpsertResponse(
            succeeded=[identity for identity in ids if identity not in skipped],
            failed=[identity for identity in ids if identity in skipped],
        )

    async def aupsert(
        self, items: Sequence[Document], /, *, show_progress: bool = False, **unknown: Any
    ) -> UpsertResponse:
        """`upsert` in a thread; a task that is cancelled ends the build, not what is done."""
        return await building(partial(self.upsert, items, show_progress=show_progress, **unknown))

    def add_documents(
        self,
        documents: Iterable[Document],
        *,
        ids: Iterable[str] | None = None,
        show_progress: bool = False,
    ) -> list[str]:
        """`upsert`, as vector stores call it; returns the ids that are in the index now.

        With `ids`, one per document, these take the place of the documents' own.
        """
        return self.upsert(with_ids(documents, ids), show_progress=show_progress)["succeeded"]

    async def aadd_documents(
        self,
        documents: Iterable[Document],
        *,
        ids: Iterable[str] | None = None,
        show_progress: bool = False,
    ) -> list[str]:
        """`aupsert`, as vector stores call it; see `add_documents`."""
        items = with_ids(documents, ids)
        return (await self.aupsert(items, show_progress=show_progress))["succeeded"]

    def add_texts(
        self,
        texts: Iterable[str],
        metadatas: Iterable[Mapping[str, Any]] | None = None,
        *,
        ids: Iterable[str] | None = None,
    ) -> list[str]:
        """`add_documents` of plain texts; errors as in `from_texts`."""
        return self.add_documents(as_documents(texts, metadatas, ids))

    def similarity_search(
        self, query: str, k: int = 4, filter: Filter | None = None, **unknown: Any
    ) -> list[Document]:
        """`invoke`, as vector stores call it: the `k` best nodes, best first."""
        refuse(unknown, "similarity_search", "k, filter")
        return self.invoke(query, k=k, filters=filter)

    async def asimilarity_search(
        self, query: str, k: int = 4, filter: Filter | None = None, **unknown: Any
    ) -> list[Document]:
        """`ainvoke`, as vector stores call it; see `similarity_search`."""
        refuse(unknown, "asimilarity_search", "k, filter")
        return await self.ainvoke(query, k=k, filters=filter)

    def similarity_search_with_score(
        self, query: str, k: int = 4, filter: Filter | None = None, **unknown: Any
    ) -> list[tuple[Document, float]]:
        """The same with scores, higher is better, which only compare nodes of one question."""
        refuse(unknown, "similarity_search_with_score", "k, filter")
        found = self.similarity_search(query, k, filter)
        return [(document, document.metadata["hwdag"]["score"]) for document in found]

    def delete(self, ids: list[str] | None = None, **unknown: Any) -> DeleteResponse:
        """Remove documents with their graphs; ids that are not there are no failure.

        Raises:
            InputError: no list of ids was given.
        """
        refuse(unknown, "delete", "ids")
        if ids is None:
            raise InputError("delete needs ids; to remove everything pass the ids of all documents")
        known = self.index.documents
        found = [identity for identity in _distinct(ids) if self._delete(identity, known)]
        return DeleteResponse(num_deleted=len(found), succeeded=found, num_failed=0, failed=[])

    def _delete(self, identity: str, known: Mapping[str, object]) -> bool:
        """Whether it was there; finished calls of a build that was interrupted go in any case."""
        was_there = identity in known
        try:
            self.index.delete(identity)
        except InputError:  # there was nothing of it, or somebody else was faster
            return False
        return was_there

    def get(self, ids: Sequence[str], /, **unknown: Any) -> list[Document]:
        """Whole documents by id, in the order of `ids`; those that are not there are left out."""
        refuse(unknown, "get", "ids")
        found = map(self.index.documents.get, _distinct(ids))
        return [as_langchain_document(document) for document in found if document is not None]

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """`get`, as vector stores call it."""
        return self.get(ids)

    def as_retriever(
        self,
        *,
        search_type: str = "similarity",
        search_kwargs: Mapping[str, Any] | None = None,
        tags: list[str] | None = None,
        metadata: dict[str, Any] | None = None,
        **options: Unpack[SearchOptions],
    ) -> HWDAGRetriever:
        """Return a retriever that sees later changes; what is not given is as in the index.

        Args:
            search_type: "similarity", the only type that a walk has an equal of.
            search_kwargs: the options as vector stores take them: `{"k": 4, "filter": {...}}`.
            tags: for traces and callbacks, as with every retriever of LangChain.
            metadata: likewise.
            options: see `CoreSearchRetriever`.

        Raises:
            UnknownOption: there is no such option.
        """
        if search_type != "similarity":
            raise UnknownOption(
                f'search_type must be "similarity", got {search_type!r}: a walk chooses nodes that '
                "add to what was read by itself; leave the option out"
            )
        named = {FILTERS.get(name, name): value for name, value in (search_kwargs or {}).items()}
        given = {**options, **named}
        unknown = {k: v for k, v in given.items() if k not in SearchOptions.__annotations__}
        refuse(unknown, "as_retriever", ", ".join(SearchOptions.__annotations__))
        given |= {"tags": tags, "metadata": metadata}
        own = {name: getattr(self, name) for name in (*SearchOptions.__annotations__, *given)}
        own |= {name: value for name, value in given.items() if value is not None}
        return HWDAGRetriever(index=self.index, **own)

    def as_llm(self, *, max_new_tokens: int = REPLY_TOKENS) -> HWDAGLLM:
        """The reader's weights as a LangChain LLM. Raises `ValidationError` if it only reads."""
        reader: Any = self.index.reader  # which may write too
        return HWDAGLLM(writer=reader, max_new_tokens=max_new_tokens)

    def save_local(self, folder: str | Path) -> None:
        """Write the index as `index.hwdag` into a folder, in place of one that is there.

        An index that was loaded from there has all changes in that file already. Whoever else has
        the old file open must load it again to change it.
        """
        target = Path(folder) / FILE_NAME
        target.parent.mkdir(parents=True, exist_ok=True)
        self.index.save(target, overwrite=True)

    @classmethod
    def load_local(
        cls,
        folder: str | Path,
        embeddings: object = None,
        *,
        reader: object = None,
        writer: object = None,
        answerer: object = None,
        embedder: object = None,
        config: BuildConfig | None = None,
        prompts: Prompts | None = None,
        **options: Unpack[SearchOptions],
    ) -> Self:
        """Open what `save_local` wrote; changes to the index are written to the file.

        Models are those that the file names, unless given, and are loaded on first use. LangChain
        `Embeddings` cannot be loaded by a name: give those that the index was built with. Arguments
        are as in `from_documents`, with `options` for searching, and `embeddings` for `embedder`; errors as in
        `hwdag.HWDAGIndex.load`.
        """
        made = cls(index=CoreIndex(), **options)  # type: ignore[arg-type]  # pydantic makes tuples
        made.index = CoreIndex.load(
            Path(folder) / FILE_NAME,
            reader=as_reader(reader),
            writer=as_writer(writer),
            answerer=as_writer(answerer),
            embedder=as_embedder(under_one_name(embedder=embedder, embeddings=embeddings)),
            config=config,
            prompts=prompts,
        )
        return made


def _distinct(ids: Sequence[str]) -> Iterable[str]:
    """Every id once, in order. Raises `InputError` for a bare text, whose letters are no ids."""
    if isinstance(ids, str):
        raise InputError(f"ids are a list of texts, got the text {ids!r}; pass [{ids!r}]")
    if wrong := [identity for identity in ids if not isinstance(identity, str)]:
        raise InputError(f"ids are texts, got {wrong[0]!r}")
    return dict.fromkeys(ids)

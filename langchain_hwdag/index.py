"""The index as LangChain's `DocumentIndex`: a retriever that takes documents."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self, Unpack

from langchain_core.documents import Document
from langchain_core.indexing import DeleteResponse, UpsertResponse
from langchain_core.indexing.base import DocumentIndex
from langchain_core.runnables import Runnable

from hwdag.answers.stream import AnswerStream
from hwdag.checks import one_of, refuse
from hwdag.config import REPLY_TOKENS
from hwdag.errors import InputError
from hwdag.filters import Filter
from hwdag.index import AskOptions
from hwdag.index import HWDAGIndex as CoreIndex
from hwdag.scope import Scope
from langchain_hwdag.adapters import as_writer
from langchain_hwdag.answering import answering
from langchain_hwdag.base_retriever import SearchOptions
from langchain_hwdag.documents import (
    as_core_documents,
    as_documents,
    as_langchain_document,
    with_ids,
)
from langchain_hwdag.events import build_progress, building
from langchain_hwdag.llm import HWDAGLLM
from langchain_hwdag.retrievers import (
    HWDAGRetriever,
    LoadingOptions,
    MakingOptions,
    split_options,
)
from langchain_hwdag.scores import FETCH_K, LAMBDA_MULT, SEARCH_TYPES, scored

logger = logging.getLogger(__name__)

FILTERS = {"filter": "filters"}
"""Option names of vector stores, and ours."""

FILE_NAME = "index.hwdag"
"""The one file in a folder of `save_local`."""


class HWDAGIndex(HWDAGRetriever, DocumentIndex):
    """Graphs of whole documents; a retriever over them, and the target of `indexing.index`.

    `index(docs, record_manager, target, cleanup="incremental", source_id_key="source",
    key_encoder="sha256")` builds graphs of new documents only.

    Relations: a thin layer over the attribute `index`, an `hwdag.HWDAGIndex`.
    """

    # why: pydantic merges the configs of all bases, and DocumentIndex ignores extra names
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
            InputError: the numbers of metadatas, ids and texts differ.
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
        """Run `from_texts` in a thread; see `afrom_documents`."""
        made = as_documents(texts, metadatas, ids)
        return await cls.afrom_documents(made, embedding, **options)

    def upsert(
        self, items: Sequence[Document], /, *, show_progress: bool = False, **unknown: Any
    ) -> UpsertResponse:
        """Build new and changed documents; the same content under the same id costs nothing.

        The ids of blank documents, which cannot be indexed, are under `failed`.
        """
        refuse(unknown, "upsert", "show_progress")
        documents = as_core_documents(items)
        ids = [document.id for document in documents]
        self._report = self.index.refresh(
            documents, show_progress=build_progress(ids, show_progress)
        )
        if warning := self._report.copies_warning:
            logger.warning("%s", warning)
        skipped = {identity for identity, _ in self._report.skipped}
        return UpsertResponse(
            succeeded=[identity for identity in ids if identity not in skipped],
            failed=[identity for identity in ids if identity in skipped],
        )

    async def aupsert(
        self, items: Sequence[Document], /, *, show_progress: bool = False, **unknown: Any
    ) -> UpsertResponse:
        """Run `upsert` in a thread; cancelling the task ends the build, and keeps what is finished."""
        return await building(partial(self.upsert, items, show_progress=show_progress, **unknown))

    def add_documents(
        self,
        documents: Iterable[Document],
        *,
        ids: Iterable[str] | None = None,
        show_progress: bool = False,
    ) -> list[str]:
        """`upsert` under the name of vector stores; returns the ids that are in the index now.

        `ids`, one per document, replace the documents' own.
        """
        return self.upsert(with_ids(documents, ids), show_progress=show_progress)["succeeded"]

    async def aadd_documents(
        self,
        documents: Iterable[Document],
        *,
        ids: Iterable[str] | None = None,
        show_progress: bool = False,
    ) -> list[str]:
        """`aupsert` under the name of vector stores; see `add_documents`."""
        items = with_ids(documents, ids)
        return (await self.aupsert(items, show_progress=show_progress))["succeeded"]

    def add_texts(
        self,
        texts: Iterable[str],
        metadatas: Iterable[Mapping[str, Any]] | None = None,
        *,
        ids: Iterable[str] | None = None,
    ) -> list[str]:
        """Call `add_documents` with plain texts; errors as in `from_texts`."""
        return self.add_documents(as_documents(texts, metadatas, ids))

    def similarity_search(
        self, query: str, k: int = 4, filter: Filter | None = None, **unknown: Any
    ) -> list[Document]:
        """Return the `k` best nodes, best first: `invoke` under the name of vector stores."""
        refuse(unknown, "similarity_search", "k, filter")
        return self.invoke(query, k=k, filters=filter)

    async def asimilarity_search(
        self, query: str, k: int = 4, filter: Filter | None = None, **unknown: Any
    ) -> list[Document]:
        """Run `similarity_search` without blocking the event loop."""
        refuse(unknown, "asimilarity_search", "k, filter")
        return await self.ainvoke(query, k=k, filters=filter)

    def similarity_search_with_score(
        self, query: str, k: int = 4, filter: Filter | None = None, **unknown: Any
    ) -> list[tuple[Document, float]]:
        """Return the `k` best nodes with their cosine similarity to the question, highest first.

        It is between 0 and 1 and compares between questions. The search itself looks at more, so the
        first node of `similarity_search` may be another one.
        """
        refuse(unknown, "similarity_search_with_score", "k, filter")
        found = self.similarity_search(query, k, filter)
        return scored(self.index.embedder, query, found)

    async def asimilarity_search_with_score(
        self, query: str, k: int = 4, filter: Filter | None = None, **unknown: Any
    ) -> list[tuple[Document, float]]:
        """Run `similarity_search_with_score` without blocking the event loop."""
        refuse(unknown, "asimilarity_search_with_score", "k, filter")
        found = await self.asimilarity_search(query, k, filter)
        return await asyncio.to_thread(scored, self.index.embedder, query, found)

    def similarity_search_with_relevance_scores(
        self,
        query: str,
        k: int = 4,
        filter: Filter | None = None,
        *,
        score_threshold: float = 0.0,
        **unknown: Any,
    ) -> list[tuple[Document, float]]:
        """Return `similarity_search_with_score` without nodes below `score_threshold`."""
        found = self.similarity_search_with_score(query, k, filter, **unknown)
        return [(document, score) for document, score in found if score >= score_threshold]

    async def asimilarity_search_with_relevance_scores(
        self,
        query: str,
        k: int = 4,
        filter: Filter | None = None,
        *,
        score_threshold: float = 0.0,
        **unknown: Any,
    ) -> list[tuple[Document, float]]:
        """Run `similarity_search_with_relevance_scores` without blocking the event loop."""
        found = await self.asimilarity_search_with_score(query, k, filter, **unknown)
        return [(document, score) for document, score in found if score >= score_threshold]

    def max_marginal_relevance_search(
        self,
        query: str,
        k: int = 4,
        fetch_k: int = FETCH_K,
        lambda_mult: float = LAMBDA_MULT,
        filter: Filter | None = None,
    ) -> list[Document]:
        """Choose `k` of the `fetch_k` best nodes so that they differ (`HWDAGRetriever.fetch_k`)."""
        kwargs = {"k": k, "fetch_k": fetch_k, "lambda_mult": lambda_mult, "filter": filter}
        return self.as_retriever(search_type="mmr", search_kwargs=kwargs).invoke(query)

    async def amax_marginal_relevance_search(
        self,
        query: str,
        k: int = 4,
        fetch_k: int = FETCH_K,
        lambda_mult: float = LAMBDA_MULT,
        filter: Filter | None = None,
    ) -> list[Document]:
        """Run `max_marginal_relevance_search` without blocking the event loop."""
        kwargs = {"k": k, "fetch_k": fetch_k, "lambda_mult": lambda_mult, "filter": filter}
        return await self.as_retriever(search_type="mmr", search_kwargs=kwargs).ainvoke(query)

    def delete(self, ids: list[str] | None = None, **unknown: Any) -> DeleteResponse:
        """Remove documents with their graphs; unknown ids are no failure.

        Raises:
            InputError: `ids` is missing.
        """
        refuse(unknown, "delete", "ids")
        if ids is None:
            raise InputError("delete needs ids; to remove everything pass the ids of all documents")
        known = self.index.documents
        found = [identity for identity in _distinct(ids) if self._delete(identity, known)]
        return DeleteResponse(num_deleted=len(found), succeeded=found, num_failed=0, failed=[])

    def _delete(self, identity: str, known: Mapping[str, object]) -> bool:
        """Delete a document and the calls of its unfinished build; returns whether it was indexed."""
        was_there = identity in known
        try:
            self.index.delete(identity)
        except InputError:  # nothing to delete, or another process was faster
            return False
        return was_there

    def get(self, ids: Sequence[str], /, **unknown: Any) -> list[Document]:
        """Return whole documents in the order of `ids`, without the unknown ones."""
        refuse(unknown, "get", "ids")
        found = map(self.index.documents.get, _distinct(ids))
        return [as_langchain_document(document) for document in found if document is not None]

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """`get` under the name of vector stores."""
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
        """Return a retriever that sees later changes; the index's own options are the defaults.

        Args:
            search_type: "similarity"; "mmr", which takes `fetch_k` and `lambda_mult`; or
                "similarity_score_threshold", which needs a `score_threshold` (`HWDAGRetriever`).
            search_kwargs: the options under the names of vector stores: `{"k": 4, "filter": {...}}`.
            tags: for traces and callbacks, as with every retriever of LangChain.
            metadata: likewise.
            options: see `CoreSearchRetriever`.

        Raises:
            UnknownOption: an unknown option, or one of another search type.
            InputError: an unknown search type, or no `score_threshold` where it is needed.
        """
        one_of("search_type", search_type, SEARCH_TYPES)
        named = {FILTERS.get(name, name): value for name, value in (search_kwargs or {}).items()}
        given = {**options, **named}
        known = [*SearchOptions.__annotations__, "score_threshold"]
        if search_type == "mmr":
            known += ["fetch_k", "lambda_mult"]
            given.setdefault("fetch_k", FETCH_K)
        unknown = {k: v for k, v in given.items() if k not in known}
        refuse(unknown, f"as_retriever(search_type={search_type!r})", ", ".join(known))
        if search_type == "similarity_score_threshold" and given.get("score_threshold") is None:
            raise InputError(
                'search_type="similarity_score_threshold" needs a score_threshold between 0 and 1: '
                'pass search_kwargs={"score_threshold": 0.5}'
            )
        given |= {"tags": tags, "metadata": metadata}
        own = {name: getattr(self, name) for name in (*SearchOptions.__annotations__, *given)}
        own |= {name: value for name, value in given.items() if value is not None}
        return HWDAGRetriever(index=self.index, **own)

    def as_runnable(self, **options: Unpack[AskOptions]) -> Runnable[Any, dict[str, Any]]:
        """Return a runnable that answers with exact citations.

        It takes a question, or a mapping with `question` (or `input`) and `history` (or `chat_history`):
        messages, or (question, answer) pairs. It returns `answer`, `citations`, `context` (the nodes as
        documents), `searched_for`, `found`, `confidence` and `message`, the answer as an `AIMessage`, in
        which "not found" is a refusal from langchain-core 1.7.5 on. Streamed, `answer` comes in pieces.
        `options` are those of `hwdag.HWDAGIndex.answer`, such as `answerer=`, a LangChain model; else
        the fields of the index hold.
        """
        if "answerer" in options:
            options["answerer"] = as_writer(options["answerer"])

        def ask(question: str, **asked: Any) -> AnswerStream:
            scope = Scope(self.document_ids, self.filters)
            given: dict[str, Any] = {"config": self.search, "scope": scope, **options, **asked}
            return self.index.stream(question, **given)

        return answering(ask)

    def as_llm(self, *, max_new_tokens: int = REPLY_TOKENS) -> HWDAGLLM:
        """Return the reader's weights as a LangChain LLM. Raises `ValidationError` if it only reads."""
        reader: Any = self.index.reader  # which may write too
        return HWDAGLLM(writer=reader, max_new_tokens=max_new_tokens)

    def save_local(self, folder: str | Path) -> None:
        """Write the index to `index.hwdag` in a folder, in place of an older one.

        An index that was loaded from there writes its changes to that file anyway. Another process
        that has the old file open must load it again before it can change it.
        """
        target = Path(folder) / FILE_NAME
        target.parent.mkdir(parents=True, exist_ok=True)
        self.index.save(target, overwrite=True)

    @classmethod
    def load_local(
        cls,
        folder: str | Path,
        embeddings: object = None,
        **options: Unpack[LoadingOptions],
    ) -> Self:
        """Open the file that `save_local` wrote; later changes go into it.

        Without models in `options`, those that the file names are loaded on first use. LangChain
        `Embeddings` have no name to load them by: pass those that the index was built with, as
        `embeddings` or as `embedder`. Errors are those of `hwdag.HWDAGIndex.load`.
        """
        core, search = split_options(options, embeddings=embeddings)
        unknown = {name: value for name, value in search.items() if name not in cls.model_fields}
        refuse(unknown, "load_local", "folder, embeddings, models, and options of a search")
        made = cls(index=CoreIndex(), **search)
        made.index = CoreIndex.load(Path(folder) / FILE_NAME, **core)
        return made


def _distinct(ids: Sequence[str]) -> Iterable[str]:
    """Return every id once, in order. Raises `InputError` for a text in place of a list."""
    if isinstance(ids, str):
        raise InputError(f"ids must be a list of texts, got the text {ids!r}; pass [{ids!r}]")
    if wrong := [identity for identity in ids if not isinstance(identity, str)]:
        raise InputError(f"ids must be texts, got {wrong[0]!r}")
    return dict.fromkeys(ids)

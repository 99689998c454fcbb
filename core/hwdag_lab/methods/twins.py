"""The asynchronous twins of a retriever's methods; each runs in a thread and never blocks the loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from functools import partial
from typing import Protocol, Self, TypedDict, Unpack

from hwdag.building.report import BuildReport
from hwdag.config import SearchConfig
from hwdag.scope import Scope
from hwdag.search.answering import AnswerStream
from hwdag.threads import each_in_a_thread, in_builder_thread
from hwdag.trace.bars import Reporter
from hwdag.types import Answer, Document, Retrieval, Step


class AnswerOptions(TypedDict, total=False):
    """What `answer` and `stream` take besides the question."""

    config: SearchConfig | None
    scope: Scope | None
    on_step: Callable[[Step], None] | None


class SearchOptions(AnswerOptions, total=False):
    """What `search` takes besides the question."""

    k: int | None


class _Synchronous(Protocol):
    """What the twins call."""

    def insert(
        self, documents: Iterable[Document | str], *, progress: bool | Reporter = False
    ) -> BuildReport: ...

    def delete(self, document_id: str) -> None: ...

    def search(self, question: str, **options: Unpack[SearchOptions]) -> Retrieval: ...

    def answer(self, question: str, **options: Unpack[AnswerOptions]) -> Answer: ...

    def stream(self, question: str, **options: Unpack[AnswerOptions]) -> AnswerStream: ...


class RetrieverTwins:
    """Mixed into the retrievers beside HWDAG; `hwdag.aio` has those of the index.

    A task that is cancelled stops waiting; what its thread has begun goes on to its end.
    """

    @classmethod
    async def afrom_documents(
        cls,
        documents: Iterable[Document | str],
        *,
        progress: bool | Reporter = False,
        **options: object,
    ) -> Self:
        """`from_documents` in a thread."""
        make: Callable[..., Self] = cls.from_documents  # type: ignore[attr-defined]
        return await in_builder_thread(partial(make, documents, progress=progress, **options))

    async def ainsert(
        self: _Synchronous,
        documents: Iterable[Document | str],
        *,
        progress: bool | Reporter = False,
    ) -> BuildReport:
        """`insert` in a thread."""
        return await in_builder_thread(partial(self.insert, documents, progress=progress))

    async def adelete(self: _Synchronous, document_id: str) -> None:
        """`delete` in a thread."""
        await in_builder_thread(partial(self.delete, document_id))

    async def asearch(
        self: _Synchronous, question: str, **options: Unpack[SearchOptions]
    ) -> Retrieval:
        """`search` in a thread."""
        return await asyncio.to_thread(self.search, question, **options)

    async def aanswer(
        self: _Synchronous, question: str, **options: Unpack[AnswerOptions]
    ) -> Answer:
        """`answer` in a thread."""
        return await asyncio.to_thread(self.answer, question, **options)

    async def astream(
        self: _Synchronous, question: str, **options: Unpack[AnswerOptions]
    ) -> AsyncIterator[str]:
        """The pieces of `stream`, each decoded in a thread."""
        stream = await asyncio.to_thread(self.stream, question, **options)
        async for piece in each_in_a_thread(iter(stream)):
            yield piece

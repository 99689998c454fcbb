"""The asynchronous twins of an index's methods: each runs in a thread and never blocks the loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from functools import partial
from typing import Protocol, TypedDict, Unpack

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
    query_vector: Sequence[float] | None
    on_step: Callable[[Step], None] | None


class SearchOptions(AnswerOptions, total=False):
    """What `search` takes besides the question."""

    k: int | None


class ChangeOptions(TypedDict, total=False):
    """What `insert` takes besides the documents."""

    progress: bool | Reporter
    max_tokens: int | None
    max_seconds: float | None


class RefreshOptions(ChangeOptions, total=False):
    """What `refresh` takes besides the documents."""

    prune: bool | Callable[[str], bool]


class _Synchronous(Protocol):
    """What the twins call."""

    def insert(
        self, documents: Iterable[Document | str], **options: Unpack[ChangeOptions]
    ) -> BuildReport: ...

    def refresh(
        self, documents: Iterable[Document | str], **options: Unpack[RefreshOptions]
    ) -> BuildReport: ...

    def delete(self, document_id: str) -> None: ...

    def search(self, question: str, **options: Unpack[SearchOptions]) -> Retrieval: ...

    def answer(self, question: str, **options: Unpack[AnswerOptions]) -> Answer: ...

    def stream(self, question: str, **options: Unpack[AnswerOptions]) -> AnswerStream: ...


class AsyncTwins:
    """Mixed into an index. They work wherever a loop runs: Jupyter, FastAPI, a plain script.

    Builds have threads of their own, see `hwdag.threads`.

    A task that is cancelled stops waiting; what its thread has begun goes on to its end, and every
    call that it finished is kept.
    """

    async def ainsert(
        self: _Synchronous, documents: Iterable[Document | str], **options: Unpack[ChangeOptions]
    ) -> BuildReport:
        """`insert` in a thread."""
        return await in_builder_thread(partial(self.insert, documents, **options))

    async def arefresh(
        self: _Synchronous, documents: Iterable[Document | str], **options: Unpack[RefreshOptions]
    ) -> BuildReport:
        """`refresh` in a thread."""
        return await in_builder_thread(partial(self.refresh, documents, **options))

    async def adelete(self: _Synchronous, document_id: str) -> None:
        """`delete` in a thread."""
        await asyncio.to_thread(self.delete, document_id)

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

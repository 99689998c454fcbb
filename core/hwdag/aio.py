"""The asynchronous twins of an index's methods: each runs in a thread and never blocks the loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import cache, partial
from typing import Any, Protocol, TypedDict, Unpack

from hwdag.build.report import BuildReport
from hwdag.config import SearchConfig
from hwdag.filters import Filter
from hwdag.search.answering import AnswerStream
from hwdag.trace.progress import Progress
from hwdag.types import Answer, Document, Retrieval, Step

MAX_BUILDERS = 4
"""Asynchronous builds, of all indexes together, that run or wait for a lock at a time."""


class AnswerOptions(TypedDict, total=False):
    """What `answer` and `stream` take besides the question."""

    config: SearchConfig | None
    document_ids: Collection[str] | None
    filters: Filter | Mapping[str, Any] | None
    tenant: str | None
    on_step: Callable[[Step], None] | None


class SearchOptions(AnswerOptions, total=False):
    """What `search` takes besides the question."""

    k: int | None


class ChangeOptions(TypedDict, total=False):
    """What `insert` and `upsert` take besides the documents."""

    progress: bool | Progress
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

    def upsert(
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

    Builds have threads of their own: however many of them wait for each other, searches, and what
    else the program does in threads, go on.

    A task that is cancelled stops waiting; what its thread has begun goes on to its end, and every
    call that it finished is kept.
    """

    async def ainsert(
        self: _Synchronous, documents: Iterable[Document | str], **options: Unpack[ChangeOptions]
    ) -> BuildReport:
        """`insert` in a thread."""
        return await _changing(partial(self.insert, documents, **options))

    async def aupsert(
        self: _Synchronous, documents: Iterable[Document | str], **options: Unpack[ChangeOptions]
    ) -> BuildReport:
        """`upsert` in a thread."""
        return await _changing(partial(self.upsert, documents, **options))

    async def arefresh(
        self: _Synchronous, documents: Iterable[Document | str], **options: Unpack[RefreshOptions]
    ) -> BuildReport:
        """`refresh` in a thread."""
        return await _changing(partial(self.refresh, documents, **options))

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
        pieces = iter(await asyncio.to_thread(self.stream, question, **options))
        while (piece := await asyncio.to_thread(_next, pieces)) is not None:
            yield piece


@cache
def _builders() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(MAX_BUILDERS, thread_name_prefix="hwdag-build")


async def _changing(change: Callable[[], BuildReport]) -> BuildReport:
    context = copy_context()  # as asyncio.to_thread does
    return await asyncio.get_running_loop().run_in_executor(_builders(), context.run, change)


def _next(pieces: Iterator[str]) -> str | None:
    # why: StopIteration cannot leave a thread through a future
    return next(pieces, None)

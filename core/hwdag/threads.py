"""Threads for what would block an event loop: changes have some of their own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import cache
from typing import TypeVar

T = TypeVar("T")

MAX_BUILDERS = 4
"""Asynchronous builds, of all indexes together, that run or wait for a lock at a time."""


async def in_builder_thread(change: Callable[[], T]) -> T:
    """What `change` returns.

    However many builds wait for each other, searches, and what else the program does in threads, go
    on.
    """
    context = copy_context()  # as asyncio.to_thread does
    return await asyncio.get_running_loop().run_in_executor(_builders(), context.run, change)


async def each_in_a_thread(pieces: Iterator[T]) -> AsyncGenerator[T]:
    """The pieces, each made in a thread, one after the other; the loop goes on meanwhile."""
    # why None: StopIteration cannot leave a thread through a future
    while (piece := await asyncio.to_thread(next, pieces, None)) is not None:
        yield piece


@cache
def _builders() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(MAX_BUILDERS, thread_name_prefix="hwdag-build")

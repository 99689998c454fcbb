"""Threads for what would block an event loop, and asynchronous twins of methods that run in them.

    class Index:
        def search(self, question: str) -> Retrieval: ...

        asearch = asynchronous(search)  # await index.asearch("who?")

A task that is cancelled stops waiting. A question that nobody waits for any more ends at its next
step; what the thread of any other task has begun goes on to its end.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Sequence,
)
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import cache, partial, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

S = TypeVar("S")
T = TypeVar("T")
P = ParamSpec("P")

MAX_BUILDERS = 4
"""Asynchronous builds, of all indexes together, that run or wait for a lock at a time."""

MAX_QUESTIONS = 16
"""Asynchronous questions, of all indexes together, that run at a time; others wait their turn.

The threads of `asyncio.to_thread` would be six on two cores, and forwards are shared by so many.
"""

MAX_THREADS = 8
"""Of one question that compares embeddings: more wait for memory, and questions come together."""


def asynchronous(
    method: Callable[Concatenate[S, P], T], *, builds: bool = False, stops: bool = False
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
    """The twin of a method, with the same arguments; it never blocks the loop.

    With `builds` it runs in one of the threads of builds. With `stops` the method has an option
    `stop`, which is set when the task is cancelled.
    """

    async def twin(self: S, /, *args: P.args, **options: P.kwargs) -> T:
        flag = _Abandoned(options.get("stop"))
        ask: Any = partial(_bound(self, method), *args, **options)
        call = partial(ask, stop=flag) if stops else ask
        try:
            found: T = await (in_builder_thread if builds else in_question_thread)(call)
        finally:
            flag.set()
        return found

    return _named(twin, method)


def asynchronous_pieces(
    method: Callable[Concatenate[S, P], Iterable[str]], *, stops: bool = False
) -> Callable[Concatenate[S, P], AsyncIterator[str]]:
    """The twin of a method that streams an answer: an iterator over its pieces.

    With `stops` the method has an option `stop`, which is set when the iterator is closed.
    """

    async def twin(self: S, /, *args: P.args, **options: P.kwargs) -> AsyncIterator[str]:
        flag = _Abandoned(options.get("stop"))
        ask: Any = partial(_bound(self, method), *args, **options)
        try:
            stream = await in_question_thread(partial(ask, stop=flag) if stops else ask)
            async for piece in each_in_a_thread(iter(stream)):
                yield piece
        finally:
            flag.set()

    return _named(twin, method)


class _Abandoned(threading.Event):
    """Set when nobody waits any more, or by the flag that the caller has passed."""

    def __init__(self, passed: Any) -> None:
        super().__init__()
        self._passed = passed

    def is_set(self) -> bool:
        return super().is_set() or (self._passed is not None and bool(self._passed.is_set()))


async def in_builder_thread(change: Callable[[], T]) -> T:
    """What `change` returns; however many builds wait for each other, all other threads go on."""
    return await _in_thread_of(_pool(MAX_BUILDERS, "hwdag-build", os.getpid()), change)


async def in_question_thread(work: Callable[[], T]) -> T:
    """What `work` returns, one of so many at a time."""
    return await _in_thread_of(_pool(MAX_QUESTIONS, "hwdag-question", os.getpid()), work)


async def _in_thread_of(pool: ThreadPoolExecutor, work: Callable[[], T]) -> T:
    context = copy_context()  # as asyncio.to_thread does
    return await asyncio.get_running_loop().run_in_executor(pool, context.run, work)


async def each_in_a_thread(pieces: Iterator[T]) -> AsyncGenerator[T]:
    """The pieces, each made in a thread, one after the other; the loop goes on meanwhile."""
    # why None: StopIteration cannot leave a thread through a future
    while (piece := await in_question_thread(partial(next, pieces, None))) is not None:
        yield piece


def _bound(owner: S, method: Callable[Concatenate[S, P], T]) -> Callable[P, T]:
    """The method of that name of its owner, which may be that of a subclass."""
    found: Callable[P, T] = getattr(owner, method.__name__)
    return found


def _named(twin: T, method: Callable[..., Any]) -> T:
    """The twin with the signature of its method and its name, an "a" before it."""
    owner, _, name = method.__qualname__.rpartition(".")
    named: Any = wraps(method)(twin)  # type: ignore[arg-type]
    named.__name__, named.__qualname__ = f"a{name}", f"{owner}.a{name}"
    named.__doc__ = f"`{name}` in a thread."
    found: T = named
    return found


def in_threads(function: Callable[[S], T], items: Sequence[S]) -> list[T]:
    """Apply a function that lets others run to each of these, in a few threads."""
    if len(items) < 2:
        return [function(item) for item in items]
    with ThreadPoolExecutor(min(MAX_THREADS, os.cpu_count() or 1)) as pool:
        return list(pool.map(function, items))


@cache
def _pool(threads: int, name: str, process: int) -> ThreadPoolExecutor:
    """The threads of a process: a fork copies none of them, and needs a pool of its own."""
    return ThreadPoolExecutor(threads, thread_name_prefix=name)

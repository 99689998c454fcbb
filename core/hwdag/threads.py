"""Threads for work that would block an event loop, and async twins of methods that run in them.

    class Index:
        def search(self, question: str) -> Retrieval: ...

        asearch = asynchronous(search)  # await index.asearch("who?")

A cancelled task stops waiting. Its question ends at the next step; any other work that its thread has
begun runs to the end.

Torch's own threads sleep between two pieces of our work (`without_spinning`), and numpy's products take
one thread (`one_blas_thread`).
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Coroutine,
    Generator,
    Iterable,
    Iterator,
    Sequence,
)
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from functools import cache, partial, wraps
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

S = TypeVar("S")
T = TypeVar("T")
P = ParamSpec("P")

MAX_BUILDERS = 4
"""Async builds, over all indexes, that run or wait for a lock at a time."""

MAX_QUESTIONS = 16
"""Async questions, over all indexes, that run at a time; others wait their turn.

More than `asyncio.to_thread` has (six on two cores), since questions share forwards.
"""

MAX_THREADS = 8
"""Threads that compare embeddings or embed, unless `OMP_NUM_THREADS` is lower; more would only wait for memory."""


class Lazy(Generic[T]):
    """A value that is made when it is first needed, once; threads may share it."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._made: list[T] = []
        self._making = threading.RLock()

    @property
    def value(self) -> T:
        """The value."""
        with self._making:
            if not self._made:
                self._made.append(self._make())
            return self._made[0]


def asynchronous(
    method: Callable[Concatenate[S, P], T], *, builds: bool = False, stops: bool = False
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
    """Return the async twin of a method, with the same arguments; it never blocks the loop.

    With `builds` it runs in a builder thread. With `stops` the method takes an event `stop`, which is
    set when the task is cancelled.
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
    """Return the async twin of a method that streams an answer: an iterator over its pieces.

    With `stops` the method takes an event `stop`, which is set when the iterator is closed.
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
    """Set once the caller stops waiting, or when the event that the caller passed is set."""

    def __init__(self, passed: Any) -> None:
        super().__init__()
        self._passed = passed

    def is_set(self) -> bool:
        return super().is_set() or (self._passed is not None and bool(self._passed.is_set()))


async def in_builder_thread(change: Callable[[], T]) -> T:
    """Run `change` in a builder thread; builds that wait for each other never block questions."""
    return await _in_thread_of(_pool(MAX_BUILDERS, "hwdag-build", os.getpid()), change)


async def in_question_thread(work: Callable[[], T]) -> T:
    """Run `work` in one of `MAX_QUESTIONS` threads."""
    return await _in_thread_of(_pool(MAX_QUESTIONS, "hwdag-question", os.getpid()), work)


async def _in_thread_of(pool: ThreadPoolExecutor, work: Callable[[], T]) -> T:
    context = copy_context()  # as asyncio.to_thread does
    return await asyncio.get_running_loop().run_in_executor(pool, context.run, work)


async def each_in_a_thread(pieces: Iterator[T]) -> AsyncGenerator[T]:
    """Yield the pieces in order, each made in a thread without blocking the loop."""
    # why None: a future cannot raise StopIteration
    while (piece := await in_question_thread(partial(next, pieces, None))) is not None:
        yield piece


def _bound(owner: S, method: Callable[Concatenate[S, P], T]) -> Callable[P, T]:
    """Return the owner's method of that name, which a subclass may override."""
    found: Callable[P, T] = getattr(owner, method.__name__)
    return found


def _named(twin: T, method: Callable[..., Any]) -> T:
    """Give the twin its method's signature, and its name with an "a" in front."""
    owner, _, name = method.__qualname__.rpartition(".")
    named: Any = wraps(method)(twin)  # type: ignore[arg-type]
    named.__name__, named.__qualname__ = f"a{name}", f"{owner}.a{name}"
    named.__doc__ = f"`{name}` in a thread."
    found: T = named
    return found


def in_threads(function: Callable[[S], T], items: Sequence[S]) -> list[T]:
    """Map a function that releases the GIL over items, in a few threads."""
    if len(items) < 2:
        return [function(item) for item in items]
    wanted = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0]
    most = min(MAX_THREADS, int(wanted) if wanted.isdecimal() else MAX_THREADS)
    with ThreadPoolExecutor(max(1, min(most, os.cpu_count() or 1))) as pool:
        return list(pool.map(function, items))


@cache
def _pool(threads: int, name: str, process: int) -> ThreadPoolExecutor:
    """Return one pool per process: a fork copies no threads, so it needs its own."""
    return ThreadPoolExecutor(threads, thread_name_prefix=name)


@contextmanager
def without_spinning() -> Generator[None]:
    """Let torch's idle threads sleep within the block, and up to a second after it.

    GNU's OpenMP has them spin for some milliseconds after each piece of work. If another process needs
    the cores, a forward then takes up to 50 times as long. They do not spin while the library counts
    more threads than cores, so one thread holds a second team, asleep. No setting of the host changes.
    An environment variable that names a policy takes precedence.
    """
    is_ours = sys.platform == "linux" and SPINNING.isdisjoint(os.environ)
    if not is_ours or "torch" not in sys.modules:
        yield
        return
    team = _team(os.getpid())
    team.enter()
    try:
        yield
    finally:
        team.leave()


SPINNING = {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"}
"""Environment variables by which a user decides."""

SHARED_VALUES = 1 << 17
"""Values in a sum that torch computes in several threads."""

KEPT_SECONDS = 1.0
"""Time without work after which the second team ends: making one takes a millisecond."""


class _SecondTeam:
    """A sleeping team of OpenMP threads, while somebody needs it."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._users = 0
        self._is_held = False

    def enter(self) -> None:
        with self._changed:
            self._users += 1
            if not self._is_held:
                self._is_held, ready = True, threading.Event()
                threading.Thread(
                    target=self._hold, args=(ready,), name="hwdag-team", daemon=True
                ).start()
                ready.wait()

    def leave(self) -> None:
        with self._changed:
            self._users -= 1
            self._changed.notify()

    def _hold(self, ready: threading.Event) -> None:
        try:
            import torch

            torch.ones(SHARED_VALUES).sum()  # why: OpenMP makes the team for its first work
        finally:
            ready.set()
        with self._changed:
            while self._users or self._changed.wait_for(lambda: self._users > 0, KEPT_SECONDS):
                self._changed.wait()
            self._is_held = False


@cache
def _team(process: int) -> _SecondTeam:
    """Return one team per process, as `_pool`."""
    return _SecondTeam()


@contextmanager
def one_blas_thread() -> Generator[None]:
    """Have numpy's products computed in the calling thread within the block.

    Those of a question take a fraction of a millisecond each. BLAS divides them all the same, and its
    idle threads spin: next to other work that takes ten times as long. The last block that ends restores
    the setting of the host.
    """
    blas = _blas(os.getpid())
    blas.enter()
    try:
        yield
    finally:
        blas.leave()


class _BlasThreads:
    """The number of BLAS threads, one while somebody needs that."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._limit: Any = None

    def enter(self) -> None:
        with self._lock:
            self._users += 1
            if self._users == 1:
                self._limit = _blas_libraries().limit(limits=1)

    def leave(self) -> None:
        with self._lock:
            self._users -= 1
            if not self._users:
                self._limit.restore_original_limits()


@cache
def _blas_libraries() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")


@cache
def _blas(process: int) -> _BlasThreads:
    """Return one count per process, as `_pool`."""
    return _BlasThreads()

"""Questions in threads: their steps and words as events, until the answer or until the client leaves."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, suppress
from functools import partial
from typing import Any, TypeAlias, TypeVar

from starlette.requests import ClientDisconnect, Request

from hwdag.config import SearchConfig
from hwdag.errors import HWDAGError
from hwdag.index import HWDAGIndex
from hwdag.retriever import Retriever
from hwdag.scope import Scope
from hwdag.types import Answer, Retrieval, Step
from hwdag_app.serve.guard import Slots
from hwdag_app.serve.metrics import Metrics
from hwdag_app.serve.systems import Systems

Asked: TypeAlias = tuple[Retriever, SearchConfig]
Event: TypeAlias = Step | Retrieval | str | Answer
T = TypeVar("T")


class _Left(Exception):
    """Raised in a thread whose client has left."""


class Questions:
    """Answers questions, a limited number at a time, each in a thread, and counts them."""

    def __init__(self, systems: Systems, most: int) -> None:
        self.systems = systems
        self.slots = Slots(most, "questions")
        self.metrics = Metrics()
        self._threads = ThreadPoolExecutor(most, thread_name_prefix="hwdag-question")

    async def ask(
        self,
        name: str,
        system: Asked,
        question: str,
        scope: Scope | None = None,
        **asked: Any,
    ) -> AsyncGenerator[Event]:
        """Yield the steps of a walk, the walk, the pieces of the answer, and the answer.

        `asked` are further arguments of `stream`. Other methods than that of the index know no `history`,
        and answer each question on its own.
        To close the iterator, or cancel its task, ends the walk at its next step and the answer at its
        next word. Its slot is kept until its thread has ended.
        """
        retriever, config = system
        left = threading.Event()
        if isinstance(retriever, HWDAGIndex):
            asked["stop"] = left
        else:
            asked.pop("history", None)

        def work(tell: Callable[[Event], None]) -> None:
            stream = retriever.stream(question, config=config, scope=scope, on_step=tell, **asked)
            tell(stream.retrieval)
            for piece in stream:
                tell(piece)
            tell(stream.answer)

        run = partial(asyncio.get_running_loop().run_in_executor, self._threads)
        began, outcome = time.perf_counter(), "left"
        self.metrics.asking.inc()
        try:
            async with aclosing(events_of(work, run, self.slots, left)) as events:
                async for event in events:
                    if isinstance(event, Answer):
                        outcome = "answered"
                        self.metrics.count(name, event, time.perf_counter() - began)
                    yield event
        except HWDAGError:
            outcome = "refused"
            raise
        except Exception:
            outcome = "failed"
            raise
        finally:
            self.metrics.asking.dec()
            self.metrics.questions.labels(name, outcome).inc()

    def close(self) -> None:
        """Take no more questions."""
        self._threads.shutdown(wait=False, cancel_futures=True)


async def events_of(
    work: Callable[[Callable[[T], None]], None],
    run: Callable[[Callable[[], None]], Awaitable[None]],
    slots: Slots,
    left: threading.Event | None = None,
) -> AsyncGenerator[T]:
    """Yield the events of `work`, while `run` runs it in a thread; raise its errors.

    If the listener leaves, `left` is set, and the work ends at its next event; without `left`
    it continues. A slot is kept until it has ended.
    """
    loop = asyncio.get_running_loop()
    arrived: asyncio.Queue[T | Exception | None] = asyncio.Queue()

    def tell(event: T | Exception | None) -> None:
        if left is not None and left.is_set():
            raise _Left
        loop.call_soon_threadsafe(arrived.put_nowait, event)

    def whole() -> None:
        with suppress(_Left):
            try:
                work(tell)
                tell(None)
            except Exception as error:
                tell(error)

    running = asyncio.ensure_future(run(whole))
    try:
        while (event := await arrived.get()) is not None:
            if isinstance(event, Exception):
                raise event
            yield event
        await running
    finally:
        if left is not None:
            left.set()
        if not running.done():
            slots.keep(running)


async def unless_gone(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Return the result of `work`. If the client leaves, cancel it and raise `ClientDisconnect`."""

    async def left() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    working, gone = asyncio.ensure_future(work), asyncio.ensure_future(left())
    try:
        await asyncio.wait({working, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientDisconnect
        return working.result()
    finally:
        working.cancel()
        gone.cancel()
        await asyncio.wait({working, gone})

"""LangChain's custom events: nodes as they are read, documents as they are built."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from functools import partial
from typing import Any, TypeVar

from langchain_core.callbacks import adispatch_custom_event, dispatch_custom_event
from langchain_core.runnables import RunnableConfig, ensure_config

from hwdag.threads import in_builder_thread, in_question_thread
from hwdag.trace.bars import Advanced, Reporter, Reporting

STEP_EVENT = "hwdag.step"
"""Name of the custom event of a visited node; its data is `Step.to_dict()` of the core."""

BUILD_EVENT = "hwdag.building"
"""Name of the custom event of a finished piece of a build.

Only a build within a run (in a `RunnableLambda`, in a node of LangGraph) fires it.
"""

E = TypeVar("E")
T = TypeVar("T")
Event = dict[str, Any]

_LISTENER: ContextVar[Callable[[Event], object] | None] = ContextVar("listener", default=None)


def build_progress(document_ids: Sequence[str], show_progress: bool) -> Reporter:
    """Return a reporter for a build of these documents, in this order.

    Its events hold `stage` ("documents", or a step of one document), `done`, `total` (0 if unknown),
    `unit`, and `document_id`: the document that is finished, or being built.
    """
    tell, finished = _LISTENER.get() or _teller(), 0

    def report(advanced: Advanced) -> None:
        nonlocal finished
        at = finished
        if advanced.stage == "documents":
            finished, at = advanced.done, advanced.done - 1
        tell(
            {
                "stage": advanced.stage,
                "done": advanced.done,
                "total": advanced.total,
                "unit": advanced.unit,
                "document_id": document_ids[at] if at < len(document_ids) else None,
            }
        )

    return Reporting(report, show_progress)


async def building(work: Callable[[], T]) -> T:
    """Run a build in a thread, and fire its events in the caller's task (`in_thread`)."""
    config = _run()

    async def tell(event: Event) -> None:
        if config is not None:
            await adispatch_custom_event(BUILD_EVENT, event, config=config)

    def listened(report: Callable[[Event], None]) -> T:
        _LISTENER.set(report)  # the context is the thread's own copy
        return work()

    return await in_thread(listened, tell, in_builder_thread)


async def in_thread(
    work: Callable[[Callable[[E], None]], T],
    tell: Callable[[E], Awaitable[Any]],
    start: Callable[[Callable[[], T]], Awaitable[T]] = in_question_thread,
) -> T:
    """Run `work` in a thread, and await `tell` in the caller's task for each report, in order.

    Cancelling the task ends the work at its next report.
    """
    loop = asyncio.get_running_loop()
    events = asyncio.Queue[E | None]()
    abandoned = threading.Event()

    def report(event: E) -> None:
        if abandoned.is_set():
            raise asyncio.CancelledError
        loop.call_soon_threadsafe(events.put_nowait, event)

    working = asyncio.ensure_future(start(partial(work, report)))
    working.add_done_callback(lambda _: events.put_nowait(None))
    try:
        while (event := await events.get()) is not None:
            await tell(event)
        return await working
    finally:
        abandoned.set()
        working.cancel()  # does nothing once it is done


def _teller() -> Callable[[Event], object]:
    """Return a function that fires events in the current run, or does nothing outside of one."""
    config = _run()
    if config is None:
        return lambda event: None
    return lambda event: dispatch_custom_event(BUILD_EVENT, event, config=config)


def _run() -> RunnableConfig | None:
    """Return the config of the current run, or None."""
    config = ensure_config()
    within = getattr(config.get("callbacks"), "parent_run_id", None)
    return None if within is None else config

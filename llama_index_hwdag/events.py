"""What happens, as events and spans of LlamaIndex's instrumentation.

Handlers of the root dispatcher see all of them: `get_dispatcher().add_event_handler(...)`.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Self, TypeVar

from llama_index.core.instrumentation import get_dispatcher  # type: ignore[attr-defined]
from llama_index.core.instrumentation.events.base import BaseEvent  # type: ignore[attr-defined]
from llama_index.core.instrumentation.span import active_span_id

from hwdag.building.report import BuildReport
from hwdag.threads import in_question_thread
from hwdag.trace.bars import Advance, Reporter, as_reporter
from hwdag.types import Retrieval, Step

dispatcher = get_dispatcher(__name__)

T = TypeVar("T")

_ABANDONED: ContextVar[threading.Event | None] = ContextVar("abandoned", default=None)
"""Set once the caller stops waiting for a thread."""

DOCUMENTS = "documents"
"""Name of the stage of a build that advances with every document, in their order."""


class _Event(BaseEvent):
    @classmethod
    def class_name(cls) -> str:
        """Name under which handlers see it."""
        return cls.__name__


class HWDAGStepEvent(_Event):
    """A node was visited; names as in `Step.to_dict()`."""

    node_id: str
    document_id: str
    level: int
    text: str
    origin: str
    tokens: int
    spans: list[tuple[int, int]]
    position: int
    initial: bool
    score: float
    attention: float
    similarity: float
    reference: float
    relevance: float | None = None
    p_yes: float | None = None

    @classmethod
    def of(cls, step: Step) -> Self:
        """The event of a step."""
        record = step.to_dict()
        return cls(node_id=record.pop("id"), **record)


class HWDAGBuildStartEvent(_Event):
    """A build of these documents starts."""

    document_ids: list[str]


class HWDAGDocumentStartEvent(_Event):
    """A document starts."""

    document_id: str


class HWDAGWindowEvent(_Event):
    """`done` of the `total` windows of a stage are done, such as the points of a level."""

    document_id: str
    stage: str
    done: int
    total: int


class HWDAGDocumentEndEvent(_Event):
    """A document is finished: built, or unchanged, or skipped."""

    document_id: str


class HWDAGBuildEndEvent(_Event):
    """All documents are finished; fields as in `hwdag`'s `BuildReport`."""

    built: list[str]
    unchanged: list[str]
    skipped: list[tuple[str, str]]
    nodes: int
    tokens: int

    @classmethod
    def of(cls, report: BuildReport) -> Self:
        """The event of a report."""
        return cls(
            built=list(report.built),
            unchanged=list(report.unchanged),
            skipped=list(report.skipped),
            nodes=report.nodes,
            tokens=report.usage.tokens,
        )


class OpenSpan:
    """A span with an explicit end, in the thread that started it."""

    def __init__(self, name: str, **arguments: Any) -> None:
        self._id = f"{name}-{uuid.uuid4()}"
        self._arguments = inspect.signature(lambda **arguments: None).bind(**arguments)
        parent = active_span_id.get()
        self._token = active_span_id.set(self._id)
        dispatcher.span_enter(id_=self._id, bound_args=self._arguments, parent_id=parent)

    def close(self, result: object = None) -> None:
        """End the span with a result."""
        active_span_id.reset(self._token)
        dispatcher.span_exit(id_=self._id, bound_args=self._arguments, result=result)

    def drop(self, error: BaseException) -> None:
        """End the span with an error."""
        active_span_id.reset(self._token)
        dispatcher.span_drop(id_=self._id, bound_args=self._arguments, err=error)


async def in_thread(work: Callable[[], T]) -> T:
    """Run `work` in a thread; if the caller is cancelled, a walk in it ends at its next step."""
    abandoned = threading.Event()
    token = _ABANDONED.set(abandoned)  # the thread takes the context along
    try:
        return await in_question_thread(work)
    finally:
        abandoned.set()
        _ABANDONED.reset(token)


@contextmanager
def walked_in_steps(
    search: str,
) -> Iterator[tuple[Callable[[Step], None], Callable[[Retrieval], None]]]:
    """An event and a span for every step of a search.

    Yields a callback for each step and one for the end. Each span starts at the end of the one before
    and covers choosing and reading a node. The last chooses none; its result is the stop reason.
    """
    span, stop = OpenSpan(f"{search}.step"), ""

    def on_step(step: Step) -> None:
        nonlocal span
        if (abandoned := _ABANDONED.get()) is not None and abandoned.is_set():
            raise asyncio.CancelledError
        dispatcher.event(HWDAGStepEvent.of(step))
        span.close(step)
        span = OpenSpan(f"{search}.step")

    def on_end(retrieval: Retrieval) -> None:
        nonlocal stop
        stop = retrieval.stop

    try:
        yield on_step, on_end
    except BaseException as error:
        span.drop(error)
        raise
    span.close(stop)


class BuildProgress:
    """Events and spans of a build, and what another reporter shows of it.

    Args:
        document_ids: in the order in which they are built.
        shown: True for bars, or your own.
    """

    def __init__(self, document_ids: Sequence[str], shown: bool | Reporter) -> None:
        self._waiting = list(document_ids)[::-1]
        self._shown = as_reporter(shown)
        self._document_id = ""

    @contextmanager
    def stage(self, name: str, total: int, unit: str) -> Iterator[Advance]:
        """Open the stage in the other reporter."""
        with self._shown.stage(name, total, unit) as show:
            stages = (
                self._documents(show) if name == DOCUMENTS else self._windows(name, total, show)
            )
            with stages as advance:
                yield advance

    @contextmanager
    def _documents(self, show: Advance) -> Iterator[Advance]:
        span = self._begin()

        def advance(amount: int = 1) -> None:
            nonlocal span
            for _ in range(amount):
                if span is not None:
                    dispatcher.event(HWDAGDocumentEndEvent(document_id=self._document_id))
                    span.close()
                span = self._begin()
            show(amount)

        try:
            yield advance
        except BaseException as error:
            if span is not None:
                span.drop(error)
            raise
        finally:
            self._document_id = ""
        if span is not None:  # stopped by a limit
            span.close()

    def _begin(self) -> OpenSpan | None:
        """The next document; None after the last one."""
        self._document_id = self._waiting.pop() if self._waiting else ""
        if not self._document_id:
            return None
        span = OpenSpan("HWDAGIndex.document", document_id=self._document_id)
        dispatcher.event(HWDAGDocumentStartEvent(document_id=self._document_id))
        return span

    @contextmanager
    def _windows(self, name: str, total: int, show: Advance) -> Iterator[Advance]:
        done, document_id = 0, self._document_id
        span = OpenSpan("HWDAGIndex.stage", stage=name, document_id=document_id)

        def advance(amount: int = 1) -> None:
            nonlocal done
            done += amount
            dispatcher.event(
                HWDAGWindowEvent(document_id=document_id, stage=name, done=done, total=total)
            )
            show(amount)

        try:
            yield advance
        except BaseException as error:
            span.drop(error)
            raise
        span.close(done)

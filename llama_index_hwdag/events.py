"""Events and spans of LlamaIndex's instrumentation.

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
"""Name of the build stage that advances with every document, in order."""


class _Event(BaseEvent):
    @classmethod
    def class_name(cls) -> str:
        """Return the name that handlers see."""
        return cls.__name__


class HWDAGStepEvent(_Event):
    """A node was visited; the fields are those of `Step.to_dict()`."""

    node_id: str
    document_id: str
    level: int
    text: str
    origin: str
    tokens: int
    heading: str
    spans: list[tuple[int, int]]
    position: int
    initial: bool
    kept: bool
    score: float
    attention: float
    similarity: float
    reference: float
    relevance: float | None = None
    p_yes: float | None = None

    @classmethod
    def of(cls, step: Step) -> Self:
        """Return the event of a step."""
        record = step.to_dict()
        return cls(node_id=record.pop("id"), **record)


class HWDAGBuildStartEvent(_Event):
    """A build of these documents starts."""

    document_ids: list[str]


class HWDAGDocumentStartEvent(_Event):
    """A document starts."""

    document_id: str


class HWDAGWindowEvent(_Event):
    """A stage, such as the points of a level, has finished `done` of its `total` windows, or characters."""

    document_id: str
    stage: str
    done: int
    total: int


class HWDAGDocumentEndEvent(_Event):
    """A document is finished: built, unchanged or skipped."""

    document_id: str


class HWDAGBuildEndEvent(_Event):
    """All documents are finished: the lists of `hwdag.BuildReport`, and what was spent."""

    built: list[str]
    unchanged: list[str]
    skipped: list[tuple[str, str]]
    nodes: int
    tokens: int

    @classmethod
    def of(cls, report: BuildReport) -> Self:
        """Return the event of a report."""
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
    """Run `work` in a thread; cancelling the caller ends a walk in it at its next step."""
    abandoned = threading.Event()
    token = _ABANDONED.set(abandoned)  # the thread copies the context
    try:
        return await in_question_thread(work)
    finally:
        abandoned.set()
        _ABANDONED.reset(token)


@contextmanager
def walked_in_steps(
    search: str,
) -> Iterator[tuple[Callable[[Step], None], Callable[[Retrieval], None]]]:
    """Fire an event and record a span for every step of a search.

    Yields one callback for each step and one for the end. A span covers choosing and reading a node,
    from the end of the previous one. The last span chooses no node; its result is the stop reason.
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
    """Fires events and records spans of a build, and passes its progress to another reporter.

    Args:
        document_ids: in build order.
        shown: True for bars, or a reporter.
    """

    def __init__(self, document_ids: Sequence[str], shown: bool | Reporter) -> None:
        self._waiting = list(document_ids)[::-1]
        self._shown = as_reporter(shown)
        self._document_id = ""

    @contextmanager
    def stage(self, name: str, total: int, unit: str) -> Iterator[Advance]:
        """Open the stage here and in the other reporter."""
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
        """Open the span of the next document; None after the last one."""
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

"""Builds of one document each, in this thread or by the builders of an executor; results in their order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from queue import SimpleQueue
from types import TracebackType
from typing import Protocol, Self, runtime_checkable

from hwdag.building.levels import BuiltGraph, GraphBuilder
from hwdag.building.report import RunMeter
from hwdag.threads import Lazy
from hwdag.trace.bars import Reporter, Silent

BEGUN_PER_BUILDER = 2  # documents, so that no builder waits while the oldest document is finished

Build = Callable[[GraphBuilder, Reporter], BuiltGraph]

Start = Callable[[Build], Callable[[], BuiltGraph]]


@runtime_checkable
class Executor(Protocol):
    """Something with models beyond those of this process; `hwdag.RayExecutor` is one."""

    def builders(self, local: GraphBuilder) -> AbstractContextManager[Sequence[GraphBuilder]]:
        """Builders equivalent to `local`, one for each document that is built at a time."""


class BuildQueue:
    """Builds that were begun; a `with` block ends the builders of the executor, if it needed them."""

    def __init__(
        self,
        builder: Lazy[GraphBuilder],
        executor: Executor | None,
        meter: RunMeter,
        reporter: Reporter,
    ) -> None:
        self._builder, self._executor, self._meter = builder, executor, meter
        self._reporter = reporter
        self._most_begun = 0
        self._begun: dict[str, Callable[[], None]] = {}  # by document id
        self._stack = ExitStack()
        self._start = Lazy(lambda: self._stack.enter_context(self._started()))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def __contains__(self, document_id: str) -> bool:
        return document_id in self._begun

    def add(
        self, document_id: str, build: Build, receive: Callable[[Callable[[], BuiltGraph]], None]
    ) -> None:
        """Begin a build. When its turn comes, `receive` is called with a function that waits for the result."""
        self._begun[document_id] = partial(receive, self._start.value(build))
        self.drain(but=self._most_begun)

    def drain(self, but: int = 0) -> None:
        """Wait for the builds that were begun first, for all except the last `but`."""
        while len(self._begun) > but:
            self._begun.pop(next(iter(self._begun)))()

    @contextmanager
    def _started(self) -> Iterator[Start]:
        """Give a function that starts a build and returns a function that waits for its result."""
        local = self._builder.value
        if self._executor is None:
            yield lambda build: partial(build, local, self._reporter)
            return
        with self._executor.builders(local) as builders:
            # why not `local`: remote models count their own usage
            self._meter.measure(builders[0].reader, builders[0].writer)
            self._most_begun = BEGUN_PER_BUILDER * len(builders)
            free: SimpleQueue[GraphBuilder] = SimpleQueue()
            for builder in builders:
                free.put(builder)

            def job(build: Build) -> BuiltGraph:
                builder = free.get()
                try:  # bars of several documents would be written over each other
                    return build(builder, Silent())
                finally:
                    free.put(builder)

            threads = ThreadPoolExecutor(len(builders), thread_name_prefix="hwdag-document")
            try:
                yield lambda build: threads.submit(job, build).result
            finally:
                self._meter.end()
                # why wait: a call that is under way is paid for, and its result is kept
                threads.shutdown(cancel_futures=True)

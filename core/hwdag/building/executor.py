"""Several documents at a time: built in threads that have models of their own, stored in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from queue import SimpleQueue
from typing import Protocol

from hwdag.building.builder import Built
from hwdag.building.tools import Tools


class Executor(Protocol):
    """Who has more models than those of this process; `hwdag.RayExecutor` is one."""

    def models(self, tools: Tools) -> AbstractContextManager[Sequence[Tools]]:
        """Tools that give what `tools` give, one for each document that is built at a time."""


class Crew:
    """Threads that build a document each with the tools that are free, `ahead` documents at a time."""

    def __init__(self, several: Sequence[Tools]) -> None:
        self.ahead = 2 * len(several)
        self._threads = ThreadPoolExecutor(len(several), thread_name_prefix="hwdag-document")
        self._free: SimpleQueue[Tools] = SimpleQueue()
        self._stopped = False
        for tools in several:
            self._free.put(tools)

    def start(self, work: Callable[[Tools], Built]) -> Future[Built]:
        """Have a document built."""

        def job() -> Built:
            tools = self._free.get()
            try:
                return work(tools)
            finally:
                self._free.put(tools)

        return self._threads.submit(job)

    def check(self) -> None:
        """Raise in a thread whose document is no longer wanted."""
        if self._stopped:
            raise Stopped

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, *error: object) -> None:
        # why wait: a call that is under way is paid for, and its result is kept
        self._stopped = True
        self._threads.shutdown(cancel_futures=True)


class Stopped(Exception):
    """Ends a build whose run has ended; never seen by users."""

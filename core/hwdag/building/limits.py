"""How much a build may spend before it stops, to be continued later."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from hwdag.checks import positive
from hwdag.lm.base import Metered, Reader
from hwdag.types import Usage

Stop = Literal["max_tokens", "max_seconds"]
"""The limit that was reached."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one run may spend; None is no limit.

    A run that reaches a limit stops before the next call. What was finished is kept, so the same
    run goes on where it was. Every run makes at least one call.

    Attributes:
        max_tokens: tokens of the local model and the writer together; the last call may exceed it.
        max_seconds: time since the run began; the last call may exceed it.
    """

    max_tokens: int | None = None
    max_seconds: float | None = None

    def __post_init__(self) -> None:
        for name in ("max_tokens", "max_seconds"):
            if getattr(self, name) is not None:
                positive(name, getattr(self, name))


class LimitReached(Exception):
    """Ends a run from within; never seen by users."""

    def __init__(self, limit: Stop) -> None:
        super().__init__(limit)
        self.limit: Stop = limit


class Meter:
    """What a run has spent so far, and whether it may go on.

    A writer counts if it is `Metered`; `clock` gives seconds from any origin.
    """

    def __init__(
        self,
        reader: Reader,
        writer: object,
        limits: Limits,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._reader = reader
        # why: a model that reads and writes counts both in one usage
        self._writer = writer if isinstance(writer, Metered) and writer is not reader else None
        self._asked = writer
        self._limits = limits
        self._clock = clock
        self._began = clock()
        self._before = reader.usage, self._written()
        self._calls = 0

    @property
    def blind(self) -> bool:
        """Whether tokens are limited, and a writer spends some that nobody counts."""
        limited = self._limits.max_tokens is not None
        return limited and self._writer is None and self._asked not in (None, self._reader)

    @property
    def reading(self) -> Usage:
        """Of the local model."""
        return self._reader.usage - self._before[0]

    @property
    def writing(self) -> Usage:
        """Of a writer beside it, as far as that counts."""
        return self._written() - self._before[1]

    def before_call(self) -> None:
        """Count a call; raises `LimitReached` instead where a limit is."""
        self.check()
        self._calls += 1

    def check(self) -> None:
        """Raise `LimitReached` where a limit is, but not before the first call."""
        if self._calls and (limit := self._reached()):
            raise LimitReached(limit)

    def _reached(self) -> Stop | None:
        limits = self._limits
        spent = (self.reading + self.writing).tokens
        if limits.max_tokens is not None and spent >= limits.max_tokens:
            return "max_tokens"
        if limits.max_seconds is not None and self._clock() - self._began >= limits.max_seconds:
            return "max_seconds"
        return None

    def _written(self) -> Usage:
        return Usage() if self._writer is None else self._writer.usage

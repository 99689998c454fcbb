"""What ends a question from outside: a flag that somebody sets, or a time that has passed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Literal, Protocol


class StopFlag(Protocol):
    """Set once nobody waits for the answer any more; `threading.Event` is one."""

    def is_set(self) -> bool:
        """Whether it was set."""


class Interruption:
    """Asked before every forward of a walk, and before every piece of an answer.

    Args:
        stop: ends both; None for no flag.
        max_seconds: ends the walk so long after this was made; what was read is answered from.
    """

    def __init__(self, stop: StopFlag | None = None, max_seconds: float | None = None) -> None:
        self._stop = stop
        self._until = None if max_seconds is None else time.monotonic() + max_seconds

    @property
    def stopped(self) -> bool:
        """Whether the flag was set."""
        return self._stop is not None and self._stop.is_set()

    @property
    def reason(self) -> Literal["stopped", "time"] | None:
        """Why the walk must end now; None if it may go on."""
        if self.stopped:
            return "stopped"
        return "time" if self._until is not None and time.monotonic() >= self._until else None

    def until_stopped(self, pieces: Iterator[str]) -> Iterator[str]:
        """The pieces, up to the one before which the flag was set."""
        while not self.stopped and (piece := next(pieces, None)) is not None:
            yield piece

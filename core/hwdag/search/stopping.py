"""When a walk ends: it is enough (GARLIC 3.2.1, PECAN 3.2.1), or it is interrupted."""

from __future__ import annotations

import time
from typing import Literal

from hwdag.checks import positive
from hwdag.config import NEVER
from hwdag.lm.base import StopFlag
from hwdag.types import Step, StopReason


class Deadline:
    """Asked before every forward of a walk, and before every piece of an answer.

    `stop` ends both; `max_seconds` after this was made the walk ends, and is answered from.
    """

    def __init__(self, stop: StopFlag | None = None, max_seconds: float | None = None) -> None:
        if max_seconds is not None:
            positive("max_seconds", max_seconds)
        self._stop = stop
        self._until = None if max_seconds is None else time.monotonic() + max_seconds

    @property
    def stopped(self) -> bool:
        """Whether the flag was set."""
        return self._stop is not None and self._stop.is_set()

    def is_set(self) -> bool:
        """Return whether the flag was set, as the flag of another call."""
        return self.stopped

    @property
    def reason(self) -> Literal["stopped", "time"] | None:
        """Why the walk must end now; None if it may continue."""
        if self.stopped:
            return "stopped"
        return "time" if self._until is not None and time.monotonic() >= self._until else None


class StoppingRule:
    """Counts every p_yes above the confidence; `patience` of them end a walk, as an interruption does.

    If no p_yes is asked for (`NEVER`), nothing is ever enough, and `says_yes` holds.
    """

    def __init__(self, confidence: float, patience: int, deadline: Deadline | None = None) -> None:
        self.steers = confidence < NEVER
        self.says_yes = not self.steers
        self._confidence = confidence
        self._left = patience
        self._deadline = deadline or Deadline()

    @property
    def reason(self) -> StopReason | None:
        """Why the walk is to end; None while it continues."""
        if self.steers and self._left <= 0:
            return "sufficient"
        return self._deadline.reason

    def take(self, step: Step) -> None:
        """Count one more node that was read."""
        if step.p_yes is None:
            return
        said_yes = step.p_yes > self._confidence
        self.says_yes = said_yes or not self.steers
        self._left -= said_yes

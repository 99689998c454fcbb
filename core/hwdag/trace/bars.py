"""Progress of long work: a reporter protocol, tqdm bars, and silence."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, redirect_stderr
from dataclasses import dataclass
from typing import Any, Protocol, TextIO, runtime_checkable

from hwdag.errors import InputError

BYTES = "B"
"""The unit of stages that are counted in characters, or bytes; bars shorten their numbers."""

WATCHED_SECONDS, LOGGED_SECONDS = 0.1, 30.0
"""Seconds between updates: on a terminal, and in a log, where each update is a line."""

Advance = Callable[..., object]  # call it after each piece of work, or with a number of pieces


@runtime_checkable
class Reporter(Protocol):
    """Shows stages of work, each with a name, a total and a unit."""

    @contextmanager
    def stage(self, name: str, total: int, unit: str) -> Iterator[Advance]:
        """Open a context in which `advance(amount)` may be called until `total` is reached."""


class Silent:
    """Reports nothing."""

    @contextmanager
    def stage(self, name: str, total: int, unit: str) -> Iterator[Advance]:
        """Do nothing."""
        yield lambda amount=1: None


class Bars:
    """One tqdm bar per stage, on standard error; other messages there appear whole, above the bars."""

    def __init__(self) -> None:
        self._stream: TextIO | None = None  # that show the bars of open stages

    @contextmanager
    def stage(self, name: str, total: int, unit: str) -> Iterator[Advance]:
        """Show a bar with rate and remaining time."""
        from tqdm.auto import tqdm

        with (
            self._whole_messages() as stream,
            tqdm(
                total=total,
                desc=name,
                unit=unit if unit == BYTES else f" {unit}",
                unit_scale=unit == BYTES,
                file=stream,
                leave=False,
                dynamic_ncols=True,
                mininterval=WATCHED_SECONDS if _is_watched(stream) else LOGGED_SECONDS,
            ) as bar,
        ):
            yield bar.update

    @contextmanager
    def _whole_messages(self) -> Iterator[TextIO]:
        if self._stream is not None:
            yield self._stream
            return
        from tqdm.contrib import DummyTqdmFile
        from tqdm.contrib.logging import logging_redirect_tqdm

        self._stream = sys.stderr
        messages: Any = DummyTqdmFile(self._stream)
        # why a condition: the redirection gives a root logger without handlers one that shows all
        logs = logging_redirect_tqdm() if logging.getLogger().handlers else nullcontext()
        try:
            with logs, redirect_stderr(messages):
                yield self._stream
        finally:
            self._stream = None


def _is_watched(stream: TextIO) -> bool:
    """Return whether a stream goes to a terminal, or to a notebook, which draws bars of its own."""
    return stream.isatty() or "ipykernel" in sys.modules


@dataclass(frozen=True, slots=True)
class Advanced:
    """Progress of a stage; `total` is 0 if unknown."""

    stage: str
    done: int
    total: int
    unit: str


class Reporting:
    """Calls `report` for each finished piece of work, in the working thread, and forwards to `shown`."""

    def __init__(self, report: Callable[[Advanced], object], shown: bool | Reporter) -> None:
        self._report = report
        self._shown = as_reporter(shown)

    @contextmanager
    def stage(self, name: str, total: int, unit: str) -> Iterator[Advance]:
        """Open the stage, in the other reporter too."""
        done = 0
        with self._shown.stage(name, total, unit) as show:

            def advance(amount: int = 1) -> None:
                nonlocal done
                done += amount
                show(amount)
                self._report(Advanced(name, done, total, unit))

            yield advance


def as_reporter(progress: bool | Reporter) -> Reporter:
    """Return bars for `True`, silence for `False`, a reporter as it is. Raises `InputError` for others."""
    if isinstance(progress, bool):
        return Bars() if progress else Silent()
    if not isinstance(progress, Reporter):
        raise InputError(f"show_progress must be True, False or a reporter, got {progress!r}")
    return progress

"""The work and the cost of a build, and its limits: counted, so that nothing degrades silently."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass, field
from typing import Literal

from hwdag.checks import positive
from hwdag.lm.base import Metered, Reader
from hwdag.types import Usage

Stop = Literal["max_tokens", "max_seconds"]  # the limit that ended a run
MOST_NAMED = 5  # documents that are named for one reason
MOST_DELETED = 20  # deleted documents that are named


@dataclass(slots=True)
class BuildReport:
    """The result of an insertion.

    Attributes:
        built: ids of documents whose graph was built.
        unchanged: ids of documents that were there already, with the same content.
        skipped: (document id, reason) of input that holds nothing to index.
        deleted: ids of documents that were removed because they are gone from the source.
        copies: groups of ids of documents with the same text, each with one that was built.
        nodes: nodes made.
        retries: windows or passages that were asked about again: the first reply had no usable point.
        fallbacks: those without a usable point in any reply; their points are extractive.
        refused: written points that were left out (`hwdag.text.near_copies`): copies of their window or of
            another point, and those whose years belong to another sentence.
        too_long: replies that took all the tokens that points may take of their window.
        without_points: documents that have leaves alone although the method has points: they are too short,
            or their points did not condense.
        reused: calls of a model that an earlier run, or an earlier version of a document, had
            finished: replies, replayed windows, extractions and batches of embeddings.
        notes: guards that came into effect, in words.
        usage: tokens, TFLOPs and seconds of the local model.
        writing: the same of a separate writer; zero if it does not count them.
        stopped: the limit that ended the run, None if it went through.
        pending: documents that were not finished because of that; None if their number is not
            known, because they came from an iterator.
    """

    built: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    copies: list[list[str]] = field(default_factory=list)
    nodes: int = 0
    retries: int = 0
    fallbacks: int = 0
    refused: int = 0
    too_long: int = 0
    without_points: int = 0
    reused: int = 0
    notes: list[str] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    writing: Usage = field(default_factory=Usage)
    stopped: Stop | None = None
    pending: int | None = 0

    def __str__(self) -> str:
        lines = [
            f"documents: {len(self.built)} built, {len(self.unchanged)} unchanged, "
            f"{len(self.skipped)} skipped, {len(self.deleted)} deleted; nodes: {self.nodes}",
        ]
        if self.usage != Usage():
            lines.append(f"{_spent(self.usage)} in the model")
        if self.writing != Usage():
            lines.append(f"{_spent(self.writing)} in the writer")
        if self.reused:
            lines.append(f"finished calls that were used again: {self.reused}")
        if self.retries or self.fallbacks:
            lines.append(
                f"retries: {self.retries}; passages that fell back to extraction: {self.fallbacks}"
            )
        if self.refused or self.too_long:
            lines.append(
                f"copied or misdated points that were refused: {self.refused}; replies that took all "
                f"the tokens that they may take: {self.too_long}"
            )
        if self.without_points:
            lines.append(
                f"documents that are too short for points, or whose points did not condense: "
                f"{self.without_points}"
            )
        if self.stopped:
            left = "more" if self.pending is None else f"{self.pending} more"
            lines.append(f"stopped at {self.stopped}, {left} to build; run the same again to go on")
        lines += _skipped_lines(self.skipped)
        if self.deleted:
            lines.append(f"deleted {named(self.deleted, MOST_DELETED)}")
        return "\n".join([*lines, *self.notes])

    @property
    def copies_warning(self) -> str:
        """One line about documents with the same text, with the way out; "" if there are none."""
        if not self.copies:
            return ""
        count = sum(map(len, self.copies)) - len(self.copies)
        return (
            f"{count} documents have the text of another one, the first under {named(self.copies[0])}: a "
            "search finds them all, in place of other texts; delete the copies, and give a document the "
            "same id each time that it is read"
        )


def named(names: Sequence[str], most: int = MOST_NAMED) -> str:
    """Name documents, and count those beyond the first ones."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


def _skipped_lines(skipped: Sequence[tuple[str, str]]) -> Iterator[str]:
    by_reason: dict[str, list[str]] = {}
    for name, reason in skipped:
        by_reason.setdefault(reason, []).append(name)
    for reason, names in by_reason.items():
        yield f"skipped {named(names)}: {reason}"


def _spent(usage: Usage) -> str:
    return f"{usage.tokens:,} tokens, {usage.tflops:.2f} TFLOPs, {usage.seconds:.1f} s"


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one run, None without a limit: it stops before the next call, and always makes one."""

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
    """The cost of a run so far, and whether it may continue; a writer counts if it is `Metered`."""

    def __init__(
        self, reader: Reader, writer: object, limits: Limits, began: float | None = None
    ) -> None:
        self._reader = reader
        # why: a model that reads and writes counts both in one usage
        self._writer = writer if isinstance(writer, Metered) and writer is not reader else None
        uncounted = writer not in (None, reader) and self._writer is None
        self._limits = limits
        self._began = time.monotonic() if began is None else began
        self._before = reader.usage, self._written()
        self._calls = 0
        self.notes: list[str] = []
        if uncounted and limits.max_tokens is not None:
            self.notes.append("max_tokens does not count this writer: it has no `usage`")

    @property
    def reading(self) -> Usage:
        """Of the local model."""
        return self._reader.usage - self._before[0]

    @property
    def writing(self) -> Usage:
        """Cost of a separate writer, as far as it counts."""
        return self._written() - self._before[1]

    def before_call(self) -> None:
        """Count a call; raises `LimitReached` instead at a limit."""
        self.check()
        self._calls += 1

    def check(self) -> None:
        """Raise `LimitReached` at a limit, but not before the first call."""
        limits, spent = self._limits, (self.reading + self.writing).tokens
        if not self._calls:
            return
        if limits.max_tokens is not None and spent >= limits.max_tokens:
            raise LimitReached("max_tokens")
        if limits.max_seconds is not None and time.monotonic() - self._began >= limits.max_seconds:
            raise LimitReached("max_seconds")

    def _written(self) -> Usage:
        return Usage() if self._writer is None else self._writer.usage


class RunMeter:
    """The meter of a run. It starts before the first call of a model: a run without changes loads none.

    `models` gives the reader and the writer whose calls count.
    """

    def __init__(self, limits: Limits, models: Callable[[], tuple[Reader, object]]) -> None:
        self._limits, self._models = limits, models
        self._began = time.monotonic()
        self._meter: Meter | None = None
        self._is_over = False

    def measure(self, reader: Reader, writer: object) -> None:
        """Start to count the calls of these models."""
        self._meter = Meter(reader, writer, self._limits, self._began)

    def before_call(self) -> None:
        """Count a call. Raises `LimitReached` at a limit, and `CancelledError` once the run is over."""
        if self._is_over:
            raise CancelledError("the run has ended, so nobody waits for this document")
        if self._meter is None:
            self.measure(*self._models())
        assert self._meter is not None  # `measure` has set it
        self._meter.before_call()

    def check(self) -> None:
        """Raise `LimitReached` at a limit."""
        if self._meter is not None:
            self._meter.check()

    def end(self) -> None:
        """Refuse further calls."""
        self._is_over = True

    def add_to(self, report: BuildReport) -> None:
        """Add the cost of the run to its report."""
        if (meter := self._meter) is not None:
            report.notes += meter.notes
            report.usage, report.writing = meter.reading, meter.writing

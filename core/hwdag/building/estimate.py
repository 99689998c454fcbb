"""What a build will cost, before it is paid for.

The documents are built for trial, with stand-ins for the models (`hwdag.building.trial`). A short
calibration asks the real models about two windows, to learn how long points turn out and how fast
this machine is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Self, TypeVar

import numpy as np

from hwdag.building.builder import Tools
from hwdag.building.insertion import as_document
from hwdag.building.limits import Limits, Meter
from hwdag.building.points import fitting, summary_prompt
from hwdag.building.trial import Lengths, Work, filling, length_of, trial
from hwdag.building.windows import line_costs
from hwdag.building.writing import ask
from hwdag.lm.base import CountsFlops, Metered, Reader, ReplayRequest, Writer
from hwdag.text.characters import without_surrogates
from hwdag.text.points import parse_points
from hwdag.types import Document

SAMPLE = 16
"""Documents that the windows of a calibration are chosen from."""

QUARTILES = (0.25, 0.75)
"""The real models are asked about the windows at these shares of all tokens, ordered by length."""

SPREAD = 1.25
"""What the ends of a time range are moved by: two windows are few, and machines have moods."""

Clock = Callable[[], float]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Estimate:
    """What building some documents will cost, as if each were new.

    Attributes:
        documents: documents that will be built.
        skipped: documents that hold nothing to index.
        leaves: nodes of level 1.
        windows: windows of all levels, each of which is replayed once.
        writer_calls: prompts, retries included; 0 where points are extracted.
        writer_tokens: of these prompts, and of the replies.
        replay_tokens: tokens that pass through the reader for the edges.
        tokens: what the build report will count, `usage` and `writing` together.
        tflops: the same, as far as the models count them.
        seconds: from and to, on this machine; None without a calibration.
        notes: what the figures rest on, in words.
    """

    documents: int
    skipped: int
    leaves: int
    windows: int
    writer_calls: int
    writer_tokens: tuple[int, int]
    replay_tokens: int
    tokens: int
    tflops: float
    seconds: tuple[float, float] | None
    notes: tuple[str, ...]

    def __str__(self) -> str:
        lines = [
            f"{self.documents:,} documents to build, {self.skipped:,} to skip; "
            f"{self.leaves:,} leaves, {self.windows:,} windows",
            f"about {self.tokens:,} tokens, {self.tflops:,.2f} TFLOPs",
        ]
        if self.writer_calls:
            prompts, replies = self.writer_tokens
            lines.append(
                f"about {self.writer_calls:,} calls of the writer: {prompts:,} tokens of prompts, "
                f"{replies:,} of replies"
            )
        if self.seconds:
            lines.append(" to ".join(map(_duration, self.seconds)) + " on this machine")
        return "\n".join([*lines, *self.notes])


def estimate(
    documents: Iterable[Document | str],
    tools: Tools,
    *,
    calibrate: bool = True,
    clock: Clock = time.perf_counter,
) -> Estimate:
    """Estimate what building these documents will cost, as if each were new.

    Args:
        documents: held in memory all at once.
        tools: what the build would work with.
        calibrate: ask the real models about two windows. Without it there is no time, and written
            points are taken to fill the room that they have.
        clock: seconds, from any origin.

    Raises:
        ContextTooSmall: the reader's context cannot hold one chunk and the prompt.
        WriterFailed: the writer failed in the calibration.
    """
    found = [as_document(document) for document in documents]
    full = [replace(d, text=without_surrogates(d.text)[0]) for d in found if d.text.strip()]
    measured = _Measured.of(full, tools, clock) if calibrate and full else None
    began = clock()
    work = trial(full, tools, measured.lengths if measured else filling(tools))
    prompts, replies = sum(p for p, _ in work.written), sum(r for _, r in work.written)
    is_counted = isinstance(tools.writer, Metered)
    return Estimate(
        documents=len(full),
        skipped=len(found) - len(full),
        leaves=work.leaves,
        windows=len(work.replayed),
        writer_calls=len(work.written),
        writer_tokens=(prompts, replies),
        replay_tokens=sum(work.replayed),
        tokens=sum(work.replayed) + is_counted * (prompts + replies),
        tflops=_tflops(work, tools, measured),
        seconds=measured.seconds(work, tools, clock() - began) if measured else None,
        notes=(*_assumptions(work, tools), measured.note if measured else NOT_CALIBRATED),
    )


NOT_CALIBRATED = (
    "not calibrated: no model was asked, so nothing is known about time, and the length of "
    "generated points, if any, is a guess"
)


def _assumptions(work: Work, tools: Tools) -> list[str]:
    """What was taken for granted, in words."""
    found = []
    if work.unusable:
        found.append(
            "the replies of the calibration held no point, so each window is taken to need a retry "
            "and to fall back to extraction"
        )
    if tools.writer is not None and not isinstance(tools.writer, Metered):
        found.append("the writer does not count its tokens, so the total is without them")
    return found


@dataclass(frozen=True, slots=True)
class _Measured:
    """What the real models did with a few windows.

    `read` are the extremes of the seconds per unit of work of a replay (see `_units`), `written`
    those per token of a reply, `embedded` the seconds per character.
    """

    lengths: Lengths
    read: tuple[float, float]
    written: tuple[float, float]
    embedded: float
    flops_per_unit: float
    note: str

    @classmethod
    def of(cls, documents: Sequence[Document], tools: Tools, clock: Clock) -> Self:
        """Ask the real models; raises `WriterFailed`."""
        timer, spent = _Timer(clock), Meter(tools.reader, tools.writer, Limits())
        # why two levels: the windows above them consist of what stand-ins made up
        low = replace(tools, config=replace(tools.config, max_levels=2))
        requests = _typical(trial(_spread(documents), low, filling(tools), keep=True))
        lengths, written = filling(tools), (0.0, 0.0)
        if tools.writer is not None:
            lengths, written = _asked(tools.writer, requests, tools, timer)
        read, flops = _read(requests, tools, timer)
        embedded = _embedded(requests, tools, timer)
        tokens = spent.reading.tokens + spent.writing.tokens
        note = (
            f"calibrated on {len(requests)} windows: {tokens:,} tokens, {timer.total:.1f} s, which "
            "are not part of the figures above"
        )
        return cls(lengths, read, written, embedded, flops, note)

    def seconds(self, work: Work, tools: Tools, overhead: float) -> tuple[float, float]:
        """From and to, for all of the work; `overhead` is what goes on beside the models."""
        units = sum(_units(length, tools.reader) for length in work.replayed)
        replies = sum(reply for _, reply in work.written)
        low, high = (
            overhead + work.embedded * self.embedded + units * read + replies * written
            for read, written in zip(self.read, self.written, strict=True)
        )
        return low / SPREAD, high * SPREAD


class _Timer:
    """Runs something and says how long it took."""

    def __init__(self, clock: Clock) -> None:
        self.total = 0.0
        self._clock = clock

    def __call__(self, work: Callable[[], T]) -> tuple[T, float]:
        began = self._clock()
        result = work()
        seconds = self._clock() - began
        self.total += seconds
        return result, seconds


def _spread(documents: Sequence[Document]) -> list[Document]:
    """Up to `SAMPLE` documents from all over."""
    places = np.linspace(0, len(documents) - 1, min(SAMPLE, len(documents)))
    return [documents[round(place)] for place in places]


def _typical(work: Work) -> list[ReplayRequest]:
    """The windows at `QUARTILES`, shortest first, none twice."""
    order = np.argsort(work.replayed, kind="stable")
    held = np.cumsum(np.array(work.replayed)[order])
    places = np.searchsorted(held, np.multiply(QUARTILES, held[-1]))
    return [work.requests[order[place]] for place in dict.fromkeys(places.tolist())]


def _asked(
    writer: Writer, requests: Sequence[ReplayRequest], tools: Tools, timer: _Timer
) -> tuple[Lengths, tuple[float, float]]:
    """What the writer made of these windows, and from and to how many seconds a token took."""
    reader, limit = tools.reader, tools.plan.points_tokens
    prompts = [summary_prompt(r.before, r.segments, r.after) for r in requests]
    replies, seconds = timer(partial(ask, writer, prompts, max_new_tokens=limit))
    content = [sum(line_costs(request.segments, reader)) for request in requests]
    points = [sum(line_costs(fitting(parse_points(r), reader, limit), reader)) for r in replies]
    tokens = reader.count_tokens(replies)
    found = sorted(zip(content, tokens, points, strict=True))
    lengths = Lengths(
        tuple(size for size, _, _ in found),
        tuple(reply / size for size, reply, _ in found),
        tuple(made / size for size, _, made in found),
        dict(zip(prompts, replies, strict=True)),
    )
    per_token = seconds / max(1, sum(tokens))
    # why: with full batches a local model writes several replies in the time of one
    together = min(1.0, len(replies) / tools.config.batch_size)
    return lengths, (per_token * together, per_token)


def _read(
    requests: Sequence[ReplayRequest], tools: Tools, timer: _Timer
) -> tuple[tuple[float, float], float]:
    """From and to how many seconds a unit of work took, and its TFLOPs."""
    reader, before = tools.reader, tools.reader.usage
    units = [_units(length_of(request, reader), reader) for request in requests]
    rates = []
    for request, work in zip(requests, units, strict=True):
        _, seconds = timer(partial(reader.replay, [request], heads=tools.config.edge_heads))
        rates.append(seconds / work)
    return (min(rates), max(rates)), (reader.usage - before).tflops / sum(units)


def _embedded(requests: Sequence[ReplayRequest], tools: Tools, timer: _Timer) -> float:
    """Seconds that embedding took per character."""
    parts = [
        text[span.start : span.end]
        for request in requests
        for text, spans in zip(request.segments, request.units, strict=True)
        for span in spans
    ]
    _, seconds = timer(partial(tools.embedder.embed, parts))
    return seconds / sum(map(len, parts))


def _units(tokens: int, reader: Reader) -> float:
    """What the time of a window grows with: TFLOPs, or tokens where those are not known."""
    return reader.tflops(tokens, 0) if isinstance(reader, CountsFlops) else float(tokens)


def _tflops(work: Work, tools: Tools, measured: _Measured | None) -> float:
    """Of replays and, where a local model writes, of its prompts and replies."""
    reader, writer = tools.reader, tools.writer
    # why measured: reading attention on the side costs something too
    factor = measured.flops_per_unit if measured else float(isinstance(reader, CountsFlops))
    total = factor * sum(_units(length, reader) for length in work.replayed)
    if isinstance(writer, CountsFlops):
        total += sum(
            writer.tflops(prompt, 0) + writer.tflops(reply, prompt, logit_rows=reply)
            for prompt, reply in work.written
        )
    return total


def _duration(seconds: float) -> str:
    """A length of time for people: 48 s, 12 min, 3.5 h."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"

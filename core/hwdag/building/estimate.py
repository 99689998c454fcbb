"""What a build will cost, before it is paid for.

The documents are built with stand-ins for the models (`hwdag.building.counting`). Before that the
real models are timed on two windows, to learn how long points turn out and how fast this machine is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import numpy as np

from hwdag.building.builder import Tools
from hwdag.building.counting import Lengths, Work, count_work, length_of
from hwdag.building.insertion import as_document
from hwdag.building.limits import Limits, Meter
from hwdag.building.points import fitting, summary_prompt
from hwdag.building.windows import line_costs
from hwdag.building.writing import ask, prompts_at_once
from hwdag.lm.base import CountsFlops, Metered, Reader, ReplayRequest
from hwdag.text.characters import without_surrogates
from hwdag.text.points import parse_points
from hwdag.types import Document

SAMPLE = 16
"""Documents that the timed windows are chosen from."""

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
        seconds: from and to, on this machine; None where nothing was timed.
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
    timed: bool = True,
    clock: Clock = time.perf_counter,
) -> Estimate:
    """Estimate what building these documents will cost, as if each were new.

    Args:
        documents: held in memory all at once.
        tools: what the build would work with.
        timed: ask the real models about two windows. Without it there is no time, and written
            points are taken to fill the room that they have.
        clock: seconds, from any origin.

    Raises:
        ContextTooSmall: the reader's context cannot hold one chunk and the prompt.
        WriterFailed: the writer failed at a timed window.
    """
    found = [as_document(document) for document in documents]
    full = [replace(d, text=without_surrogates(d.text)[0]) for d in found if d.text.strip()]
    rates = _timed(full, tools, clock) if timed and full else None
    began = clock()
    work = count_work(full, tools, rates.lengths if rates else Lengths.filling(tools))
    overhead = clock() - began
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
        tflops=_tflops(work, tools, rates),
        seconds=rates.seconds(work, tools.reader, overhead) if rates else None,
        notes=(*_assumptions(work, tools), rates.note if rates else NOT_TIMED),
    )


NOT_TIMED = (
    "not timed: no model was asked, so nothing is known about time, and the length of generated "
    "points, if any, is a guess"
)


def _assumptions(work: Work, tools: Tools) -> list[str]:
    found = []
    if work.unusable:
        found.append(
            "the replies to the timed windows held no point, so each window is taken to need a retry "
            "and to fall back to extraction"
        )
    if tools.writer is not None and not isinstance(tools.writer, Metered):
        found.append("the writer does not count its tokens, so the total is without them")
    return found


@dataclass(frozen=True, slots=True)
class _Rates:
    """What the real models did with a few windows; seconds are from and to."""

    lengths: Lengths
    read: tuple[float, float]  # seconds per unit of work of a replay, see `_units`
    written: tuple[float, float]  # seconds per token of a reply
    embedded: float  # seconds per character
    flops_per_unit: float
    note: str

    def seconds(self, work: Work, reader: Reader, overhead: float) -> tuple[float, float]:
        units = sum(_units(length, reader) for length in work.replayed)
        replies = sum(reply for _, reply in work.written)
        low, high = (
            overhead + work.embedded * self.embedded + units * read + replies * written
            for read, written in zip(self.read, self.written, strict=True)
        )
        return low / SPREAD, high * SPREAD


def _timed(documents: Sequence[Document], tools: Tools, clock: Clock) -> _Rates:
    reader, embedder, heads = tools.reader, tools.embedder, tools.config.edge_heads
    spent, total = Meter(reader, tools.writer, Limits()), 0.0

    def timed(work: Callable[[], T]) -> tuple[T, float]:
        nonlocal total
        began = clock()
        result = work()
        seconds = clock() - began
        total += seconds
        return result, seconds

    requests = _typical(documents, tools)
    lengths, written = Lengths.filling(tools), (0.0, 0.0)
    if tools.writer is not None:
        prompts = [summary_prompt(r.before, r.segments, r.after) for r in requests]
        limit = tools.plan.points_tokens
        replies, seconds = timed(partial(ask, tools.writer, prompts, max_new_tokens=limit))
        lengths = _lengths(requests, prompts, replies, tools)
        per_token = seconds / max(1, sum(reader.count_tokens(replies)))
        # why: with full batches a local model writes several replies in the time of one
        at_once = prompts_at_once(tools.writer, tools.config.batch_size)
        together = min(1.0, len(replies) / at_once)
        written = per_token * together, per_token
    before, units = reader.usage, [_units(length_of(r, reader), reader) for r in requests]
    replayed = [timed(partial(reader.replay, [r], heads=heads))[1] for r in requests]
    read = [seconds / unit for seconds, unit in zip(replayed, units, strict=True)]
    flops = (reader.usage - before).tflops / sum(units)
    texts = [text for request in requests for text in request.segments]
    _, seconds = timed(partial(embedder.embed, texts))
    tokens = spent.reading.tokens + spent.writing.tokens
    return _Rates(
        lengths,
        (min(read), max(read)),
        written,
        seconds / sum(map(len, texts)),
        flops,
        f"timed on {len(requests)} windows: {tokens:,} tokens, {total:.1f} s, which are not part of "
        "the figures above",
    )


def _typical(documents: Sequence[Document], tools: Tools) -> list[ReplayRequest]:
    """Choose the windows at `QUARTILES` of some documents, shortest first, none twice."""
    places = np.linspace(0, len(documents) - 1, min(SAMPLE, len(documents)))
    sample = [documents[round(place)] for place in places]
    # why two levels: the windows above them consist of what stand-ins made up
    low = replace(tools, config=replace(tools.config, max_levels=2))
    work = count_work(sample, low, Lengths.filling(tools))
    order = np.argsort(work.replayed, kind="stable")
    held = np.cumsum(np.array(work.replayed)[order])
    at = np.searchsorted(held, np.multiply(QUARTILES, held[-1]))
    return [work.requests[order[i]] for i in dict.fromkeys(at.tolist())]


def _lengths(
    requests: Sequence[ReplayRequest], prompts: Sequence[str], replies: Sequence[str], tools: Tools
) -> Lengths:
    reader, limit = tools.reader, tools.plan.points_tokens
    content = [sum(line_costs(request.segments, reader)) for request in requests]
    points = [sum(line_costs(fitting(parse_points(r), reader, limit), reader)) for r in replies]
    found = sorted(zip(content, reader.count_tokens(replies), points, strict=True))
    return Lengths(
        tuple(size for size, _, _ in found),
        tuple(reply / size for size, reply, _ in found),
        tuple(made / size for size, _, made in found),
        dict(zip(prompts, replies, strict=True)),
    )


def _units(tokens: int, reader: Reader) -> float:
    """Tell what the time of a window grows with: TFLOPs, or tokens where those are not known."""
    return reader.tflops(tokens, 0) if isinstance(reader, CountsFlops) else float(tokens)


def _tflops(work: Work, tools: Tools, rates: _Rates | None) -> float:
    reader, writer = tools.reader, tools.writer
    # why timed ones: reading attention on the side costs something too
    factor = rates.flops_per_unit if rates else float(isinstance(reader, CountsFlops))
    total = factor * sum(_units(length, reader) for length in work.replayed)
    if isinstance(writer, CountsFlops):
        total += sum(
            writer.tflops(prompt, 0) + writer.tflops(reply, prompt, logit_rows=reply)
            for prompt, reply in work.written
        )
    return total


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"

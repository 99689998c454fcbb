"""What a build will cost, before it is made: calls, tokens, TFLOPs, and seconds from a timed call.

The windows over the leaves are those of the build. How long replies are, and so how many windows the
levels above have, is assumed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import ceil

from hwdag.building.levels import MAX_LEVELS, GraphBuilder
from hwdag.lm.base import Timed
from hwdag.types import Document

REPLY_SHARE = 1 / 4
"""Tokens of a reply per token of its window: what the prompt of "hwdag" brings (`benchmarks/points.py`)."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """What the models of a build will have to do.

    Attributes:
        documents: those whose graph is to be built; what is unchanged costs nothing.
        calls: replies to write, and windows to replay.
        tokens: that pass through reader and writer.
        tflops: of the local models; 0 where they cannot tell.
        seconds: of reading and writing; None where nobody can time the models, as with one on a server.
            Embedding is not counted.
    """

    documents: int
    calls: int
    tokens: int
    tflops: float
    seconds: float | None

    def __str__(self) -> str:
        said = f"documents to build: {self.documents:,}; about {self.calls:,} calls, {self.tokens:,} tokens"
        if self.tflops:
            said += f", {self.tflops:,.1f} TFLOPs"
        if self.calls:
            time = "unknown" if self.seconds is None else _time(self.seconds)
            said += f"; time in the models: {time}"
        return said


def estimate(builder: GraphBuilder, documents: Iterable[Document]) -> Estimate:
    """Estimate a build of these documents, each as if no call of it was finished yet.

    A model that can be timed (`hwdag.lm.base.Timed`) is, for a few seconds.
    """
    count, first, above = 0, list[tuple[int, int]](), list[list[tuple[int, int]]]()
    for document in documents:
        count += 1
        lowest, *others = [*_levels(builder, document)] or [[]]
        first += lowest
        above += others
    levels = [first, *above]
    windows = [window for level in levels for window in level]
    prompts, replies = (sum(pair[i] for pair in windows) for i in (0, 1))
    reader = builder.reader
    writer: object = builder.writer  # often the reader itself
    reads, tflops = prompts + replies, 0.0
    seconds: float | None = 0.0
    if windows and isinstance(reader, Timed):
        speed = reader.speed()
        tflops += sum(reader.tflops(prompt + reply, 0, logit_rows=0) for prompt, reply in windows)
        seconds = reads * speed.read
        if writer is reader:
            tflops += sum(
                reader.tflops(prompt, 0) + reader.tflops(reply, prompt, logit_rows=reply)
                for prompt, reply in windows
            )
            # why by level: the first one of all documents is written together, and the next ones need it
            at_once = int(getattr(writer, "concurrency", 1))
            steps = sum(
                sum(sorted((reply for _, reply in level), reverse=True)[::at_once])
                for level in levels
            )
            seconds += prompts * speed.read + steps * speed.step
    elif windows:
        seconds = None
    if writer is not None:
        reads *= 2
        seconds = seconds if writer is reader else None
    calls = len(windows) * (1 if writer is None else 2)
    return Estimate(count, calls, reads, tflops, seconds if windows else 0.0)


def _levels(builder: GraphBuilder, document: Document) -> Iterator[list[tuple[int, int]]]:
    """Yield the tokens of the prompt and of the reply of the windows of every level of a document."""
    plan, reader = builder.plan, builder.reader
    windows = [window.tokens for window in builder.first_windows(document)]
    if not windows:
        return
    overhead = reader.template_tokens + sum(
        reader.count_tokens(list(plan.prompt.cut(plan.language)))
    )
    for height in range(2, MAX_LEVELS + 1):
        if len(windows) == 1 and height > 2 and not builder.config.rules.is_paper:
            return
        replies = [min(plan.points_tokens, ceil(REPLY_SHARE * window)) for window in windows]
        yield [(overhead + window, reply) for window, reply in zip(windows, replies, strict=True)]
        if len(windows) == 1:
            return
        full, rest = divmod(sum(replies), plan.content_tokens)
        windows = [plan.content_tokens] * full + [rest] * bool(rest)


def _time(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"

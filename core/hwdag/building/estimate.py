"""The cost of a build, before it is made: calls, tokens, TFLOPs, and seconds from a timed call.

The windows over the leaves are those of the build. How long replies are, and so how many windows the
levels above have, is assumed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import ceil
from typing import NamedTuple

from hwdag.building.levels import MAX_LEVELS, GraphBuilder
from hwdag.building.points import passages_in
from hwdag.building.windows import PASSAGE_TOKENS, WindowPlan
from hwdag.lm.base import Timed
from hwdag.text.draft import Draft

REPLY_SHARE = 1 / 4
"""Tokens of a reply per token of its window, with the prompt of "hwdag" (`benchmarks/points.py`)."""

SECOND_SHARE = 1 / 10
"""Share of the passages of a level, at least one, that are asked about again since their points were copies."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """The work of the models in a build.

    Attributes:
        documents: those whose graph is to be built; unchanged documents cost nothing.
        calls: replies to write, and windows to replay.
        tokens: that pass through reader and writer.
        tflops: of the local models; 0 if unknown.
        seconds: of reading and writing; None if the models cannot be timed, as on a server.
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


def estimate(builder: GraphBuilder, drafts: Iterable[Draft]) -> Estimate:
    """Estimate a build of these documents, each as if no call of it was finished yet.

    A model that can be timed (`hwdag.lm.base.Timed`) is, for a few seconds.
    """
    count, first, above = 0, _Level([], []), list[_Level]()
    for draft in drafts:
        count += 1
        for height, level in enumerate(_levels(builder, draft.working_copy())):
            if height:
                above.append(level)
            else:
                first.written.extend(level.written)
                first.replayed.extend(level.replayed)
    levels = [first, *above]
    reader = builder.reader
    writer: object = builder.writer  # often the reader itself
    replayed = [call for level in levels for call in level.replayed]
    again = SECOND_SHARE if builder.plan.has_passages else 0.0
    asked = levels if writer is not None else []
    rounds = [calls for level in asked for calls in _rounds(level.written, again)]
    written = [call for calls in rounds for call in calls]
    seconds: float | None = None
    tflops = 0.0
    if replayed and isinstance(reader, Timed):
        tflops = sum(reader.tflops(call.tokens, 0, logit_rows=0) for call in replayed)
        if writer is None or writer is reader:
            tflops += sum(
                reader.tflops(call.prompt, 0)
                + reader.tflops(call.reply, call.prompt, logit_rows=call.reply)
                for call in written
            )
            # why by level: the first one of all documents is written together, and the next ones need it
            at_once = int(getattr(writer, "concurrency", 1))
            steps = sum(sum(call.reply for call in calls[::at_once]) for calls in rounds)
            speed = reader.speed()
            read = sum(call.tokens for call in replayed) + sum(call.prompt for call in written)
            seconds = read * speed.read + steps * speed.step
    tokens = sum(call.tokens for call in [*written, *replayed])
    calls = len(written) + len(replayed)
    return Estimate(count, calls, tokens, tflops, seconds if replayed else 0.0)


class _Call(NamedTuple):
    """Tokens of a prompt, and of the reply or replay after it."""

    prompt: int
    reply: int

    @property
    def tokens(self) -> int:
        return self.prompt + self.reply


class _Level(NamedTuple):
    """The prompts of a level, and the windows that are replayed."""

    written: list[_Call]
    replayed: list[_Call]


def _rounds(written: list[_Call], again: float) -> Iterator[list[_Call]]:
    """Yield the calls of a level, the longest replies first, and those that are made a second time."""
    longest = sorted(written, key=lambda call: -call.reply)
    yield longest
    yield longest[: ceil(again * len(written))]


def _levels(builder: GraphBuilder, draft: Draft) -> Iterator[_Level]:
    """Yield the calls of every level of a document."""
    plan = builder.plan
    windows = [
        [passage.tokens for passage in passages_in([window])]
        for window in builder.first_windows(draft)
    ]
    if not windows:
        return
    overhead = plan.prompt_tokens
    for height in range(2, MAX_LEVELS + 1):
        if len(windows) == 1 and height > 2 and not builder.config.rules.follows_papers:
            return
        replies = [[min(plan.reply_tokens, ceil(REPLY_SHARE * n)) for n in one] for one in windows]
        yield _Level(
            [
                _Call(overhead + tokens, reply)
                for one, several in zip(windows, replies, strict=True)
                for tokens, reply in zip(one, several, strict=True)
            ],
            [
                _Call(overhead + sum(one), sum(several))
                for one, several in zip(windows, replies, strict=True)
            ],
        )
        if len(windows) == 1:
            return
        full, rest = divmod(sum(map(sum, replies)), plan.content_tokens)
        above = [plan.content_tokens] * full + [rest] * bool(rest)
        windows = [_passages(tokens, plan) for tokens in above]


def _passages(tokens: int, plan: WindowPlan) -> list[int]:
    """Tokens of the passages of a window."""
    if not plan.has_passages:
        return [tokens]
    full, rest = divmod(tokens, PASSAGE_TOKENS)
    return [PASSAGE_TOKENS] * full + [rest] * bool(rest)


def _time(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"

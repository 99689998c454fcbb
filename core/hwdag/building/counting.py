"""Stand-ins for the models that count what they are asked: what a build over them costs is known.

What they reply is made up, but has the right length, so that chunker, packer and prompts do what they
will do in the real build.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np

from hwdag.arrays import Vectors
from hwdag.building.builder import build
from hwdag.building.points import RETRY
from hwdag.building.tools import Tools
from hwdag.building.windows import line_costs
from hwdag.config import Heads
from hwdag.embedding.hashing import HashingEmbedder
from hwdag.lm.base import Reader, Replay, ReplayRequest
from hwdag.text.characters import one_line
from hwdag.text.sentences import sentences
from hwdag.trace.bars import Silent
from hwdag.types import Document


@dataclass(frozen=True, slots=True)
class Lengths:
    """Tokens of replies, and of the points in them, per token of a window's content.

    Between the contents that were seen shares are interpolated, beyond them they stay. `known` are
    replies by prompt.
    """

    content: tuple[int, ...]  # ascending
    replies: tuple[float, ...]
    points: tuple[float, ...]
    known: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def filling(cls, tools: Tools) -> Lengths:
        """Let points take the share of a window that is kept free for them."""
        share = tools.plan.points_tokens / tools.plan.content_tokens
        return cls((1,), (share,), (share,))


@dataclass(slots=True)
class Work:
    """What models are asked in a build."""

    leaves: int = 0
    requests: list[ReplayRequest] = field(default_factory=list)
    replayed: list[int] = field(default_factory=list)  # tokens of every window
    written: list[tuple[int, int]] = field(default_factory=list)  # of every prompt and its reply
    embedded: int = 0  # characters
    unusable: int = 0  # replies without a point


def count_work(documents: Sequence[Document], tools: Tools, lengths: Lengths) -> Work:
    """Build documents with stand-ins for the models."""
    work = Work()
    stand_ins = replace(
        tools,
        reader=cast(Reader, _Reader(tools.reader, work)),
        writer=None if tools.writer is None else _Writer(tools, lengths, work),
        embedder=_Embedder(tools.embedder.dimension, work),
    )
    for document in documents:
        work.leaves += len(build(document, stand_ins, Silent()).graph.at_level(1))
    return work


def length_of(request: ReplayRequest, reader: Reader) -> int:
    """Count the tokens of a window with its prompt and points."""
    lines = [one_line(text) for text in (*request.segments, *request.points)]
    prompt = reader.count_tokens([request.before, request.after])
    return reader.template_tokens + sum(prompt) + sum(line_costs(lines, reader))


class _Reader:
    """The reader itself, but that every point attends to all of its window alike."""

    def __init__(self, reader: Reader, work: Work) -> None:
        self._reader = reader
        self._work = work

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)

    def replay(self, requests: Sequence[ReplayRequest], *, heads: Heads) -> list[Replay]:
        self._work.requests += requests
        self._work.replayed += [length_of(request, self._reader) for request in requests]
        return [_even(request) for request in requests]


def _even(request: ReplayRequest) -> Replay:
    segment = [i for i, units in enumerate(request.units) for _ in units]
    attention = np.ones((len(request.points), len(segment)))
    return Replay(attention, np.ones(len(segment), np.int64), np.array(segment, np.int64))


class _Writer:
    """Makes replies of the lengths that were measured out of sentences of the window."""

    def __init__(self, tools: Tools, lengths: Lengths, work: Work) -> None:
        self.name = "counting"
        self._reader = tools.reader
        self._lengths = lengths
        self._work = work
        self._around = tools.prompts.summary.cut(tools.config.language)
        self._template = getattr(tools.writer, "template_tokens", 0)

    def write(self, prompts: Sequence[str], *, max_new_tokens: int) -> list[str]:
        return [self._reply(prompt, max_new_tokens) for prompt in prompts]

    def _reply(self, prompt: str, limit: int) -> str:
        [asked] = self._reader.count_tokens([prompt])
        known = self._lengths.known.get(prompt)
        if known is not None:
            [replied] = self._reader.count_tokens([known])
        else:
            before, after = self._around
            content = prompt.removesuffix(RETRY).removeprefix(before).removesuffix(after)
            lines = [line.removeprefix("* ") for line in content.split("\n")]
            seen, size = self._lengths, sum(line_costs(lines, self._reader))
            replied = min(limit, round(size * np.interp(size, seen.content, seen.replies)))
            points = min(limit, size * float(np.interp(size, seen.content, seen.points)))
            self._work.unusable += not points
            known = self._points(lines, points)
        self._work.written.append((self._template + asked, replied))
        return known

    def _points(self, lines: Sequence[str], tokens: float) -> str:
        """Take sentences from all over the lines, the last one cut so that the tokens fit."""
        parts = [line[s.start : s.end] for line in lines for s in sentences(line)] or list(lines)
        costs = line_costs(parts, self._reader)
        share, owed, found, seen = tokens / sum(costs), 0.0, list[str](), Counter[str]()
        last = len(parts) - 1
        for i, (part, cost) in enumerate(zip(parts, costs, strict=True)):
            owed += share * cost
            while tokens > 0 and (owed >= cost / 2 or i == last):
                words = part.split()
                shown = " ".join(words[: max(1, round(len(words) * min(1.0, tokens / cost)))])
                # why the number: a point that was made already is not taken for another one
                found.append(f"* {shown} {seen[part]}" if seen[part] else f"* {shown}")
                seen[part] += 1
                owed, tokens = owed - cost, tokens - cost
        return "\n".join(found)


class _Embedder(HashingEmbedder):
    """Counts characters; its vectors say which sentences share words, as good ones do."""

    def __init__(self, dimension: int, work: Work) -> None:
        super().__init__(dimension)
        self._work = work

    def embed(self, texts: Sequence[str]) -> Vectors:
        self._work.embedded += sum(map(len, texts))
        return super().embed(texts)

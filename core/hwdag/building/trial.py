"""A build for trial: real chunker, packer and prompts, but stand-ins for the models.

The stand-ins count what they are asked, and make something up that has the right length.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from hwdag.building.builder import Tools, build
from hwdag.building.points import RETRY
from hwdag.building.windows import line_costs
from hwdag.config import Heads
from hwdag.embedding.base import Vectors
from hwdag.embedding.hashing import HashingEmbedder
from hwdag.lm.base import Reader, Replay, ReplayRequest, Session, Writer
from hwdag.text.characters import one_line
from hwdag.text.prompts import SearchPrompts
from hwdag.text.sentences import sentences
from hwdag.trace.bars import Silent
from hwdag.types import Document, Usage


@dataclass(slots=True)
class Work:
    """What models are asked in a build."""

    leaves: int = 0
    replayed: list[int] = field(default_factory=list)  # tokens of every window
    written: list[tuple[int, int]] = field(default_factory=list)  # of every prompt and its reply
    embedded: int = 0  # characters
    unusable: int = 0  # replies without a point
    requests: list[ReplayRequest] = field(default_factory=list)  # if they are wanted


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

    def of(self, content: int) -> tuple[float, float]:
        """Tokens of a reply, and of its points."""
        reply, points = (
            content * float(np.interp(content, self.content, shares))
            for shares in (self.replies, self.points)
        )
        return reply, points


def filling(tools: Tools) -> Lengths:
    """Points that take the share of a window that is kept free for them."""
    share = tools.plan.points_tokens / tools.plan.content_tokens
    return Lengths((1,), (share,), (share,))


def trial(
    documents: Sequence[Document], tools: Tools, lengths: Lengths, *, keep: bool = False
) -> Work:
    """Build documents with stand-ins for the models; `keep` their requests for replays."""
    work = Work()
    stand_ins = replace(
        tools,
        reader=_Reader(tools.reader, work, keep),
        writer=None if tools.writer is None else _Writer(tools, lengths, work),
        embedder=_Embedder(tools.embedder.dimension, work),
    )
    for document in documents:
        work.leaves += len(build(document, stand_ins, Silent()).graph.at_level(1))
    return work


class _Reader:
    """Counts windows, and says that every point attends to all of its window alike."""

    def __init__(self, reader: Reader, work: Work, keep: bool) -> None:
        self._reader = reader
        self._work = work
        self._keep = keep
        self.name = reader.name
        self.context_tokens = reader.context_tokens
        self.window_tokens = reader.window_tokens
        self.template_tokens = reader.template_tokens
        self.prefers_extraction = reader.prefers_extraction
        self.p_yes_is_informative = reader.p_yes_is_informative
        self.usage = Usage()

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return self._reader.count_tokens(texts)

    def replay(self, requests: Sequence[ReplayRequest], *, heads: Heads) -> list[Replay]:
        self._work.replayed += [length_of(request, self._reader) for request in requests]
        self._work.requests += requests if self._keep else ()
        return [_even(request) for request in requests]

    def session(
        self, question: str, *, prompts: SearchPrompts, heads: Heads, max_new_tokens: int
    ) -> Session:
        return self._reader.session(
            question, prompts=prompts, heads=heads, max_new_tokens=max_new_tokens
        )


def length_of(request: ReplayRequest, reader: Reader) -> int:
    """Tokens of a window with its prompt and points."""
    lines = [one_line(text) for text in (*request.segments, *request.points)]
    prompt = reader.count_tokens([request.before, request.after])
    return reader.template_tokens + sum(prompt) + sum(line_costs(lines, reader))


def _even(request: ReplayRequest) -> Replay:
    segment = [i for i, units in enumerate(request.units) for _ in units]
    return Replay(
        np.ones((len(request.points), len(segment))),
        np.ones(len(segment), np.int64),
        np.array(segment, np.int64),
    )


class _Writer:
    """Makes replies of the lengths that were measured out of sentences of the window."""

    def __init__(self, tools: Tools, lengths: Lengths, work: Work) -> None:
        assert tools.writer is not None
        self.name = tools.writer.name
        self._reader = tools.reader
        self._lengths = lengths
        self._work = work
        self._around = tools.prompts.summary.cut(tools.config.language)
        self._template = _template(tools.writer)

    def write(self, prompts: Sequence[str], *, max_new_tokens: int) -> list[str]:
        return [self._reply(prompt, max_new_tokens) for prompt in prompts]

    def _reply(self, prompt: str, limit: int) -> str:
        lines, known = self._lines(prompt), self._lengths.known.get(prompt)
        asked, replied = self._reader.count_tokens([prompt, known or ""])
        if known is not None:
            self._work.written.append((self._template + asked, replied))
            return known
        reply, points = self._lengths.of(sum(line_costs(lines, self._reader)))
        self._work.written.append((self._template + asked, min(limit, round(reply))))
        self._work.unusable += not points
        return self._points(lines, min(limit, points)) if points else ""

    def _lines(self, prompt: str) -> list[str]:
        """The segments of the window."""
        before, after = self._around
        content = prompt.removesuffix(RETRY).removeprefix(before).removesuffix(after)
        return [line.removeprefix("* ") for line in content.split("\n")]

    def _points(self, lines: Sequence[str], tokens: float) -> str:
        """Sentences from all over the lines that take that many tokens, the last one cut to fit."""
        parts = [line[s.start : s.end] for line in lines for s in sentences(line)] or list(lines)
        costs = line_costs(parts, self._reader)
        share, owed, found, seen = tokens / sum(costs), 0.0, list[str](), Counter[str]()
        last = len(parts) - 1
        for i, (part, cost) in enumerate(zip(parts, costs, strict=True)):
            owed += share * cost
            while tokens > 0 and (owed >= cost / 2 or i == last):
                shown = _cut(part, tokens / cost)
                # why the number: a point that was made already is not taken for another one
                found.append(f"* {shown} {seen[part]}" if seen[part] else f"* {shown}")
                seen[part] += 1
                owed, tokens = owed - cost, tokens - cost
        return "\n".join(found)


def _cut(text: str, share: float) -> str:
    """The first words of a text, one at least."""
    words = text.split()
    return " ".join(words[: max(1, round(len(words) * min(1.0, share)))])


class _Embedder(HashingEmbedder):
    """Counts characters; its vectors say which sentences share words, as good ones do."""

    def __init__(self, dimension: int, work: Work) -> None:
        super().__init__(dimension)
        self._work = work

    def embed(self, texts: Sequence[str]) -> Vectors:
        self._work.embedded += sum(map(len, texts))
        return super().embed(texts)


def _template(writer: Writer) -> int:
    """Tokens around a prompt, as far as they are known."""
    return writer.template_tokens if isinstance(writer, Reader) else 0

"""Information Points of a window: written by an LM, or picked from the text.

A weak writer's unusable reply costs one bounded retry, then the window falls back to extraction;
both are counted in the report and the node says `extractive`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from hwdag.building.calls import Calls, Finished, Replies
from hwdag.building.extractive import Candidate, pick_points
from hwdag.embedding.base import Embedder, Vectors
from hwdag.errors import WriterFailed
from hwdag.lm.base import ConcurrentWriter, Reader, Writer
from hwdag.store.calls import key_of
from hwdag.text.characters import one_line
from hwdag.text.points import parse_points
from hwdag.types import Origin, Span


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a window node that may become an extractive point: a sentence, or a whole point."""

    text: str
    segment: int
    unit: Span  # within the segment's text
    sources: tuple[Span, ...]  # within the document
    origin: Origin = "extractive"  # what a point picked from it is: a slice, or a generated text


@dataclass(frozen=True, slots=True)
class Window:
    """Consecutive nodes of one level, as texts, and the parts that they consist of."""

    segments: tuple[str, ...]
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Point:
    """An Information Point before it is a node; generated ones get their sources from the replay."""

    text: str
    origin: Origin
    sources: tuple[Span, ...] = ()


def extract(
    windows: Sequence[Window], reader: Reader, embedder: Embedder, *, ratio: float, limit: int
) -> list[list[Point]]:
    """Pick points from each window: `ratio` of its tokens, at most `limit`."""
    parts = [part for window in windows for part in window.parts]
    tokens = line_costs([part.text for part in parts], reader)
    vectors: Vectors = embedder.embed([part.text for part in parts])
    picked, at = [], 0
    for window in windows:
        rows = slice(at, at + len(window.parts))
        costs = tokens[rows]
        chosen = pick(window, costs, vectors[rows], budget=points_budget(costs, ratio, limit))
        picked.append(picked_points(window, chosen))
        at = rows.stop
    return picked


def points_budget(costs: Sequence[int], ratio: float, limit: int) -> int:
    """Tokens that the points picked from parts of these costs may take."""
    return min(limit, max(1, int(ratio * sum(costs))))


def pick(window: Window, costs: Sequence[int], vectors: Vectors, *, budget: int) -> list[int]:
    """Ordinals of the parts that become points; `vectors` are those of the parts, (parts, d)."""
    candidates = [
        Candidate(part.text, cost, part.segment, vector)
        for part, cost, vector in zip(window.parts, costs, vectors, strict=True)
    ]
    return pick_points(candidates, token_budget=budget)


def picked_points(window: Window, chosen: Sequence[int]) -> list[Point]:
    """Parts of a window as points."""
    parts = (window.parts[i] for i in chosen)
    return [Point(part.text, part.origin, part.sources) for part in parts]


def summary_prompt(before: str, segments: Sequence[str], after: str) -> str:
    """What a writer is asked: the nodes of a window, a line each, between the parts of a prompt."""
    return before + "\n".join(f"* {one_line(text)}" for text in segments) + after


@dataclass(frozen=True, slots=True)
class Summarizing:
    """How a writer is asked: `limit` tokens per reply, `batch_size` prompts at a time.

    A `ConcurrentWriter` gets `WAVE` times as many prompts as it answers at a time.
    """

    writer: Writer
    reader: Reader
    limit: int
    batch_size: int

    def points(
        self, prompts: Sequence[str], calls: Calls, advance: Callable[[int], object]
    ) -> tuple[list[list[Point]], int]:
        """Ask, once more for replies without a bullet; empty where that failed too.

        Returns:
            points per prompt (those that fit into the limit), and the number of retries.
        """
        points = [parse_points(reply) for reply in self.replies(prompts, calls, advance)]
        failed = [i for i, found in enumerate(points) if not found]
        again = self.replies([prompts[i] + RETRY for i in failed], calls, lambda amount: None)
        for i, reply in zip(failed, again, strict=True):
            points[i] = parse_points(reply)
        kept = (fitting(found, self.reader, self.limit) for found in points)
        return [[Point(text, "generated") for text in texts] for texts in kept], len(failed)

    def replies(
        self, prompts: Sequence[str], calls: Calls, advance: Callable[[int], object]
    ) -> list[str]:
        """What the writer replies to each prompt, if need be asked now; see `Calls.results`."""
        # why: a writer's settings, where it has some, decide about its replies as its name does
        asked = self.writer.name, getattr(self.writer, "settings", "")
        keys = [key_of("write", *asked, prompt, self.limit) for prompt in prompts]

        def make(missing: list[int]) -> Finished[str]:
            return self._made(missing, prompts, calls)

        return calls.results(keys, Replies(), make, advance=advance)

    def _made(self, missing: list[int], prompts: Sequence[str], calls: Calls) -> Finished[str]:
        writer, limit = self.writer, self.limit
        # why callable: any attribute of that name makes a ConcurrentWriter for isinstance
        if isinstance(writer, ConcurrentWriter) and callable(writer.replies):
            at_once = getattr(writer, "concurrency", 1)
            size = WAVE * at_once if at_once > 1 else 1
            for start in range(0, len(missing), size):
                # why not between replies: giving up those that are under way would lose them
                calls.before_call()
                wave = missing[start : start + size]
                asked = [prompts[i] for i in wave]
                for i, reply in ask_at_once(writer, asked, max_new_tokens=limit):
                    yield {wave[i]: reply}
            return

        def call(batch: list[int]) -> list[str]:
            return ask(writer, [prompts[i] for i in batch], max_new_tokens=limit)

        yield from calls.in_batches(missing, self.batch_size, call)


def joined(points: Sequence[Point]) -> Point:
    """Several points of a window as one, a blank between them: the node of a tree of summaries."""
    sources = tuple(span for point in points for span in point.sources)
    return Point(" ".join(point.text for point in points), points[0].origin, sources)


WAVE = 4
"""So many rounds of concurrent prompts are asked for between two looks at the limits of a run: few,
so that a limit holds, and several, so that a slow reply keeps few others waiting."""

RETRY = "\n\nBegin every summary point with an asterisk and a space, one summary point per line."
"""Added to the prompt of the single retry; greedy decoding of the same prompt would not change."""


def ask(writer: Writer, prompts: Sequence[str], *, max_new_tokens: int) -> list[str]:
    """What the writer replies to each prompt.

    Raises:
        WriterFailed: it raised, or did not return one text per prompt.
    """
    with _blaming(writer):
        replies = writer.write(prompts, max_new_tokens=max_new_tokens)
    if len(replies) != len(prompts) or not all(isinstance(reply, str) for reply in replies):
        raise WriterFailed(
            f"the writer {writer.name} must return one text per prompt: {len(prompts)} prompts, "
            f"got {len(replies)} replies of {sorted({type(r).__name__ for r in replies})}"
        )
    return replies


def ask_at_once(
    writer: ConcurrentWriter, prompts: Sequence[str], *, max_new_tokens: int
) -> Iterator[tuple[int, str]]:
    """(Ordinal of the prompt, reply) as the writer finishes them.

    Raises:
        WriterFailed: it raised, or did not give one text per prompt.
    """
    waiting = set(range(len(prompts)))
    with _blaming(writer):
        for i, reply in writer.replies(prompts, max_new_tokens=max_new_tokens):
            if i not in waiting or not isinstance(reply, str):
                raise WriterFailed(
                    f"the writer {writer.name} must return one text per prompt: got "
                    f"{type(reply).__name__} for prompt {i!r} of {len(prompts)}"
                )
            waiting.remove(i)
            yield i, reply
    if waiting:
        raise WriterFailed(
            f"the writer {writer.name} must return one text per prompt: of {len(prompts)} prompts, "
            f"{len(waiting)} got no reply"
        )


@contextmanager
def _blaming(writer: Writer) -> Iterator[None]:
    """Whatever is raised inside becomes a `WriterFailed`."""
    try:
        yield
    except WriterFailed:
        raise
    except Exception as error:
        raise WriterFailed(
            f"the writer {writer.name} raised {type(error).__name__}: {error}. What was finished "
            "is kept; mend the writer and try again, or build with points='extractive'"
        ) from error


def fitting(texts: list[str], reader: Reader, limit: int) -> list[str]:
    """The first points whose lines fit into `limit` tokens."""
    if not texts:
        return []
    held = np.cumsum(line_costs(texts, reader))
    return texts[: int(np.searchsorted(held, limit, side="right"))]


def line_costs(texts: Sequence[str], reader: Reader) -> list[int]:
    """Tokens of every text as the bullet line that it is shown as."""
    return reader.count_tokens([f"* {text}\n" for text in texts])

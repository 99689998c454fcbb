"""Information Points of a window: written by an LM, or picked from the text.

A weak writer's unusable reply costs one bounded retry, then the window falls back to extraction;
both are counted in the report and the node says `extractive`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hwdag.build.extractive import Candidate, pick_points
from hwdag.embedding.base import Embedder, Vectors
from hwdag.errors import WriterFailed
from hwdag.lm.base import Reader, Writer
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
        candidates = [
            Candidate(part.text, count, part.segment, vector)
            for part, count, vector in zip(window.parts, tokens[rows], vectors[rows], strict=True)
        ]
        budget = min(limit, max(1, int(ratio * sum(tokens[rows]))))
        chosen = (window.parts[i] for i in pick_points(candidates, token_budget=budget))
        picked.append([Point(part.text, part.origin, part.sources) for part in chosen])
        at = rows.stop
    return picked


def write(
    prompts: Sequence[str], writer: Writer, reader: Reader, *, limit: int
) -> tuple[list[list[Point]], int]:
    """Ask the writer, once more for replies without a bullet; empty where that failed too.

    Returns:
        points per prompt (those that fit into `limit` tokens), and the number of retries.
    """
    replies = ask(writer, prompts, max_new_tokens=limit)
    points = [parse_points(reply) for reply in replies]
    failed = [i for i, found in enumerate(points) if not found]
    if failed:
        again = ask(writer, [prompts[i] + RETRY for i in failed], max_new_tokens=limit)
        for i, reply in zip(failed, again, strict=True):
            points[i] = parse_points(reply)
    fitting = (_within(found, reader, limit) for found in points)
    return [[Point(text, "generated") for text in texts] for texts in fitting], len(failed)


def joined(points: Sequence[Point]) -> Point:
    """Several points of a window as one, a blank between them: the node of a tree of summaries."""
    sources = tuple(span for point in points for span in point.sources)
    return Point(" ".join(point.text for point in points), points[0].origin, sources)


RETRY = "\n\nBegin every summary point with an asterisk and a space, one summary point per line."
"""Added to the prompt of the single retry; greedy decoding of the same prompt would not change."""


def ask(writer: Writer, prompts: Sequence[str], *, max_new_tokens: int) -> list[str]:
    """What the writer replies to each prompt.

    Raises:
        WriterFailed: it raised, or did not return one text per prompt.
    """
    try:
        replies = writer.write(prompts, max_new_tokens=max_new_tokens)
    except WriterFailed:
        raise
    except Exception as error:
        raise WriterFailed(
            f"the writer {writer.name} raised {type(error).__name__}: {error}. Finished documents "
            "are kept; mend the writer and try again, or build with points='extractive'"
        ) from error
    if len(replies) != len(prompts) or not all(isinstance(reply, str) for reply in replies):
        raise WriterFailed(
            f"the writer {writer.name} must return one text per prompt: {len(prompts)} prompts, "
            f"got {len(replies)} replies of {sorted({type(r).__name__ for r in replies})}"
        )
    return replies


def _within(texts: list[str], reader: Reader, limit: int) -> list[str]:
    """The first points whose lines fit into `limit` tokens."""
    if not texts:
        return []
    held = np.cumsum(line_costs(texts, reader))
    return texts[: int(np.searchsorted(held, limit, side="right"))]


def line_costs(texts: Sequence[str], reader: Reader) -> list[int]:
    """Tokens of every text as the bullet line that it is shown as."""
    return reader.count_tokens([f"* {text}\n" for text in texts])

"""Information Points of windows: written by an LM, or picked from the text.

A weak writer's unusable reply costs one bounded retry, then the window falls back to extraction;
both are counted in the report and the node says `extractive`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from hwdag.building.calls import Calls, picks_of
from hwdag.building.extractive import Candidate, pick_points
from hwdag.building.tools import Tools
from hwdag.building.windows import POINTS_RATIO, Window, line_costs
from hwdag.building.writing import replies
from hwdag.embedding.base import Embedder
from hwdag.lm.base import Reader, Writer
from hwdag.store.calls import key_of
from hwdag.text.characters import one_line
from hwdag.text.points import parse_points
from hwdag.trace.bars import Advance
from hwdag.types import Origin, Span

RETRY = "\n\nBegin every summary point with an asterisk and a space, one summary point per line."
"""Added to the prompt of the single retry; greedy decoding of the same prompt would not change."""


@dataclass(frozen=True, slots=True)
class Point:
    """An Information Point before it is a node; generated ones get their sources from the replay."""

    text: str
    origin: Origin
    sources: tuple[Span, ...] = ()


@dataclass(frozen=True, slots=True)
class Made:
    """The points of each window, at least one each; `retries` and `fallbacks` as in `BuildReport`."""

    points: list[list[Point]]
    retries: int = 0
    fallbacks: int = 0


def make_points(windows: Sequence[Window], tools: Tools, calls: Calls, advance: Advance) -> Made:
    """Write or pick the points of every window."""
    pick = partial(
        extract,
        reader=tools.reader,
        embedder=tools.embedder,
        calls=calls,
        ratio=POINTS_RATIO,
        limit=tools.plan.points_tokens,
    )
    if tools.writer is None:
        return Made(pick(windows, advance=advance))
    return _written(tools.writer, windows, tools, calls, advance, pick)


def _written(
    writer: Writer,
    windows: Sequence[Window],
    tools: Tools,
    calls: Calls,
    advance: Advance,
    pick: Callable[[Sequence[Window]], list[list[Point]]],
) -> Made:
    reader, limit = tools.reader, tools.plan.points_tokens
    before, after = tools.prompts.summary.cut(tools.config.language or "")
    prompts = [summary_prompt(before, window.segments, after) for window in windows]
    first = replies(writer, prompts, calls, limit=limit, advance=advance)
    points = [parse_points(reply) for reply in first]
    retried = [i for i, found in enumerate(points) if not found]
    again = [prompts[i] + RETRY for i in retried]
    second = replies(writer, again, calls, limit=limit)
    for i, reply in zip(retried, second, strict=True):
        points[i] = parse_points(reply)
    made = [
        [Point(text, "generated") for text in fitting(found, reader, limit)] for found in points
    ]
    fallen = [i for i, found in enumerate(made) if not found]
    for i, extracted in zip(fallen, pick([windows[i] for i in fallen]), strict=True):
        made[i] = extracted
    return Made(made, len(retried), len(fallen))


def extract(
    windows: Sequence[Window],
    reader: Reader,
    embedder: Embedder,
    calls: Calls,
    *,
    ratio: float,
    limit: int,
    advance: Advance = lambda amount: None,
) -> list[list[Point]]:
    """Pick points from each window: `ratio` of its tokens, at most `limit`.

    A heading is picked only where a window has nothing else. What is picked depends on the window alone:
    one call embeds the parts of one window.
    """
    allowed = [
        [i for i, part in enumerate(window.parts) if not part.is_heading]
        or list(range(len(window.parts)))
        for window in windows
    ]
    texts = [[part.text for part in window.parts] for window in windows]
    costs = [line_costs(several, reader) for several in texts]
    budgets = [min(limit, max(1, int(ratio * sum(several)))) for several in costs]

    def one(i: int) -> list[int]:
        vectors, parts = embedder.embed(texts[i]), windows[i].parts
        candidates = [
            Candidate(parts[at].text, costs[i][at], parts[at].segment, vectors[at])
            for at in allowed[i]
        ]
        return [allowed[i][at] for at in pick_points(candidates, token_budget=budgets[i])]

    keys = [
        key_of(
            "pick",
            embedder.name,
            texts[i],
            [part.segment for part in window.parts],
            allowed[i],
            costs[i],
            budgets[i],
        )
        for i, window in enumerate(windows)
    ]
    picks = picks_of([len(window.parts) for window in windows])
    chosen = calls.results(keys, picks, lambda at: [one(i) for i in at], advance=advance)
    return [
        [Point(part.text, part.origin, part.sources) for part in map(window.parts.__getitem__, at)]
        for window, at in zip(windows, chosen, strict=True)
    ]


def summary_prompt(before: str, segments: Sequence[str], after: str) -> str:
    """Put the nodes of a window, a line each, between the parts of a prompt."""
    return before + "\n".join(f"* {one_line(text)}" for text in segments) + after


def fitting(texts: list[str], reader: Reader, limit: int) -> list[str]:
    """Take the first points whose lines fit into `limit` tokens."""
    if not texts:
        return []
    held = np.cumsum(line_costs(texts, reader))
    return texts[: int(np.searchsorted(held, limit, side="right"))]

"""Filling windows: consecutive nodes, as many as fit (GARLIC 3.1, threshold n_s)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import accumulate
from typing import Self

from hwdag.config import BuildConfig
from hwdag.errors import ContextTooSmall
from hwdag.lm.base import Reader
from hwdag.text.headings import Outline
from hwdag.text.prompts import SummaryPrompt
from hwdag.text.sentences import sentences
from hwdag.types import Node, Origin, Span

POINTS_RATIO = 0.2
"""Tokens of picked points per token of their window: each level is a fifth of the one below (ours)."""

SUMMARY_SHARE = 0.25
"""Share of a window that is kept free for written points. Ours: GARLIC gives one threshold, n_s, for
prompt, window and summary together (4.1), and does not divide it."""


@dataclass(frozen=True, slots=True)
class WindowPlan:
    """How one summary call is divided: the prompt before and after the nodes, their tokens and its points'."""

    before: str
    after: str
    content_tokens: int
    points_tokens: int

    @classmethod
    def of(
        cls, config: BuildConfig, prompt: SummaryPrompt, reader: Reader, *, extractive: bool
    ) -> WindowPlan:
        """Divide the window of a config for a reader; `ContextTooSmall` if one chunk does not fit."""
        before, after = prompt.cut(config.language or "")
        overhead = reader.template_tokens + sum(reader.count_tokens([before, after]))
        window = min(config.window_tokens or reader.window_tokens, reader.context_tokens)
        free = window - overhead
        if extractive:
            content = int(free / (1 + POINTS_RATIO))
        else:
            content = free - int(SUMMARY_SHARE * window)
        chunk = config.chunk_tokens + LINE_TOKENS
        if content < chunk or free - content < MIN_POINTS_TOKENS:
            longest = content - LINE_TOKENS
            shorter = longest >= 8 and free - content >= MIN_POINTS_TOKENS
            advice = f"set chunk_tokens to at most {longest}" if shorter else "shorten the prompt"
            raise ContextTooSmall(
                f"a window of {window} tokens (context of {reader.name}: {reader.context_tokens}) "
                f"cannot hold the summary prompt ({overhead} tokens), one chunk "
                f"({config.chunk_tokens}) and its points; {advice}, or use a longer window or a "
                "model with a longer context"
            )
        return cls(before, after, content, free - content)


LINE_TOKENS = 4  # at most what the bullet and the line break around a node take
MIN_POINTS_TOKENS = 16  # room for at least one short point


FULL_ENOUGH = 0.5
"""Share of its limit from which a window may end. Less finds back to the old borders sooner after an
edit, and makes more windows. With 1/2, on six stories of 10,000 words in windows of 2,048 tokens:
1.2 windows for every one that is filled to the brim, 2 % more tokens, and a sentence more in the
middle changes one window of each level (1.3 of each with leaves of 300 tokens)."""


def pack(costs: Sequence[int], limit: int, texts: Sequence[str] | None = None) -> list[range]:
    """Put consecutive items into windows whose costs add up to at most `limit`, or hold one item beyond it.

    Without `texts` windows are filled to the brim. With them a window that is not the last ends behind
    the item, of those that leave it at least `FULL_ENOUGH`, whose text has the smallest hash: after an
    edit the borders soon are the old ones again (ours, after content-defined chunking of files).
    """
    totals = [0, *accumulate(costs)]
    windows, start = [], 0
    while start < len(costs):
        end = max(start + 1, bisect_right(totals, totals[start] + limit) - 1)
        if texts is not None and end < len(costs):
            earliest = bisect_left(totals, totals[start] + FULL_ENOUGH * limit, start + 1, end)
            end = min(range(end, earliest - 1, -1), key=lambda i: _hash(texts[i - 1]))
        windows.append(range(start, end))
        start = end
    return windows


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a window node that may become an extractive point: a sentence, or a whole point."""

    text: str
    segment: int
    unit: Span  # within the segment's text
    sources: tuple[Span, ...]  # within the document
    origin: Origin = "extractive"  # what a point picked from it is: a slice, or a generated text
    is_heading: bool = False


@dataclass(frozen=True, slots=True)
class Window:
    """Consecutive nodes of one level, as texts, and the parts that they consist of."""

    segments: tuple[str, ...]
    parts: tuple[Part, ...]

    @classmethod
    def of(cls, nodes: Sequence[Node], outline: Outline) -> Self:
        """Cut leaves into sentences; points stay whole."""
        parts = [part for i, node in enumerate(nodes) for part in _parts(node, i, outline)]
        return cls(tuple(node.text for node in nodes), tuple(parts))


def _parts(node: Node, segment: int, outline: Outline) -> Iterator[Part]:
    if node.level > 1:
        # why: a slice of the document stays one when it is picked again; a generated text does not
        origin: Origin = "generated" if node.origin == "generated" else "extractive"
        yield Part(node.text, segment, Span(0, len(node.text)), node.sources, origin)
        return
    at = node.sources[0].start
    for s in sentences(node.text):
        source, text = Span(at + s.start, at + s.end), node.text[s.start : s.end]
        yield Part(text, segment, s, (source,), is_heading=outline.is_heading(source))


def line_costs(texts: Sequence[str], reader: Reader) -> list[int]:
    """Count the tokens of every text as the bullet line that it is shown as."""
    return reader.count_tokens([f"* {text}\n" for text in texts])


def _hash(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()

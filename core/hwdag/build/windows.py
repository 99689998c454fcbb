"""Filling windows: consecutive nodes, as many as fit (GARLIC 3.1, threshold n_s)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hwdag.config import BuildConfig
from hwdag.errors import ContextTooSmall
from hwdag.lm.base import Reader
from hwdag.text.prompts import SummaryPrompt


@dataclass(frozen=True, slots=True)
class WindowPlan:
    """How the tokens of one summary call are divided.

    `content_tokens` for the lines of the window's nodes, `points_tokens` for the points; with the
    prompt and the chat template they make up the window.
    """

    content_tokens: int
    points_tokens: int

    @classmethod
    def of(
        cls, config: BuildConfig, prompt: SummaryPrompt, reader: Reader, *, extractive: bool
    ) -> WindowPlan:
        """Divide the window of a config for a reader.

        Raises:
            ContextTooSmall: one chunk does not fit; the message names a chunk length that does.
        """
        before, after = prompt.cut(config.language)
        overhead = reader.template_tokens + sum(reader.count_tokens([before, after]))
        window = min(config.window_tokens or reader.window_tokens, reader.context_tokens)
        free = window - overhead
        if extractive:
            content = int(free / (1 + config.points_ratio))
        else:
            content = free - int(config.summary_tokens * window)
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
        return cls(content, free - content)


LINE_TOKENS = 4
"""At most what the bullet and the line break around a node take."""

MIN_POINTS_TOKENS = 16
"""Room for at least one short point."""


def pack(costs: Sequence[int], limit: int) -> list[range]:
    """Consecutive items into windows whose costs add up to at most `limit`.

    An item that is larger than the limit gets a window of its own.
    """
    windows, start, held = [], 0, 0
    for i, cost in enumerate(costs):
        if i > start and held + cost > limit:
            windows.append(range(start, i))
            start, held = i, 0
        held += cost
    if costs:
        windows.append(range(start, len(costs)))
    return windows

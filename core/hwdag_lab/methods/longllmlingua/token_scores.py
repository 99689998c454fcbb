"""What LongLLMLingua needs of a Reader: log-probabilities of plain texts, token by token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from hwdag.arrays import Floats
from hwdag.types import Span, Usage


@dataclass(frozen=True, slots=True)
class TokenScores:
    """Natural log-probability of every token of a text, and the characters that it stands for.

    Several tokens may stand for one character.
    """

    spans: tuple[Span, ...]
    logprobs: Floats  # (tokens,)


class ScoringStream(Protocol):
    """A growing text in a KV cache: what is kept precedes all that is scored later."""

    @property
    def room(self) -> int:
        """Tokens that a text to be scored may have, if all that was kept is forgotten."""

    def score(self, text: str) -> TokenScores:
        """Score a text after the prefix and all that was kept, and forget it again.

        Where the context is full, the oldest of what was kept is forgotten for good. Raises
        `ContextTooSmall` for a text longer than `room`.
        """

    def keep(self, text: str) -> None:
        """Append a text; costs nothing before the next `score`."""


class ScoringSession(Protocol):
    """Log-probabilities of plain texts. Belongs to one thread, and meters its own cost."""

    def room(self, text: str) -> int:
        """Tokens that a context of `text` may have."""

    def after(self, contexts: Sequence[str], text: str) -> list[Floats]:
        """Log-probability of every token of `text` after each context and a blank line.

        Raises `ContextTooSmall` for a context longer than `room(text)`.
        """

    def stream(self, prefix: str) -> ScoringStream:
        """A text that begins with `prefix`."""

    @property
    def usage(self) -> Usage:
        """Cost so far, streams included."""

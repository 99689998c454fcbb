"""What LongLLMLingua needs of a Reader: log-probabilities of plain texts, token by token.

After a context, or within a growing text; of the scripted model here, of a Hugging Face model in
`model_likelihood`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from hwdag.arrays import Floats
from hwdag.errors import ContextTooSmall
from hwdag.types import Span, Usage
from hwdag_lab.lexical import TOKEN, logprobs_after, tokens_of
from hwdag_lab.scripted import ScriptedLM


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


class ScriptedScoring:
    """Score by `logprobs_after`; every text is counted whenever it is scored."""

    def __init__(self, lm: ScriptedLM) -> None:
        self.lm = lm
        self._usage = Usage()

    @property
    def usage(self) -> Usage:
        """Tokens so far, streams included."""
        return self._usage

    def room(self, text: str) -> int:
        """Tokens that a context of `text` may have."""
        return self.lm.context_tokens - len(tokens_of(text))

    def after(self, contexts: Sequence[str], text: str) -> list[Floats]:
        """`logprobs_after` each context; raises `ContextTooSmall` beyond `room`."""
        for context in contexts:
            self.charge(len(tokens_of(context)) + len(tokens_of(text)))
        return [logprobs_after(context, text) for context in contexts]

    def stream(self, prefix: str) -> ScriptedStream:
        """A text that begins with `prefix`."""
        return ScriptedStream(self, prefix)

    def charge(self, tokens: int) -> None:
        """Add a forward to `usage`."""
        if tokens > self.lm.context_tokens:
            raise ContextTooSmall(
                f"a text of {tokens} tokens was to be scored, but the context of {self.lm.name} "
                f"holds {self.lm.context_tokens}; score shorter texts"
            )
        self._usage += Usage(tokens)


class ScriptedStream:
    """See `ScoringStream`; nothing that was kept is ever forgotten."""

    def __init__(self, scoring: ScriptedScoring, prefix: str) -> None:
        self._scoring = scoring
        self._prefix = len(tokens_of(prefix))
        self._known = prefix

    @property
    def room(self) -> int:
        """Tokens that a text to be scored may have."""
        return self._scoring.lm.context_tokens - self._prefix

    def score(self, text: str) -> TokenScores:
        """Score a text after the prefix and all that was kept."""
        self._scoring.charge(len(tokens_of(text)))
        spans = tuple(Span(*match.span()) for match in TOKEN.finditer(text))
        return TokenScores(spans, logprobs_after(self._known, text))

    def keep(self, text: str) -> None:
        """Append a text."""
        self._known += text

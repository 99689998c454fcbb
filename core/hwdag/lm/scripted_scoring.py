"""Log-probabilities of plain texts without a model, for `hwdag.lm.scripted.ScriptedLM`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hwdag.errors import ContextTooSmall
from hwdag.lm.base import Floats, TokenScores
from hwdag.lm.lexical import TOKEN, logprobs_after, tokens_of
from hwdag.types import Span, Usage

if TYPE_CHECKING:
    from hwdag.lm.scripted import ScriptedLM


class ScriptedScoring:
    """See `hwdag.lm.base.ScoringSession`; every text is counted whenever it is scored."""

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
    """See `hwdag.lm.base.ScoringStream`; nothing that was kept is ever forgotten."""

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

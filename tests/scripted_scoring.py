"""The scripted model with the functions that YOURA and LongLLMLingua need, derived by hand."""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

import numpy as np

from hwdag.arrays import Floats, Vectors
from hwdag.errors import ContextTooSmall, QuestionTooLong
from hwdag.types import Span, Usage
from hwdag_lab.methods.longllmlingua.likelihood import TokenScores
from hwdag_lab.methods.youra.columns import Asked, Located
from hwdag_lab.methods.youra.easy import Ids, by_offsets
from hwdag_lab.scripted import TOKEN, ScriptedLM, content_words, logprobs_after, tokens_of


class ScoringLM(ScriptedLM):
    """A `ScriptedLM` with likelihoods of texts and columns of attention."""

    def scoring(self) -> ScriptedScoring:
        return ScriptedScoring(self)

    def columns(self, heads: object, *, memory_bytes: int) -> ScriptedColumns:
        return ScriptedColumns(self)


class ScriptedScoring:
    """Score by `logprobs_after`; every text is counted whenever it is scored."""

    def __init__(self, lm: ScriptedLM) -> None:
        self.lm = lm
        self._usage = Usage()

    @property
    def usage(self) -> Usage:
        return self._usage

    def room(self, text: str) -> int:
        return self.lm.context_tokens - len(tokens_of(text))

    def after(self, contexts: Sequence[str], text: str) -> list[Floats]:
        for context in contexts:
            self.charge(len(tokens_of(context)) + len(tokens_of(text)))
        return [logprobs_after(context, text) for context in contexts]

    def stream(self, prefix: str) -> ScriptedStream:
        return ScriptedStream(self, prefix)

    def charge(self, tokens: int) -> None:
        if tokens > self.lm.context_tokens:
            raise ContextTooSmall(
                f"a text of {tokens} tokens was to be scored, but the context of {self.lm.name} "
                f"holds {self.lm.context_tokens}; score shorter texts"
            )
        self._usage += Usage(tokens)


class ScriptedStream:
    """See `TextStream`; nothing that was kept is ever forgotten."""

    def __init__(self, scoring: ScriptedScoring, prefix: str) -> None:
        self._scoring = scoring
        self._prefix = len(tokens_of(prefix))
        self._known = prefix

    @property
    def room(self) -> int:
        return self._scoring.lm.context_tokens - self._prefix

    def score(self, text: str) -> TokenScores:
        self._scoring.charge(len(tokens_of(text)))
        spans = tuple(Span(*match.span()) for match in TOKEN.finditer(text))
        return TokenScores(spans, logprobs_after(self._known, text))

    def keep(self, text: str) -> None:
        self._known += text


class ScriptedColumns:
    """The columns of the scripted model, derived by hand; see `ModelColumns`.

    The n tokens of a context attend to each of them alike, 1 / n. A question pays 2 / n to those
    that are among its content words, and 1 / n to all others. Contexts are kept, so a question
    costs its own tokens.

    Attributes:
        contexts: contexts read so far.
        asks: questions read so far, each window counted.
    """

    heads = None
    opening = 0

    def __init__(self, lm: ScriptedLM) -> None:
        self._lm = lm
        self.contexts = 0
        self.asks = 0

    def locate(self, text: str, sentences: Sequence[Span]) -> Located:
        spans = [Span(*match.span()) for match in TOKEN.finditer(text)]
        ids = [_number(text[span.start : span.end]) for span in spans]
        ranges = np.array(by_offsets(spans, sentences), np.int32)
        return Located(np.array(ids, np.int32), ranges.reshape(len(sentences), 2))

    def context(self, ids: Ids) -> Vectors:
        self._check(len(ids), ContextTooSmall)
        self._lm.charge(len(ids))
        self.contexts += 1
        return np.full(len(ids), 1 / len(ids), np.float32)

    def ask(self, ids: Ids, question: str) -> Asked:
        rows = len(tokens_of(question))
        self._check(len(ids) + rows, QuestionTooLong)
        self.asks += 1
        shared = np.isin(ids, [_number(word) for word in content_words(question)])
        means = ((1 + shared) / len(ids)).astype(np.float32)
        return Asked(means, rows, Usage(rows))

    def forget(self, ids: Ids) -> None:
        pass

    def _check(self, tokens: int, error: type[ContextTooSmall | QuestionTooLong]) -> None:
        if tokens > self._lm.context_tokens:
            raise error(
                f"a window takes {tokens} tokens, but the context of {self._lm.name} holds "
                f"{self._lm.context_tokens}; use smaller window_tokens, or a shorter question"
            )


def _number(token: str) -> int:
    return crc32(token.lower().encode("utf-8", "surrogatepass")) & 0x7FFFFFFF

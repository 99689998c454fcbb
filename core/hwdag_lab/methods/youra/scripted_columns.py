"""The columns of the scripted model's attention (`hwdag_lab.methods.youra.protocol`), derived by hand.

The n tokens of a context attend to each of them alike, 1 / n. A question pays 2 / n to those that
are among its content words, and 1 / n to all others. One head, nothing before a context.
"""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

import numpy as np

from hwdag.errors import ContextTooSmall, QuestionTooLong
from hwdag.lm.lexical import TOKEN, content_words, tokens_of
from hwdag.lm.scripted import ScriptedLM
from hwdag.types import Span, Usage
from hwdag_lab.methods.youra.easy import by_offsets
from hwdag_lab.methods.youra.protocol import Asked, Ids, Located, Means


class ScriptedColumns:
    """See `hwdag_lab.methods.youra.protocol.ColumnReader`; contexts are kept, so questions cost their own tokens.

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
        """Tokens of a text, numbered by their lower-cased letters, and of its sentences."""
        spans = [Span(*match.span()) for match in TOKEN.finditer(text)]
        ids = [_number(text[span.start : span.end]) for span in spans]
        ranges = np.array(by_offsets(spans, sentences), np.int32)
        return Located(np.array(ids, np.int32), ranges.reshape(len(sentences), 2))

    def context(self, ids: Ids) -> Means:
        """1 / n for each of n tokens."""
        self._check(len(ids), ContextTooSmall)
        with self._lm._lock:
            self._lm._usage += Usage(len(ids))
        self.contexts += 1
        return np.full(len(ids), 1 / len(ids), np.float32)

    def ask(self, ids: Ids, question: str) -> Asked:
        """2 / n for tokens among the question's content words, 1 / n for others."""
        rows = len(tokens_of(question))
        self._check(len(ids) + rows, QuestionTooLong)
        self.asks += 1
        shared = np.isin(ids, [_number(word) for word in content_words(question)])
        means = ((1 + shared) / len(ids)).astype(np.float32)
        return Asked(means, rows, Usage(rows))

    def forget(self, ids: Ids) -> None:
        """Nothing is kept."""

    def _check(self, tokens: int, error: type[ContextTooSmall | QuestionTooLong]) -> None:
        if tokens > self._lm.context_tokens:
            raise error(
                f"a window takes {tokens} tokens, but the context of {self._lm.name} holds "
                f"{self._lm.context_tokens}; use smaller window_tokens, or a shorter question"
            )


def _number(token: str) -> int:
    return crc32(token.lower().encode("utf-8", "surrogatepass")) & 0x7FFFFFFF

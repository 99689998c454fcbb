"""Means of the columns of attention: how much a context, and a question after it, attend to it.

What YOURA needs of a Reader. The rows of a causal model see nothing that comes later, so those of
the context are the same with and without the question: their mean is computed once per context and
can be stored, and a question adds its own rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from hwdag.config import HeadList, Heads
from hwdag.errors import ContextTooSmall, QuestionTooLong
from hwdag.types import Span, Usage
from hwdag_lab.lexical import TOKEN, content_words, tokens_of
from hwdag_lab.methods.youra.easy import by_offsets
from hwdag_lab.scripted import ScriptedLM

Ids = NDArray[np.int32]
Means = NDArray[np.float32]

ColumnHeads = Heads | Literal["last"]
"""Which heads count; "last" are those of the last layer."""


@dataclass(frozen=True, slots=True, eq=False)
class Located:
    """The tokens of a text, and which of them are those of each sentence.

    `ranges` are half-open, ascending, and leave out the white space between sentences; that of a
    sentence without a token is empty.
    """

    ids: Ids  # (tokens,)
    ranges: NDArray[np.int32]  # (sentences, 2)


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """Mean attention of the `rows` tokens of a question to every token of a context before it."""

    means: Means  # (tokens,)
    rows: int
    usage: Usage


class ColumnReader(Protocol):
    """A model that reads contexts and questions after them; threads may share it."""

    @property
    def heads(self) -> HeadList | None:
        """The (layer, head) pairs that are averaged; None is all of them."""

    @property
    def opening(self) -> int:
        """Tokens before every context: those that a tokenizer puts first, or a line break.

        They take the attention that models pay to whatever stands first.
        """

    def locate(self, text: str, sentences: Sequence[Span]) -> Located:
        """The tokens of a text and of its sentences, which are ascending and disjoint."""

    def context(self, ids: Ids) -> Means:
        """Mean attention of all tokens of a context, its opening among them, to each, (tokens,).

        Metered in the reader's usage. Raises `ContextTooSmall` where the model cannot hold it.
        """

    def ask(self, ids: Ids, question: str) -> Asked:
        """A question after a context. Raises `QuestionTooLong` if both do not fit."""

    def forget(self, ids: Ids) -> None:
        """Drop what is kept of a context in memory."""


class ScriptedColumns:
    """The columns of the scripted model, derived by hand; see `ColumnReader`.

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

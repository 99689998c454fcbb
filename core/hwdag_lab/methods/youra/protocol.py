"""Means of the columns of attention: how much a context, and a question after it, attend to it.

What YOURA needs of a Reader. The rows of a causal model see nothing that comes later, so those of
the context are the same with and without the question: their mean is computed once per context and
can be stored, and a question adds its own rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from hwdag.config import HeadList, Heads
from hwdag.types import Span, Usage

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

"""Reaction as a calibration: attention to the question, less what a node pays where there is none.

Some tokens attend to the place of the question whatever stands there. YOURA (arXiv 2409.13695) takes
the difference that the question makes for the attention; here, as in ICR and QRHead, the other side
of the difference is a question without content. It is read beside the real one, and doubles the
cost of the walk.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hwdag.arrays import Floats
from hwdag.config import SearchConfig
from hwdag.lm.base import Decoding, Reader, Reading, Session, noting
from hwdag.text.prompts import SearchPrompts
from hwdag.types import Span, Usage

NULL_QUESTION = "N/A"
"""A question without content, as in ICR (arXiv 2410.02642) and QRHead (arXiv 2506.09944)."""


def opened(
    reader: Reader, question: str, *, prompts: SearchPrompts, config: SearchConfig
) -> Session:
    """A fresh session for a question, calibrated as the config says.

    Raises `QuestionTooLong` if question and prompts leave no room, and `InputError` if the config
    wants notes and the reader has none.
    """

    def session(text: str) -> Session:
        return reader.session(
            text, prompts=prompts, heads=config.heads, max_new_tokens=config.max_new_tokens
        )

    asked = session(question)
    if config.notebook:
        noting(asked)  # why: a pair of sessions has `note`, whatever they have
    return asked if config.calibration == "none" else ReactionSession(asked, session(NULL_QUESTION))


class ReactionSession:
    """A session whose attention is the surplus over that of a null session; see `lm.base.Session`.

    Both read the same nodes. A node that attends to the question no more than to the null question
    has no attention. All else is the session's own; `usage` is that of both.
    """

    def __init__(self, session: Session, null: Session) -> None:
        self._session = session
        self._null = null

    @property
    def usage(self) -> Usage:
        """Cost so far, the null session's included."""
        return self._session.usage + self._null.usage

    @property
    def room(self) -> int:
        """Node tokens that still fit into both contexts."""
        return min(self._session.room, self._null.room)

    def cost(self, text: str) -> int:
        """Tokens that appending `text` as a node would take, in either session."""
        return self._session.cost(text)

    def read(self, texts: Sequence[str]) -> Reading:
        """Append nodes to both sessions, in a forward of each; p_yes is that of the question."""
        asked, unasked = self._session.read(texts), self._null.read(texts)
        return Reading(np.maximum(asked.attention - unasked.attention, 0.0), asked.p_yes)

    def note(self, prompt: str, *, max_new_tokens: int) -> str:
        """See `hwdag.lm.base.Noting`."""
        return noting(self._session).note(prompt, max_new_tokens=max_new_tokens)

    def decode(
        self, *, enough: bool, max_new_tokens: int, spans: Sequence[tuple[int, Span]] = ()
    ) -> Decoding:
        """Decode the answer to the question."""
        return self._session.decode(enough=enough, max_new_tokens=max_new_tokens, spans=spans)

    def likelihoods(self, texts: Sequence[str], *, enough: bool) -> Floats:
        """Mean log-probability per token of each text as the answer to the question, (texts,)."""
        return self._session.likelihoods(texts, enough=enough)

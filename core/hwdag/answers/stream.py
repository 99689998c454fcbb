"""An answer with its citations, in pieces: of the reader from the search's own KV cache, or of an answerer."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import cached_property

from hwdag.answers.abstention import before_reply, is_short, judged
from hwdag.answers.decoded import DecodedAnswer
from hwdag.answers.generated import WrittenAnswer
from hwdag.answers.quoted import QuotedAnswer
from hwdag.answers.quoting import with_quotation
from hwdag.config import ANSWERER_TOKENS
from hwdag.lm.base import Writer
from hwdag.search.answerability import is_answerable
from hwdag.search.evidence import Evidence
from hwdag.search.stopping import Deadline
from hwdag.types import Answer, Usage

MAX_CITATIONS = 5


class AnswerStream:
    """An answer as it is made: iterate for pieces of text, then read `answer`.

    Iterating decodes; `answer` decodes whatever is left. One thread, one pass. `retrieval` is the walk,
    complete before the first piece. If an answerer fails, iterating raises `AnswererFailed`.

    Args:
        found: the evidence.
        max_new_tokens: the longest answer; None is that of the evidence, of an answerer
            `ANSWERER_TOKENS`.
        deadline: ends the answer before the next piece.
        answerer: who answers; None is the reader that found the evidence.
    """

    def __init__(
        self,
        found: Evidence,
        max_new_tokens: int | None = None,
        deadline: Deadline | None = None,
        *,
        answerer: Writer | None = None,
    ) -> None:
        self.evidence, self.retrieval = found, found.retrieval
        self._deadline = deadline or Deadline()
        self._source: DecodedAnswer | QuotedAnswer | WrittenAnswer
        if answerer is None and found.is_quoted:
            self._source = QuotedAnswer(found)
        elif answerer is None:
            self._source = DecodedAnswer(found, max_new_tokens or found.max_new_tokens)
        else:
            limit = max_new_tokens or ANSWERER_TOKENS
            self._source = WrittenAnswer(
                answerer, found.retrieval, limit, self._deadline, found.session.cost
            )
        self._seconds = 0.0  # spent by an answerer
        self._pieces = self._decoded()

    @property
    def usage(self) -> Usage:
        """Cost so far, of the search too; TFLOPs of an answerer are not known."""
        asked = self._source.tokens
        tokens = asked.prompt + asked.reply if asked else 0
        spent = Usage(tokens, seconds=self._seconds)
        return self.evidence.spent + self.evidence.session.usage + spent

    def __iter__(self) -> Iterator[str]:
        return self._pieces

    @property
    def answer(self) -> Answer:
        """The whole answer with its citations; one that was stopped has none."""
        for _ in self._pieces:
            pass
        return self._whole

    @cached_property
    def _whole(self) -> Answer:
        """The complete answer."""
        source = self._source
        attended = () if self._deadline.stopped else source.cited()
        most = MAX_CITATIONS if isinstance(source, DecodedAnswer) else None
        answer = Answer(
            source.text,
            tuple(one for one in attended[:most] if one.weight > 0),
            self.retrieval,
            self.usage,
            attended,
            source.likelihood,
            source.name,
            tuple(filter(None, (*source.notes, self.evidence.left_out))),
            answerer_tokens=source.tokens,
        )
        answer = judged(answer)
        return answer if self._deadline.stopped else with_quotation(answer)

    def _decoded(self) -> Iterator[str]:
        if self._source.name is not None:
            yield from self._warned()
            return
        is_judged = self.retrieval.answerability is not None
        is_doubtful = not is_answerable(self.retrieval)
        held = "" if is_judged else None  # until it is known that it is given
        for piece in self._said():
            if held is None:
                yield piece
            elif not is_short(held := held + piece) and not is_doubtful:
                yield held
                held = None
        if held is not None:
            answer = self._whole
            if text := held if answer.text == answer.reply else answer.text:
                yield text

    def _warned(self) -> Iterator[str]:
        """Yield the pieces of an answerer, after a warning if the evidence does not seem to hold an answer."""
        warning = before_reply(self.retrieval)
        for piece in self._said():
            yield warning + piece
            warning = ""

    def _said(self) -> Iterator[str]:
        pieces = iter(self._source)
        while not self._deadline.stopped:
            began = time.perf_counter()
            try:
                piece = next(pieces, None)
            finally:
                if isinstance(self._source, WrittenAnswer):
                    self._seconds += time.perf_counter() - began
            if piece is None:
                return
            yield piece

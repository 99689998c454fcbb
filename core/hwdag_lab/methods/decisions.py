"""Decisions by a writer: ask, parse the reply tolerantly, ask once more with a reminder, give up.

Whoever asks has a documented default for decisions that were given up. Retries and defaults are
counted here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from hwdag.building.points import replies
from hwdag.errors import QuestionTooLong
from hwdag.lm.base import Metered, Reader, Writer
from hwdag.store.calls import CallCache
from hwdag.types import Usage

T = TypeVar("T")

UNKNOWN_CONTEXT = 1 << 30  # tokens; for a writer that does not say how many it can read


@dataclass(frozen=True, slots=True)
class Decision(Generic[T]):
    """A prompt, and how to read its reply.

    `parse` returns None for a reply that cannot be used. `retry` is added to the prompt before
    asking again, because greedy decoding repeats its reply to the same prompt.
    """

    prompt: str
    parse: Callable[[str], T | None]
    retry: str


class Asker:
    """Asks a writer for decisions.

    Args:
        writer: the model that decides.
        reader: counts tokens if the writer cannot.
        calls: finished calls of a build, which are not repeated. None is for questions: every call
            is made, and a prompt beyond the context is an error.
        tries: most replies per decision.

    Attributes:
        context: most tokens of a prompt with its reply.
        requests: prompts sent, including retries.
        retries: prompts sent because the reply before could not be used.
        defaults: decisions without a usable reply.
    """

    def __init__(
        self, writer: Writer, reader: Reader, *, calls: CallCache | None = None, tries: int = 2
    ) -> None:
        self.writer = writer
        self.requests = self.retries = self.defaults = 0
        self._calls = calls
        self._tries = tries
        local = writer if isinstance(writer, Reader) else None
        self.count_tokens = (local or reader).count_tokens
        self.context = local.context_tokens if local else UNKNOWN_CONTEXT
        self._template = local.template_tokens if local else 0
        self._before = self._spent()

    @property
    def usage(self) -> Usage:
        """Cost since this object was made, including the spending of other threads on the same model."""
        return self._spent() - self._before

    def room(self, around: str, *, limit: int, within: int = UNKNOWN_CONTEXT) -> int:
        """Return tokens left in the context, or in `within`, next to `around` and a reply of `limit`."""
        taken = self.count_tokens([around])[0] + self._template + limit
        return min(self.context, within) - taken

    def decide(
        self,
        requests: Sequence[Decision[T]],
        *,
        limit: int,
        advance: Callable[[int], object] = lambda amount: None,
    ) -> list[T | None]:
        """Make independent decisions; None if no reply could be used.

        Args:
            requests: the decisions.
            limit: longest reply in tokens.
            advance: called with the number of decisions with a first reply.

        Raises:
            QuestionTooLong: the prompt of a question and its reply do not fit into the context.
            WriterFailed: the writer raised, or did not return one text per prompt.
        """
        if self._calls is None:
            self._check([each.prompt + each.retry for each in requests], limit)
        decided: list[T | None] = [None] * len(requests)
        undecided = list(range(len(requests)))
        for attempt in range(self._tries):
            if not undecided:
                break
            asked = [requests[i] for i in undecided]
            prompts = [each.prompt + (each.retry if attempt else "") for each in asked]
            self.retries += len(prompts) if attempt else 0
            found = self._replies(prompts, limit, (lambda amount: None) if attempt else advance)
            for i, each, reply in zip(undecided, asked, found, strict=True):
                decided[i] = each.parse(reply)
            undecided = [i for i in undecided if decided[i] is None]
        self.defaults += len(undecided)
        return decided

    def _replies(
        self, prompts: Sequence[str], limit: int, advance: Callable[[int], object]
    ) -> list[str]:
        self.requests += len(prompts)
        calls = CallCache.open() if self._calls is None else self._calls
        return replies(self.writer, prompts, calls, limit=limit, advance=advance)

    def _check(self, prompts: Sequence[str], limit: int) -> None:
        longest = max(self.count_tokens(prompts), default=0) + self._template + limit
        if longest > self.context:
            raise QuestionTooLong(
                f"question, prompt and a part of the document take {longest} tokens with the "
                f"reply, but the context of {self.writer.name} holds {self.context}; shorten the "
                "question, or build with smaller chunks or segments"
            )

    def _spent(self) -> Usage:
        return self.writer.usage if isinstance(self.writer, Metered) else Usage()

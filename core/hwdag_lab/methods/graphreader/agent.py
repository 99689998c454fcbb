"""The model that makes the agent's decisions: requests in, decisions out, and what went wrong.

A reply that cannot be used is asked for once more, with a reminder of the format. Where that fails
too there is no decision, and whoever asked takes a default of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from hwdag.building.writing import ask
from hwdag.errors import QuestionTooLong
from hwdag.lm.base import ConcurrentWriter, Metered, Reader, Writer
from hwdag.text.chunking import chunk
from hwdag.types import Usage
from hwdag_lab.methods.graphreader.config import GraphReaderConfig

T = TypeVar("T")

UNKNOWN_CONTEXT = 1 << 30
"""Stands for the context of a writer that does not tell its length."""


@dataclass(frozen=True, slots=True)
class Request(Generic[T]):
    """A prompt, how its reply is read (None: it cannot be used), and what is added to ask again."""

    prompt: str
    parse: Callable[[str], T | None]
    retry: str
    limit: int  # tokens of the reply


class Agent:
    """One question's conversation with a writer.

    Attributes:
        requests: prompts that were sent, retries among them.
        retries: replies that were asked for anew.
        defaults: requests without a decision.
    """

    def __init__(self, writer: Writer, reader: Reader, config: GraphReaderConfig) -> None:
        self.config = config
        self.requests = self.retries = self.defaults = 0
        self._writer = writer
        self._local = writer if isinstance(writer, Reader) else None
        self._counter = self._local or reader
        self._before = self._spent()

    @property
    def usage(self) -> Usage:
        """Cost since the beginning; what other threads spent on the same model counts too."""
        return self._spent() - self._before

    def decide(self, requests: Sequence[Request[T]]) -> list[T | None]:
        """The decisions, in order; all requests are independent of each other.

        Raises:
            QuestionTooLong: a prompt and its reply do not fit into the writer's context.
            WriterFailed: the writer raised, or did not return one text per prompt.
        """
        decided = self._asked(requests, [request.prompt for request in requests])
        failed = [i for i, decision in enumerate(decided) if decision is None]
        again = [requests[i] for i in failed]
        found = self._asked(again, [request.prompt + request.retry for request in again])
        self.retries += len(failed)
        for i, decision in zip(failed, found, strict=True):
            decided[i] = decision
        self.defaults += sum(decision is None for decision in found)
        return decided

    def fitting(self, lines: Sequence[str], around: str, *, limit: int, separator: str) -> int:
        """How many of the lines fit into a prompt of which `around` is the rest, at least one."""
        room = self.room(around, limit=limit)
        held = number = 0
        for count in self._count([line + separator for line in lines]):
            held += count
            if held > room:
                break
            number += 1
        return max(1, number)

    def room(self, around: str, *, limit: int) -> int:
        """Tokens that `around` leaves of the window; `limit` are those of the reply."""
        [taken] = self._count([around])
        return self.window - taken - self.template_tokens - limit

    def context_room(self, around: str) -> int:
        """Tokens that `around` and a reply that lists facts leave of the writer's context."""
        [taken] = self._count([around])
        return self._context - taken - self.template_tokens - self.config.fact_tokens

    @property
    def window(self) -> int:
        """Tokens of a prompt and its reply: those of the config, or the context if that is less."""
        return min(self.config.window_tokens, self._context)

    @property
    def _context(self) -> int:
        return self._local.context_tokens if self._local else UNKNOWN_CONTEXT

    @property
    def template_tokens(self) -> int:
        """What the writer's chat template takes."""
        return self._local.template_tokens if self._local else 0

    def clipped(self, text: str, limit: int) -> str:
        """The first sentences of a text, at most `limit` tokens."""
        if self._count([text])[0] <= limit:
            return text
        head = chunk(text, count_tokens=self._count, limit=limit)[0]
        return text[head.start : head.end]

    def newest(self, lines: Iterable[str], limit: int) -> str:
        """The last lines of a text, at most `limit` tokens, of the last one at least a part."""
        kept = list(lines)
        while len(kept) > 1 and self._count(["\n".join(kept)])[0] > limit:
            kept.pop(0)
        return self.clipped("\n".join(kept), limit)

    def _asked(self, requests: Sequence[Request[T]], prompts: Sequence[str]) -> list[T | None]:
        self._check(requests, prompts)
        self.requests += len(prompts)
        replies: dict[int, str] = {}
        for limit in sorted({request.limit for request in requests}):
            which = [i for i, request in enumerate(requests) if request.limit == limit]
            at_once = isinstance(self._writer, ConcurrentWriter)
            size = len(which) if at_once else self.config.batch_size
            for start in range(0, len(which), size):
                batch = which[start : start + size]
                asked = [prompts[i] for i in batch]
                replies |= zip(batch, ask(self._writer, asked, max_new_tokens=limit), strict=True)
        return [request.parse(replies[i]) for i, request in enumerate(requests)]

    def _check(self, requests: Sequence[Request[T]], prompts: Sequence[str]) -> None:
        """Raise `QuestionTooLong` for what a local model cannot read."""
        if self._local is None:
            return
        for request, count in zip(requests, self._count(prompts), strict=True):
            needed = count + self.template_tokens + request.limit
            if needed > self._local.context_tokens:
                raise QuestionTooLong(
                    f"question, prompt and a part of the document take {needed} tokens with the "
                    f"reply, but the context of {self._local.name} holds "
                    f"{self._local.context_tokens}; shorten the question, or build with smaller "
                    "chunk_tokens"
                )

    def _count(self, texts: Sequence[str]) -> list[int]:
        return self._counter.count_tokens(texts)

    def _spent(self) -> Usage:
        writer = self._writer
        return writer.usage if isinstance(writer, Metered) else Usage()

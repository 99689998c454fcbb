"""Chats, whatever the model: messages, and replies that stream, are counted and can be closed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from typing import Literal, Protocol, TypeVar, runtime_checkable

from hwdag.checks import whole
from hwdag.errors import InputError, QuestionTooLong
from hwdag.lm.base import Message, Reader, Writer
from hwdag.lm.decoding import visible
from hwdag.threads import each_in_a_thread
from hwdag.types import Usage

T = TypeVar("T")

NEXT_TURN = "\nuser:"
"""Where a model without a chat template goes on with the other side's next line."""


def plain(messages: Sequence[Message]) -> str:
    """A chat as one prompt for a model without turns; the text alone where the user says one thing."""
    if [message.role for message in messages] == ["user"]:
        return messages[0].text
    lines = (f"{message.role}: {message.text}" for message in tidied(messages))
    return "\n".join([*lines, "assistant:"])


def tidied(messages: Sequence[Message]) -> list[Message]:
    """Replies without white space around them, which decoding may leave; `InputError` for none."""
    if not messages:
        raise InputError("there is nothing to reply to; give at least one message")
    return [
        Message(message.role, message.text.strip()) if message.role == "assistant" else message
        for message in messages
    ]


def without_system(messages: Sequence[Message]) -> list[Message]:
    """What the system says comes before what the user says next, after a blank line."""
    made: list[Message] = []
    waiting: list[str] = []
    for message in messages:
        if message.role == "system":
            waiting.append(message.text)
        elif message.role == "user":
            made.append(Message("user", "\n\n".join([*waiting, message.text])))
            waiting = []
        else:
            made.append(message)
    return [*made, Message("user", "\n\n".join(waiting))] if waiting else made


class Reply(ABC):
    """A reply being decoded: iterate for its pieces, which join to the whole reply.

    It belongs to one thread at a time; any thread may close it. A subclass decodes.

    Attributes:
        prompt_tokens: up to the reply, the template's included; 0 where nobody can tell.
        new_tokens: decoded so far; 0 where nobody can tell.
        finish: why it ended: at its own end or a stop string, or at the limit; None before, or closed.
        usage: cost so far.
    """

    def __init__(self, *, prompt_tokens: int, max_new_tokens: int, stop: Sequence[str]) -> None:
        self.prompt_tokens = prompt_tokens
        self.new_tokens = 0
        self.usage = Usage()
        self.finish: Literal["stop", "length"] | None = None
        self._limit = whole("max_new_tokens", max_new_tokens, 1)
        self._closed = False
        if isinstance(stop, str) or not all(stop):
            raise InputError(f"stop must be a list of strings that are not empty, got {stop!r}")
        self._stop = tuple(stop)
        self._pieces = self._shown()

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        return next(self._pieces)

    def close(self) -> None:
        """End it; a token that another thread is decoding becomes the last one."""
        self._closed = True
        self._pieces = iter(())  # lets go of the cache

    @abstractmethod
    def _decode(self) -> Iterator[str]:
        """Pieces of the raw text; passes its tokens through `_counted`, and adds to `usage`."""

    def _counted(self, tokens: Iterable[T]) -> Iterator[T]:
        for token in tokens:
            self.new_tokens += 1
            yield token
            if self._closed:
                return

    def _shown(self) -> Iterator[str]:
        stopped = yield from visible(self._decode(), self._stop)
        if not self._closed:
            full = self.new_tokens >= self._limit and not stopped
            self.finish = "length" if full else "stop"


@runtime_checkable
class Chat(Protocol):
    """Replies to chat messages, piece by piece; optional for a Writer."""

    @property
    def has_chat_template(self) -> bool:
        """Whether the model knows turns; one that does not gets plain lines."""

    def reply(
        self, messages: Sequence[Message], *, max_new_tokens: int, stop: Sequence[str] = ()
    ) -> Reply:
        """The greedy reply, stripped, up to the first of the `stop` strings; several may go on at a time.

        Raises `QuestionTooLong` where messages and reply do not fit into the context.
        """


def check_context(prompt_tokens: int, max_new_tokens: int, *, name: str, context: int) -> None:
    """Raise `QuestionTooLong` where prompt and reply do not fit into the context of a model."""
    if prompt_tokens + max_new_tokens > context:
        raise QuestionTooLong(
            f"the messages take {prompt_tokens} tokens and the reply may take {max_new_tokens}, but "
            f"the context of {name} holds {context}; send fewer or shorter messages, lower "
            "max_new_tokens, or use a model with a longer context"
        )


def as_chat(model: Reader | Writer) -> Chat:
    """A model that chats as it is; any other Writer replies in one piece; else `InputError`."""
    if isinstance(model, Chat):
        return model
    if isinstance(model, Writer):
        return _WriterChat(model)
    raise InputError(
        f"the reader {model.name} cannot write; pass a hwdag.HuggingFaceLM, or use another LLM"
    )


async def pieces_in_threads(reply: Reply) -> AsyncIterator[str]:
    """The pieces of a reply, each decoded in a thread; the loop goes on.

    Whoever stops asking, or is cancelled, ends the reply.
    """
    try:
        async for piece in each_in_a_thread(reply):
            yield piece
    finally:
        reply.close()


class _WriterChat:
    has_chat_template = False

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    def reply(
        self, messages: Sequence[Message], *, max_new_tokens: int, stop: Sequence[str] = ()
    ) -> Reply:
        return _WrittenReply(self._writer, plain(messages), max_new_tokens, stop)


class _WrittenReply(Reply):
    """One call of a Writer; its tokens are not known, so they are not counted."""

    def __init__(
        self, writer: Writer, prompt: str, max_new_tokens: int, stop: Sequence[str]
    ) -> None:
        super().__init__(prompt_tokens=0, max_new_tokens=max_new_tokens, stop=stop)
        self._writer = writer
        self._prompt = prompt

    def _decode(self) -> Iterator[str]:
        yield self._writer.write([self._prompt], max_new_tokens=self._limit)[0]

"""Chat messages: what is said, and by whom."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from hwdag.errors import InputError

Role = Literal["system", "user", "assistant"]


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a chat. The text is untrusted: no control token can come out of it."""

    role: Role
    text: str

    def __post_init__(self) -> None:
        if self.role not in get_args(Role):
            roles = ", ".join(get_args(Role))
            raise InputError(f"the role of a message must be one of {roles}, got {self.role!r}")
        if not isinstance(self.text, str):
            raise InputError(f"a message must be text, got {type(self.text).__name__}")


NEXT_TURN = "\nuser:"
"""Where a model without a chat template goes on with the other side's next line."""


def plain(messages: Sequence[Message]) -> str:
    """A chat as one prompt for a model without turns; the text alone where the user says one thing."""
    if [message.role for message in messages] == ["user"]:
        return messages[0].text
    lines = (f"{message.role}: {message.text}" for message in tidied(messages))
    return "\n".join([*lines, "assistant:"])


def tidied(messages: Sequence[Message]) -> list[Message]:
    """Replies without the white space around them, which decoding may leave; all else as it is.

    Raises:
        InputError: no messages.
    """
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

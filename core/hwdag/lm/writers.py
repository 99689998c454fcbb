"""Readers and writers as they are passed: objects, names, or functions from prompt to text."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Iterator, Sequence

from hwdag.errors import InputError
from hwdag.lm.base import Reader, Writer
from hwdag.text.characters import disarmed

_ANONYMOUS = "anonymous "
_LOGGER = logging.getLogger(__name__)


def anonymous() -> str:
    """Return the `settings` of a writer that nothing identifies: no other writer has them, nor its finished calls."""
    return _ANONYMOUS + secrets.token_hex(8)


class CallableWriter:
    """A function as a Writer: one call per prompt, in order.

    Control tokens in prompts are defused (`hwdag.text.characters.disarmed`). Works with any client:
    `CallableWriter(lambda prompt: client.complete(prompt).text, name="my-server")`.
    """

    def __init__(self, function: Callable[[str], str], *, name: str | None = None) -> None:
        self._function = function
        own = name or str(getattr(function, "__qualname__", ""))
        self.name = own or type(function).__name__
        self.settings = anonymous() if not own or "<lambda>" in own else ""

    def write(self, prompts: Sequence[str], *, max_new_tokens: int) -> list[str]:
        """Return one reply per prompt; the function itself limits their length."""
        return [reply for _, reply in self.replies(prompts, max_new_tokens=max_new_tokens)]

    def replies(self, prompts: Sequence[str], *, max_new_tokens: int) -> Iterator[tuple[int, str]]:
        """Yield each reply before the next prompt is asked, so that it can be stored."""
        for index, prompt in enumerate(prompts):
            yield index, self._function(disarmed(prompt))


def as_writer(writer: Writer | Callable[[str], str] | None, role: str = "writer") -> Writer | None:
    """Return a Writer or None as it is, and wrap a function. Raises `InputError` for anything else.

    The `role`, "writer" or "answerer", is for the message.
    """
    if writer is None:
        return None
    if callable(writer) and not isinstance(writer, Writer):
        writer = CallableWriter(writer)
    if isinstance(writer, Writer):
        if role == "writer" and str(getattr(writer, "settings", "")).startswith(_ANONYMOUS):
            _LOGGER.warning(
                "no attribute identifies the writer %s, so a later build does not use its finished calls; "
                "name its model, or pass hwdag.lm.writers.CallableWriter(function, name=...)",
                writer.name,
            )
        return writer
    hint = (
        "; for a model on a server pass hwdag.lm.openai_compatible.OpenAIWriter(NAME, base_url=URL)"
    )
    raise InputError(
        f"the {role} must be a Writer or a function from prompt to text, got "
        f"{type(writer).__name__}{hint if isinstance(writer, str) else ''}"
    )


def loaded_reader(reader: Reader | str | None) -> Reader:
    """Return a reader as it is; load one by name or path, or the default."""
    if isinstance(reader, Reader):
        return reader
    # why here: torch is imported only by those who need a model
    from hwdag.lm.default import as_reader

    return as_reader(reader)


def searching_reader(reader: Reader | str | None) -> Reader | None:
    """Return the default reader, which is loaded for its first forward; None for another one."""
    from hwdag.lm.default import deferred_reader

    return deferred_reader(reader)

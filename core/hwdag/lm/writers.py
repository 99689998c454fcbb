"""Writers that are not local models. Any function from prompt to text will do."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hwdag.errors import InputError
from hwdag.lm.base import Writer


class CallableWriter:
    """A function as a Writer: one call per prompt, in order.

    Relations: pass any client or framework LLM as a lambda, for example
    `CallableWriter(lambda prompt: client.complete(prompt).text, name="my-server")`. The reader
    stays local: edges need attention.
    """

    def __init__(self, function: Callable[[str], str], *, name: str | None = None) -> None:
        self._function = function
        self._name = name or str(getattr(function, "__qualname__", type(function).__name__))

    @property
    def name(self) -> str:
        """Recorded in the index."""
        return self._name

    def write(self, prompts: Sequence[str], *, max_new_tokens: int) -> list[str]:
        """One reply per prompt; the length limit is the function's own business."""
        return [self._function(prompt) for prompt in prompts]


def as_writer(writer: Writer | Callable[[str], str] | None) -> Writer | None:
    """A Writer as it is, a function wrapped, None as None. Raises `InputError` for anything else."""
    if writer is None or isinstance(writer, Writer):
        return writer
    if callable(writer):
        return CallableWriter(writer)
    raise InputError(
        f"the writer must be a Writer or a function from prompt to text, got {type(writer).__name__}"
    )

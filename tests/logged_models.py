"""Models whose calls go through a log, which may end the process or keep what was asked.

A log has one method: `call(kind, content, make)` returns what `make()` returns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Protocol

from hwdag_lab.scripted import summary

KINDS = ("replay", "write", "embed")


class Log(Protocol):
    def call(self, kind: str, content: Sequence[Any], make: Callable[[], Any]) -> Any: ...


def logged(model: Any, log: Log) -> Any:
    """Return the model itself: from now on its replays, writes and embeddings go through the log."""
    for kind in KINDS:
        if method := getattr(model, kind, None):
            setattr(model, kind, partial(_through, log, kind, method))
    return model


def _through(log: Log, kind: str, method: Callable[..., Any], content: Any, **options: Any) -> Any:
    return log.call(kind, content, partial(method, content, **options))


def reply_to(prompt: str) -> str:
    """Return a bullet for every sentence; every third reply holds none, and of those every second retry."""
    usable = len(prompt) % 3 or ("asterisk" in prompt and len(prompt) % 2)
    return summary(prompt) if usable else "I cannot."


class Writing:
    """A plain writer, which answers with `reply_to`."""

    name = "writing"

    def __init__(self, log: Log) -> None:
        self.log = log

    def write(self, prompts: Sequence[str], *, max_new_tokens: int) -> list[str]:
        return self.log.call("write", prompts, lambda: list(map(reply_to, prompts)))


class Streaming(Writing):
    """A concurrent writer that finishes the last prompt first, and fails after a number of replies."""

    concurrency = 8

    def __init__(self, log: Log, fail_after: int | None = None) -> None:
        super().__init__(log)
        self.fail_after = fail_after
        self.given: list[list[str]] = []
        self.closed = 0

    def replies(self, prompts: Sequence[str], *, max_new_tokens: int) -> Iterator[tuple[int, str]]:
        self.given.append(list(prompts))
        try:
            for done, i in enumerate(reversed(range(len(prompts)))):
                if done == self.fail_after:
                    raise ConnectionError("gone")
                yield i, self.log.call("write", [prompts[i]], partial(reply_to, prompts[i]))
        finally:
            self.closed += 1

"""The text that was read from a file, with notes of losses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any


@dataclass(frozen=True, slots=True)
class Content:
    """The text of a file with its title, metadata and notes.

    `page_starts` are the characters at which pages begin; `times` are pairs of a character and the second
    at which it is spoken; `metadata` is JSON.
    """

    text: str
    title: str = ""
    notes: tuple[str, ...] = ()
    page_starts: tuple[int, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    times: tuple[Sequence[float], ...] = ()


class UnreadableError(Exception):
    """Raised by the readers of files with the reason why something cannot be read."""


def as_notes(noted: Mapping[str, int], texts: Mapping[str, str]) -> tuple[str, ...]:
    """Return a note for each kind that was counted, with its number, in the order of the kinds."""
    return tuple(
        text.format(number, s="s" * (number > 1))
        for kind, text in texts.items()
        if (number := noted.get(kind, 0))
    )


def has_ocr() -> bool:
    """Return whether the extra `ocr` is installed."""
    return find_spec("rapidocr") is not None and find_spec("onnxruntime") is not None


def said(error: Exception) -> str:
    """Return the message of a parser's exception, with its class."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__

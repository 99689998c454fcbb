"""What commands print comes from documents, models and servers: a terminal must obey none of it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from io import TextIOBase
from typing import TextIO

from hwdag.text.characters import visible


class Visible(TextIOBase):
    """A stream that spells out control, reordering and hidden characters; JSON stays the same."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    @property
    def encoding(self) -> str:  # type: ignore[override] # it is None for some streams only
        """That of the stream."""
        return self._stream.encoding

    def isatty(self) -> bool:
        """Whether the stream is a terminal."""
        return self._stream.isatty()

    def write(self, text: str) -> int:
        """Write the text as `visible` shows it."""
        self._stream.write(visible(text))
        return len(text)

    def flush(self) -> None:
        """Flush the stream."""
        self._stream.flush()


@contextmanager
def visible_output() -> Iterator[None]:
    """Whatever is printed meanwhile is shown and not obeyed."""
    with redirect_stdout(Visible(sys.stdout)):
        yield

"""Safe output to a terminal: text of documents, models and servers cannot control it.

Colours appear only on a terminal that has them (https://no-color.org).
"""

from __future__ import annotations

import os
import shutil
import sys
from contextlib import AbstractContextManager, redirect_stdout
from io import TextIOBase, TextIOWrapper
from typing import Literal, TextIO

from hwdag.text.characters import visible

Style = Literal["plain", "bold", "dim", "green", "yellow", "blue"]

CODES: dict[Style, str] = {"bold": "1", "dim": "2", "green": "32", "yellow": "33", "blue": "34"}

STEP: tuple[tuple[int, Style], ...] = ((7, "plain"), (16, "yellow"), (27, "blue"), (37, "green"))
"""End and style of each part of a line of a walk, in the colours of the pages."""


class Visible(TextIOBase):
    """A stream that spells out control, reordering and hidden characters. JSON stays as it is."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    @property
    def encoding(self) -> str:  # type: ignore[override] # it is None for some streams only
        """The encoding of the stream."""
        return self._stream.encoding

    def isatty(self) -> bool:
        """Return whether the stream is a terminal."""
        return self._stream.isatty()

    def write(self, text: str) -> int:
        """Write the text as `visible` shows it."""
        self._stream.write(visible(text))
        return len(text)

    def write_styled(self, text: str, style: Style) -> None:
        """Write the text in a style, if the stream is a terminal that has styles."""
        plain = os.environ.get("NO_COLOR") or os.environ.get("TERM", "dumb") == "dumb"
        if plain or style == "plain" or not self.isatty():
            self.write(text)
        else:
            self._stream.write(f"\x1b[{CODES[style]}m{visible(text)}\x1b[0m")

    def flush(self) -> None:
        """Flush the stream."""
        self._stream.flush()


def visible_output() -> AbstractContextManager[object]:
    """Print within the block through `Visible`; characters that the terminal cannot show are spelled out."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    return redirect_stdout(Visible(sys.stdout))


def print_styled(text: str, style: Style, *, end: str = "\n") -> None:
    """Print and flush, in a style if the terminal has styles."""
    out = sys.stdout
    if isinstance(out, Visible):
        out.write_styled(text, style)
        out.write(end)
    else:
        print(text, end=end)
    out.flush()


def print_step(line: str) -> None:
    """Print a line of a walk (`render.step_line`), with the score parts in their colours."""
    begin = 0
    for end, style in STEP:
        print_styled(line[begin:end], style, end="")
        begin = end
    print(line[begin:], flush=True)


def width() -> int:
    """Return the number of columns of a line."""
    return shutil.get_terminal_size().columns

"""JSON lines that survive a kill: every line is on disk before the next piece of work begins."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from hwdag.errors import InputError


class Journal:
    """A file of JSON lines that is only ever appended to.

    Opening it cuts off a last line without an end, which a killed process leaves behind; the work
    that it told of is done again.

    Args:
        path: the file; made if it is not there.
    """

    def __init__(self, path: Path) -> None:
        _cut_torn_line(path)
        # why: a question may hold a lone surrogate, and JSON readers pass it as well
        self._file = path.open("a", encoding="utf-8", errors="surrogatepass", newline="\n")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._file.close()

    def append(self, row: Mapping[str, Any]) -> None:
        """Write one line; it is on disk when this returns."""
        self._file.write(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n")
        self._file.flush()
        os.fsync(self._file.fileno())


def read_lines(path: Path) -> list[dict[str, Any]]:
    """All complete lines; none if there is no such file.

    Raises:
        InputError: a complete line is not a JSON object; file and line are named.
    """
    if not path.exists():
        return []
    *lines, _torn = path.read_bytes().split(b"\n")
    return [_parsed(line, f"{path}:{number}") for number, line in enumerate(lines, 1)]


def write_json(path: Path, value: object) -> None:
    """Write a JSON file in one step: a killed process leaves the old one or the new one."""
    write_text(path, json.dumps(value, ensure_ascii=False, allow_nan=False, indent=2) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write a text file in one step."""
    partial = path.with_name(path.name + ".partial")
    with partial.open("w", encoding="utf-8", errors="surrogatepass", newline="\n") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


def _cut_torn_line(path: Path) -> None:
    if not path.exists():
        return
    content = path.read_bytes()
    if complete := content.rfind(b"\n") + 1 - len(content):
        with path.open("r+b") as file:
            file.truncate(len(content) + complete)


def _parsed(line: bytes, where: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise InputError(
            f"{where}: not JSON ({error}); remove the line, and its work is done again"
        ) from error
    if not isinstance(row, dict):
        raise InputError(f"{where}: a JSON object was expected, got {type(row).__name__}")
    return row

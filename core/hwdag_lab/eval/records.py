"""The records of a run: one result per system, budget and question, one build per document.

`records.jsonl` holds `Result` lines, `builds.jsonl` `Build` lines. Of lines with the same key, the
last counts.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from pydantic import TypeAdapter, with_config

from hwdag.errors import InputError
from hwdag.types import Usage


class Journal:
    """A file of JSON lines that only grows.

    Opening creates it if needed, and cuts off an incomplete last line of a killed process; the work
    of that line is done again.
    """

    def __init__(self, path: Path) -> None:
        _cut_torn_line(path)
        # why: JSON readers pass lone surrogates, so a question may hold one
        self._file = path.open("a", encoding="utf-8", errors="surrogatepass", newline="\n")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._file.close()

    def append(self, row: Result | Build) -> None:
        """Write one line; it is on disk when this returns."""
        self._file.write(json.dumps(asdict(row), ensure_ascii=False, allow_nan=False) + "\n")
        self._file.flush()
        os.fsync(self._file.fileno())


def read_lines(path: Path, kind: Any) -> list[Any]:
    """Return all complete lines as objects of the dataclass `kind`; none if there is no such file.

    Raises:
        InputError: a complete line is malformed; the message names file and line.
    """
    if not path.exists():
        return []
    *lines, _torn = path.read_bytes().split(b"\n")
    found, adapter = [], TypeAdapter[Any](kind)
    for number, line in enumerate(lines, 1):
        try:
            # why: pydantic's own parser refuses lone surrogates
            found.append(adapter.validate_python(json.loads(line)))
        except ValueError as error:
            raise InputError(
                f"{path}:{number}: not a line of this version ({error}); use another folder, or "
                "remove the line to have its work done again"
            ) from error
    return found


def write_json(path: Path, value: object) -> None:
    """Write a JSON file atomically."""
    write_text(path, json.dumps(value, ensure_ascii=False, allow_nan=False, indent=2) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically."""
    partial = path.with_name(path.name + ".partial")
    with partial.open("w", encoding="utf-8", errors="surrogatepass", newline="\n") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


def _cut_torn_line(path: Path) -> None:
    if path.exists():
        with path.open("r+b") as file:
            file.truncate(file.read().rfind(b"\n") + 1)


RECORDS = "records.jsonl"
BUILDS = "builds.jsonl"

Key = tuple[str, int | None, str, str, str]
"""System, budget, data set, document, question."""


@with_config(extra="forbid")
@dataclass(frozen=True, slots=True)
class Result:
    """One question, asked of one system at one budget."""

    system: str  # name of the row
    budget: int | None  # node tokens allowed; None for a system that reads everything
    dataset: str  # name of the data set
    document: str  # id within the data set
    question: str  # id within the data set
    type: str  # its name in the data
    text: str  # the question itself
    answers: tuple[str, ...]  # gold answers
    answered: bool  # whether an answer was asked for
    prediction: str | None = None  # the answer; None if not asked for, or failed
    # mean log-probability per token of the answer, or log-probability of the chosen option
    likelihood: float | None = None
    # scores in [0, 1] by name; 0 after an error
    metrics: Mapping[str, float] = field(default_factory=dict)
    context_tokens: int = 0  # node tokens given to the reader
    nodes: int = 0  # number of visited nodes
    stop: str = ""  # why the walk ended; empty after an error
    p_yes: tuple[float, ...] = ()  # all p_yes, in order
    # cost of finding the nodes; `seconds` is wall time
    search: Usage = field(default_factory=Usage)
    # cost of reading the rest, and of answering; None if not asked for
    answer: Usage | None = None
    # by kind, see `hwdag_lab.eval.peaks`
    peak_memory_mb: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()  # differences from the plain method, in words
    error: str | None = None  # name and message of the error, or None

    @property
    def key(self) -> Key:
        """Key of the result."""
        return self.system, self.budget, self.dataset, self.document, self.question

    @property
    def total(self) -> Usage:
        """Cost of search and answer."""
        return self.search + (self.answer or Usage())


@with_config(extra="forbid")
@dataclass(frozen=True, slots=True)
class Build:
    """The cost of preparing one document."""

    build: str  # the name of the build, which several systems may share
    dataset: str  # name of the data set
    document: str  # id within it
    words: int  # words of the document
    nodes: int  # nodes made
    retries: int  # windows whose first reply held no point
    fallbacks: int  # windows whose second reply held none either
    # of reader and writer, including remembered calls; `seconds` is wall time plus that of these
    usage: Usage
    # by kind, see `hwdag_lab.eval.peaks`
    peak_memory_mb: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()  # guards that took effect, in words

    @property
    def key(self) -> tuple[str, str, str]:
        """Key of the build."""
        return self.build, self.dataset, self.document


def read_results(folder: Path) -> dict[Key, Result]:
    """Return all results of a run by key, in order of first lines; errors as in `read_lines`."""
    return {result.key: result for result in read_lines(folder / RECORDS, Result)}


def read_builds(folder: Path) -> dict[tuple[str, str, str], Build]:
    """Return all builds of a run by key; errors as in `read_lines`."""
    return {build.key: build for build in read_lines(folder / BUILDS, Build)}

"""What a run measured: one result per system, budget and question, one build per document.

`records.jsonl` holds the lines of `Result`, `builds.jsonl` those of `Build`. Of two lines with the
same key the later one counts.
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
    """A file of JSON lines that is only ever appended to.

    Opening it makes the file if it is not there, and cuts off a last line without an end, which a
    killed process leaves behind; the work that it told of is done again.
    """

    def __init__(self, path: Path) -> None:
        _cut_torn_line(path)
        # why: a question may hold a lone surrogate, and JSON readers pass it as well
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
    """All complete lines, each as a `kind`, a dataclass; none if there is no such file.

    Raises:
        InputError: a complete line is none; file and line are named.
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
                f"{path}:{number}: no line of this version ({error}); use another folder, or remove "
                "the line, and its work is done again"
            ) from error
    return found


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
    """One question put to one system at one budget."""

    system: str  # name of the row
    budget: int | None  # node tokens allowed; None for a system that reads everything
    dataset: str  # name of the data set
    document: str  # id within the data set
    question: str  # id within the data set
    type: str  # as the data names it
    text: str  # the question itself
    answers: tuple[str, ...]  # gold answers
    answered: bool  # whether an answer was asked for, and not the retrieval alone
    prediction: str | None = None  # the answer; None where it was not asked for, or failed
    # mean log-probability per token of the answer; None where the reader decoded none
    likelihood: float | None = None
    # scores in [0, 1] by name; an error scores 0 in all that apply
    metrics: Mapping[str, float] = field(default_factory=dict)
    context_tokens: int = 0  # node tokens put before the reader
    nodes: int = 0  # number of visited nodes
    stop: str = ""  # why the walk ended; empty after an error
    p_yes: tuple[float, ...] = ()  # every probability of "Yes" that was read, in order
    # cost of finding the nodes; `seconds` is wall time
    search: Usage = field(default_factory=Usage)
    # cost of reading what was not read yet, and of answering; None if not asked for
    answer: Usage | None = None
    # by kind, see `hwdag_lab.eval.peaks`
    peak_memory_mb: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()  # what differed from the plain method, in words
    error: str | None = None  # name and message of what went wrong, or None

    @property
    def key(self) -> Key:
        """What the result is of."""
        return self.system, self.budget, self.dataset, self.document, self.question

    @property
    def total(self) -> Usage:
        """Cost of search and answer."""
        return self.search + (self.answer or Usage())


@with_config(extra="forbid")
@dataclass(frozen=True, slots=True)
class Build:
    """What it cost to prepare one document."""

    build: str  # what was built; several systems may search it
    dataset: str  # name of the data set
    document: str  # id within it
    words: int  # of the document, between white space
    nodes: int  # nodes made
    retries: int  # windows whose first reply held no point
    fallbacks: int  # windows whose second reply held none either
    # of reader and writer, remembered calls included; `seconds` is wall time plus what remembered
    # calls had taken
    usage: Usage
    # by kind, see `hwdag_lab.eval.peaks`
    peak_memory_mb: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()  # guards that came into effect, in words

    @property
    def key(self) -> tuple[str, str, str]:
        """What the build is of."""
        return self.build, self.dataset, self.document


def read_results(folder: Path) -> dict[Key, Result]:
    """All results of a run by key, in order of their first line; errors as in `read_lines`."""
    return {result.key: result for result in read_lines(folder / RECORDS, Result)}


def read_builds(folder: Path) -> dict[tuple[str, str, str], Build]:
    """All builds of a run by key; errors as in `read_lines`."""
    return {build.key: build for build in read_lines(folder / BUILDS, Build)}

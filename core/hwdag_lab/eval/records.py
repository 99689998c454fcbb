"""What a run measured: one result per system, budget and question, one build per document.

`records.jsonl` holds the lines of `Result`, `builds.jsonl` those of `Build`. Of two lines with the
same key the later one counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError, with_config

from hwdag.errors import InputError
from hwdag.types import Usage
from hwdag_lab.eval.journal import read_lines

T = TypeVar("T")

RECORDS = "records.jsonl"
BUILDS = "builds.jsonl"

Key = tuple[str, int | None, str, str, str]
"""System, budget, data set, document, question."""


@with_config(extra="forbid")
@dataclass(frozen=True, slots=True)
class Result:
    """One question put to one system at one budget.

    Attributes:
        system: name of the row.
        budget: node tokens allowed; None for a system that reads everything.
        dataset: name of the data set.
        document: id within the data set.
        question: id within the data set.
        type: as the data names it.
        text: the question itself.
        answers: gold answers.
        answered: whether an answer was asked for, and not the retrieval alone.
        prediction: the answer; None where it was not asked for, or failed.
        metrics: scores in [0, 1] by name; an error scores 0 in all that apply.
        context_tokens: node tokens put before the reader.
        nodes: number of visited nodes.
        stop: why the walk ended; empty after an error.
        p_yes: every probability of "Yes" that was read, in order.
        search: cost of finding the nodes; `seconds` is wall time.
        answer: cost of reading what was not read yet, and of answering; None if not asked for.
        peak_memory_mb: by kind, see `hwdag_lab.eval.peaks`.
        notes: what differed from the plain method, in words.
        error: name and message of what went wrong, or None.
    """

    system: str
    budget: int | None
    dataset: str
    document: str
    question: str
    type: str
    text: str
    answers: tuple[str, ...]
    answered: bool
    prediction: str | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    context_tokens: int = 0
    nodes: int = 0
    stop: str = ""
    p_yes: tuple[float, ...] = ()
    search: Usage = field(default_factory=Usage)
    answer: Usage | None = None
    peak_memory_mb: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    error: str | None = None

    @property
    def key(self) -> Key:
        """What the result is of."""
        return self.system, self.budget, self.dataset, self.document, self.question

    @property
    def total(self) -> Usage:
        """Cost of search and answer."""
        return self.search + (self.answer or Usage())

    def to_json(self) -> dict[str, Any]:
        """As JSON-able values."""
        return asdict(self)


@with_config(extra="forbid")
@dataclass(frozen=True, slots=True)
class Build:
    """What it cost to prepare one document.

    Attributes:
        build: what was built; several systems may search it.
        dataset: name of the data set.
        document: id within it.
        words: of the document, between white space.
        nodes: nodes made.
        retries: windows whose first reply held no point.
        fallbacks: windows whose second reply held none either.
        usage: of reader and writer, remembered calls included; `seconds` is wall time plus what
            remembered calls had taken.
        peak_memory_mb: by kind, see `hwdag_lab.eval.peaks`.
        notes: guards that came into effect, in words.
    """

    build: str
    dataset: str
    document: str
    words: int
    nodes: int
    retries: int
    fallbacks: int
    usage: Usage
    peak_memory_mb: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[str, str, str]:
        """What the build is of."""
        return self.build, self.dataset, self.document

    def to_json(self) -> dict[str, Any]:
        """As JSON-able values."""
        return asdict(self)


def read_results(folder: Path) -> dict[Key, Result]:
    """All results of a run by key, in order of their first line.

    Raises:
        InputError: a line cannot be read.
    """
    results = [_checked(_RESULT, row, folder / RECORDS) for row in read_lines(folder / RECORDS)]
    return {result.key: result for result in results}


def read_builds(folder: Path) -> dict[tuple[str, str, str], Build]:
    """All builds of a run by key; raises `InputError` if a line cannot be read."""
    builds = [_checked(_BUILD, row, folder / BUILDS) for row in read_lines(folder / BUILDS)]
    return {build.key: build for build in builds}


def datasets_of(results: Iterable[Result]) -> list[str]:
    """Names of data sets, in order of appearance."""
    return list(dict.fromkeys(result.dataset for result in results))


def result_of(row: Mapping[str, Any]) -> Result:
    """The result in a line of `records.jsonl`; raises `pydantic.ValidationError` for any other."""
    return _RESULT.validate_python(row)


_RESULT, _BUILD = TypeAdapter(Result), TypeAdapter(Build)


def _checked(kind: TypeAdapter[T], row: Mapping[str, Any], path: Path) -> T:
    try:
        return kind.validate_python(row)
    except ValidationError as error:
        raise InputError(
            f"{path} holds a line of another version ({error}); use another folder"
        ) from error

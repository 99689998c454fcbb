"""Converting official formats of public data sets to the records of `hwdag_lab.eval.data`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import cast

from hwdag.checks import one_of
from hwdag_lab.eval.data import write_records
from hwdag_lab.eval.fields import Malformed, OnSkip
from hwdag_lab.eval.formats import FORMATS
from hwdag_lab.eval.formats.layout import Read
from hwdag_lab.eval.schema import Record


def reader_of(format: str) -> Read:
    """Return the reader of a format. Raises `UnknownOption` for an unknown name."""
    module, name = FORMATS[one_of("format", format, FORMATS)]
    return cast("Read", getattr(import_module(f"hwdag_lab.eval.formats.{module}"), name))


@dataclass(frozen=True, slots=True)
class ConvertCounts:
    """Records that `convert` wrote, and malformed ones that it left out."""

    documents: int = 0
    questions: int = 0
    skipped: int = 0


def convert(
    format: str,
    source: Path,
    output: Path,
    *,
    malformed: Malformed = "error",
    on_skip: OnSkip | None = None,
) -> ConvertCounts:
    """Write the records of `source`, a file in one of `FORMATS`, as JSONL to `output`.

    Raises:
        UnknownOption: the format is unknown.
        DataError: the source cannot be read, or a record is malformed and `malformed` is not
            "skip".
    """
    read = reader_of(format)
    skipped = documents = questions = 0

    def count_skipped(message: str) -> None:
        nonlocal skipped
        skipped += 1
        if on_skip:
            on_skip(message)

    def counted() -> Iterator[Record]:
        nonlocal documents, questions
        for record in read(source, malformed=malformed, on_skip=count_skipped):
            documents += 1
            questions += len(record.questions)
            yield record

    write_records(output, counted())
    return ConvertCounts(documents, questions, skipped)

"""From the official formats of public data sets to the records of `hwdag_lab.eval.data`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hwdag.errors import UnknownOption
from hwdag_lab.eval.data import Record, write_records
from hwdag_lab.eval.fields import Malformed, OnSkip
from hwdag_lab.eval.formats.hotpotqa import hotpotqa, twowiki
from hwdag_lab.eval.formats.layout import Read
from hwdag_lab.eval.formats.longbench import longbench
from hwdag_lab.eval.formats.musique import musique
from hwdag_lab.eval.formats.narrativeqa import narrativeqa, narrativeqa_summaries
from hwdag_lab.eval.formats.qasper import qasper
from hwdag_lab.eval.formats.quality import quality

__all__ = [
    "FORMATS",
    "Counts",
    "convert",
    "hotpotqa",
    "longbench",
    "musique",
    "narrativeqa",
    "narrativeqa_summaries",
    "qasper",
    "quality",
    "twowiki",
]

FORMATS: dict[str, Read] = {
    "2wikimultihopqa": twowiki,
    "hotpotqa": hotpotqa,
    "longbench": longbench,
    "musique": musique,
    "narrativeqa": narrativeqa,
    "narrativeqa_summaries": narrativeqa_summaries,
    "qasper": qasper,
    "quality": quality,
}
"""Formats by name."""


@dataclass(frozen=True, slots=True)
class Counts:
    """What `convert` wrote, and how many malformed records it left out."""

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
) -> Counts:
    """Write the records of `source`, a file in one of `FORMATS`, as JSONL to `output`.

    Raises:
        UnknownOption: the format is unknown.
        DataError: the source cannot be read, or, unless `malformed` is "skip", a record of it.
    """
    if format not in FORMATS:
        raise UnknownOption(f"format {format!r} is unknown; use one of {', '.join(FORMATS)}")
    skipped = documents = questions = 0

    def count_skipped(message: str) -> None:
        nonlocal skipped
        skipped += 1
        if on_skip:
            on_skip(message)

    def counted() -> Iterator[Record]:
        nonlocal documents, questions
        for record in FORMATS[format](source, malformed=malformed, on_skip=count_skipped):
            documents += 1
            questions += len(record.questions)
            yield record

    write_records(output, counted())
    return Counts(documents, questions, skipped)

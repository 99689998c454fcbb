"""Questions with passages and known gold ones, for finding heads.

One JSON object per line, either `{"question": ..., "passages": [...], "gold": [indices]}` or a
record of `hwdag_lab.eval` (one document with paragraphs, questions and evidence).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from hwdag.errors import InputError
from hwdag_lab.eval.data import sample, unique
from hwdag_lab.eval.fields import (
    JsonObject,
    Malformed,
    MalformedRecord,
    OnSkip,
    Text,
    checked,
    decoded,
    lines,
    row_of,
)
from hwdag_lab.eval.schema import Question, Record, parse_record


@dataclass(frozen=True, slots=True)
class Example:
    """A question and its candidate passages; `gold` has the indices of those that answer it.

    `dataset` and `group` name its origin: examples of one group share a document.

    Raises:
        InputError: a text is blank; there is no gold passage, no other one, or an index is out of
            range.
    """

    question: str
    passages: tuple[str, ...]
    gold: tuple[int, ...]
    dataset: str = ""
    group: str = ""

    def __post_init__(self) -> None:
        if not all(text.strip() for text in (self.question, *self.passages)):
            raise InputError("the question or a passage is blank")
        if outside := [i for i in self.gold if not 0 <= i < len(self.passages)]:
            raise InputError(
                f'"gold" names {outside}, but the {len(self.passages)} passages count from 0'
            )
        if not 0 < len(set(self.gold)) < len(self.passages):
            raise InputError(
                f"{len(set(self.gold))} of {len(self.passages)} passages are gold; ranking "
                "heads takes at least one that is and one that is not"
            )

    @property
    def negatives(self) -> tuple[int, ...]:
        """Indices of the passages that are not gold."""
        return tuple(i for i in range(len(self.passages)) if i not in self.gold)


def read_examples(
    paths: Iterable[Path],
    *,
    limit: int | None = None,
    seed: int = 0,
    malformed: Malformed = "error",
    on_skip: OnSkip | None = None,
) -> list[Example]:
    """Return examples of JSONL files, at most `limit` per data set.

    Questions of evaluation records are skipped without gold paragraphs, or with nothing else; their
    choice is seeded, and takes one question of every document before a second. Lines with passages
    belong to the data set named after their file, and the first ones are taken. With
    `malformed="skip"` other lines are left out and reported to `on_skip`.

    Raises:
        DataError: a file cannot be read, or a line is neither of the two; names the line.
        InputError: nothing can be used, or `limit` is below 1.
    """
    parse = unique(parse_record)
    examples: list[Example] = []
    records: list[Record] = []
    for path in paths:
        for found in checked(lines(path), partial(_parsed, parse, path.stem), malformed, on_skip):
            if isinstance(found, Example):
                examples.append(found)
            else:
                records.append(found)
    asked = [
        replace(record, questions=usable)
        for record in records
        if (usable := tuple(q for q in record.questions if _is_usable(record, q)))
    ]
    chosen = sample(asked, limit=limit, seed=seed, per_document=1)
    seen: Counter[str] = Counter()
    kept = []
    for example in examples:
        seen[example.dataset] += 1
        if limit is None or seen[example.dataset] <= limit:
            kept.append(example)
    examples = [*kept, *(_of(r, q) for r in chosen for q in r.questions)]
    if not examples:
        raise InputError(
            "no line has a question with gold passages and others; give lines with "
            '"question", "passages" and "gold", or evaluation data with paragraphs and evidence'
        )
    return examples


class _Ranked(JsonObject):
    """A line with its own passages."""

    question: Text
    passages: list[Text]
    gold: list[int]


def _parsed(parse: Callable[[Any], Record], dataset: str, line: bytes) -> Example | Record:
    value = decoded(line)
    if not isinstance(value, dict) or "passages" not in value:
        return parse(value)
    row = row_of(_Ranked, value)
    try:
        return Example(row.question, tuple(row.passages), tuple(sorted(set(row.gold))), dataset)
    except InputError as error:
        raise MalformedRecord(str(error)) from error


def _is_usable(record: Record, question: Question) -> bool:
    gold = {p.span for p in record.paragraphs} & set(question.evidence)
    return 0 < len(gold) < len(record.paragraphs)


def _of(record: Record, question: Question) -> Example:
    gold = set(question.evidence)
    return Example(
        question.text,
        tuple(
            f"{p.title}\n{record.text[p.span.start : p.span.end]}".strip()
            for p in record.paragraphs
        ),
        tuple(i for i, p in enumerate(record.paragraphs) if p.span in gold),
        record.dataset,
        f"{record.dataset}/{record.id}",
    )

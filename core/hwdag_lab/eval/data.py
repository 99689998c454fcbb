"""Data sets as JSONL: reading, writing, pools, and seeded samples of questions.

The schema is in `hwdag_lab.eval.schema`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeVar

from hwdag.checks import whole
from hwdag.types import Span
from hwdag_lab.eval.fields import (
    DataError,
    Malformed,
    MalformedRecord,
    OnSkip,
    checked,
    decoded,
    lines,
)
from hwdag_lab.eval.schema import Paragraph, Question, Record, parse_record

T = TypeVar("T")
K = TypeVar("K")


def read_records(
    path: Path, *, malformed: Malformed = "error", on_skip: OnSkip | None = None
) -> Iterator[Record]:
    """Return the records of a JSONL file, read line by line; blank lines are skipped.

    With `malformed="skip"` a malformed record is left out, and `on_skip` gets the message of its
    error.

    Raises:
        DataError: the file cannot be read; a line is not UTF-8 or not JSON; a field is missing,
            blank or of the wrong type; a paragraph or quoted evidence does not occur in the text;
            an evidence id is unknown; a label is out of range; or an id of a document or question
            occurs twice in a data set.
        UnknownOption: `malformed` is neither "error" nor "skip".
    """
    return checked(lines(path), unique(_parse_line), malformed, on_skip)


def records_of(
    paths: Iterable[Path], *, malformed: Malformed = "error", on_skip: OnSkip | None = None
) -> list[Record]:
    """Return the records of several files; a folder means the `*.jsonl` files in it, sorted.

    Raises:
        DataError: as in `read_records`, with ids unique over all files; or a folder holds no such
            file.
    """
    places = (place for path in paths for file in _files(path) for place in lines(file))
    return list(checked(places, unique(_parse_line), malformed, on_skip))


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    if found := sorted(path.glob("*.jsonl")):
        return found
    raise DataError(f"{path}: holds no *.jsonl; give files, or a folder that holds some")


def write_records(path: Path, records: Iterable[Record]) -> None:
    """Write JSONL that `read_records` reads back as equal records.

    The file appears when it is complete; after an exception an older one is unchanged.
    """
    partial = path.with_name(path.name + ".partial")
    try:
        with partial.open("w", encoding="utf-8", newline="\n") as file:
            for record in records:
                file.write(json.dumps(record.to_json(), ensure_ascii=False) + "\n")
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def pool_records(asked: Iterable[Record], others: Iterable[Record] = ()) -> list[Record]:
    """Pool all paragraphs, with one record per data set of `asked` that asks about the pool.

    The pool has the paragraphs of both, equal ones (title and text) once. The questions are those
    of `asked` with gold paragraphs. The data set is named "<name>_pool".
    """
    asked = list(asked)
    numbers: dict[tuple[str, str], int] = {}
    for record in (*asked, *others):
        for paragraph in record.paragraphs:
            numbers.setdefault(_passage(record, paragraph), len(numbers))
    paragraphs, texts, end = [], [], 0
    for (title, text), number in numbers.items():
        above = f"Passage {number + 1}:\n{title}\n"
        start = end + len(above)
        end = start + len(text) + len(PASSAGE_GAP)
        paragraphs.append(Paragraph(f"p{number}", title, Span(start, start + len(text))))
        texts.append(above + text)
    whole, found = PASSAGE_GAP.join(texts), []
    for dataset, records in by_dataset(asked).items():
        questions = tuple(
            question
            for record in records
            for question in _moved(record, lambda p, r=record: paragraphs[numbers[_passage(r, p)]])  # type: ignore[misc]
        )
        found.append(
            Record("pool", f"{dataset}_pool", "", whole, tuple(paragraphs), questions, pool=True)
        )
    return found


PASSAGE_GAP = "\n\n"


def _passage(record: Record, paragraph: Paragraph) -> tuple[str, str]:
    """Return the identity of a paragraph."""
    return paragraph.title, record.text[paragraph.span.start : paragraph.span.end]


def _moved(record: Record, place: Callable[[Paragraph], Paragraph]) -> Iterator[Question]:
    """Yield the questions of a record with gold paragraphs, moved to a text with these elsewhere."""
    at = {p.span: place(p).span for p in record.paragraphs}

    def moved(spans: Iterable[Span]) -> tuple[Span, ...]:
        found = set()
        for span in spans:
            outer = next(p for p in at if p.start <= span.start and span.end <= p.end)
            shift = at[outer].start - outer.start
            found.add(Span(span.start + shift, span.end + shift))
        return tuple(sorted(found))

    for question in record.questions:
        if question.evidence and record.paragraphs:
            yield replace(
                question,
                evidence=moved(question.evidence),
                evidence_sets=tuple(map(moved, question.evidence_sets)),
                sentences=moved(question.sentences),
            )


def unique(parse: Callable[[Any], Record]) -> Callable[[Any], Record]:
    """Wrap `parse` to refuse a document id or question id that its data set already had."""
    seen: set[tuple[str, str, str]] = set()

    def parse_unique(item: Any) -> Record:
        record = parse(item)
        names = [("document", record.id), *(("question", q.id) for q in record.questions)]
        keys = Counter((record.dataset, *name) for name in names)
        for key, times in keys.items():
            if key in seen or times > 1:
                raise MalformedRecord(f"{key[1]} id {key[2]!r} occurs twice in {key[0]!r}")
        seen.update(keys)
        return record

    return parse_unique


def _parse_line(line: bytes) -> Record:
    return parse_record(decoded(line))


PER_DOCUMENT = 10  # questions that `sample` takes of a document before the next


def by_dataset(records: Iterable[Record]) -> dict[str, list[Record]]:
    """Return records by data set, both in order of appearance."""
    return grouped(records, lambda record: record.dataset)


def grouped(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """Return items by key, in order of appearance."""
    groups: dict[K, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def sample(
    records: Iterable[Record], *, limit: int | None, seed: int, per_document: int = PER_DOCUMENT
) -> list[Record]:
    """Choose at most `limit` questions per data set (all if None), and keep no others.

    Documents are expensive to index. So they come in random order, and each gives its first
    `per_document` questions, also in random order, before the next; after all documents, they give
    the next `per_document`, up to `limit`. Both orders are hashes of id and `seed`: they do not
    depend on the order of the input, and a larger limit includes the questions of a smaller one.
    Data sets are sorted by name; documents and questions are in the order of choice. Documents
    without chosen questions are left out.

    Raises:
        InputError: `limit` or `per_document` is below 1.
    """
    whole("per_document", per_document, 1)
    if limit is not None:
        whole("limit", limit, 1)
    return [
        chosen
        for _, group in sorted(by_dataset(records).items())
        for chosen in _chosen(group, limit, seed, per_document)
    ]


def _chosen(
    records: list[Record], limit: int | None, seed: int, per_document: int
) -> Iterator[Record]:
    shuffled = [
        replace(record, questions=tuple(sorted(record.questions, key=lambda q: _draw(q.id, seed))))
        for record in sorted(records, key=lambda r: _draw(r.id, seed))
    ]
    left = sum(len(record.questions) for record in shuffled)
    left = left if limit is None else min(limit, left)
    taken = [0] * len(shuffled)
    while left:
        for i, record in enumerate(shuffled):
            more = min(per_document, len(record.questions) - taken[i], left)
            taken[i] += more
            left -= more
    for record, count in zip(shuffled, taken, strict=True):
        if count:
            yield replace(record, questions=record.questions[:count])


def _draw(name: str, seed: int) -> tuple[bytes, str]:
    """Return a random key, the same in every process; the name breaks ties."""
    return blake2b(f"{seed}\0{name}".encode(), digest_size=8).digest(), name

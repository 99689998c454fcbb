"""LongBench (Bai et al., ACL 2024).

JSONL: `input` (the question), `context`, `answers`, `dataset`, `_id`; further keys are not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from hwdag_lab.eval.data import Record
from hwdag_lab.eval.fields import (
    Malformed,
    MalformedRecord,
    OnSkip,
    json_row,
    lines,
    text_field,
    texts_field,
)
from hwdag_lab.eval.formats.layout import Built, distinct, records

_PASSAGE = re.compile(r"^Passage (\d{1,6}):\n", re.MULTILINE)


def longbench(
    path: Path, *, malformed: Malformed = "error", on_skip: OnSkip | None = None
) -> Iterator[Record]:
    """The question answering sets of LongBench, one record per row (a `Format`).

    The data set of a record is "longbench_" and the name of the row's. Contexts of several passages
    get paragraphs. There is no gold evidence.
    """
    return records(lines(path), _built, malformed, on_skip)


def _built(line: bytes) -> Built:
    source = json_row(line)
    name = text_field(source, "_id")
    task = text_field(source, "dataset")
    question = text_field(source, "input", blank=True).strip()
    if not question:
        raise MalformedRecord(f'"input" is blank: {task!r} asks no questions; give a set that does')
    text = text_field(source, "context").strip()
    paragraphs = list(_paragraphs(text))
    return {
        "id": f"longbench:{name}",
        "dataset": f"longbench_{task}",
        "text": text,
        **({"paragraphs": paragraphs} if paragraphs else {}),
        "questions": [
            {
                "id": name,
                "question": question,
                "answers": distinct(texts_field(source, "answers")),
                "type": task,
            }
        ],
    }


def _paragraphs(text: str) -> Iterator[dict[str, str]]:
    """The passages of a context that begins with the first; a line of each is its title."""
    heads: list[re.Match[str]] = []
    for match in _PASSAGE.finditer(text):
        # why: a passage may quote such a line, but then its number is hardly the next one
        if int(match[1]) == len(heads) + 1:
            heads.append(match)
    if not heads or heads[0].start() > 0:
        return
    cuts = pairwise([*(head.start() for head in heads), len(text)])
    for i, (head, (_, end)) in enumerate(zip(heads, cuts, strict=True)):
        title, _, body = text[head.end() : end].partition("\n")
        if body.strip():
            yield {"id": f"p{i}", "title": title.strip(), "text": body.strip()}

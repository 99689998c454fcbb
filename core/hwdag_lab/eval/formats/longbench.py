"""LongBench (Bai et al., ACL 2024).

JSONL: `input` (the question), `context`, `answers`, `dataset`, `_id`; other keys are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from itertools import pairwise

from pydantic import Field

from hwdag_lab.eval.fields import JsonObject, MalformedRecord, Text, decoded, lines, row_of
from hwdag_lab.eval.formats.layout import Draft, distinct, records


class _Example(JsonObject):
    id: Text = Field(alias="_id")
    dataset: Text
    input: str
    context: Text
    answers: list[Text]


_PASSAGE = re.compile(r"^Passage (\d{1,6}):\n", re.MULTILINE)


def _built(line: bytes) -> Draft:
    row = row_of(_Example, decoded(line))
    if not (question := row.input.strip()):
        raise MalformedRecord(
            f'"input" is blank: {row.dataset!r} asks no questions; give a set that does'
        )
    text = row.context.strip()
    paragraphs = list(_paragraphs(text))
    asked = {
        "id": row.id,
        "question": question,
        "answers": distinct(row.answers),
        "type": row.dataset,
    }
    return {
        "id": f"longbench:{row.id}",
        "dataset": f"longbench_{row.dataset}",
        "text": text,
        **({"paragraphs": paragraphs} if paragraphs else {}),
        "questions": [asked],
    }


def _paragraphs(text: str) -> Iterator[dict[str, str]]:
    """Yield the passages of a context, if it begins with "Passage 1:"; a title line starts each."""
    heads: list[re.Match[str]] = []
    for match in _PASSAGE.finditer(text):
        # why: a passage may quote such a line, but hardly with the next number
        if int(match[1]) == len(heads) + 1:
            heads.append(match)
    if not heads or heads[0].start() > 0:
        return
    cuts = pairwise([*(head.start() for head in heads), len(text)])
    for i, (head, (_, end)) in enumerate(zip(heads, cuts, strict=True)):
        title, _, body = text[head.end() : end].partition("\n")
        if body.strip():
            yield {"id": f"p{i}", "title": title.strip(), "text": body.strip()}


longbench = partial(records, items=lines, build=_built)
"""The question answering sets of LongBench, one record per row.

The data set is "longbench_" and the name in the row. Contexts of several passages get paragraphs.
There is no gold evidence.
"""

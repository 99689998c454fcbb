"""QuALITY (Pang et al., NAACL 2022).

JSONL: `article_id`, `title`, `article` (HTML, or text in the "htmlstripped" files), `questions`
[{`question`, `question_unique_id`, `options`, `gold_label` counted from 1}].
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from hwdag_lab.eval.data import Record
from hwdag_lab.eval.fields import (
    Malformed,
    MalformedRecord,
    OnSkip,
    Row,
    integer,
    json_row,
    lines,
    optional_text,
    rows_field,
    text_field,
    texts_field,
)
from hwdag_lab.eval.formats.layout import Built, merged
from hwdag_lab.eval.formats.markup import plain_text


def quality(
    path: Path, *, malformed: Malformed = "error", on_skip: OnSkip | None = None
) -> Iterator[Record]:
    """QuALITY, one record per article, of which a file holds several lines (a `Format`)."""
    return merged(lines(path), _built, malformed, on_skip)


def _built(line: bytes) -> Built:
    source = json_row(line)
    return {
        "id": f"quality:{text_field(source, 'article_id')}",
        "dataset": "quality",
        "title": optional_text(source, "title"),
        "text": plain_text(text_field(source, "article")),
        "questions": [
            _question(each, f"questions[{i}]")
            for i, each in enumerate(rows_field(source, "questions"))
        ],
    }


def _question(source: Row, where: str) -> Built:
    options = texts_field(source, "options", where)
    if "gold_label" not in source:
        raise MalformedRecord(
            f'"gold_label" of {where} is missing; the test set withholds it, so give the dev set'
        )
    label = integer(source["gold_label"], f'"gold_label" of {where}')
    if not 1 <= label <= len(options):
        raise MalformedRecord(
            f'"gold_label" of {where} is {label}, but must count one of the {len(options)} '
            '"options" from 1'
        )
    return {
        "id": text_field(source, "question_unique_id", where),
        "question": text_field(source, "question", where),
        "answers": [options[label - 1]],
        "type": "multiple_choice",
        "options": options,
        "label": label - 1,
    }

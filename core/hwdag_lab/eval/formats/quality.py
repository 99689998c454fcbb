"""QuALITY (Pang et al., NAACL 2022).

JSONL: `article_id`, `title`, `article` (HTML, or text in the "htmlstripped" files), `questions`
[{`question`, `question_unique_id`, `options`, `gold_label` counted from 1}].
"""

from __future__ import annotations

from functools import partial

from hwdag_lab.eval.fields import (
    Blankable,
    JsonObject,
    MalformedRecord,
    Text,
    decoded,
    lines,
    row_of,
)
from hwdag_lab.eval.formats.layout import Draft, plain_text, records


class _Question(JsonObject):
    question: Text
    question_unique_id: Text
    options: list[Text]
    gold_label: int | None = None


class _Article(JsonObject):
    article_id: Text
    title: Blankable = ""
    article: Text
    questions: list[_Question]


def _built(line: bytes) -> Draft:
    row = row_of(_Article, decoded(line))
    return {
        "id": f"quality:{row.article_id}",
        "dataset": "quality",
        "title": row.title,
        "text": plain_text(row.article),
        "questions": [_asked(each, f"questions[{i}]") for i, each in enumerate(row.questions)],
    }


def _asked(row: _Question, where: str) -> Draft:
    label, options = row.gold_label, row.options
    if label is None:
        raise MalformedRecord(
            f'{where} has no "gold_label"; the test set withholds it, so give the dev set'
        )
    if not 1 <= label <= len(options):
        raise MalformedRecord(
            f'"gold_label" of {where} is {label}, but must count one of the {len(options)} '
            '"options" from 1'
        )
    return {
        "id": row.question_unique_id,
        "question": row.question,
        "answers": [options[label - 1]],
        "type": "multiple_choice",
        "options": options,
        "label": label - 1,
    }


quality = partial(records, items=lines, build=_built, merges=True)
"""QuALITY, one record per article; a file has several lines per article."""

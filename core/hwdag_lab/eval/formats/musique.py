"""MuSiQue (Trivedi et al., TACL 2022).

JSONL: `id`, `question`, `answer`, `answer_aliases`, `answerable` and `paragraphs` [{`idx`, `title`,
`paragraph_text`, `is_supporting`}].
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from hwdag_lab.eval.data import Record
from hwdag_lab.eval.fields import (
    Malformed,
    OnSkip,
    integer,
    json_row,
    lines,
    rows_field,
    text_field,
    texts_field,
)
from hwdag_lab.eval.formats.layout import Built, answer_field, distinct, passages, records

UNANSWERABLE = "Unanswerable"
"""The gold answer of questions whose context does not hold the answer."""


def musique(
    path: Path, *, malformed: Malformed = "error", on_skip: OnSkip | None = None
) -> Iterator[Record]:
    """MuSiQue-Ans and MuSiQue-Full, one record per question (a `Format`).

    The type is the kind of reasoning with which an id begins ("2hop", "3hop1", ...). Aliases are
    further answers. An unanswerable question has the type "unanswerable", `UNANSWERABLE` as its
    only answer, and no evidence, because a part of the facts was taken from its context.
    """
    return records(lines(path), _built, malformed, on_skip)


def _built(line: bytes) -> Built:
    source = json_row(line)
    name = text_field(source, "id")
    texts, gold = [], []
    for i, paragraph in enumerate(rows_field(source, "paragraphs")):
        where = f"paragraphs[{i}]"
        id_ = f"p{integer(paragraph.get('idx', i), f'the idx of {where}')}"
        title = text_field(paragraph, "title", where, blank=True)
        texts.append((id_, title, text_field(paragraph, "paragraph_text", where, blank=True)))
        if paragraph.get("is_supporting") is True:
            gold.append(id_)
    question: Built = {"id": name, "question": text_field(source, "question")}
    if source.get("answerable", True) is False:
        question |= {"answers": [UNANSWERABLE], "evidence": [], "type": "unanswerable"}
    else:
        aliases = texts_field(source, "answer_aliases") if "answer_aliases" in source else []
        answers = distinct([answer_field(source, "answer"), *aliases])
        question |= {"answers": answers, "evidence": gold, "type": name.split("__")[0]}
    return {
        "id": f"musique:{name}",
        "dataset": "musique",
        **passages(texts),
        "questions": [question],
    }

"""MuSiQue (Trivedi et al., TACL 2022).

JSONL: `id`, `question`, `answer`, `answer_aliases`, `answerable` and `paragraphs` [{`idx`, `title`,
`paragraph_text`, `is_supporting`}].
"""

from __future__ import annotations

from functools import partial

from pydantic import Field

from hwdag_lab.eval.fields import JsonObject, Text, decoded, lines, row_of
from hwdag_lab.eval.formats.layout import Draft, answer_of, distinct, passages, records

UNANSWERABLE = "Unanswerable"
"""Gold answer of questions that their context cannot answer."""


class _Paragraph(JsonObject):
    idx: int | None = None
    title: str
    paragraph_text: str
    is_supporting: bool = False


class _Example(JsonObject):
    id: Text
    question: Text
    answer: Text | None = None
    answer_aliases: list[Text] = Field(default_factory=list)
    answerable: bool = True
    paragraphs: list[_Paragraph]


def _built(line: bytes) -> Draft:
    row = row_of(_Example, decoded(line))
    ids = [f"p{i if each.idx is None else each.idx}" for i, each in enumerate(row.paragraphs)]
    question: Draft = {"id": row.id, "question": row.question}
    if row.answerable:
        answers = distinct([answer_of(row.answer), *row.answer_aliases])
        gold = [id_ for id_, each in zip(ids, row.paragraphs, strict=True) if each.is_supporting]
        question |= {"answers": answers, "evidence": gold, "type": row.id.split("__")[0]}
    else:
        question |= {"answers": [UNANSWERABLE], "evidence": [], "type": "unanswerable"}
    texts = (
        (id_, each.title, each.paragraph_text)
        for id_, each in zip(ids, row.paragraphs, strict=True)
    )
    return {
        "id": f"musique:{row.id}",
        "dataset": "musique",
        **passages(texts),
        "questions": [question],
    }


musique = partial(records, items=lines, build=_built)
"""MuSiQue-Ans and MuSiQue-Full, one record per question.

The type is the kind of reasoning at the start of an id ("2hop", "3hop1", ...). Aliases are further
answers. An unanswerable question has the type "unanswerable", `UNANSWERABLE` as its only answer,
and no evidence, because its context lacks some of the facts.
"""

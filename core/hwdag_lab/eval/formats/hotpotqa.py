"""HotpotQA (Yang et al., EMNLP 2018) and 2WikiMultihopQA (Ho et al., COLING 2020).

One JSON list: `_id`, `type`, `question`, `answer`, `context` [[title, [sentence]]] and
`supporting_facts` [[title, index of a sentence]].
"""

from __future__ import annotations

from functools import partial
from typing import Any

from pydantic import Field

from hwdag_lab.eval.fields import Blankable, JsonObject, MalformedRecord, Pair, Text, row_of
from hwdag_lab.eval.formats.layout import Draft, answer_of, json_list, passages, records


class _Example(JsonObject):
    id: Text = Field(alias="_id")
    type: Blankable = ""
    question: Text
    answer: Text | None = None
    supporting_facts: list[Pair[Text, int]]
    context: list[Pair[Text, list[str]]]


def _built(item: Any, dataset: str, joint: str) -> Draft:
    row = row_of(_Example, item)
    texts = [(f"p{i}", title, joint.join(each)) for i, (title, each) in enumerate(row.context)]
    paragraphs, sentences = _gold(row)
    question = {
        "id": row.id,
        "question": row.question,
        "answers": [answer_of(row.answer)],
        "evidence": paragraphs,
        "evidence_text": sentences,
        "type": row.type,
    }
    return {
        "id": f"{dataset}:{row.id}",
        "dataset": dataset,
        **passages(texts),
        "questions": [question],
    }


def _gold(row: _Example) -> tuple[list[str], list[str]]:
    """Return ids of the gold paragraphs, and the gold sentences."""
    by_title = {title: i for i, (title, _) in reversed(list(enumerate(row.context)))}
    paragraphs: dict[str, None] = {}
    sentences: list[str] = []
    for i, (title, index) in enumerate(row.supporting_facts):
        if title not in by_title:
            raise MalformedRecord(
                f'"supporting_facts"[{i}] names {title!r}, which is no title of "context"; '
                "give the distractor setting, whose context holds all gold paragraphs"
            )
        paragraphs[f"p{by_title[title]}"] = None
        article = row.context[by_title[title]][1]
        if 0 <= index < len(article):
            sentences.append(article[index].strip())
    return list(paragraphs), [sentence for sentence in sentences if sentence]


# why: sentences of HotpotQA include the space before them, those of 2Wiki do not
hotpotqa = partial(records, items=json_list, build=partial(_built, dataset="hotpotqa", joint=""))
"""HotpotQA in the distractor setting, one record per question.

A few gold sentences of the official files have an index out of range; they are left out, and their
paragraphs stay gold.
"""

twowiki = partial(
    records, items=json_list, build=partial(_built, dataset="2wikimultihopqa", joint=" ")
)
"""2WikiMultihopQA, like `hotpotqa`; the triples ("evidences") are not read."""

"""HotpotQA (Yang et al., EMNLP 2018) and 2WikiMultihopQA (Ho et al., COLING 2020).

One JSON list: `_id`, `type`, `question`, `answer`, `context` [[title, [sentence]]] and
`supporting_facts` [[title, index of a sentence]].
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from hwdag_lab.eval.data import Record
from hwdag_lab.eval.fields import (
    Malformed,
    MalformedRecord,
    OnSkip,
    Row,
    field,
    integer,
    items,
    optional_text,
    row,
    string,
    text_field,
)
from hwdag_lab.eval.formats.layout import Built, answer_field, json_list, passages, records


class _Article(NamedTuple):
    id: str
    title: str
    sentences: list[str]


def hotpotqa(
    path: Path, *, malformed: Malformed = "error", on_skip: OnSkip | None = None
) -> Iterator[Record]:
    """HotpotQA in the distractor setting, one record per question (a `Format`).

    Gold sentences whose index is out of range, of which the official files hold a few, are left
    out; their paragraphs stay gold.
    """
    # why: HotpotQA's sentences carry the space that stands before them, those of 2Wiki do not
    return records(json_list(path), lambda i: _built(i, "hotpotqa", ""), malformed, on_skip)


def twowiki(
    path: Path, *, malformed: Malformed = "error", on_skip: OnSkip | None = None
) -> Iterator[Record]:
    """2WikiMultihopQA, as `hotpotqa`; the triples ("evidences") are not read (a `Format`)."""
    return records(json_list(path), lambda i: _built(i, "2wikimultihopqa", " "), malformed, on_skip)


def _built(item: Any, dataset: str, joint: str) -> Built:
    source = row(item, "the item")
    articles = _articles(source)
    paragraphs, sentences = _gold(source, articles)
    name = text_field(source, "_id")
    question = {
        "id": name,
        "question": text_field(source, "question"),
        "answers": [answer_field(source, "answer")],
        "evidence": paragraphs,
        "evidence_text": sentences,
        "type": optional_text(source, "type"),
    }
    texts = ((article.id, article.title, joint.join(article.sentences)) for article in articles)
    return {
        "id": f"{dataset}:{name}",
        "dataset": dataset,
        **passages(texts),
        "questions": [question],
    }


def _articles(source: Row) -> list[_Article]:
    articles = []
    for i, pair in enumerate(items(field(source, "context"), '"context"')):
        title, sentences = _pair(pair, f'"context"[{i}]')
        articles.append(
            _Article(
                f"p{i}",
                string(title, f'the title of "context"[{i}]'),
                [
                    string(sentence, f'a sentence of "context"[{i}]', blank=True)
                    for sentence in items(sentences, f'the sentences of "context"[{i}]')
                ],
            )
        )
    return articles


def _gold(source: Row, articles: list[_Article]) -> tuple[list[str], list[str]]:
    """Ids of the gold paragraphs, and the gold sentences."""
    by_title = {article.title: article for article in reversed(articles)}
    paragraphs: dict[str, None] = {}
    sentences: list[str] = []
    for i, fact in enumerate(items(field(source, "supporting_facts"), '"supporting_facts"')):
        title, index = _pair(fact, f'"supporting_facts"[{i}]')
        article = by_title.get(string(title, f'the title of "supporting_facts"[{i}]'))
        if article is None:
            raise MalformedRecord(
                f'"supporting_facts"[{i}] names {title!r}, which is no title of "context"; '
                "give the distractor setting, whose context holds all gold paragraphs"
            )
        paragraphs[article.id] = None
        if 0 <= integer(index, f'the index of "supporting_facts"[{i}]') < len(article.sentences):
            sentences.append(article.sentences[index].strip())
    return list(paragraphs), [sentence for sentence in sentences if sentence]


def _pair(value: Any, name: str) -> tuple[Any, Any]:
    pair = items(value, name)
    if len(pair) != 2:
        raise MalformedRecord(f"{name} has {len(pair)} members, not 2")
    return pair[0], pair[1]

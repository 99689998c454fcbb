"""Qasper (Dasigi et al., NAACL 2021).

One JSON object, paper id to {`title`, `abstract`, `full_text` [{`section_name`, `paragraphs`}],
`qas` [{`question`, `question_id`, `answers` [{`answer`}]}]}, where an `answer` of one annotator has
`unanswerable`, `extractive_spans`, `yes_no`, `free_form_answer` and `evidence` (paragraphs).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from hwdag_lab.eval.fields import (
    Blankable,
    DataError,
    JsonObject,
    MalformedRecord,
    Text,
    json_file,
    row_of,
)
from hwdag_lab.eval.formats.layout import Draft, distinct, records, squeezed
from hwdag_lab.eval.formats.musique import UNANSWERABLE

FLOAT = "FLOAT SELECTED"
"""Prefix of evidence that is a table or figure, which is not in the text."""


class _Answer(JsonObject):
    unanswerable: bool | None = None
    extractive_spans: list[Text]
    yes_no: bool | None = None
    free_form_answer: str
    evidence: list[Text]


class _Annotation(JsonObject):
    answer: _Answer


class _Question(JsonObject):
    question: Text
    question_id: Text
    answers: list[_Annotation]


class _Section(JsonObject):
    section_name: Blankable = ""
    paragraphs: list[str]


class _Paper(JsonObject):
    title: Blankable = ""
    abstract: Blankable = ""
    full_text: list[_Section]
    qas: list[_Question]


def _papers(path: Path) -> Iterator[tuple[str, tuple[str, Any]]]:
    value = json_file(path)
    if not isinstance(value, dict):
        raise DataError(f"{path}: holds no JSON object; give the file as its authors publish it")
    for name, paper in value.items():
        yield f"{path}: paper {name!r}", (name, paper)


def _built(item: tuple[str, Any]) -> Draft:
    name, paper = item[0], row_of(_Paper, item[1])
    paragraphs = [
        {"id": f"p{i}", "title": title, "text": text}
        for i, (title, text) in enumerate(_paragraphs(paper))
    ]
    blocks = ((p["title"], p["text"]) for p in paragraphs)
    ids = {squeezed(p["text"]): p["id"] for p in paragraphs[::-1]}
    return {
        "id": f"qasper:{name}",
        "dataset": "qasper",
        "title": paper.title,
        "text": "\n\n".join("\n".join(filter(None, block)) for block in blocks),
        "paragraphs": paragraphs,
        "questions": [_question(each, f"qas[{i}]", ids) for i, each in enumerate(paper.qas)],
    }


def _paragraphs(paper: _Paper) -> Iterator[tuple[str, str]]:
    """Yield the heading and text of all paragraphs that are not blank."""
    if abstract := paper.abstract.strip():
        yield "Abstract", abstract
    for section in paper.full_text:
        for text in section.paragraphs:
            if text.strip():
                yield section.section_name.strip(), text.strip()


def _question(row: _Question, where: str, ids: dict[str, str]) -> Draft:
    answers = [each.answer for each in row.answers]
    kinds = [_answer(answer, where) for answer in answers]
    sets = [_evidence(answer, ids) for answer in answers]
    return {
        "id": row.question_id,
        "question": row.question,
        "answers": distinct(text for _, text in kinds),
        "evidence": distinct(id_ for each in sets for id_ in each),
        "evidence_sets": sets,
        "type": kinds[0][0] if kinds else "",
    }


def _answer(answer: _Answer, where: str) -> tuple[str, str]:
    """Type and text of one annotator's answer, as in the official evaluation."""
    if answer.unanswerable:
        return "unanswerable", UNANSWERABLE
    if answer.extractive_spans:
        return "extractive", ", ".join(answer.extractive_spans)
    if free := answer.free_form_answer.strip():
        return "abstractive", free
    if answer.yes_no is not None:
        return "boolean", "Yes" if answer.yes_no else "No"
    raise MalformedRecord(f"an answer of {where} is of no known kind")


def _evidence(answer: _Answer, ids: dict[str, str]) -> list[str]:
    quotes = [squeezed(quote) for quote in answer.evidence]
    found = (_paragraph(quote, ids) for quote in quotes if not quote.startswith(FLOAT))
    return distinct(filter(None, found))


def _paragraph(quote: str, ids: dict[str, str]) -> str | None:
    """Return the paragraph equal to the evidence, or the first that contains it."""
    return ids.get(quote) or next((id_ for text, id_ in ids.items() if quote in text), None)


qasper = partial(records, items=_papers, build=_built)
"""Qasper, one record per paper; every paragraph comes with its heading.

`evidence_sets` has one set per annotator, `evidence` is their union. Tables, figures, and evidence
that is no paragraph of the paper are left out. The type ("extractive", "abstractive", "boolean",
"unanswerable") is that of the first annotator.
"""

"""Qasper (Dasigi et al., NAACL 2021).

One JSON object, paper id to {`title`, `abstract`, `full_text` [{`section_name`, `paragraphs`}],
`qas` [{`question`, `question_id`, `answers` [{`answer`}]}]}, where an `answer` of one annotator has
`unanswerable`, `extractive_spans`, `yes_no`, `free_form_answer` and `evidence` (paragraphs).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hwdag_lab.eval.data import Record
from hwdag_lab.eval.fields import (
    DataError,
    Malformed,
    MalformedRecord,
    OnSkip,
    Row,
    field,
    json_file,
    optional_text,
    row,
    rows_field,
    text_field,
    texts_field,
)
from hwdag_lab.eval.formats.layout import Built, distinct, records, squeezed
from hwdag_lab.eval.formats.musique import UNANSWERABLE

FLOAT = "FLOAT SELECTED"
"""How evidence begins that is a table or a figure, of which the text holds nothing."""


def qasper(
    path: Path, *, malformed: Malformed = "error", on_skip: OnSkip | None = None
) -> Iterator[Record]:
    """Qasper, one record per paper; every paragraph stands under its heading (a `Format`).

    `evidence_sets` has one set per annotator, `evidence` is their union. Evidence that is a table
    or figure, or no paragraph of the paper, is left out. The type ("extractive", "abstractive",
    "boolean", "unanswerable") is that of the first annotator.
    """
    return records(_papers(path), _built, malformed, on_skip)


def _papers(path: Path) -> Iterator[tuple[str, tuple[str, Any]]]:
    value = json_file(path)
    if not isinstance(value, dict):
        raise DataError(f"{path}: holds no JSON object; give the file as its authors publish it")
    for name, paper in value.items():
        yield f"{path}: paper {name!r}", (name, paper)


def _built(item: tuple[str, Any]) -> Built:
    name, paper = item[0], row(item[1], "the paper")
    paragraphs = [
        {"id": f"p{i}", "title": title, "text": text}
        for i, (title, text) in enumerate(_paragraphs(paper))
    ]
    blocks = ((p["title"], p["text"]) for p in paragraphs)
    return {
        "id": f"qasper:{name}",
        "dataset": "qasper",
        "title": optional_text(paper, "title"),
        "text": "\n\n".join("\n".join(filter(None, block)) for block in blocks),
        "paragraphs": paragraphs,
        "questions": [
            _question(each, f"qas[{i}]", {squeezed(p["text"]): p["id"] for p in paragraphs[::-1]})
            for i, each in enumerate(rows_field(paper, "qas"))
        ],
    }


def _paragraphs(paper: Row) -> Iterator[tuple[str, str]]:
    """Heading and text of all paragraphs that are not blank."""
    if abstract := optional_text(paper, "abstract").strip():
        yield "Abstract", abstract
    for i, section in enumerate(rows_field(paper, "full_text")):
        where = f"full_text[{i}]"
        heading = optional_text(section, "section_name", where).strip()
        for text in texts_field(section, "paragraphs", where, blank=True):
            if text.strip():
                yield heading, text.strip()


def _question(source: Row, where: str, ids: dict[str, str]) -> Built:
    answers = [
        row(field(each, "answer", f"{where}, answer {i}"), f"the answer {i} of {where}")
        for i, each in enumerate(rows_field(source, "answers", where))
    ]
    kinds = [_answer(answer, where) for answer in answers]
    sets = [_evidence(answer, where, ids) for answer in answers]
    return {
        "id": text_field(source, "question_id", where),
        "question": text_field(source, "question", where),
        "answers": distinct(text for _, text in kinds),
        "evidence": distinct(id_ for each in sets for id_ in each),
        "evidence_sets": sets,
        "type": kinds[0][0] if kinds else "",
    }


def _answer(answer: Row, where: str) -> tuple[str, str]:
    """The type and the text of one annotator's answer, as the official evaluation reads them."""
    if answer.get("unanswerable"):
        return "unanswerable", UNANSWERABLE
    if spans := texts_field(answer, "extractive_spans", where):
        return "extractive", ", ".join(spans)
    if free := text_field(answer, "free_form_answer", where, blank=True).strip():
        return "abstractive", free
    if isinstance(answer.get("yes_no"), bool):
        return "boolean", "Yes" if answer["yes_no"] else "No"
    raise MalformedRecord(f"an answer of {where} is of none of the four kinds")


def _evidence(answer: Row, where: str, ids: dict[str, str]) -> list[str]:
    quotes = [squeezed(quote) for quote in texts_field(answer, "evidence", where)]
    found = (_paragraph(quote, ids) for quote in quotes if not quote.startswith(FLOAT))
    return distinct(filter(None, found))


def _paragraph(quote: str, ids: dict[str, str]) -> str | None:
    """The paragraph that the evidence is, or the first one of which it is a part."""
    return ids.get(quote) or next((id_ for text, id_ in ids.items() if quote in text), None)

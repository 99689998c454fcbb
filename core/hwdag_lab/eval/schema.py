"""Questions with gold answers and gold evidence: the records of an evaluation and their JSON.

One object is one document with its questions:

    {"id", "dataset", "title", "text", "paragraphs": [{"id", "title", "text"}],
     "questions": [{"id", "question", "answers", "evidence", "type"}]}

`title`, `paragraphs`, `evidence` and `type` are optional. `evidence` has ids of paragraphs, or
verbatim text if there are none. A question may also have `evidence_text` (gold sentences),
`evidence_sets` (one list of evidence per annotator), and `options` with `label` (the right one,
counted from 0). With `pool`, every paragraph is a document of its own. Other keys are ignored.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

from pydantic import Field, model_validator

from hwdag.errors import InputError
from hwdag.types import Document, Node, Span
from hwdag_lab.eval.fields import Blankable, JsonObject, MalformedRecord, Text, row_of


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A paragraph; `span` is its place in `Record.text`."""

    id: str
    title: str
    span: Span


@dataclass(frozen=True, slots=True)
class Question:
    """A question, its gold answers (at least one) and its gold evidence.

    All spans are of the record's text, ascending and distinct. `evidence` are gold paragraphs, or
    quoted strings if the data has no paragraphs. `evidence_sets` are alternatives, one per
    annotator (Qasper; an annotator may name none), and empty if there is one truth. `sentences` are
    gold sentences, if the data names them. `label` is the index of the right option.
    """

    id: str
    text: str
    answers: tuple[str, ...]
    type: str = ""
    evidence: tuple[Span, ...] = ()
    evidence_sets: tuple[tuple[Span, ...], ...] = ()
    sentences: tuple[Span, ...] = ()
    options: tuple[str, ...] = ()
    label: int | None = None


@dataclass(frozen=True)
class Record:
    """A document of a data set with its questions; `paragraphs` may be empty.

    In a `pool` every paragraph is a document with its own title, and the text joins them.
    """

    id: str
    dataset: str
    title: str
    text: str
    paragraphs: tuple[Paragraph, ...]
    questions: tuple[Question, ...]
    pool: bool = False

    @property
    def whole(self) -> Document:
        """The text as one document."""
        return Document(self.id, self.text, self.title)

    @cached_property
    def documents(self) -> tuple[Document, ...]:
        """The documents to search."""
        if not self.pool:
            return (self.whole,)
        return tuple(Document(p.id, self._slice(p.span), p.title) for p in self.paragraphs)

    @cached_property
    def ordered(self) -> list[Span]:
        """Places of the paragraphs, ascending."""
        return sorted(p.span for p in self.paragraphs)

    @cached_property
    def _starts(self) -> dict[str, int]:
        """Starts of the documents of a pool in the text, by id."""
        return {p.id: p.span.start for p in self.paragraphs} if self.pool else {}

    def spans(self, node: Node) -> list[Span]:
        """Return the sources of a node of these documents as spans of the text."""
        # why: some methods get a pool as one document
        start = self._starts.get(node.document_id, 0)
        return [Span(start + span.start, start + span.end) for span in node.sources]

    def to_json(self) -> dict[str, Any]:
        """Return the record in the schema of this module; `parse_record` is the inverse.

        Raises:
            InputError: there are paragraphs, and some evidence is not among them.
        """
        paragraphs = [
            {"id": p.id, "title": p.title, "text": self._slice(p.span)} for p in self.paragraphs
        ]
        found = {
            "id": self.id,
            "dataset": self.dataset,
            "title": self.title,
            "text": self.text,
            "paragraphs": paragraphs or None,
            "pool": self.pool or None,
            "questions": [self._question(question) for question in self.questions],
        }
        return {key: value for key, value in found.items() if value is not None}

    def _question(self, question: Question) -> dict[str, Any]:
        found = {
            "id": question.id,
            "question": question.text,
            "answers": list(question.answers),
            "evidence": self._names(question.evidence),
            "type": question.type,
            "evidence_text": [self._slice(span) for span in question.sentences] or None,
            "evidence_sets": [self._names(spans) for spans in question.evidence_sets] or None,
            "options": list(question.options) or None,
            "label": question.label,
        }
        return {key: value for key, value in found.items() if value is not None}

    def _names(self, spans: tuple[Span, ...]) -> list[str]:
        ids = {p.span: p.id for p in self.paragraphs}
        if ids and not ids.keys() >= set(spans):
            raise InputError(
                f"record {self.id!r} has evidence that is not among its paragraphs; give the spans "
                "of paragraphs, or a record without paragraphs"
            )
        return [ids[span] if ids else self._slice(span) for span in spans]

    def _slice(self, span: Span) -> str:
        return self.text[span.start : span.end]


class _ParagraphRow(JsonObject):
    id: Text
    title: Blankable = ""
    text: Text


class _QuestionRow(JsonObject):
    id: Text
    question: Text
    answers: list[Text] = Field(min_length=1)
    type: Blankable = ""
    evidence: list[Text] = Field(default_factory=list)
    evidence_text: list[Text] = Field(default_factory=list)
    evidence_sets: list[list[Text]] = Field(default_factory=list)
    options: list[Text] = Field(default_factory=list)
    label: int | None = None

    @model_validator(mode="after")
    def _has_a_right_option(self) -> Self:
        label, options = self.label, len(self.options)
        if label is None and options:
            raise ValueError('there are "options" without a "label"')
        if label is not None and not 0 <= label < options:
            raise ValueError(
                f'"label" is {label}, but must count one of the {options} "options" from 0'
            )
        return self


class _RecordRow(JsonObject):
    id: Text
    dataset: Text
    title: Blankable = ""
    text: Text
    paragraphs: list[_ParagraphRow] = Field(default_factory=list)
    questions: list[_QuestionRow]
    pool: bool = False


def parse_record(value: Any) -> Record:
    """Parse a JSON object in the schema of this module.

    Raises:
        MalformedRecord: it is no record; the message has the reason.
    """
    row = row_of(_RecordRow, value)
    paragraphs = _paragraphs(row)
    spans = {p.id: p.span for p in paragraphs}

    def found(names: list[str]) -> tuple[Span, ...]:
        """Return evidence, given by id or quote, as spans, ascending and distinct."""
        if not paragraphs:
            places = {_present(next(_occurrences(row.text, n), None), n) for n in names}
            return tuple(sorted(places))
        if unknown := [name for name in names if name not in spans]:
            raise MalformedRecord(f"evidence names {unknown[0]!r}, which is the id of no paragraph")
        return tuple(sorted({spans[name] for name in names}))

    def question(asked: _QuestionRow) -> Question:
        evidence = found(asked.evidence)
        return Question(
            id=asked.id,
            text=asked.question,
            answers=tuple(asked.answers),
            type=asked.type,
            evidence=evidence,
            evidence_sets=tuple(map(found, asked.evidence_sets)),
            sentences=tuple(sentence_spans(row.text, asked.evidence_text, evidence)),
            options=tuple(asked.options),
            label=asked.label,
        )

    questions = tuple(map(question, row.questions))
    return Record(row.id, row.dataset, row.title, row.text, paragraphs, questions, row.pool)


def _paragraphs(row: _RecordRow) -> tuple[Paragraph, ...]:
    [(common, times)] = Counter(each.id for each in row.paragraphs).most_common(1) or [("", 1)]
    if times > 1:
        raise MalformedRecord(f"paragraph id {common!r} occurs twice")
    spans = paragraph_spans(row.text, [each.text for each in row.paragraphs])
    return tuple(
        Paragraph(each.id, each.title, _present(span, each.text))
        for each, span in zip(row.paragraphs, spans, strict=True)
    )


def _present(span: Span | None, piece: str) -> Span:
    if span is None:
        start = piece if len(piece) <= 60 else piece[:57] + "..."
        raise MalformedRecord(
            f"a paragraph or evidence does not occur in the text, verbatim: {start!r}"
        )
    return span


def paragraph_spans(text: str, pieces: Iterable[str]) -> list[Span | None]:
    """Return the span of every paragraph; None if it does not occur verbatim.

    Each is searched from the end of the previous one, preferring whole lines (so a short paragraph
    is not found in a heading), then from the start. No occurrence is used twice while there is
    another, so repeated paragraphs get distinct spans.
    """
    spans: list[Span | None] = []
    used: set[Span] = set()
    cursor = 0
    for piece in pieces:
        span = _free(text, piece, cursor, used) or _free(text, piece, 0, used)
        span = span or next(_occurrences(text, piece), None)
        spans.append(span)
        if span:
            used.add(span)
            cursor = span.end
    return spans


def sentence_spans(text: str, sentences: Iterable[str], within: Sequence[Span]) -> list[Span]:
    """Return places of sentences within the `within` spans, ascending and distinct.

    Each is searched verbatim, then with any white space; sentences not found are left out. A
    sentence named twice is searched in two places.
    """
    found: set[Span] = set()
    for sentence in sentences:
        places = list(_inside(text, sentence, within))
        found.update([next((p for p in places if p not in found), places[0])] if places else [])
    return sorted(found)


def _free(text: str, piece: str, start: int, used: set[Span]) -> Span | None:
    """Return the first unused occurrence of whole lines, or else the first unused one."""
    first = None
    for span in _occurrences(text, piece, start):
        if span not in used and _is_line(text, span):
            return span
        first = first or (None if span in used else span)
    return first


def _is_line(text: str, span: Span) -> bool:
    is_start = span.start == 0 or text[span.start - 1] == "\n"
    return is_start and (span.end == len(text) or text[span.end] == "\n")


def _occurrences(text: str, piece: str, start: int = 0) -> Iterator[Span]:
    """Yield occurrences from `start` on; they may overlap."""
    while (start := text.find(piece, start)) >= 0:
        yield Span(start, start + len(piece))
        start += 1


def _inside(text: str, sentence: str, within: Sequence[Span]) -> Iterator[Span]:
    """Yield the first verbatim occurrence in every span, then the first with any white space."""
    for outer in within:
        start = text.find(sentence, outer.start, outer.end)
        if start >= 0:
            yield Span(start, start + len(sentence))
    loose = re.compile(r"\s+".join(map(re.escape, sentence.split())))
    for outer in within:
        if match := loose.search(text, outer.start, outer.end):
            yield Span(*match.span())

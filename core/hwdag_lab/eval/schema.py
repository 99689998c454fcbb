"""Questions with gold answers and gold evidence: the records of an evaluation and their JSON.

One object is one document with its questions:

    {"id", "dataset", "title", "text", "paragraphs": [{"id", "title", "text"}],
     "questions": [{"id", "question", "answers", "evidence", "type"}]}

`title`, `paragraphs`, `evidence` and `type` may be absent. `evidence` names paragraphs by id, or
is verbatim text where there are no paragraphs. A question may also have `evidence_text` (gold
sentences), `evidence_sets` (one list of evidence per annotator), and `options` with `label` (the
right one, counted from 0). `pool` says that every paragraph is a document of its own. Other keys
are not read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from hwdag.errors import InputError
from hwdag.types import Document, Node, Span
from hwdag_lab.eval.fields import (
    MalformedRecord,
    Row,
    integer,
    items,
    named,
    optional_text,
    rows_field,
    string,
    text_field,
    texts_field,
)
from hwdag_lab.eval.places import first_span, paragraph_spans, sentence_spans

_Find = Callable[[Any, str], Span]


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A paragraph; `span` is where its text stands in `Record.text`."""

    id: str
    title: str
    span: Span


@dataclass(frozen=True, slots=True)
class Question:
    """A question, its gold answers (at least one) and its gold evidence.

    All spans are of the record's text, ascending and distinct. `evidence` are gold paragraphs, or
    quoted strings where the data has no paragraphs. `evidence_sets` are alternatives to it, one per
    annotator (Qasper; an annotator may name none), and empty where there is one truth. `sentences`
    are gold sentences, where the data names them. `label` is the index of the right option.
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

    In a `pool` every paragraph is a document of its own, under its title, and the text joins them.
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
        """What is searched."""
        if not self.pool:
            return (self.whole,)
        return tuple(
            Document(p.id, heading(p.title) + self._slice(p.span), p.title) for p in self.paragraphs
        )

    @cached_property
    def ordered(self) -> list[Span]:
        """Where the paragraphs stand, ascending."""
        return sorted(p.span for p in self.paragraphs)

    @cached_property
    def _pooled(self) -> dict[str, Paragraph]:
        """The paragraphs of a pool by id, which is that of their documents."""
        return {p.id: p for p in self.paragraphs} if self.pool else {}

    def spans(self, node: Node) -> list[Span]:
        """The sources of a node of these documents as spans of the text."""
        paragraph = self._pooled.get(node.document_id)
        if paragraph is None:  # why: some methods are given a pool as one document
            return list(node.sources)
        above = len(heading(paragraph.title))
        shift = paragraph.span.start - above
        kept = ((max(above, span.start), span.end) for span in node.sources)
        return [Span(start + shift, end + shift) for start, end in kept if start < end]

    def to_json(self) -> dict[str, Any]:
        """The record in the schema of this module; `parse_record` is its inverse.

        Raises:
            InputError: there are paragraphs, and some evidence is none of them.
        """
        paragraphs = [
            {"id": p.id, "title": p.title, "text": self._slice(p.span)} for p in self.paragraphs
        ]
        return {
            "id": self.id,
            "dataset": self.dataset,
            "title": self.title,
            "text": self.text,
            **({"paragraphs": paragraphs} if paragraphs else {}),
            **({"pool": True} if self.pool else {}),
            "questions": [self._question(question) for question in self.questions],
        }

    def _question(self, question: Question) -> dict[str, Any]:
        optional = {
            "evidence_text": [self._slice(span) for span in question.sentences],
            "evidence_sets": [self._names(spans) for spans in question.evidence_sets],
            "options": list(question.options),
        }
        return {
            "id": question.id,
            "question": question.text,
            "answers": list(question.answers),
            "evidence": self._names(question.evidence),
            "type": question.type,
            **{key: value for key, value in optional.items() if value},
            **({} if question.label is None else {"label": question.label}),
        }

    def _names(self, spans: tuple[Span, ...]) -> list[str]:
        ids = {p.span: p.id for p in self.paragraphs}
        if ids and not ids.keys() >= set(spans):
            raise InputError(
                f"record {self.id!r} has evidence that is none of its paragraphs; give the spans "
                "of paragraphs, or a record without paragraphs"
            )
        return [ids[span] if ids else self._slice(span) for span in spans]

    def _slice(self, span: Span) -> str:
        return self.text[span.start : span.end]


def heading(title: str) -> str:
    """The line that stands above a document of a pool."""
    return f"# {title}\n\n" if title else ""


def parse_record(row: Row) -> Record:
    """The record that a JSON object in the schema of this module describes.

    Raises:
        MalformedRecord: it describes none; the message says why.
    """
    text = text_field(row, "text")
    paragraphs = _paragraphs(row, text) if "paragraphs" in row else ()
    find = _by_id(paragraphs) if paragraphs else _by_quote(text)
    return Record(
        id=text_field(row, "id"),
        dataset=text_field(row, "dataset"),
        title=optional_text(row, "title"),
        text=text,
        paragraphs=paragraphs,
        questions=tuple(
            _parse_question(question, f"questions[{i}]", text, find)
            for i, question in enumerate(rows_field(row, "questions"))
        ),
        pool=row.get("pool") is True,
    )


def _paragraphs(row: Row, text: str) -> tuple[Paragraph, ...]:
    rows = {f"paragraphs[{i}]": each for i, each in enumerate(rows_field(row, "paragraphs"))}
    ids: dict[str, str] = {}
    for where, each in rows.items():
        if (id_ := text_field(each, "id", where)) in ids:
            raise MalformedRecord(f"paragraph id {id_!r} occurs twice")
        ids[id_] = optional_text(each, "title", where)
    texts = [text_field(each, "text", where) for where, each in rows.items()]
    return tuple(
        Paragraph(id_, title, _present(span, f"the text of paragraph {id_!r}", piece))
        for (id_, title), span, piece in zip(
            ids.items(), paragraph_spans(text, texts), texts, strict=True
        )
    )


def _parse_question(row: Row, where: str, text: str, find: _Find) -> Question:
    evidence = _spans(row.get("evidence", []), named("evidence", where), find)
    sets = named("evidence_sets", where)
    quotes = texts_field(row, "evidence_text", where) if "evidence_text" in row else []
    options = texts_field(row, "options", where) if "options" in row else []
    answers = texts_field(row, "answers", where)
    if not answers:
        raise MalformedRecord(f"{named('answers', where)} is empty; give at least one")
    return Question(
        id=text_field(row, "id", where),
        text=text_field(row, "question", where),
        answers=tuple(answers),
        type=optional_text(row, "type", where),
        evidence=evidence,
        evidence_sets=tuple(
            _spans(each, f"{sets}[{i}]", find)
            for i, each in enumerate(items(row.get("evidence_sets", []), sets))
        ),
        sentences=tuple(sentence_spans(text, quotes, evidence)),
        options=tuple(options),
        label=_label(row, where, len(options)),
    )


def _label(row: Row, where: str, options: int) -> int | None:
    if not options and "label" not in row:
        return None
    label = integer(row.get("label"), named("label", where))
    if not 0 <= label < options:
        raise MalformedRecord(
            f"{named('label', where)} is {label}, but must count one of the {options} "
            '"options" from 0'
        )
    return label


def _spans(value: Any, name: str, find: _Find) -> tuple[Span, ...]:
    """Evidence as spans, ascending and distinct."""
    found = {find(each, f"{name}[{i}]") for i, each in enumerate(items(value, name))}
    return tuple(sorted(found))


def _by_id(paragraphs: tuple[Paragraph, ...]) -> _Find:
    spans = {p.id: p.span for p in paragraphs}

    def find(value: Any, name: str) -> Span:
        id_ = string(value, name)
        if id_ not in spans:
            raise MalformedRecord(f"{name} is {id_!r}, which is the id of no paragraph")
        return spans[id_]

    return find


def _by_quote(text: str) -> _Find:
    def find(value: Any, name: str) -> Span:
        quote = string(value, name)
        return _present(first_span(text, quote), name, quote)

    return find


def _present(span: Span | None, name: str, piece: str) -> Span:
    if span is None:
        start = piece if len(piece) <= 60 else piece[:57] + "..."
        raise MalformedRecord(f"{name} does not occur in the text, verbatim: {start!r}")
    return span

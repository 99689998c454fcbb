"""NarrativeQA (Kocisky et al., TACL 2018), as its authors' repository or as Hugging Face rows.

The repository is a folder: `documents.csv`, `qaps.csv`, `third_party/wikipedia/summaries.csv`, and
`tmp/<document id>.content`, which its `download_stories.sh` gets. Rows are JSONL, one per question:
{`document`: {`id`, `text`, `start`, `end`, `summary`: {`text`, `title`}}, `question`: {`text`},
`answers`: [{`text`}]}.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from hwdag.errors import UnknownOption
from hwdag_lab.eval.data import Record
from hwdag_lab.eval.fields import (
    DataError,
    Malformed,
    MalformedRecord,
    OnSkip,
    Row,
    checked,
    field,
    json_row,
    lines,
    optional_text,
    row,
    rows_field,
    text_field,
    unreadable,
)
from hwdag_lab.eval.formats.layout import Built, distinct, merged, records
from hwdag_lab.eval.formats.markup import plain_text

SPLITS = ("train", "valid", "test")
"""The sets of the repository."""

# why: what stands outside of these lines is the licence, not the book
_BOOK_STARTS = re.compile(r"^\*\*\* ?START OF TH\w+ PROJECT GUTENBERG.*\n", re.MULTILINE)
_BOOK_ENDS = re.compile(r"^\*\*\* ?END OF TH\w+ PROJECT GUTENBERG", re.MULTILINE)

_Text = Callable[[Row], str]
_Numbered = tuple[int, Row]


def narrativeqa(
    path: Path,
    *,
    malformed: Malformed = "error",
    on_skip: OnSkip | None = None,
    split: str = "test",
) -> Iterator[Record]:
    """Whole books and film scripts with their questions (a `Format`).

    `path` is the folder, of which one split is read, or a file of rows. Of HTML the visible text is
    taken. A story is cut where the data says that it starts and ends, if these words occur in it,
    and to what stands between the marks of Project Gutenberg.

    Raises:
        UnknownOption: the split is none of `SPLITS`.
    """
    name = "narrativeqa"
    if path.is_dir():
        return _from_folder(path, _split(split), name, _story_file(path), malformed, on_skip)
    return _from_rows(path, name, _row_story, malformed, on_skip)


def narrativeqa_summaries(
    path: Path,
    *,
    malformed: Malformed = "error",
    on_skip: OnSkip | None = None,
    split: str = "test",
) -> Iterator[Record]:
    """The same questions on the summaries from Wikipedia, for which no stories are needed."""
    name = "narrativeqa_summaries"
    if path.is_dir():
        return _from_folder(path, _split(split), name, _summary_file(path), malformed, on_skip)
    return _from_rows(path, name, _row_summary, malformed, on_skip)


def _split(split: str) -> str:
    if split not in SPLITS:
        raise UnknownOption(f"split {split!r} is unknown; use one of {', '.join(SPLITS)}")
    return split


def _from_folder(
    folder: Path,
    split: str,
    dataset: str,
    text: _Text,
    malformed: Malformed,
    on_skip: OnSkip | None,
) -> Iterator[Record]:
    def items() -> Iterator[tuple[str, Built]]:
        pairs = checked(_table(folder / "qaps.csv", split), _pair, malformed, on_skip)
        questions: dict[str, list[Built]] = {}
        for document, pair in pairs:
            asked = questions.setdefault(document, [])
            asked.append({"id": _question_id(document, len(asked)), **pair})
        for place, source in _table(folder / "documents.csv", split):
            yield place, {"source": source, "questions": questions.get(source["document_id"], [])}

    def build(item: Built) -> Built:
        source: Row = item["source"]
        title = text_field(source, "wiki_title")
        name = text_field(source, "document_id")
        return _built(dataset, name, title, text(source), item["questions"])

    return records(items(), build, malformed, on_skip)


def _built(dataset: str, name: str, title: str, text: str, questions: list[Built]) -> Built:
    return {
        "id": f"{dataset}:{name}",
        "dataset": dataset,
        "title": title,
        "text": text,
        "questions": questions,
    }


def _pair(source: Row) -> tuple[str, Built]:
    """Document id and question of a row of `qaps.csv`."""
    answers = distinct(text_field(source, key, blank=True) for key in ("answer1", "answer2"))
    asked = _asked(text_field(source, "question"), answers)
    return text_field(source, "document_id"), asked


def _asked(question: str, answers: list[str]) -> Built:
    if not answers:
        raise MalformedRecord("the question has no answer")
    return {"question": question.strip(), "answers": answers, "type": "abstractive"}


def _question_id(document: str, number: int) -> str:
    """The data has no ids of questions: that of the document, cut, and the position in it."""
    return f"{document[:12]}-q{number:02d}"


def _table(path: Path, split: str) -> Iterator[tuple[str, Row]]:
    """The rows of a split in a table whose first line names the columns."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file)
            if not {"document_id", "set"} <= set(reader.fieldnames or ()):
                raise DataError(f'{path}:1: has no columns "document_id" and "set"')
            for source in reader:
                if (source["set"] or "").strip() == split:
                    yield f"{path}:{reader.line_num}", source
    except OSError as error:
        raise unreadable(path, error) from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path}: is no table in UTF-8 ({error})") from error


def _story_file(folder: Path) -> _Text:
    def read(source: Row) -> str:
        path = folder / "tmp" / f"{source['document_id']}.content"
        try:
            data = path.read_bytes()
        except OSError as error:
            raise MalformedRecord(
                f"the story {path} cannot be read ({error.strerror}); get the stories with "
                "download_stories.sh, or convert narrativeqa_summaries"
            ) from error
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError:
            text = data.decode("latin-1")  # why: scripts older than UTF-8; it takes any byte
        start, end = (optional_text(source, key) for key in ("story_start", "story_end"))
        return _extent(plain_text(text), start, end)

    return read


def _summary_file(folder: Path) -> _Text:
    summaries: dict[str, str] = {}

    def read(source: Row) -> str:
        if not summaries:
            for split in SPLITS:
                for _, each in _table(folder / "third_party/wikipedia/summaries.csv", split):
                    summaries[each["document_id"]] = each.get("summary") or ""
        return summaries.get(source["document_id"], "").strip()

    return read


def _extent(text: str, start: str, end: str) -> str:
    """The story within a file, by tokens with which it starts and ends, and Gutenberg's marks."""
    if match := _BOOK_STARTS.search(text):
        text = text[match.end() :]
    if match := _BOOK_ENDS.search(text):
        text = text[: match.start()]
    if starts := _tokens(start, text):
        text = text[starts[0].start() :]
    if ends := _tokens(end, text):
        text = text[: ends[-1].end()]
    return text.strip()


def _tokens(words: str, text: str) -> list[re.Match[str]]:
    """Where the words occur, with any whitespace or none between them."""
    tokens = map(re.escape, words.split())
    pattern = r"\s*".join(tokens)
    return list(re.finditer(pattern, text)) if pattern else []


def _from_rows(
    path: Path, dataset: str, text: _Text, malformed: Malformed, on_skip: OnSkip | None
) -> Iterator[Record]:
    counts: Counter[str] = Counter()
    told: set[str] = set()

    def build(line: bytes) -> Built:
        source = json_row(line)
        document = row(field(source, "document"), '"document"')
        name = text_field(document, "id", "document")
        asked = row(field(source, "question"), '"question"')
        answers = [text_field(each, "text", "answers") for each in rows_field(source, "answers")]
        question = _asked(text_field(asked, "text", "question"), distinct(answers))
        title = text_field(_summary(document), "title", "summary", blank=True)
        # why: every row repeats the whole story, of which the first one is enough
        story = "" if name in told else text(document)
        told.add(name)
        id_ = _question_id(name, counts[name])
        counts[name] += 1
        return _built(dataset, name, title, story, [{"id": id_, **question}])

    return merged(lines(path), build, malformed, on_skip)


def _summary(document: Row) -> Row:
    return row(field(document, "summary", "document"), '"summary" of document')


def _row_story(document: Row) -> str:
    text = plain_text(text_field(document, "text", "document"))
    start, end = (optional_text(document, key, "document") for key in ("start", "end"))
    return _extent(text, start, end)


def _row_summary(document: Row) -> str:
    return text_field(_summary(document), "text", "summary").strip()

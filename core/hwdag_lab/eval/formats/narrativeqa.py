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
from typing import Any

from hwdag.errors import UnknownOption
from hwdag_lab.eval.data import Record
from hwdag_lab.eval.fields import (
    Blankable,
    DataError,
    Malformed,
    MalformedRecord,
    OnSkip,
    Row,
    Text,
    checked,
    decoded,
    lines,
    row_of,
    unreadable,
)
from hwdag_lab.eval.formats.layout import Built, distinct, merged, records
from hwdag_lab.eval.formats.markup import plain_text

SPLITS = ("train", "valid", "test")
"""The sets of the repository."""

# why: what stands outside of these lines is the licence, not the book
_BOOK_STARTS = re.compile(r"^\*\*\* ?START OF TH\w+ PROJECT GUTENBERG.*\n", re.MULTILINE)
_BOOK_ENDS = re.compile(r"^\*\*\* ?END OF TH\w+ PROJECT GUTENBERG", re.MULTILINE)


class _Document(Row):
    """A line of `documents.csv`."""

    document_id: Text
    wiki_title: Text
    story_start: Blankable = ""
    story_end: Blankable = ""


class _Pair(Row):
    """A line of `qaps.csv`."""

    document_id: Text
    question: Text
    answer1: str
    answer2: str


class _Said(Row):
    text: Text


class _Summary(Row):
    title: str
    text: Blankable = ""


class _Story(Row):
    id: Text
    text: Blankable = ""
    start: Blankable = ""
    end: Blankable = ""
    summary: _Summary


class _Example(Row):
    """A row of the other form: one question with all of its story."""

    document: _Story
    question: _Said
    answers: list[_Said]


_FileText = Callable[[_Document], str]
_RowText = Callable[[_Story], str]


def narrativeqa(
    path: Path,
    *,
    malformed: Malformed = "error",
    on_skip: OnSkip | None = None,
    split: str = "test",
) -> Iterator[Record]:
    """Whole books and film scripts with their questions (a `Read`).

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
    text: _FileText,
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
        row = row_of(_Document, item["source"])
        return _built(dataset, row.document_id, row.wiki_title, text(row), item["questions"])

    return records(items(), build, malformed, on_skip)


def _built(dataset: str, name: str, title: str, text: str, questions: list[Built]) -> Built:
    return {
        "id": f"{dataset}:{name}",
        "dataset": dataset,
        "title": title,
        "text": text,
        "questions": questions,
    }


def _pair(source: dict[str, Any]) -> tuple[str, Built]:
    """Document id and question of a row of `qaps.csv`."""
    row = row_of(_Pair, source)
    return row.document_id, _asked(row.question, distinct([row.answer1, row.answer2]))


def _asked(question: str, answers: list[str]) -> Built:
    if not answers:
        raise MalformedRecord("the question has no answer")
    return {"question": question.strip(), "answers": answers, "type": "abstractive"}


def _question_id(document: str, number: int) -> str:
    """The data has no ids of questions: that of the document, cut, and the position in it."""
    return f"{document[:12]}-q{number:02d}"


def _table(path: Path, split: str) -> Iterator[tuple[str, dict[str, Any]]]:
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


def _story_file(folder: Path) -> _FileText:
    def read(row: _Document) -> str:
        path = folder / "tmp" / f"{row.document_id}.content"
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
        return _extent(plain_text(text), row.story_start, row.story_end)

    return read


def _summary_file(folder: Path) -> _FileText:
    summaries: dict[str, str] = {}

    def read(row: _Document) -> str:
        if not summaries:
            for split in SPLITS:
                for _, each in _table(folder / "third_party/wikipedia/summaries.csv", split):
                    summaries[each["document_id"]] = each.get("summary") or ""
        return summaries.get(row.document_id, "").strip()

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
    path: Path, dataset: str, text: _RowText, malformed: Malformed, on_skip: OnSkip | None
) -> Iterator[Record]:
    counts: Counter[str] = Counter()
    told: set[str] = set()

    def build(line: bytes) -> Built:
        row = row_of(_Example, decoded(line))
        story = row.document
        question = _asked(row.question.text, distinct(each.text for each in row.answers))
        # why: every row repeats the whole story, of which the first one is enough
        whole = "" if story.id in told else text(story)
        told.add(story.id)
        id_ = _question_id(story.id, counts[story.id])
        counts[story.id] += 1
        return _built(dataset, story.id, story.summary.title, whole, [{"id": id_, **question}])

    return merged(lines(path), build, malformed, on_skip)


def _row_story(story: _Story) -> str:
    return _extent(plain_text(story.text), story.start, story.end)


def _row_summary(story: _Story) -> str:
    return story.summary.text.strip()

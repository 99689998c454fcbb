"""NarrativeQA (Kocisky et al., TACL 2018), as the rows of its Hugging Face data set.

JSONL, one row per question: {`document`: {`id`, `text`, `start`, `end`, `summary`: {`text`,
`title`}}, `question`: {`text`}, `answers`: [{`text`}]}.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from hwdag_lab.eval.fields import (
    Blankable,
    JsonObject,
    MalformedRecord,
    Text,
    decoded,
    lines,
    row_of,
)
from hwdag_lab.eval.formats.layout import Draft, distinct, plain_text, records
from hwdag_lab.eval.schema import Record

# why: outside of these lines is the licence, not the book
_BOOK_STARTS = re.compile(r"^\*\*\* ?START OF TH\w+ PROJECT GUTENBERG.*\n", re.MULTILINE)
_BOOK_ENDS = re.compile(r"^\*\*\* ?END OF TH\w+ PROJECT GUTENBERG", re.MULTILINE)


class _Said(JsonObject):
    text: Text


class _Summary(JsonObject):
    title: str
    text: Blankable = ""


class _Story(JsonObject):
    id: Text
    text: Blankable = ""
    start: Blankable = ""
    end: Blankable = ""
    summary: _Summary


class _Example(JsonObject):
    """One question with all of its story."""

    document: _Story
    question: _Said
    answers: list[_Said]


def _read(
    path: Path, *, dataset: str, text: Callable[[_Story], str], **options: Any
) -> Iterator[Record]:
    counts: Counter[str] = Counter()
    seen: set[str] = set()

    def build(line: bytes) -> Draft:
        row = row_of(_Example, decoded(line))
        story = row.document
        answers = distinct(each.text for each in row.answers)
        if not answers:
            raise MalformedRecord("the question has no answer")
        # why: every row repeats the whole story
        whole = "" if story.id in seen else text(story)
        seen.add(story.id)
        question = {
            # why: questions have no ids, so theirs is the cut id of the story and their position
            "id": f"{story.id[:12]}-q{counts[story.id]:02d}",
            "question": row.question.text.strip(),
            "answers": answers,
            "type": "abstractive",
        }
        counts[story.id] += 1
        return {
            "id": f"{dataset}:{story.id}",
            "dataset": dataset,
            "title": story.summary.title,
            "text": whole,
            "questions": [question],
        }

    return records(path, items=lines, build=build, merges=True, **options)


def _whole(story: _Story) -> str:
    """Return the story within its file, between its first and last words and Gutenberg's marks."""
    text = plain_text(story.text)
    if match := _BOOK_STARTS.search(text):
        text = text[match.end() :]
    if match := _BOOK_ENDS.search(text):
        text = text[: match.start()]
    if starts := _places(story.start, text):
        text = text[starts[0].start() :]
    if ends := _places(story.end, text):
        text = text[: ends[-1].end()]
    return text.strip()


def _places(words: str, text: str) -> list[re.Match[str]]:
    """Return the places of the words, with or without any white space between them."""
    pattern = r"\s*".join(map(re.escape, words.split()))
    return list(re.finditer(pattern, text)) if pattern else []


narrativeqa = partial(_read, dataset="narrativeqa", text=_whole)
"""Whole books and film scripts with their questions.

HTML gives its visible text. A story is cut to the first and last words that the data names, if they
occur, and to the text between the marks of Project Gutenberg.
"""

narrativeqa_summaries = partial(
    _read, dataset="narrativeqa_summaries", text=lambda story: story.summary.text.strip()
)
"""The same questions about the summaries from Wikipedia."""

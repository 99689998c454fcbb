"""Questions that a page offers: those that these documents answer well."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from hwdag.types import Document

MOST_QUESTIONS = 3
MOST_DOCUMENTS = 50  # that are looked at, evenly spaced
BEGINNING = 10_000  # characters of a document that are looked at

_DATED = re.compile(
    r"(?:^|(?<=[.!?]\s))((?:The )?[A-Za-z][^.,;:!?\n|#*\d]{1,50}) (was|were) "
    r"([a-z]{2,20}ed|built|born|begun|bought|sold|written|made|held|laid|won|lost|given|taken)\b"
    r"[^.!?\n]{0,80}?\b(?:in|on) [^.!?\n\d]{0,12}(?:\d{1,2} \w{3,9} )?\d{4}\b",
    re.MULTILINE,
)
"""A sentence such as "The harbour was built in 1871": subject, verb, participle."""

_UNCLEAR = frozenset(
    [
        "It",
        "He",
        "She",
        "They",
        "This",
        "That",
        "These",
        "Those",
        "There",
        "We",
        "I",
        "You",
        "Which",
        "Who",
        "What",
    ]
)
"""First words of subjects that need the sentence before."""


def example_questions(documents: Sequence[Document]) -> list[str]:
    """Return questions to begin with: the subject of the documents, and the date of an event.

    "When was the harbour built?" has a short answer in one sentence, which even a small reader finds.
    """
    if not documents:
        return []
    about = (
        "What is this document about?" if len(documents) == 1 else "What are these documents about?"
    )
    found = dict.fromkeys([about])
    for document in documents[:: -(-len(documents) // MOST_DOCUMENTS)]:
        for question in _dated(document.text[:BEGINNING]):
            found[question] = None
            break
        if len(found) == MOST_QUESTIONS:
            break
    return list(found)


def _dated(text: str) -> Iterator[str]:
    for subject, verb, participle in _DATED.findall(text):
        first, _, rest = subject.partition(" ")
        if first not in _UNCLEAR and first[0].isupper():
            asked = f"the {rest}" if first == "The" else subject
            yield f"When {verb} {asked} {participle}?"

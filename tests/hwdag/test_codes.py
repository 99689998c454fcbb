"""Codes of several parts are words of their own, and are found at their own place."""

import random

import pytest

from hwdag import Document, HWDAGIndex
from hwdag.embedding.hashing import HashingEmbedder
from hwdag.text.words import codes
from hwdag_lab.scripted import ScriptedLM


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Clause 4.2, and 12.4.2.", ["4.2", "12.4.2"]),
        ("On 2022-03-05 at 10:30", ["2022-03-05", "10:30"]),
        ("the part VX-7-40-2/b", ["vx-7-40-2/b"]),
        ("v1.2.3 of 10.1.2.5", ["v1.2.3", "10.1.2.5"]),
        ("a well-known end. 5 of 7", []),
    ],
)
def test_codes_are_numbers_of_several_parts(text, found):
    assert codes(text) == found


KINDS = {
    "clause": ([f"{a}.{b}" for a in range(1, 7) for b in range(1, 7)], "What does clause {} say?"),
    "part": (
        [f"VX-{a}-{b}-{c}" for a in (2, 4) for b in (10, 4) for c in (2, 4, 10)],
        "What is {}?",
    ),
    "day": ([f"2022-{a:02}-{b:02}" for a in (3, 5, 8) for b in (3, 5, 8)], "What was on {}?"),
    "host": ([f"10.{a}.{b}.{c}" for a in (1, 2) for b in (1, 2) for c in (5, 6)], "Where is {}?"),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_code_is_found_first_at_its_own_place(kind):
    names, question = KINDS[kind]
    random.Random(0).shuffle(names)
    text = " ".join(f"The {kind} {name} has the number {i} here." for i, name in enumerate(names))
    index = index_of(text)
    for i, name in enumerate(names):
        found = index.search(question.format(name)).best(1)[0].node.text
        assert found == f"The {kind} {name} has the number {i} here."


def index_of(text):
    return HWDAGIndex.from_documents(
        [Document("d", text)], method="evidence", reader=ScriptedLM(), embedder=HashingEmbedder()
    )

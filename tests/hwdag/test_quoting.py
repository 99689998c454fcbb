"""A reader's "Yes" to a question that asks for something else gives way to the best statement."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hwdag import Document, HWDAGIndex
from hwdag.answers.quoting import with_quotation
from hwdag.text.anaphora import asks_for_a_thing

MINUTES = [
    Document(
        "protokoll.md",
        "# Protokoll der Sitzung\n\nAnwesend: Jana Wolf, Peter Klein.\n\nBeschlossen wurde, das Dach im "
        "Herbst zu decken.\n\nDer Antrag auf einen neuen Rasenmäher wurde abgelehnt.",
    ),
    Document("fest.md", "# Sommerfest\n\nDas Sommerfest findet am 5. Juli statt."),
]


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Was wurde beschlossen?", True),
        ("Who owned it?", True),
        ("In which year was it built?", True),
        ("¿Qué se decidió?", True),
        ("Qu'est-ce qui a été décidé ?", False),  # it may be "est-ce que"
        ("Is the roof old?", False),
        ("Wurde das Dach gedeckt?", False),
    ],
)
def test_questions_that_yes_does_not_answer(question, expected):
    assert asks_for_a_thing(question) is expected


@pytest.mark.model
def test_yes_is_no_answer_to_a_question_for_a_thing():
    with HWDAGIndex.from_documents(MINUTES, method="evidence") as index:
        for question, text in (
            ("Was wurde beschlossen?", "Beschlossen wurde, das Dach im Herbst zu decken."),
            ("Was wurde abgelehnt?", "Der Antrag auf einen neuen Rasenmäher wurde abgelehnt."),
        ):
            stream = index.stream(question)
            pieces = "".join(stream)
            assert stream.answer.reply in ("Yes", "No")
            assert pieces == stream.answer.text == text
            assert stream.answer.confidence == stream.retrieval.answerability
            nothing = replace(stream.retrieval, steps=())
            unread = replace(stream.answer, retrieval=nothing, text="Yes", reply="Yes")
            assert with_quotation(unread) == unread

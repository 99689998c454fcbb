"""Dates of documents, and the later of two statements first if a question asks for the present."""

from __future__ import annotations

from functools import cache

import pytest

from hwdag import Document, HWDAGIndex
from hwdag.embedding.hashing import HashingEmbedder
from hwdag.text.dates import asks_for_present, dates_in, document_date, effective_date
from hwdag_lab.scripted import ScriptedLM

LEASE = "# Lease\n\nSigned on 1 March 2021 by both.\n\n## Rent\n\nThe rent is 780 euros a month."
FIRST = "# First addendum\n\nWith effect from 1 July 2023, the rent is 820 euros a month."
SECOND = "# Second addendum\n\nDated 12 May 2025.\n\nThe parties agree that the rent is 865 euros a month."
MINUTES = (
    "# Garden club\n\nAnn was elected chair. The fee is 40 euros.",
    "# Garden club\n\nBob was elected chair. The fee is 45 euros.",
    "# Garden club\n\nCleo was elected chair. The trip goes to Delft.",
)
PRICES = "# Prices\n\n| Item | Price |\n|---|---|\n| Rose | {} euros |\n| Lavender | {} euros |"
WORLD = [
    Document("lease.md", LEASE),
    Document("addendum.md", FIRST),
    Document("more.md", SECOND),
    *(Document(f"minutes/{2023 + i}-03-04.md", text) for i, text in enumerate(MINUTES)),
    Document("prices_2024.csv", PRICES.format(9, 4)),
    Document("prices_2025.csv", PRICES.format(11, 5)),
    Document("a", "Die Praxis ist montags offen.", "Praxis", {"date": "2022-02-01"}),
    Document("b", "Die Praxis ist donnerstags offen.", "Praxis", {"date": "2024-11-05"}),
]
NOW = [
    ("How much is the rent now?", ["865", "820", "780"]),
    ("Who is currently the chair?", ["Cleo", "Bob", "Ann"]),
    ("Who is still chair?", ["Cleo", "Bob", "Ann"]),
    ("What is the fee at the moment?", ["45", "40"]),
    ("What does a rose cost today?", ["11 euros", "9 euros"]),
    ("Wann ist die Praxis derzeit offen?", ["donnerstags", "montags"]),
]
CHANGES = [
    Document(
        "2025-02-10.md",
        "# Club\n\nThe entry fee costs 12 euro from 1 April. The outing is on 14 June.",
    ),
    Document(
        "2025-05-19.md",
        "# Club\n\nThe change of the entry fee is put off. The outing is cancelled.",
    ),
    Document(
        "first.txt",
        "From: Nils\nDate: Mon, 3 Mar 2025 09:12:00 +0000\nSubject: Opening of my shop\n\nThe workshop opens on Dock Lane.",
    ),
    Document(
        "moving.txt",
        "From: Nils\nDate: Wed, 2 Jul 2025 17:40:00 +0000\nSubject: We are moving\n\nSoon the workshop is open in Mill Road.",
    ),
    Document(
        "releases.txt",
        "Lantern\n\n2025-04-10: Version 5.1. The export to PDF was removed.\n\n2024-12-01: Version 5.0. There is an export to PDF.",
    ),
    Document("2024-01 rules.md", "The guest room costs 20 euros. Bus 12 stops at the gate."),
    Document(
        "2025-01 letter.md", "The guest lecture was good. Bus 14 no longer stops at the gate."
    ),
]
CHANGED = [
    # the change does not say "cost"
    ("What does the entry fee cost now?", ["put off", "12 euro"]),
    # the value to confirm is not in the change
    ("Is the outing still on 14 June?", ["cancelled", "14 June"]),
    ("Is the entry fee still 12 euro?", ["put off", "12 euro"]),
    # another form of a word; the date of a mail's head
    ("Where is the workshop open now?", ["Mill Road", "Dock Lane"]),
    # the entry of a log
    ("Can it still export to PDF?", ["removed", "There is an export"]),
    # about another thing
    ("What does the guest room cost now?", ["20 euros", "lecture"]),
    ("Does bus 12 still stop at the gate?", ["Bus 12", "Bus 14"]),
]


@cache
def index() -> HWDAGIndex:
    return HWDAGIndex.from_documents(
        WORLD, method="evidence", reader=ScriptedLM(), embedder=HashingEmbedder()
    )


def places(texts, wanted):
    return [next(i for i, text in enumerate(texts) if word in text) for word in wanted]


@pytest.mark.parametrize(("question", "wanted"), NOW)
def test_the_later_statement_comes_first(question, wanted):
    found = index().search(question, k=99)
    assert "the question asks for the present, so later statements come first" in found.notes
    for steps in (found.steps, found.best(99)):
        texts = [step.node.text for step in steps]
        assert (order := places(texts, wanted)) == sorted(order)
    assert found.context_tokens <= 512


def test_without_a_question_for_the_present_nothing_is_moved_or_dated():
    for question in ("How much is the rent?", "How much is the rent now, in 2021?"):
        found = index().search(question)
        assert not any(step.supersedes for step in found.steps)
        assert not any("2021-03-01" in step.node.heading for step in found.steps)


def test_documents_are_shown_with_their_dates():
    prompts = []
    index().answer(
        "How much is the rent now?", answerer=lambda prompt: prompts.append(prompt) or "865 [1]"
    )
    headings = [line for line in prompts[0].splitlines() if line.startswith("##")]
    assert headings[0] == "## Second addendum (later)" or "2025-05-12" in headings[0]
    assert "## 2021-03-01 > Lease > Rent" in headings
    heads = {step.node.heading for step in index().search("What does a rose cost today?").steps}
    assert {"2024 > Prices > Item | Price", "2025 > Prices > Item | Price"} <= heads


@cache
def changes() -> HWDAGIndex:
    return HWDAGIndex.from_documents(
        CHANGES, method="evidence", reader=ScriptedLM(), embedder=HashingEmbedder()
    )


@pytest.mark.parametrize(("question", "wanted"), CHANGED)
def test_a_change_comes_before_the_statement_that_it_changes(question, wanted):
    texts = [step.node.text for step in changes().search(question, k=99).best(99)]
    assert (order := places(texts, wanted)) == sorted(order)


def test_an_answer_notes_the_statements_of_several_dates():
    asked = "How much is the rent now?"
    *_, note = index().answer(asked, answerer=lambda prompt: "865 euros [1]").notes
    assert note.startswith("statements of several dates, the latest first: 2025-05-12 ")
    assert note.index("865") < note.index('2023-07-01 "With effect') < note.index("780")
    plain = index().answer("How much is the rent?", answerer=lambda prompt: "865 euros [1]")
    assert not any(note.startswith("statements") for note in plain.notes)


@pytest.mark.parametrize(
    ("text", "date"),
    [
        ("Minutes of 3 May 2024", "2024-05-03"),
        ("May 3rd, 2024", "2024-05-03"),
        ("Berlin, 3. Mai 2024", "2024-05-03"),
        ("le 1er juillet 2025", "2025-07-01"),
        ("el 3 de mayo de 2024", "2024-05-03"),
        ("minutes_20240503.md", "2024-05-03"),
        ("2024-05_minutes", "2024-05"),
        ("3.5.2024", "2024-05-03"),
        ("Sept. 2023", "2023-09"),
        ("prices_2025.csv", "2025"),
        ("invoice 20191234567", ""),
        ("room 202", ""),
    ],
)
def test_dates_are_found(text, date):
    assert next(dates_in(text), "") == date


@pytest.mark.parametrize(
    ("text", "date"),
    [
        ("With effect from 1 July 2025 the rent rises.", "2025-07-01"),
        ("Ab dem 1. Juli 2025 beträgt die Miete 865 Euro.", "2025-07-01"),
        ("À compter du 1er juillet 2025, le loyer est de 865 euros.", "2025-07-01"),
        ("A partir del 1 de julio de 2025, el alquiler sube.", "2025-07-01"),
        ("Effective from Monday, 3 March 2025, the desk is closed.", "2025-03-03"),
        ("The club has met since 1 July 2025.", ""),
        ("A letter from 2019.", ""),
    ],
)
def test_a_statement_is_dated_by_its_effect(text, date):
    assert effective_date(text) == date


def test_a_document_is_dated_by_metadata_then_its_file_then_its_first_lines():
    lines = ["Berlin, 3 May 2024", "It is so."]
    assert document_date("2022.md", {"date": "2023-01-02T10:00"}, lines) == "2023-01-02"
    assert document_date("in/2022_minutes.md", {}, lines) == "2022"
    assert document_date("minutes.md", {"date": "soon"}, lines) == "2024-05-03"
    long = "Ada Lindqvist was born in Karlstad on 3 May 1839 as the third child."
    assert document_date("ada.md", {}, [long]) == ""


@pytest.mark.parametrize(
    ("question", "present"),
    [
        ("¿Cuál es el alquiler actual?", True),
        ("Quel est le loyer aujourd’hui ?", True),
        ("Gilt das noch?", True),
        ("What was the actual cost?", False),
        ("Who knows the way?", False),
        ("What is John currently doing in August 2023?", False),
    ],
)
def test_questions_for_the_present_are_detected(question, present):
    assert asks_for_present(question) is present


@pytest.mark.model
def test_the_default_reader_quotes_the_latest_statement_rather_than_confirm_an_earlier_one():
    with HWDAGIndex.from_documents(CHANGES, method="evidence") as made:
        answer = made.answer("Is the outing still on 14 June?")
        assert (answer.text, answer.reply) == (
            "The change of the entry fee is put off. The outing is cancelled.",
            "No",
        )
        assert answer.found
        stream = made.stream("Is the outing still on 14 June?")
        assert "".join(stream) == stream.answer.text
        assert made.answer("Where is the workshop open now?").text.endswith("Mill Road")


@pytest.mark.model
def test_the_default_reader_answers_from_the_latest_statement():
    with HWDAGIndex.from_documents(WORLD, method="evidence") as made:
        for question, (word, *_) in NOW:
            if "fee" not in question:
                assert word in made.answer(question).reply

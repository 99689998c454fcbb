"""Questions that ask for all: the table, list or section is read whole."""

from __future__ import annotations

from functools import cache

import pytest

from hwdag import Document, HWDAGIndex, SearchConfig
from hwdag.embedding.hashing import HashingEmbedder
from hwdag.search.whole_section import asks_for_all
from hwdag.text.tables import separated_lines
from hwdag_lab.scripted import ScriptedLM

PARTS = [
    "filter",
    "pad",
    "plug",
    "belt",
    "fuse",
    "blade",
    "bulb",
    "coolant",
    "battery",
    "rope",
    "clamp",
    "jack",
]
STOCK = "# Workshop\n\nInes counted.\n\n| Part | Stock | Minimum |\n|---|---|---|\n" + "".join(
    f"| {part} | {i} | 5 |\n" for i, part in enumerate(PARTS)
)
MINUTES = """# Meeting of 4 March

Present were Ines and Karl.

## Heating

The old boiler goes. A new one is bought from Brandt.

## Fees

The fee stays at 40 euros. Children pay nothing.

# Meeting of 2 April

## Roof

Holm repairs it. The scaffold comes in May."""
TRIP = "# Things for the hut\n\nBring:\n\n- a warm bag\n- water\n- a torch\n- slippers\n\n# Way\n\nBy bus."
OTHERS = [
    Document(
        f"{i}", f"# Note {i}\n\nThe minimum part of stock {i} was decided. All things are below."
    )
    for i in range(9)
]


@cache
def index() -> HWDAGIndex:
    documents = [Document("a", STOCK), Document("b", MINUTES), Document("c", TRIP), *OTHERS]
    return HWDAGIndex.from_documents(
        documents, method="evidence", reader=ScriptedLM(), embedder=HashingEmbedder()
    )


@pytest.mark.parametrize(
    ("question", "wanted"),
    [
        ("Which parts are below the minimum stock of the workshop?", PARTS),
        (
            "What was decided at the meeting of 4 March?",
            ["Ines", "boiler", "Brandt", "fee", "Children"],
        ),
        ("List all things for the hut", ["bag", "water", "torch", "slippers"]),
    ],
)
def test_all_of_a_table_section_or_list_is_read(question, wanted):
    found = index().search(question, config=SearchConfig(token_budget=200))
    texts = " ".join(step.node.text for step in found.context)
    assert all(word in texts for word in wanted)
    assert found.context_tokens <= 200


CSV = "Part,Stock,Minimum,Remark\n" + "".join(f"{part},{i},5,\n" for i, part in enumerate(PARTS))
CONVERTED = "\n".join(["# Shop", "", *separated_lines(CSV), "", "| Note, it is open", "| Fee, 5"])


@pytest.mark.parametrize("text", [STOCK, CONVERTED], ids=["markdown", "csv"])
def test_a_header_row_alone_is_no_result(text):
    with HWDAGIndex.from_documents(
        [Document("a", text)], method="evidence", embedder=HashingEmbedder()
    ) as only:
        found = only.search("Part, stock, minimum or remark?", k=99)
    for steps in found.steps, found.best(99):
        lines = [step.node.text.rpartition("\n")[2] for step in steps]
        assert len(lines) > len(PARTS)
        assert not any(line.endswith(("|---|", "Minimum, Remark")) for line in lines)


def test_a_section_without_room_is_not_read_whole():
    found = index().search("Which parts are in the workshop?", config=SearchConfig(token_budget=30))
    assert found.steps and found.context_tokens <= 30


@pytest.mark.parametrize(
    "question",
    [
        "Which parts are below their minimum?",
        "What was discussed on 2 April?",
        "What did the board decide in March?",
        "Welche Teile sind unter dem Minimum?",
        "Was wurde am 4. März beschlossen?",
        "¿Qué se decidió en marzo?",
        "Quelles pièces sont au-dessous du minimum ?",
        "Name the members of the board",
    ],
)
def test_a_question_asks_for_all(question):
    assert asks_for_all(question)


@pytest.mark.parametrize(
    "question",
    [
        "Which part is below its minimum?",
        "What does the picture show?",
        "What is the name of the clinic where he was operated on?",
        "Which class was first, after all?",
        "Who built the mill?",
    ],
)
def test_a_question_asks_for_one_thing(question):
    assert not asks_for_all(question)

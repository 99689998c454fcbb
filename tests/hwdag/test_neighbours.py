"""The neighbours of a sentence that a reader, an answerer and a caller see."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwdag import Document, HWDAGIndex
from hwdag.answers.generated import numbered
from hwdag.answers.passages import grown
from hwdag.embedding.hashing import HashingEmbedder
from hwdag.text.neighbours import LONGEST_UNIT, Neighbours, without
from hwdag.types import Node, Span, Step
from hwdag_lab.scripted import ScriptedLM

INTERVIEW = "**Ito:** When did you begin?\n\n**Vale:** In May 1990. The bank said no."
LIST = "For the camp you need:\n\n- boots\n- a tent\n  - with pegs\n- a lamp"
CLAUSE = "4.2 The tenant pays:\n\n(a) the rent,\n\n(b) the water."
CHAT = "Anna: who has the key?\nBen: me\nAnna: until when?\nBen: Friday"
FAQ = "How do I reset it?\nPress the button for ten seconds. The lamp turns red."
TEXT = "\n\n".join(
    ["# All", INTERVIEW, "## Bring", LIST, "## Rent", CLAUSE, "## Chat", CHAT, "## Help", FAQ]
)


def unit(text, words):
    at = text.index(words)
    return [
        text[span.start : span.end] for span in Neighbours(text).unit(Span(at, at + len(words)))
    ]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("When did", INTERVIEW),
        ("The bank", INTERVIEW),
        ("with pegs", LIST),
        ("For the camp", LIST),
        ("(b) the water", CLAUSE),
        ("until when", "Anna: until when?\nBen: Friday"),
        ("Press", FAQ),
    ],
)
def test_a_sentence_is_read_with_its_unit(words, expected):
    assert unit(TEXT, words) == [expected]


def test_an_item_of_a_long_list_comes_with_its_lead_and_its_parents():
    many = "\n".join(f"- thing {i} of the very long list" for i in range(80))
    text = f"You need:\n\n{many}\n- the tent\n  - with pegs\n{many}"
    assert unit(text, "with pegs") == ["You need:", "- the tent\n  - with pegs"]


def test_neighbours_of_a_sentence_are_read_in_a_long_paragraph():
    others = " ".join(f"Sentence number {i} is about a boat." for i in range(60))
    [found] = unit(f"{others} It sank in 1911. {others}", "It sank in 1911.")
    assert "It sank in 1911." in found
    assert 0.8 * LONGEST_UNIT < len(found) <= LONGEST_UNIT
    assert found.startswith("Sentence number") and found.endswith("boat.")


@given(st.text(alphabet="aB. \n#-|?:*1(", max_size=200), st.integers(0, 200), st.integers(1, 50))
def test_a_unit_has_its_slice_and_is_in_order(text, start, length):
    start = min(start, len(text))
    span = Span(start, min(start + length, len(text)))
    found = Neighbours(text).unit(span)
    assert sum(part.overlap(span) for part in found) == len(span)
    assert all(a.end <= b.start for a, b in pairwise(found))
    assert without(text, found, found) == []


def searched(text, question):
    index = HWDAGIndex(reader=ScriptedLM(), embedder=HashingEmbedder())
    index.insert([Document("d", text)])
    return index.search(question)


def test_passages_are_units_each_once_and_nothing_is_lost():
    retrieval = searched(TEXT, "Who said no to Vale?")
    steps, left = grown(retrieval)
    shown = [span for step in (*steps, *left) for span in step.node.sources]
    for step in retrieval.context:
        for source in step.node.sources:
            assert without(TEXT, [source], shown) == []
    taken = [span for step in steps for span in step.node.sources]
    assert sum(a.overlap(b) for a in taken for b in taken) == sum(map(len, taken))


def test_an_answerer_reads_a_section_in_the_order_of_its_text():
    """A sentence that was found first may lie within the paragraph of one that was found later."""
    text = "The wardrobe was quiet. Nobody came. We lined it with blankets."
    spans = [Span(0, 23), Span(24, 36), Span(37, 63)]
    parts = [text[span.start : span.end] for span in spans]
    middle = Node("d#1", "d", 1, parts[1], "chunk", 3, (spans[1],))
    around = Node("d#0", "d", 1, f"{parts[0]} {parts[2]}", "chunk", 9, (spans[0], spans[2]))
    retrieval = searched(text, "Nobody?")
    for nodes in ([middle, around], [around, middle]):
        steps = tuple(Step(i, node, False, 0.0, 0.5) for i, node in enumerate(nodes))
        prompt, read = numbered("Why?", replace(retrieval, steps=steps, stop="budget"))
        assert [sentence.text for sentence in read] == parts
        assert "[1] The wardrobe was quiet.\n[2] Nobody came.\n[3] We lined" in prompt


def test_an_answerer_sees_which_sentences_are_apart():
    text = "The mill is old. It has two wheels. It stood still in May."
    retrieval = searched(text, "mill")
    nodes = [
        Node(f"d#{at}", "d", 1, text[at:end], "chunk", 4, (Span(at, end),))
        for at, end in [(0, 16), (36, 58)]
    ]
    steps = tuple(Step(i, node, False, 0.0, 0.5) for i, node in enumerate(nodes))
    prompt, _ = numbered("Why?", replace(retrieval, steps=steps, stop="budget"))
    assert "[1] The mill is old.\n\n[2] It stood still in May." in prompt


def test_a_question_or_a_heading_is_not_read_without_the_text_after_it():
    answer = " ".join(f"Reason {i} was the river, as everybody knows." for i in range(40))
    text = f"## Flood\n\nMara: Why did you leave?\n\nLena: It rose. {answer}\n\nMara: Thank you."
    asked = text.index("Mara: Why")
    units = Neighbours(text)
    question = Span(asked, text.index("\n\nLena"))
    assert units.is_opening(question) and units.is_opening(Span(0, 8))
    [near] = units.near(question, len(question) + 60)
    assert text[near.start : near.end].endswith(
        "Lena: It rose. Reason 0 was the river, as everybody knows."
    )
    assert not units.is_opening(Span(near.end - 20, near.end))
    retrieval = searched(text, "Why?")
    node = Node("d#0", "d", 1, text[question.start : question.end], "chunk", 9, (question,))
    steps = (Step(0, node, False, 0.0, 0.5),)
    assert grown(replace(retrieval, steps=steps, stop="budget"))[0] == []  # no room for an answer


def test_an_answerer_is_shown_what_scores_near_the_best_unless_all_is_asked_for():
    text = "\n\n".join(f"Paragraph {i} is about boats." for i in range(9))
    retrieval = searched(text, "boats")
    steps = tuple(
        replace(step, attention=0.0, similarity=1.0 if i < 6 else 0.1)
        for i, step in enumerate(retrieval.context)
    )
    retrieval = replace(retrieval, steps=steps)
    assert len(numbered("Why is it so?", retrieval)[1]) == 6
    assert len(numbered("List all paragraphs.", retrieval)[1]) == 9

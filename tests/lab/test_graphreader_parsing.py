"""Replies of GraphReader's agent: usable in any layout, harmless in any other."""

from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwdag.embedding.hashing import HashingEmbedder
from hwdag_lab.methods.elements import Element, key_of, merge_elements, terms_of
from hwdag_lab.methods.graphreader.parsing import (
    LONGEST_FACT,
    Call,
    Extracted,
    Function,
    answer_of,
    call_of,
    chosen_elements,
    facts_of,
    named_element,
    notebook_of,
    numbers,
    plan_of,
    sections,
)

# calls


FUNCTIONS = get_args(Function)


@pytest.mark.parametrize(
    "reply",
    [
        "Action: read_chunk([3, 1])",
        "Notebook: a\nReason: chunk 7 may help\nAction: read_chunk(3, 1)",
        "**Chosen Action:** `read_chunk([3, 1])`",
        "Rationale for Next Action: I want read_chunk([9])\nAction: Read Chunk 3 and 1",
        "ACTION：readChunk [3,1]",
        "Action:\n```python\nread_chunk([3, 1])\n```",
        "I think read_chunk([3, 1]) is best.",
        "<think>Action: stop_and_read_neighbor()</think>Action: read-chunk([3, 1])",
        "stop_and_read_neighbor()</think>Action: read_chunk(List[3, 1])",
        "Action: stop\nAction: read_chunk([3, 1])",
    ],
)
def test_a_call_is_read_in_any_layout(reply):
    call = call_of(reply, ("read_chunk", "stop_and_read_neighbor"))
    assert call is not None
    assert call.function == "read_chunk"
    assert numbers(call.argument) == [3, 1]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_every_function_is_called_by_its_name(function):
    assert call_of(f"Action: {function}(x)", FUNCTIONS) == Call(function, "(x)")
    assert call_of(f"Action: {function.replace('_', ' ').upper()}", FUNCTIONS) == Call(function, "")


@pytest.mark.parametrize(
    ("reply", "function"),
    [
        ("Action: terminate", "termination"),
        ("Action: read_next_chunk()", "read_subsequent_chunk"),
        ("Action: read the previous chunk", "read_previous_chunk"),
        ("Action: read_neighbour_node(Arden)", "read_neighbor_node"),
        ("Action: stop and read neighbors", "stop_and_read_neighbor"),
    ],
)
def test_usual_variants_of_the_names_are_understood(reply, function):
    assert call_of(reply, FUNCTIONS).function == function


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "no idea",
        "read_chunk([1]) or stop_and_read_neighbor()",  # the options, repeated
        "Action: termination()",  # not legal here
        "Action: pread_chunk([1])",
        "<think>Action: read_chunk([1])",
        "Action: __import__('os').system('true')",
    ],
)
def test_what_calls_no_legal_function_is_no_call(reply):
    assert call_of(reply, ("read_chunk", "stop_and_read_neighbor")) is None


def test_numbers_are_short_and_distinct():
    assert numbers("([2, 2, 10])") == [2, 10]
    assert numbers("9" * 5000) == []
    assert numbers("__import__('os')") == []


# the other replies


def test_sections_begin_at_labels_and_the_last_of_a_kind_counts():
    reply = "Notebook: a\nb\n\n**Reason:** c\nNotebook: d\nAction: e\n```"
    assert sections(reply) == {"notebook": "d", "reason": "c", "action": "e"}
    assert notebook_of("Updated Notebook:\n* Clara\n* Arden\nAction: x") == "* Clara\n* Arden"
    assert notebook_of("Notebook: (empty)\nAction: x") is None
    assert notebook_of("Clara was born in Arden.") is None


def test_a_plan_needs_no_label():
    assert plan_of("Plan: find her.\nThen stop.") == "find her.\nThen stop."
    assert plan_of("<think>hm</think> First find her.") == "First find her."
    assert plan_of("Plan: ...") is None
    assert plan_of(" \n") is None


def test_elements_are_found_as_they_were_offered():
    offered = ["Clara Holm", "harbour", "Holm", "the river Tam"]
    assert named_element('("clara holm")', offered) == 0
    assert named_element("(Harbours), because it is near", offered) == 1
    assert named_element("the node Clara Holm or harbour", offered) == 0
    assert named_element("river", offered) == 3  # a part that only one has
    assert named_element("Otto", offered) is None
    assert named_element("", offered) is None
    assert chosen_elements("* Harbour, Score: 90\n2. Clara Holm\n* Otto\n* harbour", offered) == [
        1,
        0,
    ]
    assert chosen_elements("harbour, Clara Holm", offered) == [1, 0]
    assert chosen_elements("none of them", offered) == []


def test_the_final_answer_or_the_majority():
    assert answer_of("Notebook 1: Brill\n**Answer:** Arden\nNotebook 2: Brill", 2) == "Arden"
    votes = "Notebook 1: Brill\nNotebook 2: arden.\nNotebook 3: unknown\nNotebook 4: Arden"
    assert answer_of(votes, 4) == "arden."
    assert answer_of(votes, 1) == "Brill"
    assert answer_of(f"{votes}\nAnswer: unknown", 4) == "arden."
    assert answer_of("Notebook 1: unknown\nAnswer: unknown", 1) == "unknown"
    assert answer_of("Answer: ...", 1) is None
    assert answer_of("Arden", 1) is None


# facts

ONE = [Extracted("Clara built it", ("Clara", "built"))]


@pytest.mark.parametrize(
    "reply",
    [
        "* Clara built it | Clara; built",
        "1. Clara built it | Clara, built",
        "* The first atomic fact: Clara built it | Clara; built",
        "- Clara built it (Key elements: Clara, built)",
        "* Clara built it Key elements: Clara | built",
        "| Atomic fact | Key elements |\n|---|---|\n| Clara built it | Clara; built |",
        "Clara built it | Clara; built; clara built it, and far more than a key element can be "
        "since it goes on and on and on",
        "* atomic fact | key element; key element\n* Clara built it | Clara; built; key element",
        "* Clara built it | Clara; built\n* CLARA BUILT IT | Clara",
    ],
)
def test_facts_are_read_in_any_layout(reply):
    assert facts_of(reply) == ONE


def test_a_text_without_facts_gives_no_elements():
    for reply in ("", "I cannot.", "* | Clara", "[1, [2]]", "{" * 9, "[" * 100_000, "* !!!"):
        assert facts_of(reply) == []
    assert facts_of("* " + "a" * (LONGEST_FACT + 1)) == []
    assert facts_of("* Clara built it") == [Extracted("Clara built it", ())]


@given(st.text(alphabet=st.characters(), max_size=200))
def test_any_text_is_read_without_an_error(reply):
    read_all(reply)
    read_all(f"Action: {reply}\nNotebook: {reply}\nAnswer: {reply}\n* {reply} | {reply}")


@pytest.mark.parametrize(
    "piece", ["(", " ", "*", "\n", "read_", "Action:", "|", "* a | b\n", "[", "key element", "of "]
)
def test_long_hostile_replies_are_read_at_once(piece):
    read_all(piece * (200_000 // len(piece)))  # minutes, if anything were quadratic


def read_all(reply):
    call_of(reply, FUNCTIONS)
    sections(reply)
    facts_of(reply)
    plan_of(reply)
    notebook_of(reply)
    answer_of(reply, 3)
    numbers(reply)
    chosen_elements(reply[:2000], ["Clara Holm", "harbour"])


# elements


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The Harbour", "harbours"),
        ("Clara Holm's", "CLARA HOLM"),
        ("“cities”", "city"),
        ("the churches", "church"),
        ("Ｆｅｒｒｙ", "ferry"),
        ("river-boat", "river boats"),
    ],
)
def test_spellings_of_one_element_have_one_key(one, other):
    assert key_of(one) == key_of(other) != ""


@pytest.mark.parametrize(("one", "other"), [("1871", "1872"), ("bus", "bu"), ("Paris", "Pari")])
def test_other_elements_have_other_keys(one, other):
    assert key_of(one) != key_of(other)


def test_default_elements_are_names_then_numbers_and_words():
    assert terms_of("The harbour was built by Clara Holm in 1871.") == (
        "Clara Holm",
        "harbour",
        "built",
        "1871",
    )
    assert terms_of("In the Bay of Biscay, Otto swam.") == ("Bay of Biscay", "Otto", "swam")
    assert terms_of("港口很大") == ("港口", "口很", "很大")
    assert terms_of("!!!") == ("!!!",)


def by_angle(angles):
    def embed(names):
        radians = np.deg2rad([angles[name] for name in names])
        return np.stack([np.cos(radians), np.sin(radians)], axis=1).astype(np.float32)

    return embed


def test_aliases_go_to_the_most_frequent_spelling_and_form_no_chains():
    angles = {"USA": 0, "America": 20, "Amerika": 40, "1871": 41, "1872": 42, "far": 90}
    names = ["USA"] * 3 + ["America", "Amerika", "1871", "1872", "far", "usa"]
    elements, index, vectors = merge_elements(names, by_angle(angles), np.cos(np.deg2rad(21)))
    assert elements == [
        Element("USA", ("usa", "america")),  # 20 degrees
        Element("Amerika", ("amerika",)),  # 20 degrees from America, but 40 from USA
        Element("1871", ("1871",)),  # other digits, so never the same
        Element("1872", ("1872",)),
        Element("far", ("far",)),
    ]
    assert [index[name] for name in names] == [0, 0, 0, 0, 1, 2, 3, 4, 0]
    assert vectors.shape == (5, 2)


def test_vectors_of_any_length_are_compared_by_their_cosine():
    def embed(names):
        return np.array([[9.0, 0.0] if name == "one" else [0.0, 9.0] for name in names], np.float32)

    elements, _, _ = merge_elements(["one", "other"], embed, 0.9)
    assert len(elements) == 2


@given(st.lists(st.sampled_from([f"{a} {b}" for a in "abcdef" for b in "abcdef"]), min_size=1))
def test_grouping_equals_the_plain_loop(names):
    embedder = HashingEmbedder(16)
    threshold = 0.7
    elements, index, _ = merge_elements(names, embedder.embed, threshold)
    counted = sorted(dict.fromkeys(names), key=lambda name: -names.count(name))
    heads = []
    for name in counted:
        [vector] = embedder.embed([name])
        near = [head for head in heads if float(embedder.embed([head])[0] @ vector) >= threshold]
        assert elements[index[name]].name == (near[0] if near else name)
        if not near:
            heads.append(name)
    assert [element.name for element in elements] == heads

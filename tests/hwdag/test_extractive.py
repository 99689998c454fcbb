import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwdag.building.extractive import CandidateSentence, pick_points, stands_alone
from hwdag.embedding.hashing import HashingEmbedder

PROSE = "Alice Liddell opened the small garden door number {}."


def candidate(vector, *, text=PROSE, tokens=10, segment=0):
    vector = np.array(vector, dtype=np.float32)
    length = np.linalg.norm(vector)
    return CandidateSentence(text, tokens, segment, vector / length if length else vector)


def axis(index, size=8):
    return np.eye(size)[index]


@st.composite
def windows(draw):
    texts = ["He left.", "Who?", "# Title", "3 + 4 = 7", PROSE, "The cat sat on the mat today."]
    components = st.integers(-2, 2)
    segment, window = 0, []
    for _ in range(draw(st.integers(1, 14))):
        segment += draw(st.integers(0, 1))
        vector = draw(st.lists(components, min_size=3, max_size=3))
        text, tokens = draw(st.sampled_from(texts)), draw(st.integers(1, 12))
        window.append(candidate(vector, text=text, tokens=tokens, segment=segment))
    return window


@given(windows(), st.integers(0, 120))
def test_points_are_within_the_budget_and_one_of_each_segment_comes_first(window, budget):
    picked = pick_points(window, token_budget=budget)
    assert picked == sorted(set(picked)) != []
    spent = sum(window[i].tokens for i in picked)
    assert spent <= budget or (len(picked) == 1 and spent == min(c.tokens for c in window))
    segments = [window[i].segment for i in picked]
    missing = {c.segment for c in window} - set(segments)
    assert not any(c.segment in missing and c.tokens <= budget - spent for c in window)


def test_the_central_sentence_is_picked():
    window = [candidate(v) for v in (axis(1), axis(0) + axis(1), axis(0), axis(2))]
    assert pick_points(window, token_budget=10) == [1]
    assert pick_points([], token_budget=10) == []


def test_a_repetition_is_no_second_point():
    a, near = axis(0), axis(0) + 0.1 * axis(1)
    window = [candidate(a), candidate(near), candidate(a), candidate(axis(2))]
    picked = pick_points(window, token_budget=1000)
    assert len(picked) == 2
    assert 3 in picked


def test_zero_vectors_do_no_harm():
    window = [candidate(np.zeros(4), segment=i) for i in range(3)]
    assert pick_points(window, token_budget=20) == [0, 1]


def test_a_real_passage():
    sentences = [
        "CHAPTER I.",
        "The garden of the old Liddell house was closed in winter.",
        "And so it was.",
        "Why?",
        "The gardener Tom Quill locked the garden of the house in November.",
        "A blue kettle boiled in the kitchen all day long.",
    ]
    vectors = HashingEmbedder().embed(sentences)
    window = [
        CandidateSentence(text, len(text.split()), 0, vector)
        for text, vector in zip(sentences, vectors, strict=True)
    ]
    assert pick_points(window, token_budget=24) == [1, 4]


@pytest.mark.parametrize(
    ("strong", "weak"),
    [
        ("Tom Quill locked the garden in November.", "He locked the garden in November."),
        ("Tom Quill locked the garden in November.", "Who locked the garden in November?"),
        ("Tom Quill locked the garden in November.", "The locked garden of the house"),
        ("Tom Quill locked the garden in November.", "| Tom Quill | locked the garden there. |"),
        ("园丁在十一月锁上了花园的门。", "他锁门。"),
        ("أغلق البستاني توم حديقة المنزل في الشتاء.", "من أغلق حديقة المنزل في الشتاء؟"),
        ("माली ने नवंबर में बगीचा बंद कर दिया।", "माली ने।"),
    ],
)
def test_a_sentence_stands_alone(strong, weak):
    assert stands_alone(strong)
    assert not stands_alone(weak)

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwdag.building.extractive import Candidate, pick_points, self_containedness
from hwdag.embedding.hashing import HashingEmbedder

PROSE = "Alice Liddell opened the small garden door number {}."


def candidate(vector, *, text=PROSE, tokens=10, segment=0):
    vector = np.array(vector, dtype=np.float32)
    length = np.linalg.norm(vector)
    return Candidate(text, tokens, segment, vector / length if length else vector)


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
def test_invariants(window, budget):
    picked = pick_points(window, token_budget=budget)
    assert picked == sorted(set(picked))
    assert picked == pick_points(window, token_budget=budget)
    spent = sum(window[i].tokens for i in picked)
    assert spent <= budget or (len(picked) == 1 and spent == min(c.tokens for c in window))
    assert len(picked) >= 1


@given(windows(), st.integers(0, 120))
def test_every_segment_is_covered_before_any_gets_more(window, budget):
    picked = pick_points(window, token_budget=budget)
    left = budget - sum(window[i].tokens for i in picked)
    points = Counter(window[i].segment for i in picked)
    cheapest = {}
    for c in window:
        cheapest[c.segment] = min(c.tokens, cheapest.get(c.segment, c.tokens))
    if sum(cheapest.values()) <= budget:
        assert points.keys() == cheapest.keys()
    else:
        assert not any(cheapest[s] <= left for s in cheapest.keys() - points.keys())


def test_an_empty_window_has_no_points():
    assert pick_points([], token_budget=10) == []


def test_the_central_sentence_is_picked():
    window = [
        candidate(axis(1)),
        candidate(axis(0) + axis(1)),
        candidate(axis(0)),
        candidate(axis(2)),
    ]
    assert pick_points(window, token_budget=10) == [1]


def test_a_second_point_is_no_repetition():
    a, near = axis(0), axis(0) + 0.1 * axis(1)
    window = [candidate(a), candidate(near), candidate(a), candidate(axis(2))]
    picked = pick_points(window, token_budget=20)
    assert 3 in picked
    assert len(picked) == 2
    everything = pick_points(window, token_budget=1000)
    assert len(everything) == 2  # what repeats is not picked, however much is left


def test_self_contained_sentences_come_first():
    texts = [
        "He then opened it with the other one.",
        PROSE,
        "## The garden",
        "What is behind the small door?",
    ]
    window = [candidate(axis(0), text=text) for text in texts]
    assert pick_points(window, token_budget=10) == [1]


def test_the_first_point_of_a_segment_keeps_to_its_share():
    long_one = candidate(axis(0), tokens=55, segment=0)
    window = [long_one, candidate(axis(0), tokens=25, segment=0)]
    window += [candidate(axis(0) + axis(i), tokens=25, segment=1) for i in (1, 2)]
    assert pick_points(window, token_budget=60)[0] == 1


def test_points_spread_over_a_window_with_too_many_segments():
    window = [candidate(axis(i % 8), segment=i) for i in range(40)]
    picked = pick_points(window, token_budget=80)  # a fifth of the segments
    assert len(picked) == 8
    assert [i // 5 for i in picked] == list(range(8))


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
        Candidate(text, len(text.split()), 0, vector)
        for text, vector in zip(sentences, vectors, strict=True)
    ]
    assert pick_points(window, token_budget=24) == [1, 4]


@pytest.mark.parametrize(
    ("strong", "weak"),
    [
        ("Tom Quill locked the garden in November.", "He locked the garden in November."),
        ("Tom Quill locked the garden in November.", "Tom Quill locked."),
        ("Tom Quill locked the garden in November.", "Who locked the garden in November?"),
        ("Tom Quill locked the garden in November.", "The locked garden"),
        ("Tom Quill locked the garden in November.", "| Tom Quill | locked the garden there. |"),
        ("Tom Quill locked the garden in November.", "1 2 3 4 5 6 7 8 9 10 Tom."),
        ("园丁在十一月锁上了花园的门。", "他锁门。"),
        ("园丁在十一月锁上了花园的门。", "谁在十一月锁上了花园的门？"),
        ("أغلق البستاني توم حديقة المنزل في الشتاء.", "من أغلق حديقة المنزل في الشتاء؟"),
        ("माली ने नवंबर में बगीचा बंद कर दिया।", "माली ने।"),
    ],
)
def test_self_containedness(strong, weak):
    assert self_containedness(strong) == 1.0
    assert 0 < self_containedness(weak) < 1

"""Words of nodes: BM25 under a filter, and who is named where."""

import math
from unicodedata import normalize

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds import question_of

from hwdag.config import Scoring, SearchConfig
from hwdag.corpus import lexicon as lexicons
from hwdag.corpus.block import Block, indexed
from hwdag.corpus.lexicon import K1, B, Lexicon
from hwdag.corpus.segments import Segment
from hwdag.embedding.hashing import HashingEmbedder
from hwdag.errors import InputError, UnknownOption
from hwdag.index import HWDAGIndex
from hwdag.text.words import content_words as words
from hwdag.text.words import plain
from hwdag.types import Document, Node, Span

TEXTS = st.lists(st.text(alphabet="abcd ", max_size=20), min_size=1, max_size=12)


def lexicon(texts, headings=None, visible=None):
    """Return the lexicon of one document with a node for each text."""
    nodes = [
        Node(str(i), "d", 1, text, "generated", 1, (Span(0, 1),), heading)
        for i, (text, heading) in enumerate(zip(texts, headings or [""] * len(texts), strict=True))
    ]
    lengths, words, names = indexed(nodes)
    n = len(texts)
    nothing = np.zeros(n, np.int64)
    block = Block(
        number=1,
        levels=np.ones(n, np.int32),
        generated=np.ones(n, bool),
        starts=nothing,
        ends=nothing,
        paragraphs=np.zeros(n, np.int32),
        indptr=np.zeros(n + 1, np.int64),
        children=np.empty(0, np.int32),
        weights=np.empty(0),
        vectors=np.zeros((n, 1), np.float32),
        lengths=lengths,
        words=words,
        names=names,
    )
    return Lexicon([Segment.of(block)], visible)


@given(TEXTS, st.sets(st.sampled_from("abcd")))
def test_few_rows_are_summed_like_many(texts, query):
    with pytest.MonkeyPatch.context() as patch:
        found = []
        for few in (0, 10**9):  # one row is few, or nothing is
            patch.setattr(lexicons, "FEW_ROWS", few)
            words = lexicon(texts)
            found.append((words.scores(query).tolist(), *map(list, words.echoes(query))))
    assert found[0] == found[1]


def slow_bm25(texts, query):
    """Return the formula, word by word and text by text."""
    split = [words(text) for text in texts]
    mean = sum(map(len, split)) / len(split)
    scores = []
    for text in split:
        score = 0.0
        for word in query:
            holders = sum(word in other for other in split)
            tf = text.count(word)
            if tf:
                idf = math.log(1 + (len(split) - holders + 0.5) / (holders + 0.5))
                score += idf * tf * (K1 + 1) / (tf + K1 * (1 - B + B * len(text) / mean))
        scores.append(score)
    return scores


@given(TEXTS, st.sets(st.text(alphabet="abcd", min_size=1, max_size=3)))
def test_bm25_is_the_formula(texts, query):
    found = lexicon(texts).scores(query)
    np.testing.assert_allclose(found, slow_bm25(texts, query), atol=1e-9)


@given(TEXTS, st.data())
def test_what_a_filter_leaves_out_shows_in_no_score(texts, data):
    keep = np.array(data.draw(st.lists(st.booleans(), min_size=len(texts), max_size=len(texts))))
    query = set(words(" ".join(texts)))
    filtered = lexicon(texts, visible=keep).scores(query)
    alone = [text for text, kept in zip(texts, keep, strict=True) if kept]
    assert not filtered[~keep].any()
    if alone:
        np.testing.assert_allclose(filtered[keep], slow_bm25(alone, query), atol=1e-9)


def test_nodes_under_a_heading_that_a_text_mentions():
    headings = ["Green Bay Packers", "Jazz (film)", "Green Bay Packers", "", "The Bay"]
    found = lexicon(["x"] * 5, headings)
    text = "He left the Green Bay Packers to play in Jazz."
    assert found.named_in(text).tolist() == [0, 1, 2, 4]
    asked = words("Who led the Green Bay Packers?")
    assert found.named_in(text, but=asked).tolist() == [1]
    assert found.named_in("Nothing of it.").size == 0


@pytest.mark.parametrize(
    ("typed", "same"),
    [
        ("Café Müller Ångström", normalize("NFD", "Café Müller Ångström")),
        ("Donaudampfschiff", "Donau\xaddampf\xadschiff"),
        ("Getriebegehäuse", "\ufeffGetriebe\u200bge\u2060häuse"),
        ("ABC123 ﾊﾟﾝ", "ＡＢＣ１２３ パン"),
        ("five offices", "ﬁve oﬃces"),
        ("السلام", "ﺍﻟﺴﻼﻡ"),
        ("한국어", normalize("NFD", "한국어")),
    ],
)
def test_words_that_look_the_same_are_the_same(typed, same):
    assert words(typed) == words(same)
    assert plain(same) == plain(typed)


def test_words_that_look_different_are_different():
    assert words("10²") != words("102") and words("Muller") != words("Müller")


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_a_name_is_found_in_either_form(form):
    names = ["Müller", "Möller", "Moller", "Muller", "Miller", "Mahler"]
    text = " ".join(f"Das Café {name} öffnet um {6 + i} Uhr." for i, name in enumerate(names))
    index = HWDAGIndex.from_documents(
        [Document("cafes", normalize(form, text))], embedder=HashingEmbedder(), method="evidence"
    )
    best = index.search(normalize("NFC", "Wann öffnet das Café Müller?")).best(1)[0].node.text
    assert normalize("NFC", best) == "Das Café Müller öffnet um 6 Uhr."


def test_words_of_scripts_without_spaces_are_characters():
    assert words("猫は Sleeping") == ["猫", "は", "sleeping"]


def test_options_of_the_score_are_checked():
    with pytest.raises(InputError, match="references"):
        Scoring(references=-1)
    with pytest.raises(InputError, match=r"\b1\b"):
        Scoring(bm25_weight=1.5)
    with pytest.raises(UnknownOption, match="method"):
        SearchConfig(method="raptor")
    with pytest.raises(InputError, match="scoring"):
        SearchConfig(scoring={"attention": 1})
    with pytest.raises(UnknownOption, match="'dense'"):
        SearchConfig.from_dict({"scoring": {"dense": 1}})
    with pytest.raises(InputError, match="confidence"):
        SearchConfig(confidence=2)
    config = SearchConfig.from_dict({"scoring": {"attention": 2}, "token_budget": 7})
    assert config.scoring == Scoring(attention=2)


def test_the_months_of_a_question_are_searched_for_as_numbers_too():
    for question, expected in (
        ("What was bought in July 2025?", ("bought", "july", "2025", "07")),
        ("Was gab es im März und im Mai?", ("gab", "es", "im", "märz", "und", "mai", "03", "05")),
        ("May we march in March?", ("may", "march", "03")),
        ("When may I come?", ("may", "come")),
    ):
        assert question_of(question).asked_words == expected
    rows = [f"| 2025-{month:02}, water: {70 + month}" for month in range(1, 13)]
    world = HWDAGIndex.from_documents(
        [Document("one", "\n".join(rows))], method="evidence", embedder="hashing-64"
    )
    found = world.search("How much water was used in November 2025?").steps
    assert found[0].node.text == rows[10]

"""Words of nodes: BM25 under a filter, and who is named where."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwdag.config import Scoring, SearchConfig
from hwdag.errors import InputError, UnknownOption
from hwdag.search.lexicon import K1, B, Lexicon
from hwdag.text.words import content_words as words

TEXTS = st.lists(st.text(alphabet="abcd ", max_size=20), min_size=1, max_size=12)


def slow_bm25(texts: list[str], query: set[str]) -> list[float]:
    """The formula, word by word and text by text."""
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
    found = Lexicon(texts, [""] * len(texts)).scores(query)
    np.testing.assert_allclose(found, slow_bm25(texts, query), atol=1e-9)


@given(TEXTS, st.data())
def test_what_a_filter_leaves_out_shows_in_no_score(texts, data):
    keep = np.array(data.draw(st.lists(st.booleans(), min_size=len(texts), max_size=len(texts))))
    query = set(words(" ".join(texts)))
    filtered = Lexicon(texts, [""] * len(texts)).scores(query, keep)
    alone = [text for text, kept in zip(texts, keep, strict=True) if kept]
    assert not filtered[~keep].any()
    if alone:
        np.testing.assert_allclose(filtered[keep], slow_bm25(alone, query), atol=1e-9)


def test_nodes_under_a_heading_that_a_text_mentions():
    headings = ["Green Bay Packers", "Jazz (film)", "Green Bay Packers", "", "The Bay"]
    lexicon = Lexicon(["x"] * 5, headings)
    text = "He left the Green Bay Packers to play in Jazz."
    assert lexicon.named_in(text).tolist() == [0, 1, 2, 4]
    asked = words("Who led the Green Bay Packers?")
    assert lexicon.named_in(text, but=asked).tolist() == [1]
    assert lexicon.named_in("Nothing of it.").size == 0


def test_words_of_scripts_without_spaces_are_characters():
    assert words("猫は Sleeping") == ["猫", "は", "sleeping"]


def test_options_of_the_score_are_checked():
    with pytest.raises(InputError, match="mentions must be a finite number"):
        Scoring(mentions=-1)
    with pytest.raises(InputError, match="at most 1"):
        Scoring(sparse=1.5)
    with pytest.raises(UnknownOption, match="scale"):
        Scoring(scale="sum")  # type: ignore[arg-type]
    with pytest.raises(UnknownOption, match="Scoring has no option 'dense'"):
        SearchConfig.from_dict({"scoring": {"dense": 1}})
    with pytest.raises(InputError, match="initial_share"):
        SearchConfig(initial_share=2)
    config = SearchConfig.from_dict({"scoring": {"attention": 2}, "token_budget": 7})
    assert config.scoring == Scoring(attention=2)

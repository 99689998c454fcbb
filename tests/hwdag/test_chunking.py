import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds import assert_partition

from hwdag.errors import InputError
from hwdag.text.chunking import chunk, leaves
from hwdag.text.sentences import sentences

TEXTS = st.text(max_size=400) | st.text(
    alphabet="aB. \n#-|1!。\u3000\u200b😀\u0301\u200d", max_size=400
)


def by_word(texts):
    return [len(text.split()) for text in texts]


def by_four_characters(texts):
    """Like a subword tokenizer: words in pieces of four, line breaks are tokens as well."""
    return [sum(-(-len(w) // 4) for w in re.findall(r"\S+|\n+", text)) for text in texts]


def by_byte(texts):
    return [len(text.encode("utf-8", "surrogatepass")) for text in texts]


def by_visible(texts):
    """Like a tokenizer that drops zero-width characters and whitespace."""
    return [sum(not c.isspace() and c not in "\u200b\u200d\u0301" for c in t) for t in texts]


COUNTERS = [by_word, by_four_characters, by_byte, by_visible]


def cut(text, count_tokens, limit):
    return [text[s.start : s.end] for s in chunk(text, count_tokens=count_tokens, limit=limit)]


@given(TEXTS, st.sampled_from(COUNTERS), st.integers(8, 40))
def test_chunks_are_a_partition_within_the_limit(text, count_tokens, limit):
    spans = chunk(text, count_tokens=count_tokens, limit=limit)
    assert_partition(text, spans)
    counts = count_tokens([text[s.start : s.end] for s in spans])
    assert all(count <= limit for count in counts)
    assert all(counts) or count_tokens([text]) == [0]


@given(TEXTS, st.sampled_from(COUNTERS), st.integers(8, 40))
def test_sentences_within_the_limit_are_never_cut(text, count_tokens, limit):
    spans = sentences(text)
    if max(count_tokens([text[s.start : s.end] for s in spans]), default=0) <= limit:
        chunks = chunk(text, count_tokens=count_tokens, limit=limit)
        assert {s.start for s in chunks} <= {s.start for s in spans}
        assert {s.end for s in chunks} <= {s.end for s in spans}


def test_packing_is_greedy():
    text = "a b c. d e. f g h i j. k l."
    assert text.replace(". ", ".\n").count("\n") == 3
    text = "Aa bb cc. Dd ee. Ff gg hh ii jj. Kk ll."
    assert cut(text, by_word, 8) == ["Aa bb cc. Dd ee.", "Ff gg hh ii jj. Kk ll."]


def test_the_slice_is_counted_and_not_the_sum_of_its_sentences():
    text = "\n\n".join("ab" for _ in range(8))  # 8 sentences of 1 token, 7 line breaks of 1 token
    chunks = cut(text, by_four_characters, 8)
    assert chunks == ["ab\n\nab\n\nab\n\nab", "ab\n\nab\n\nab\n\nab"]


def test_a_sentence_beyond_the_limit_is_cut_at_whitespace():
    text = "One two three four five six seven eight nine ten"
    assert cut(text, by_word, 8) == ["One two three four five six seven eight", "nine ten"]


def test_no_cut_before_a_combining_mark_or_within_a_joined_emoji():
    family = "👩\u200d👩\u200d👧"
    for cluster in ("e\u0301", family):
        chunks = cut(cluster * 50, lambda texts: [len(t) for t in texts], 12)
        assert all(piece.startswith(cluster[0]) for piece in chunks)
        assert all(len(piece) % len(cluster) == 0 for piece in chunks)


def test_pieces_without_tokens_join_a_neighbour():
    text = "\u200b\n\nword one\n\n\u200b\n\nword two\n\n\u200b"
    assert cut(text, by_visible, 8) == ["\u200b\n\nword one", "\u200b\n\nword two\n\n\u200b"]
    assert cut("\u200b\n\n\u200b", by_visible, 8) == ["\u200b\n\n\u200b"]


@pytest.mark.parametrize("text", ["", " \n\t ", "\u3000"])
def test_blank_text_has_no_chunks(text):
    assert chunk(text, count_tokens=by_word, limit=8) == []


@pytest.mark.slow
@pytest.mark.parametrize("limit", [8, 300])
@pytest.mark.parametrize(
    "text",
    ["a" * 40_000, "word " * 8_000, "字" * 12_000, "a\n\n" * 4_000, "\u0301" * 4_000],
    ids=["spaceless", "words", "chinese", "tiny", "marks"],
)
def test_long_texts_are_counted_a_handful_of_times_in_batches(text, limit):
    counted = calls = 0

    def count_tokens(texts):
        nonlocal counted, calls
        counted, calls = counted + sum(map(len, texts)), calls + 1
        return by_byte(texts)

    spans = chunk(text, count_tokens=count_tokens, limit=limit)
    assert_partition(text, spans)
    assert max(by_byte([text[s.start : s.end] for s in spans])) <= limit
    assert counted <= 8 * len(text)
    assert calls <= 3 * len(spans) + len(text) // 256


def test_limit_must_be_positive():
    with pytest.raises(InputError, match=r"\b0\b"):
        chunk("a", count_tokens=by_word, limit=0)


@given(TEXTS, st.sampled_from(COUNTERS), st.integers(8, 40))
def test_leaves_are_a_partition_of_whole_sentences_within_the_limit(text, count_tokens, limit):
    spans = leaves(text, count_tokens=count_tokens, limit=limit)
    assert_partition(text, spans)
    counts = count_tokens([text[s.start : s.end] for s in spans])
    assert all(counts) or count_tokens([text]) == [0]
    whole = sentences(text)
    if max(count_tokens([text[s.start : s.end] for s in whole]), default=0) <= limit:
        assert {s.start for s in spans} <= {s.start for s in whole}


def test_a_fragment_joins_the_sentence_after_it():
    text = "# Dogs\n\nThey bark at every single stranger who passes. Yes. They do it all day long."
    found = leaves(text, count_tokens=by_word, limit=20)
    assert [text[s.start : s.end] for s in found] == [
        "# Dogs\n\nThey bark at every single stranger who passes.",
        "Yes. They do it all day long.",
    ]


def test_a_short_sentence_stays_in_its_item():
    items = [
        "1. Roof: the board has agreed on it. Approved.",
        "2. Fees: there is no increase this year. Done.",
        "3. Boats: the old one is sold to Kerry.",
    ]
    text = "\n".join(["Present: Aoife Brennan, Tomas Reyes and Dr. Okafor", *items])
    found = leaves(text, count_tokens=by_word, limit=40)
    assert [text[s.start : s.end] for s in found][1:] == items


def test_a_short_lead_joins_the_first_item():
    text = "We need:\n- milk and eggs from the shop at the corner\n- bread for all of the juniors"
    found = leaves(text, count_tokens=by_word, limit=40)
    assert [text[s.start : s.end] for s in found] == [
        "We need:\n- milk and eggs from the shop at the corner",
        "- bread for all of the juniors",
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (  # a heading
            "# The colours of all our doors this year\n\n| Property | Value |\n|---|---|\n| Colour | red |\n| Size | 4 |",
            [
                "# The colours of all our doors this year\n\n| Property | Value |\n|---|---|",
                "| Colour | red |",
                "| Size | 4 |",
            ],
        ),
        (  # a greeting belongs to its letter, the end of a letter to what is before it
            "Thank you, Tomasz.\n\nThe boat is in the shed behind the mill.\n\nKind regards",
            ["Thank you, Tomasz.\n\nThe boat is in the shed behind the mill.\n\nKind regards"],
        ),
        (  # lines above a mail are one piece, and the name belongs to the end of the letter
            "From: Lena\nTo: all members\nDate: 6 March 2025\n\nDear all,\nthe mast is repaired on Monday.\n\n"
            "Best regards,\nLena\n\nFrom: Tobias\nDate: 7 March 2025\n\nThat suits all of us very well.\n\nTobias",
            [
                "From: Lena\nTo: all members\nDate: 6 March 2025",
                "Dear all,\nthe mast is repaired on Monday.\n\nBest regards,\nLena",
                "From: Tobias\nDate: 7 March 2025",
                "That suits all of us very well.\n\nTobias",
            ],
        ),
        (
            "Date: 6 March 2025\n\nThe board meets at eight in the kitchen.\n\n**Pia:** Thank you, Ms. Voss.",
            [
                "Date: 6 March 2025\n\nThe board meets at eight in the kitchen.\n\n**Pia:** Thank you, Ms. Voss."
            ],
        ),
        (  # a short last sentence stays in its block
            "The dog barked at every stranger in town. He died.\n\nAnother dog came in the spring of 1990.",
            [
                "The dog barked at every stranger in town. He died.",
                "Another dog came in the spring of 1990.",
            ],
        ),
        (
            "The dog barked at every stranger in town.\n\nHe died.\n\n# Cats\n\nThey sleep on top of the stove all day.",
            [
                "The dog barked at every stranger in town.",
                "He died.",
                "# Cats\n\nThey sleep on top of the stove all day.",
            ],
        ),
    ],
    ids=["heading", "greeting", "mails", "date", "last", "alone"],
)
def test_fragments_join_the_sentence_that_they_belong_to(text, expected):
    found = leaves(text, count_tokens=by_word, limit=60)
    assert [text[s.start : s.end] for s in found] == expected

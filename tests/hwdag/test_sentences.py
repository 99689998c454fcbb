import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds import assert_partition

from hwdag.text.sentences import sentences

ALPHABET = "aB. \n\r\t#-|*1)(!?。，؟\"'“”\u3000\u200b\ud800😀\u0301\x0c\u2028"
TEXTS = st.text() | st.text(ALPHABET) | st.text(ALPHABET, max_size=30).map(lambda text: text * 50)


def cut(text):
    return [text[span.start : span.end] for span in sentences(text)]


@given(TEXTS)
def test_spans_are_a_trimmed_partition_of_what_is_not_blank(text):
    assert_partition(text, sentences(text))


@pytest.mark.parametrize("text", ["", " ", "\n\n \t\r\n", "\u3000\u2028"])
def test_blank_text_has_no_sentences(text):
    assert sentences(text) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. Two! Three?", ["One.", "Two!", "Three?"]),
        ("Dr. Smith paid $3.50. He left.", ["Dr. Smith paid $3.50.", "He left."]),
        ("他走了。她来了！为什么？", ["他走了。", "她来了！", "为什么？"]),
        ("وصل أحمد. هل رآها؟ نعم", ["وصل أحمد.", "هل رآها؟", "نعم"]),
        ("😀 hi there. 🎉 e\u0301te\u0301!", ["😀 hi there.", "🎉 e\u0301te\u0301!"]),
        ("राम आया। सीता गई।", ["राम आया।", "सीता गई।"]),
    ],
)
def test_sentences_of_many_scripts(text, expected):
    assert cut(text) == expected


def test_hard_wrapped_prose_is_not_cut_at_line_breaks():
    text = "It was the best of times,\nit was the worst\r\nof times. It was\n1775. The end"
    assert cut(text)[0] == "It was the best of times,\nit was the worst\r\nof times."


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("## Heading\nNew para. Next.", ["## Heading", "New para.", "Next."]),
        ("no full stop\n# Heading #\nmore", ["no full stop", "# Heading #", "more"]),
        ("Title\n=====\nText", ["Title\n=====", "Text"]),
        ("first\n\nsecond\n \t\nthird", ["first", "second", "third"]),
        ("first\r\n\r\nsecond", ["first", "second"]),
        ("- one\n- two\n  wrapped\nprose", ["- one", "- two\n  wrapped", "prose"]),
        ("1. one. And\n2. two", ["1. one.", "And", "2. two"]),
        ("| a | b |\n|---|---|\n| c | d |\ntext", ["| a | b |", "|---|---|", "| c | d |", "text"]),
        ("before\n\n* * *\nafter", ["before", "* * *", "after"]),
        ("he lived in house\n12) and so on", ["he lived in house\n12) and so on"]),
        ("#hashtag is\nprose", ["#hashtag is\nprose"]),
    ],
)
def test_line_structure_ends_sentences(text, expected):
    assert cut(text) == expected


def test_what_has_no_letter_stays_with_a_neighbour():
    assert cut("1. Foo went. (He left.) [3] So did I. ...")[0] == "1. Foo went."
    assert cut("3. 4. 5.") == ["3. 4. 5."]


@pytest.mark.parametrize(
    "text",
    ["a" * 1_000_000, "word " * 200_000, "1. " * 100_000, "\n" * 300_000 + "a.", "# a\n" * 50_000],
)
def test_long_texts(text):
    assert_partition(text, sentences(text))

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwdag.text.characters import one_line
from hwdag.text.points import parse_points, parse_statement


@given(st.text() | st.text(alphabet="*-+•·1.)(（） \n\r\tab`~<>/think_#…x[]\ud800"))
def test_any_reply_is_parsed_into_distinct_lines_with_words(reply):
    points = parse_points(reply)
    assert len(set(points)) == len(points) <= len(reply.splitlines())
    assert sum(map(len, points)) <= len(reply)
    for point in points:
        assert point == one_line(point) == " ".join(point.split())
        assert any(c.isalnum() for c in point)
        point.encode()


@given(st.text() | st.text(alphabet=".!? \n\r\tab`~<>/think_#:\ud800"))
def test_any_reply_is_parsed_into_the_sentences_of_a_statement(reply):
    for sentence in parse_statement(reply):
        assert sentence == " ".join(sentence.split())
        assert any(c.isalnum() for c in sentence)


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("", []),
        ("...", []),
        ("Here is the summary:", []),
        ("<think>A mill?</think>\nAda built a mill.", ["Ada built a mill."]),
        ("# Summary\n```\nAda built\na mill. It stood.\n```", ["Ada built a mill.", "It stood."]),
        ("要約：\n水車は売られた。町は残した。", ["水車は売られた。", "町は残した。"]),
    ],
)
def test_statements(reply, expected):
    assert parse_statement(reply) == expected


@pytest.mark.parametrize(
    "marker",
    "*|-|+|•|·|–|—|・|●|▪|◦|1.|12)|(1)|１．|１）|（１）|①|1、|  *|\t-|* [x]|- •".split("|"),  # noqa: SIM905
)
def test_markers(marker):
    reply = f"{marker} Alice met Bob.\n{marker} Bob left."
    assert parse_points(reply) == ["Alice met Bob.", "Bob left."]


@pytest.mark.parametrize("marker", ["•", "・", "●", "1.", "（1）", "①", "*", "-"])
def test_markers_without_a_space(marker):
    assert parse_points(f"{marker}項目一\n{marker}項目二") == ["項目一", "項目二"]


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("", []),
        ("I cannot help with that.", []),
        ("-5 degrees\n1.5 million\n**bold** words", []),
        ("*Note* that this is chatter", []),
        ("Sure! Here they are:\n\n* a1\n* b2\n\nHope that helps!", ["a1", "b2"]),
        ("* a1\n\n* b2\n\nMore:\n* c3", ["a1", "b2", "c3"]),
        ("* a long\n  point\nwrapped\n* b", ["a long point wrapped", "b"]),
        ("* top\n  - nested\n    1. deep", ["top", "nested", "deep"]),
        ("*\ncontent below", ["content below"]),
        (
            "* **All bold.**\n* **Title**: rest\n* **a** and **b**",
            ["All bold.", "**Title**: rest", "**a** and **b**"],
        ),
        ("```markdown\n* a1\n* b2\n```", ["a1", "b2"]),
        ("* summary point\n* Summary Point 2:\n* real\n* ……\n* ...\n……", ["real"]),
        ("* Alice  left.\n* alice left.\n* Bob", ["Alice left.", "Bob"]),
        ("<think>* no\n* never</think>\n* yes", ["yes"]),
        ("* no\n</think>\n* yes", ["yes"]),
        ("<think>* cut off", []),
        ("* a1\n## Heading\ntext\n* b2", ["a1", "b2"]),
        ("* a1\n---\n* b2\n***\n* * *", ["a1", "b2"]),
        ("* 3. Mai 1999\n* 1.5 million", ["3. Mai 1999", "1.5 million"]),
    ],
)
def test_replies(reply, expected):
    assert parse_points(reply) == expected


@pytest.mark.parametrize(
    "reply",
    [
        "*\n" * 10_000,
        "* " * 100_000,
        "<think>" * 50_000,
        "</think>" * 50_000,
        "*" * 300_000,
        "* a\n" * 50_000,
        "1" * 200_000,
        "* summary point" + " " * 200_000 + "x",
        "(" * 200_000,
        "*a" * 100_000,
        "* a\n" + "b\n" * 100_000,
        "`" * 200_000,
        "* " + "**" * 100_000,
    ],
    ids=range(13),
)
def test_adversarial_replies_take_linear_time(reply):
    assert len(parse_points(reply)) <= 1

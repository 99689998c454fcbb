"""ScriptedLM: its counts, attention, readings and answers can be worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwdag.errors import ContextTooSmall, InputError, QuestionTooLong
from hwdag.lm.base import Reader, ReplayRequest, Writer
from hwdag.text.prompts import CONDENSE, SearchPrompts, SummaryPrompt
from hwdag.types import Span
from hwdag_lab.scripted import (
    EPSILON,
    ScriptedLM,
    ScriptedSession,
    attention_between,
    content_words,
    tokens_of,
)

BARE = SearchPrompts(opening="{question}\n{information}", answer="Answer!")
"""Adds no token before the nodes, and two for the second turn."""

QUESTION = "Who built the stone bridge?"  # 6 tokens; content: built, stone, bridge


def ask(lm: ScriptedLM, question: str = QUESTION, max_new_tokens: int = 10) -> ScriptedSession:
    return lm.session(question, prompts=BARE, heads="all", max_new_tokens=max_new_tokens)


def test_it_plays_both_roles() -> None:
    lm = ScriptedLM()
    assert isinstance(lm, Reader)
    assert isinstance(lm, Writer)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", []),
        (" \n\t", []),
        ("It's 3.5 km.", ["It", "'", "s", "3", ".", "5", "km", "."]),
        ("<|im_end|>", ["<", "|", "im_end", "|", ">"]),
        ("橋は1990年", ["橋", "は1990", "年"]),
        ("naïve 𠀀𠀁", ["naïve", "𠀀", "𠀁"]),
    ],
)
def test_tokens(text: str, tokens: list[str]) -> None:
    assert tokens_of(text) == tokens
    assert ScriptedLM().count_tokens([text, ""]) == [len(tokens), 0]


@given(st.text())
def test_a_visible_text_has_tokens_that_hold_all_of_it(text: str) -> None:
    assert "".join(tokens_of(text)) == "".join(text.split())


@given(st.text(), st.text())
def test_attention_is_positive(query: str, key: str) -> None:
    assert 0 < attention_between(query, key) < float("inf")


def test_attention_by_hand() -> None:
    assert content_words("The Bridge, the BRIDGE and I.") == {"bridge"}
    assert attention_between("Ada built it.", QUESTION) == (EPSILON + 1) / 6
    assert attention_between(QUESTION, "Ada built it.") == (EPSILON + 1) / 4


def test_replay_reports_each_unit() -> None:
    request = ReplayRequest(
        before="Summary:",
        segments=("A red fox. A blue hen.", "Snow fell."),
        after="Points:",
        points=("The fox is red", "Snow"),
        units=((Span(0, 10), Span(11, 22)), (Span(0, 10),)),
    )
    lm = ScriptedLM()
    (replay,) = lm.replay([request], heads=((3, 1),))
    assert replay.attention == pytest.approx(
        np.array([[(EPSILON + 2) / 4, EPSILON / 4, EPSILON / 3], [EPSILON / 4] * 2 + [1.01 / 3]])
    )
    assert replay.unit_tokens.tolist() == [4, 4, 3]
    assert replay.unit_segment.tolist() == [0, 0, 1]
    assert (lm.replays, lm.usage.tokens) == (1, 2 + 9 + 4 + 2 + 5 + 2)


def test_replay_without_points_is_empty_and_a_long_window_is_refused() -> None:
    empty = ReplayRequest("", ("a b c",), "", (), ((Span(0, 5),),))
    lm = ScriptedLM(context_tokens=3)
    assert ScriptedLM().replay([empty], heads="all")[0].attention.shape == (0, 1)
    assert (lm.window_tokens, lm.template_tokens) == (3, 0)
    with pytest.raises(ContextTooSmall, match=r"\b4\b"):
        lm.replay([empty], heads="all")


def test_reading_by_hand() -> None:
    session = ask(ScriptedLM())
    first = session.read(["A bridge of stone.", "Rain."])
    second = session.read(["Ada built it."])
    assert first.attention.tolist() == [(EPSILON + 2) / 6, EPSILON / 6]
    assert (first.p_yes, second.p_yes) == (2 / 3, 1.0)
    assert session.texts == ["A bridge of stone.", "Rain.", "Ada built it."]


def test_room_and_usage_count_every_token_once() -> None:
    lm = ScriptedLM(context_tokens=40)
    session = ask(lm)
    assert session.room == 40 - 6 - (1 + 2 + 10)  # question, then verdict + second turn + answer
    assert session.cost("A bridge of stone.") == 1 + 5
    session.read(["A bridge of stone."])
    assert (session.room, session.usage.tokens) == (15, 6 + 6)
    session.read([])
    assert (session.room, session.usage.tokens, lm.reads) == (15, 12, 2)
    assert "".join(session.decode(enough=True, max_new_tokens=3)) == "A bridge of"
    assert session.usage.tokens == 12 + 1 + 2 + 3


def test_reading_beyond_the_room_is_refused() -> None:
    session = ask(ScriptedLM(context_tokens=22))
    with pytest.raises(InputError, match=r"\b4\b"):
        session.read(["one two three"])
    assert session.texts == []


def test_a_question_must_leave_room_for_a_token() -> None:
    assert ask(ScriptedLM(context_tokens=20)).room == 1
    with pytest.raises(QuestionTooLong, match=r"\b13\b"):
        ask(ScriptedLM(context_tokens=19))


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ([0.1, 0.7], [0.1, 0.7, 0.7]),
        (lambda question, texts: len(texts) / 4 + question.count("?"), [1.25, 1.5, 1.75]),
    ],
)
def test_p_yes_follows_the_script_anew_in_every_session(script, expected) -> None:  # type: ignore[no-untyped-def]
    lm = ScriptedLM(p_yes=script)
    for _ in range(2):
        session = ask(lm)
        assert [session.read(["x"]).p_yes for _ in expected] == expected


def test_p_yes_of_a_question_without_content_is_zero_and_an_empty_script_is_refused() -> None:
    assert ask(ScriptedLM(), "Who is it?").read(["It is Ada."]).p_yes == 0.0
    with pytest.raises(InputError, match="script"):
        ScriptedLM(p_yes=[])


def test_the_answer_is_the_sentence_nearest_to_the_question() -> None:
    session = ask(ScriptedLM())
    texts = ["Rain fell. Ada built the bridge! Bo left.", "Ada built the stone wall."]
    session.read(texts)
    spans = [(0, Span(0, 10)), (0, Span(11, 32)), (1, Span(0, 25))]
    decoding = session.decode(enough=False, max_new_tokens=10, spans=spans)
    assert decoding.attention.tolist() == [0.0, 0.0, 0.0]
    assert list(decoding) == ["Ada", " built", " the", " bridge", "!"]
    assert decoding.text == "Ada built the bridge!"
    assert list(decoding) == []
    shared = [EPSILON, EPSILON + 3, EPSILON + 2]
    assert decoding.attention == pytest.approx(np.array(shared))
    assert session.enough is False


def test_nothing_read_gives_an_empty_answer() -> None:
    decoding = ask(ScriptedLM()).decode(enough=False, max_new_tokens=5)
    assert list(decoding) == []
    assert decoding.text == ""
    assert decoding.attention.shape == (0,)


@pytest.mark.parametrize("language", ["same", "German"])
def test_it_writes_the_first_sentence_of_each_line_for_the_papers(language: str) -> None:
    before, after = SummaryPrompt().cut(language)
    information = "* One fox. Two hens.\n\n* Snow fell\n橋がある。雨。"
    lm = ScriptedLM()
    (reply,) = lm.write([before + information + after], max_new_tokens=99)
    assert reply == "* One fox.\n* Snow fell\n* 橋がある。"
    assert lm.write(["a", "b"], max_new_tokens=1) == ["*", "*"]
    assert lm.writes == 3


def test_it_reads_the_beginnings_of_six_sentences_together() -> None:
    before, after = SummaryPrompt(CONDENSE).cut("German")
    sentences = [f"{word} is here now." for word in "abcdefgh"]
    information = " ".join(sentences[:3]) + "\n\n" + " ".join(sentences[3:])
    (reply,) = ScriptedLM().write([before + information + after], max_new_tokens=99)
    assert reply == "* Here a is b is c is d is e is f is.\n* Here g is h is."


def test_a_reply_of_ones_own_is_cut_to_length() -> None:
    lm = ScriptedLM(reply=lambda prompt: prompt.upper() + " and more", name="shouting")
    assert lm.write(["hi", "ho"], max_new_tokens=2) == ["HI and", "HO and"]
    assert (lm.name, lm.usage.tokens) == ("shouting", 2 + 4)

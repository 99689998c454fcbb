"""Messages, records of logs and other lines that are complete; wrapped prose is not."""

import pytest

from hwdag.text.chunking import leaves
from hwdag.text.headings import Outline
from hwdag.text.sentences import LONGEST_ENTRY, sentences

PROSE = (
    "The mill grinds rye on Fridays. It was built in 1898 by\n"
    "Clara Holm, who came from Bergen with two sons. At 12:30\n"
    "the wheel stops. Note: nobody may enter\n"
    "then. The fee is paid at the gate, in cash."
)
VERSE = "The wind was on the withered heath,\nbut in the forest stirred no leaf:\nthere shadows lay by night and day,"

CHATS = [
    "[04/06/2024, 10:00:00] Anna: The plumber comes. He needs the key.",
    "04.06.24, 10:02 - Bo: ok",
    "2024-06-04 10:03:11 Carla: who?",
    "10:04 Dag: Nobody knows.",
    "(10:05:00) eli: i do",
    "Jun  4 10:06:00 host sshd[1]: session opened for root",
    "2024-06-04T10:07:00Z INFO job 7 finished. It took 3 s.",
    "ERROR backup of berg-12 failed with code 74",
    "<10:08> dag: see you",
]
LABELS = [
    "Present: Ada Lind, Olav Moe",
    "Item 1: Roof of the boathouse",
    "Decision: The offer is accepted. It costs 40.",
    "**Responsible:** Olav Moe",
]
TERMS = [
    "Berth – a place for one ship.",
    "Quay – a wall with berths. It is long.",
    "Pilot – who knows the way.",
]
SHORT = ["Ada Lind", "Harbour office", "12 Quay Road", "Sund"]


def cut(text):
    return [text[span.start : span.end] for span in sentences(text)]


def tokens(texts):
    return [max(1, len(text) // 2) for text in texts]


@pytest.mark.parametrize("lines", [CHATS, LABELS, TERMS, SHORT, [CHATS[1]] * 3])
def test_a_line_is_a_sentence(lines):
    assert cut("\n".join(lines)) == lines
    assert cut("Minutes\n\n" + "\n".join(lines) + "\n\nThe end.") == ["Minutes", *lines, "The end."]


def test_messages_that_blank_lines_part_are_whole():
    assert cut("\n\n".join(CHATS)) == CHATS


def test_a_message_of_several_lines_is_one():
    message = "10:00 Anna: First line.\nSecond line. It goes on\n10:02 Bo: ok\n10:03 Anna: fine"
    assert cut(message) == [message[: message.index("\n10:02")], "10:02 Bo: ok", "10:03 Anna: fine"]


def test_a_long_entry_is_cut_into_sentences():
    entry = "10:00 Anna: " + "The mill is open today. " * (LONGEST_ENTRY // 24 + 1)
    found = cut("\n".join([entry.strip()] * 3))
    assert len(found) == 3 * (LONGEST_ENTRY // 24 + 1)


@pytest.mark.parametrize("prose", [PROSE, VERSE])
def test_wrapped_prose_continues(prose):
    assert [one.replace("\n", " ") for one in cut(prose)] == cut(prose.replace("\n", " "))


def test_a_line_is_a_leaf():
    text = "\n".join(CHATS)
    found = leaves(text, count_tokens=tokens, limit=300)
    assert [text[span.start : span.end] for span in found] == CHATS


def test_a_line_is_a_paragraph():
    text = "# Chat\n\n" + "\n".join(CHATS)
    spans = sentences(text)
    assert Outline(text).paragraphs_of(spans) == [1, 1, *range(2, len(CHATS) + 1)]

"""Whether a question can be understood without the turns before it."""

import time

import pytest
from conversation_world import (
    GARDENS_PAIRS,
    HOUSE_PAIRS,
    SHIPS_PAIRS,
    STANDALONE,
    TOWN_PAIRS,
)

from hwdag import HWDAGIndex
from hwdag.embedding.hashing import HashingEmbedder
from hwdag.text.anaphora import LONG_QUESTION, asking_part, own_words, stands_alone
from hwdag.text.words import words
from hwdag_lab.scripted import ScriptedLM

PAIRS = [*TOWN_PAIRS, *SHIPS_PAIRS, *GARDENS_PAIRS, *HOUSE_PAIRS]


@pytest.mark.parametrize("question", sorted({pair.first for pair in PAIRS} | set(STANDALONE)))
def test_first_questions_are_searched_as_they_are(question):
    assert stands_alone(question)


@pytest.mark.parametrize("question", sorted({pair.then for pair in PAIRS}))
def test_second_questions_refer_to_the_first(question):
    assert not stands_alone(question)


@pytest.mark.parametrize(
    "question",
    [
        "Quand Ada Lindqvist est-elle née ?",
        "What is the rent?",
        "And who built the theatre?",
        "Where is the tower that Jon Berg built?",
        "Gibt es einen Aufzug im Haus?",
        "What did Ruben Castell do in his youth?",
        "Können Sie die Miete nennen?",
        "Who is Kim?",
        "Is this contract still valid?",
        "Which fish can be used instead of cod?",
        "Was the pump repaired before the frost?",
        "谁建造了这座桥？",
    ],
)
def test_words_that_look_like_references(question):
    assert stands_alone(question)


@pytest.mark.parametrize(
    "question",
    [
        "What happened next?",
        "Who else lived there?",
        "¿Cuándo nació?",
        "Quand est-elle née ?",
        "Did the board accept it?",
        "Wann war das?",
        "How much?",
        "Which one is cheaper?",
        "What about dogs?",
        "And with a dog?",
        "他是什么时候出生的？",
        "Ki építette a hidat, és mikor?",  # a language without a list of pronouns
    ],
)
def test_references_of_other_kinds_and_languages(question):
    assert not stands_alone(question)


def test_words_of_its_own_are_no_function_words():
    assert own_words(words("And what did she write in winter?")) == {"write", "winter"}
    assert own_words(words("When was that?")) == set()


FEES = (
    "The late fee for a tool is 12 kroner per day. The late fee for a trailer is 90 kroner per day. The club "
    "room costs 400 kroner per evening. The hose is kept in the shed. Compost is turned in April."
)
MAIL = (
    "Hello, we have spent a summer by the sea. The compost smells, and the hose in the shed is leaking. Did "
    "you know that? The club room was full. The children are taller than the beans in the evening. "
)
ASKED = "What is the late fee for a trailer?"


@pytest.mark.parametrize("times", [4, 30])
@pytest.mark.parametrize("message", ["{0}\n\n{1}", "{1}\n\n{2}", "{0} {1}"])
def test_a_question_in_a_long_message_is_searched_alone(message, times):
    said = message.format(MAIL * times, ASKED, MAIL.replace("?", ".") * times)
    assert len(said) > LONG_QUESTION
    assert asking_part(said) == ASKED == asking_part(ASKED)
    index = HWDAGIndex.from_documents(
        [FEES], method="evidence", reader=ScriptedLM(), embedder=HashingEmbedder()
    )
    found = index.search(said)
    assert found.steps == index.search(ASKED).steps
    assert found.question == said


def test_the_rest_of_a_short_paragraph_belongs_to_its_question():
    said = f"{MAIL * 9}\n\nI have lost the trailer. {ASKED} I mean per day."
    assert asking_part(said) == f"I have lost the trailer. {ASKED} I mean per day."


def test_a_question_that_refers_to_the_message_keeps_the_text_before_it():
    said = f"{MAIL * 9} The trailer of the club is still with me. When is it due?"
    assert asking_part(said) == said[-LONG_QUESTION:]


def test_a_message_without_a_question_mark_asks_at_its_beginning_or_end():
    said = "List the late fees. " + MAIL.replace("?", ".") * 9 + "Thank you, says Ada."
    assert asking_part(said) == "List the late fees. Thank you, says Ada."


def test_a_long_message_takes_linear_time():
    began = time.perf_counter()
    assert stands_alone("it is " * 20_000)
    assert len(asking_part("it is " * 20_000 + "?")) <= LONG_QUESTION
    assert time.perf_counter() - began < 5

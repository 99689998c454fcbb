"""Whether a question can be understood without the turns before it."""

import pytest
from conversation_world import (
    GARDENS_PAIRS,
    HOUSE_PAIRS,
    SHIPS_PAIRS,
    STANDALONE,
    TOWN_PAIRS,
)

from hwdag.text.anaphora import own_words, stands_alone
from hwdag.text.words import words

PAIRS = [*TOWN_PAIRS, *SHIPS_PAIRS, *GARDENS_PAIRS, *HOUSE_PAIRS]


@pytest.mark.parametrize("question", sorted({pair.first for pair in PAIRS} | set(STANDALONE)))
def test_first_questions_stand_alone(question):
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

"""Whether the evidence holds an answer, and the reply if it does not."""

import math
import re
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from worlds import question_of

from hwdag import Document, HWDAGIndex, Scope, SearchConfig
from hwdag.answers.abstention import NOT_FOUND, before_reply, judged, not_found
from hwdag.answers.decoded import DecodedAnswer
from hwdag.embedding.hashing import HashingEmbedder
from hwdag.search.answerability import (
    Nearness,
    answer_signals,
    answerability,
    evidence_signals,
    fitted,
    logit,
)
from hwdag.text.words import content_words, in_digits
from hwdag.types import Node, Span
from hwdag_lab.scripted import ScriptedLM

TOWN = [
    Document("mill", "The mill was built by Ada Holm in 1871. It has four wheels.", "The mill"),
    Document("tower", "The tower was built by Jon Berg. Jon Berg died in 1902.", "The tower"),
    Document("notes", "Bread is baked on Fridays. The well is thirty metres deep.", "Notes"),
]
ASKED, ELSEWHERE = "Who built the tower?", "Which team won the football cup of 1998?"


@cache
def town():
    return HWDAGIndex.from_documents(TOWN, method="evidence")


def node(text, heading=""):
    return Node(text, "d", 1, text, "chunk", 5, (Span(0, len(text)),), heading)


def signals(question, shown, nearness):
    return evidence_signals(question, content_words(question), shown, nearness)


def test_signals_are_shares_of_what_the_question_names():
    nearness = Nearness.of(np.array([0.25, 0.75, 0.5]))
    shown = ["The tower: Berg built it in 1902."]
    found = signals("When did Jon Berg build the tower of 1902?", shown, nearness)
    assert found == {
        "closest": 0.75,
        "lead": 0.25,
        "words met": 3 / 5,  # berg, tower, 1902; neither jon nor build
        "names met": 2 / 3,  # berg, 1902; not jon
        "nodes": math.log(3),
    }
    assert signals("Why?", [], nearness)["names met"] == 1
    # neither the words of another language that are everywhere, nor those for the present
    spanish = signals("¿Quién lleva los remos del club?", ["Iván lleva remos."], nearness)
    assert spanish["words met"] == 2 / 3
    assert signals("What is the rent now?", ["The rent is 8."], nearness)["words met"] == 1


@pytest.mark.parametrize("question", ["How much is a ticket?", "How many tickets are left?"])
def test_evidence_needs_no_word_such_as_much_or_many(question):
    nearness, shown = Nearness(0.5, 0.3, 3), ["| Ticket | 5.00 |", "| tickets left | 12 |"]
    assert signals(question, shown, nearness)["words met"] == 1


@pytest.mark.parametrize("p_yes", [None, 0.0, 0.3, 1.0])
def test_answerability_is_the_logistic_function_of_weighed_signals(p_yes):
    nearness, nodes = Nearness(0.6, 0.2, 40), [node("The tower was built by Jon Berg.", "Towers")]
    model = fitted()["evidence" if p_yes is None else "evidence and p_yes"]
    found = signals(ASKED, ["Towers: The tower was built by Jon Berg."], nearness)
    if p_yes is not None:
        found["p_yes"] = logit(p_yes)
    assert found.keys() == model["weights"].keys()
    total = model["intercept"] + sum(model["weights"][name] * found[name] for name in found)
    assert answerability(question_of(ASKED), nodes, nearness, p_yes) == pytest.approx(
        1 / (1 + math.exp(-total))
    )


@pytest.mark.parametrize("p_yes", [None, 0.5])
def test_what_speaks_for_an_answer_makes_it_likelier(p_yes):
    low, high = Nearness(0.2, 0.1, 40), Nearness(0.7, 0.1, 40)
    none, met = [node("Bread is baked.")], [node("The tower was built by Jon Berg.")]
    worst, near, words, best = (
        answerability(question_of(ASKED), nodes, nearness, p_yes)
        for nodes in (none, met)
        for nearness in (low, high)
    )
    assert worst < min(near, words) and max(near, words) < best
    if p_yes is not None:
        unlikely, likely = (answerability(question_of(ASKED), met, low, p) for p in (0.1, 0.9))
        assert unlikely < likely


def test_confidence_needs_the_default_embedder():
    index = HWDAGIndex.from_documents(
        TOWN, method="evidence", reader=ScriptedLM(), embedder=HashingEmbedder()
    )
    answer = index.answer(ELSEWHERE)
    assert answer.retrieval.answerability is answer.confidence is answer.found is None
    assert answer.text == answer.reply


@pytest.mark.model
@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("这座桥由约翰·伯格于1902年建造。", "谁建造了这座桥？"),
        ("這座橋由約翰·伯格於1902年建造。", ASKED),
        (TOWN[1].text, "Кто построил башню?"),
    ],
)
def test_no_confidence_for_letters_that_the_default_models_do_not_know(text, question):
    answer = HWDAGIndex.from_documents([Document("one", text)], method="evidence").answer(question)
    assert answer.retrieval.answerability is answer.confidence is answer.found is None
    assert answer.text == answer.reply


@pytest.mark.model
def test_an_answer_that_is_there_is_the_readers():
    stream = town().stream(ASKED)
    pieces = "".join(stream)
    answer = stream.answer
    assert answer.found
    assert pieces.strip() == answer.text == answer.reply
    found = answer_signals(answer.retrieval.answerability, answer.likelihood)
    model = fitted()["answer"]
    assert found.keys() == model["weights"].keys()
    total = model["intercept"] + sum(model["weights"][name] * found[name] for name in found)
    assert answer.confidence == pytest.approx(1 / (1 + math.exp(-total)))
    assert answer.confidence == town().answer(ASKED).confidence


@pytest.mark.model
def test_the_likelihood_of_any_reader_counts_and_its_p_yes_does_not():
    index = HWDAGIndex.from_documents(TOWN, method="evidence", reader=ScriptedLM())
    answer = index.answer(ASKED)
    assert answer.retrieval.p_yes is not None
    assert answer.retrieval.answerability == index.search(ASKED).answerability
    sure = judged(replace(answer, likelihood=-0.1))
    unsure = judged(replace(answer, likelihood=-2.0))
    assert sure.confidence > unsure.confidence


@pytest.mark.model
def test_without_an_answer_the_nearest_sentences_are_shown_and_the_reply_kept():
    stream = town().stream(ELSEWHERE)
    pieces = "".join(stream)
    answer = stream.answer
    assert answer.found is False
    assert pieces == answer.text == not_found(answer.retrieval)
    assert answer.text.startswith(NOT_FOUND["en"])
    assert answer.retrieval.steps[0].node.text in answer.text
    assert answer.reply and answer.reply not in (answer.text, "")
    assert answer.confidence < town().answer(ASKED).confidence
    found = answer.to_dict()
    assert (found["found"], found["reply"]) == (False, answer.reply)
    assert found["walk"]["answerability"] == answer.retrieval.answerability


SHORT = "Jon Berg."
LONG = "I call 0123, you call 456, they call 789, everybody calls somebody else, nobody listens."


class Said(DecodedAnswer):
    """An answer whose words are given."""

    notes = ("a note on the reply",)

    def __init__(self, text, likelihood):
        self.said, self.logprob = text, likelihood

    text = property(lambda self: self.said)
    likelihood = property(lambda self: self.logprob)

    def __iter__(self):
        return iter(re.findall(r"\S+\s*", self.said))

    def cited(self):
        return []


@pytest.mark.model
@pytest.mark.parametrize(
    ("text", "likelihood", "answerability", "is_given"),
    [
        (SHORT, -0.01, 0.9, True),
        (SHORT, -0.01, 0.2, True),  # the reader is sure
        (SHORT, -3.0, 0.9, False),
        (LONG, -3.0, 0.9, True),  # which may have been said otherwise
        (LONG, -3.0, 0.1, False),
        (
            "The tower was built by Jon Berg. Jon Berg died in 1902. Notes, the mill, bread, Fridays.",
            -0.01,
            0.2,
            True,
        ),
        ("", -3.0, 0.01, False),
    ],
)
def test_an_answer_is_given_by_its_confidence_or_a_long_one_by_answerability(
    text, likelihood, answerability, is_given
):
    stream = town().stream(ASKED)
    found = replace(stream.retrieval, answerability=answerability)
    stream.retrieval, stream._source = found, Said(text, likelihood)
    pieces = "".join(stream)
    answer = stream.answer
    assert answer.found is is_given
    assert answer.reply == text
    assert answer.text == pieces == (text if is_given else not_found(found))
    assert answer.notes == (Said.notes if is_given else ())
    assert judged(replace(answer, text=text)) == answer
    written = judged(replace(answer, text=text, answered_by="somebody"))
    assert written.text == before_reply(found) + text
    assert written.reply == text


@pytest.mark.model
def test_a_refusal_of_the_search_precedes_the_reply_of_an_answerer():
    stream = town().stream(ELSEWHERE, answerer=lambda prompt: "Nobody knows.")
    pieces = list(stream)
    answer = stream.answer
    assert (answer.reply, answer.found) == ("Nobody knows.", False)
    assert answer.text == "".join(pieces)
    first, reply = answer.text.split("\n\n")
    assert first == "The documents do not seem to answer this."
    assert reply == "The model's reply: Nobody knows."
    assert town().answer(ASKED, answerer=lambda prompt: "Jon Berg").text == "Jon Berg"


@pytest.mark.model
def test_the_confidence_in_an_answerer_is_of_its_reply():
    def answer(reply):
        return town().answer(ASKED, answerer=lambda prompt: reply)

    likely = town().search(ASKED).answerability
    assert answer("Jon Berg built it.").confidence == pytest.approx(likely)
    half = answer("Jon Berg and Dolores Umbridge.")
    assert half.found and half.confidence == pytest.approx(likely / 2)
    for reply in (
        "The documents do not hold the answer.",
        "It is not mentioned who built it.",
        "Das ist nicht angegeben.",
    ):
        declined = answer(reply)
        assert declined.found is False and declined.confidence == pytest.approx(1 - likely)
        assert declined.text == declined.reply == reply
    assert answer("Jon Berg did not build it alone.").found


@pytest.mark.model
def test_numbers_of_a_reply_may_be_words_in_the_text_and_digits_in_the_reply():
    asked = "How deep is the well?"
    likely = town().search(asked).answerability
    for reply, share in (
        ("30 metres deep", 1),
        ("Thirty metres deep", 1),
        ("40 metres deep", 2 / 3),
    ):
        answer = town().answer(asked, answerer=lambda prompt, reply=reply: reply)
        assert answer.confidence == pytest.approx(likely * share)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("Twenty-six years", "26 years"),
        ("two thousand three hundred and five men, a hundred dogs", "2305 men, 100 dogs"),
        ("twelve hundred or 1,200", "1200 or 1200"),
        ("five, six and seven", "5, 6 and 7"),
        ("10,000,000 of 3,14 or 1.200,50", "10000000 of 3,14 or 1.200,50"),
        ("the tenth of oneself, a dog", "the tenth of oneself, a dog"),
    ],
)
def test_numbers_in_digits(text, written):
    assert in_digits(text) == written


@pytest.mark.model
def test_documents_out_of_scope_change_nothing():
    alone = HWDAGIndex.from_documents(TOWN[:1], method="evidence")
    scoped = town().search(ASKED, scope=Scope(["mill"]))
    assert scoped.answerability == pytest.approx(alone.search(ASKED).answerability, abs=1e-6)
    assert scoped.answerability < town().search(ASKED).answerability


@pytest.mark.parametrize("method", ["evidence", "pecan"])
def test_from_nothing_no_answer_is_made_up(method):
    models = {"reader": ScriptedLM(), "embedder": HashingEmbedder()}
    if method == "pecan":
        models["writer"] = lambda prompt: "* Somebody built the mill."
    index = HWDAGIndex.from_documents(TOWN, method=method, **models)
    for options in ({"scope": Scope([])}, {"config": SearchConfig(token_budget=1)}):
        stream = index.stream(ASKED, **options)
        assert "".join(stream) == "The documents do not seem to answer this."
        answer = stream.answer
        assert (answer.found, answer.citations, answer.retrieval.context) == (False, (), ())
        assert answer.confidence < 0.1


@pytest.mark.model
@pytest.mark.parametrize(
    ("question", "language"),
    [
        ("Wer hat die Brücke über den Fluss gebaut?", "de"),
        ("¿Quién es el alcalde de la ciudad?", "es"),
        ("谁建造了这座桥？", "zh"),
        ("من بنى الجسر؟", "ar"),
        ("橋を建てたのは誰ですか？", "en"),  # Japanese, for which there are no words here
        ("Ki építette?", "en"),
        ("Wer baute den Hafen?", "de"),
        ("¿Dónde nació Mary Anning?", "es"),
        ("Où est née Mary Anning ?", "fr"),
        ("Who is Quando?", "en"),
    ],
)
def test_not_found_is_in_the_language_of_the_question(question, language):
    retrieval = replace(town().search(ASKED), question=question)
    assert not_found(retrieval).startswith(NOT_FOUND[language])
    alone = not_found(replace(retrieval, steps=()))
    assert alone and NOT_FOUND[language].startswith(alone) and ":" not in alone


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("## Towers\n\nThey are tall.", "They are tall."),
        ("## Towers", "Towers"),
        ("- tall, and\n  old", "tall, and old"),
        ("## Towers\n\n- tall", "tall"),
        ("Towers\n* tall", "tall"),
        ("| North, Height: 9 m", "North, Height: 9 m"),
    ],
)
def test_what_is_nearest_is_shown_without_its_heading_and_marks(text, shown):
    first, *others = town().search(ASKED).steps
    headed = replace(first, node=replace(first.node, text=text, heading="Towers"))
    said = not_found(replace(town().search(ASKED), steps=(headed, *others)))
    assert f"- {shown}\n" in said + "\n" and "#" not in said


@pytest.mark.parametrize("repeated", ["node", "text", "place"])
def test_no_sentence_is_shown_twice_among_the_nearest(repeated):
    found = town().search(ASKED)
    first, *others = found.steps
    again = {
        "node": first.node,
        "text": replace(first.node, id="copy", document_id="another", text=f"- {first.node.text}"),
        "place": replace(first.node, id="point", level=2, text="A summary.", origin="generated"),
    }[repeated]
    steps = (first, replace(first, node=again), *others)
    assert not_found(replace(found, steps=steps)) == not_found(found)

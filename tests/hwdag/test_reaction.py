"""Reaction as a calibration: attention to the question, less that to a question without content."""

from types import SimpleNamespace

import numpy as np
import pytest
from tiny import model, tokenizer

from hwdag.config import Scoring, SearchConfig
from hwdag.embedding.hashing import HashingEmbedder
from hwdag.errors import InputError, UnknownOption
from hwdag.index import HWDAGIndex
from hwdag.lm.huggingface import HuggingFaceLM
from hwdag.lm.scripted import ScriptedLM, ScriptedSession
from hwdag.search.reaction import NULL_QUESTION, opened
from hwdag.text.prompts import SearchPrompts
from hwdag.types import Document, Span

QUESTION = "Where was the colleague of Ada Byron born?"
PROMPTS = SearchPrompts()
NULL = SearchConfig(calibration="null", max_new_tokens=8)

# Both sentences of the first section share three words with the question, and the form has an "n"
# besides: it attends to "N/A" as much as to the question.
TEXT = """Passage 1:
Ada Byron
The colleague of Ada Byron was a man named Charles Babbage.
The form has place n, with much room for Ada Byron, a colleague or other people, and for Cooking.

Passage 2:
Cooking
Soup is made of water, of carrots, and of a great deal of patience.

Passage 3:
Charles Babbage
His birthplace is Walworth near London, on a street by the river.
"""


def found(config: SearchConfig, lm: ScriptedLM | None = None):
    with HWDAGIndex(reader=lm or ScriptedLM(), embedder=HashingEmbedder()) as index:
        index.insert([Document("d", TEXT)])
        return index.search(QUESTION, config=config)


def third(calibration: str) -> str:
    """What is read after the two nodes that are most like the question, by references alone."""
    scoring = Scoring(attention=0, similarity=0.1, sparse=1, mentions=1, echoes=0)
    config = SearchConfig(
        progress="budget", stride=2, initial_share=0.0, scoring=scoring, calibration=calibration
    )
    first, second, node, *_ = [step.node.text for step in found(config).steps]
    assert "named Charles Babbage" in first
    assert "The form" in second
    return node


def test_what_attends_to_anything_does_not_lead_the_walk_astray():
    assert "Soup" in third("none")
    assert "birthplace" in third("null")


def test_a_reading_is_the_surplus_over_the_null_session():
    lm = HuggingFaceLM(model(), tokenizer())
    options = {"prompts": PROMPTS, "heads": "all", "max_new_tokens": 8}
    both = opened(lm, QUESTION, prompts=PROMPTS, config=NULL)
    alone, null = lm.session(QUESTION, **options), lm.session(NULL_QUESTION, **options)
    assert both.room == min(alone.room, null.room)
    for texts in (["The fox jumps.", "A dog sleeps by the river."], ["Rain."]):
        found, asked, unasked = (one.read(texts) for one in (both, alone, null))
        surplus = asked.attention - unasked.attention
        np.testing.assert_array_equal(found.attention, np.where(surplus > 0, surplus, 0))
        assert found.p_yes == asked.p_yes
        assert [both.cost(text) for text in texts] == [alone.cost(text) for text in texts]
    assert both.usage.tokens == alone.usage.tokens + null.usage.tokens
    np.testing.assert_array_equal(
        both.likelihoods(["fox"], enough=True), alone.likelihoods(["fox"], enough=True)
    )
    spans = [(0, Span(0, 7))]
    answers = [s.decode(enough=True, max_new_tokens=4, spans=spans) for s in (both, alone)]
    assert len({"".join(answer) for answer in answers}) == 1
    np.testing.assert_array_equal(answers[0].attention, answers[1].attention)


def test_a_pair_that_cannot_write_notes_says_so_before_anything_is_read():
    # a class of its own: what isinstance has once found of a class, it does not ask again
    reader = SimpleNamespace(session=lambda *_, **__: SimpleNamespace())
    config = SearchConfig(calibration="null", notebook=1)
    with pytest.raises(InputError, match="a SimpleNamespace cannot write notes"):
        opened(reader, QUESTION, prompts=PROMPTS, config=config)


def test_without_calibration_nothing_else_is_read():
    lm = ScriptedLM()
    session = opened(lm, QUESTION, prompts=PROMPTS, config=SearchConfig())
    assert isinstance(session, ScriptedSession)
    assert lm.sessions == [session]


def test_the_null_session_is_a_cost_of_the_search_and_not_of_the_answer():
    lm = ScriptedLM()
    with HWDAGIndex(reader=lm, embedder=HashingEmbedder()) as index:
        index.insert([Document("d", TEXT)])
        answer = index.answer(QUESTION, config=NULL)
    asked, unasked = lm.sessions
    assert (asked.question, unasked.question) == (QUESTION, NULL_QUESTION)
    assert unasked.texts == asked.texts
    assert answer.usage.tokens == asked.usage.tokens + unasked.usage.tokens
    steps = answer.retrieval.steps
    assert [step.node.text for step in steps] == asked.texts
    assert answer.retrieval.usage.tokens < answer.usage.tokens


def test_a_calibration_that_does_not_exist_is_refused():
    with pytest.raises(UnknownOption, match="calibration must be one of none, null"):
        SearchConfig(calibration="zero")
    assert SearchConfig.from_dict({"calibration": "null"}).calibration == "null"

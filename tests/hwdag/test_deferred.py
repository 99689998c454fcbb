"""The default reader before its weights are needed: equal to the reader, without torch."""

import pytest
from hostile import CONTROL_TOKENS, LINE_BREAKS
from processes import python

from hwdag.errors import QuestionTooLong
from hwdag.lm.default import BASE_MODEL, DEFAULT_MODEL, deferred_reader, load_reader
from hwdag.lm.tokens import _PROBE
from hwdag.types import Usage

pytestmark = pytest.mark.model

TEXTS = ["", " ", "Who built it?", _PROBE, *CONTROL_TOKENS, *LINE_BREAKS, "a<|im_end|>b\n* c"]
FACTS = (
    *("name", "context_tokens", "window_tokens", "template_tokens", "replay_batch"),
    *("card", "known_heads", "tokenizer_fingerprint"),
)


@pytest.mark.parametrize("name", [DEFAULT_MODEL, BASE_MODEL])
def test_its_facts_and_counts_are_those_of_the_loaded_reader(name):
    light, loaded = deferred_reader(name), load_reader(name)
    assert {fact: getattr(light, fact) for fact in FACTS} == {
        fact: getattr(loaded, fact) for fact in FACTS
    }
    assert light.usage == Usage()
    assert light.turns == loaded.engine.turns
    assert light.count_tokens(TEXTS) == loaded.count_tokens(TEXTS)
    assert light.count_lines(TEXTS) == loaded.count_lines(TEXTS)
    for text in TEXTS:
        assert light._codec.encode_with_offsets(text) == loaded.codec.encode_with_offsets(text)
    assert light.loaded is loaded
    assert light.usage == loaded.usage


def test_only_the_default_reader_is_deferred():
    assert deferred_reader("somebody/something") is None
    assert deferred_reader(load_reader()) is None
    assert deferred_reader(None).name == load_reader().name


def test_a_session_has_its_room_before_the_model_is_loaded_and_then_reads_as_the_model():
    light, loaded = deferred_reader(None), load_reader()
    options = {"prompts": light.card.prompts, "heads": "auto", "max_new_tokens": 64}
    for question in TEXTS[2:]:
        sessions = [one.session(question, **options) for one in (light, loaded)]
        assert sessions[0].room == sessions[1].room
    assert sessions[0].usage == sessions[1].usage
    readings = [one.read(["It was built in 1871."]) for one in sessions]
    assert readings[0].p_yes == readings[1].p_yes
    assert sessions[0].room == sessions[1].room
    assert sessions[0].usage.tokens == sessions[1].usage.tokens > 0
    with pytest.raises(QuestionTooLong, match="shorten the question"):
        light.session("word " * 9000, **options)


def test_a_build_and_a_search_that_ask_no_model_import_neither_torch_nor_transformers():
    script = """
        import sys
        from hwdag import HWDAGIndex

        index = HWDAGIndex.from_documents(["The silver dragon sleeps below the bridge."])
        assert index.search("Where is the silver dragon?").steps
        assert not {"torch", "transformers", "sentence_transformers"} & sys.modules.keys()
    """
    python(script)

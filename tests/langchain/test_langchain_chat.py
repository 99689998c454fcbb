"""What applications do with a chat model besides chatting: count tokens, stream by option, bind."""

import pytest
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    trim_messages,
)
from tiny import model, tokenizer

from hwdag.errors import InputError
from hwdag.lm.huggingface import HuggingFaceLM
from hwdag.lm.writers import CallableWriter
from hwdag_lab.scripted import ScriptedLM
from langchain_hwdag import HWDAGLLM, HWDAGChat

TALK: list[BaseMessage] = [
    SystemMessage("Be brief."),
    HumanMessage("Who jumps over the lazy dog?"),
    AIMessage("The quick fox does."),
    HumanMessage("Who?"),
]


@pytest.fixture(scope="module")
def lm():
    return HuggingFaceLM(model(seed=3), tokenizer())


def test_tokens_are_those_of_the_model(lm):
    chat, llm = HWDAGChat(reader=lm), HWDAGLLM(reader=lm)
    text = "The quick brown fox jumps."
    assert chat.get_num_tokens(text) == llm.get_num_tokens(text) == lm.count_tokens([text])[0] > 0
    for messages in (TALK[:2], TALK, TALK[3:]):
        asked = chat.invoke(messages, max_tokens=1).usage_metadata
        assert asked is not None
        assert chat.get_num_tokens_from_messages(messages) == asked["input_tokens"]
    assert chat.get_num_tokens_from_messages([]) == 0


def test_messages_are_trimmed_to_what_fits(lm):
    chat = HWDAGChat(reader=lm)
    whole = chat.get_num_tokens_from_messages(TALK)
    assert trim_messages(TALK, max_tokens=whole, token_counter=chat) == TALK
    trimmed = trim_messages(TALK, max_tokens=whole - 1, token_counter=chat, include_system=True)
    assert trimmed[0] == TALK[0]
    assert trimmed[1:] == TALK[-len(trimmed) + 1 :]
    assert chat.get_num_tokens_from_messages(trimmed) < whole
    long = [HumanMessage("fox " * lm.context_tokens), *TALK]
    assert chat.get_num_tokens_from_messages(long) > lm.context_tokens
    assert trim_messages(long, max_tokens=whole, token_counter=chat) == TALK


def test_who_cannot_count_says_so():
    remote = CallableWriter(lambda prompt: "fine")
    for made in (HWDAGChat(reader=remote), HWDAGLLM(reader=remote)):
        with pytest.raises(InputError, match="tokens"):
            made.get_num_tokens("a b c")
        with pytest.raises(InputError, match="custom_get_token_ids"):
            made.get_token_ids("a b c")
    with pytest.raises(InputError, match="tokens"):
        HWDAGChat(reader=remote).get_num_tokens_from_messages(TALK)
    for own in (
        HWDAGChat(reader=remote, custom_get_token_ids=lambda text: [7] * len(text)),
        HWDAGLLM(reader=remote, custom_get_token_ids=lambda text: [7] * len(text)),
    ):
        assert own.get_token_ids("abc") == [7, 7, 7]
        assert own.get_num_tokens("abc") == 3
        assert own.get_num_tokens_from_messages(TALK) > 3


def test_streaming_may_be_asked_for_with_a_call():
    chat = HWDAGChat(reader=ScriptedLM())
    plain = chat.invoke("Who jumps?")
    for stream in (True, False):
        assert chat.invoke("Who jumps?", stream=stream).content == plain.content
        assert chat.bind(stream=stream).invoke("Who jumps?").content == plain.content


def test_tools_and_structured_output_are_refused_with_the_way_out():
    chat = HWDAGChat(reader=ScriptedLM())
    schema = {"title": "Who", "type": "object", "properties": {}}
    for refused in (
        lambda: chat.bind_tools([]),
        lambda: chat.with_structured_output(schema),
        lambda: chat.get_num_tokens_from_messages(TALK, tools=[schema]),
    ):
        with pytest.raises(NotImplementedError, match="tools"):
            refused()

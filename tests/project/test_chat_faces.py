"""The reader as LLM and chat model of both frameworks: streamed, counted, cancellable, refused."""

import asyncio
import copy
import pickle
import threading

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, ChatMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_tests.unit_tests import ChatModelUnitTests
from llama_index.core import PromptTemplate
from llama_index.core.base.llms import types as llama
from llama_index.core.callbacks import CallbackManager, TokenCountingHandler
from pydantic import ValidationError
from tiny import model, tokenizer

import langchain_hwdag
import llama_index_hwdag
from hwdag.errors import InputError, QuestionTooLong, UnknownOption
from hwdag.lm.base import Message
from hwdag.lm.chat import plain
from hwdag.lm.huggingface import HuggingFaceLM
from hwdag.lm.writers import CallableWriter
from hwdag_lab.scripted import ScriptedLM

TURNS = [("system", "Be brief."), ("user", "Who jumps?"), ("assistant", "It."), ("user", "Who?")]
TALK = [Message(role, text) for role, text in TURNS]
LLAMA = [llama.ChatMessage(role=role, content=text) for role, text in TURNS]
CHAIN = [SystemMessage("Be brief."), HumanMessage("Who jumps?"), AIMessage("It."), ("user", "Who?")]

LlamaLLM, ChainLLM = llama_index_hwdag.HWDAGLLM, langchain_hwdag.HWDAGLLM
HWDAGChat = langchain_hwdag.HWDAGChat


@pytest.fixture(scope="module")
def tiny_lm():
    return HuggingFaceLM(model(seed=3), tokenizer())


def counting():
    return ScriptedLM(reply=lambda prompt: "one two three four")


def whole(lm, messages, limit=12):
    return "".join(lm.reply(messages, max_new_tokens=limit))


# --- LlamaIndex


async def test_llama_index_chats_with_the_template_in_all_four_ways(tiny_lm):
    llm = LlamaLLM(tiny_lm, max_new_tokens=12)
    expected = whole(tiny_lm, TALK)
    assert llm.metadata.is_chat_model
    assert llm.chat(LLAMA).message.content == expected
    assert (await llm.achat(LLAMA)).message.content == expected
    chunks = list(llm.stream_chat(LLAMA))
    later = [chunk async for chunk in await llm.astream_chat(LLAMA)]
    for found in (chunks, later):
        assert len(found) > 1
        assert "".join(chunk.delta for chunk in found) == expected
        assert found[-1].message.content == expected
        assert found[-1].message.role == llama.MessageRole.ASSISTANT


async def test_llama_index_completes_in_all_four_ways(tiny_lm):
    llm = LlamaLLM(tiny_lm, max_new_tokens=12)
    expected = tiny_lm.write(["Who?"], max_new_tokens=12)[0]
    assert llm.complete("Who?").text == expected
    assert (await llm.acomplete("Who?")).text == expected
    assert llm.predict(PromptTemplate("{q}"), q="Who?") == expected
    chunks = list(llm.stream_complete("Who?"))
    later = [chunk async for chunk in await llm.astream_complete("Who?")]
    for found in (chunks, later):
        assert len(found) > 1
        assert "".join(chunk.delta for chunk in found) == found[-1].text == expected


async def test_llama_index_options_hold_for_the_model_or_for_one_call():
    llm = LlamaLLM(counting(), max_new_tokens=3, stop=["three"])
    assert not llm.metadata.is_chat_model
    assert llm.complete("x").text == "one two"
    assert llm.complete("x", stop=[]).text == "one two three"
    assert llm.chat(LLAMA, max_new_tokens=1).message.content == "one"
    assert [chunk.delta for chunk in llm.stream_chat(LLAMA, stop=["two"])] == ["one"]
    for call in (llm.chat, llm.stream_chat):
        with pytest.raises(UnknownOption, match="'temperature'"):
            call(LLAMA, temperature=1)
    for call in (llm.achat, llm.astream_chat):
        with pytest.raises(UnknownOption, match="'temperature'"):
            await call(LLAMA, temperature=1)


def test_llama_index_counts_the_tokens_of_the_model():
    counter = TokenCountingHandler(tokenizer=str.split)
    llm = LlamaLLM(counting())
    llm.callback_manager = CallbackManager([counter])
    expected = ScriptedLM().count_tokens([plain(TALK)])[0]
    llm.chat(LLAMA)
    assert (counter.prompt_llm_token_count, counter.completion_llm_token_count) == (expected, 4)
    list(llm.stream_chat(LLAMA))
    assert counter.completion_llm_token_count == 8


def test_a_copy_in_llama_index_speaks_with_the_same_weights_and_none_is_pickled():
    llm = LlamaLLM(counting(), stop=["!"])
    copied = copy.deepcopy([llm])[0]
    copied.stop.append("three")
    assert (llm.complete("x").text, copied.complete("x").text) == ("one two three four", "one two")
    with pytest.raises(InputError):
        pickle.dumps(llm)


def test_llama_index_refuses_what_is_not_text():
    llm = LlamaLLM(counting())
    tool = llama.ChatMessage(role="tool", content="42")
    image = llama.ChatMessage(blocks=[llama.TextBlock(text="see"), llama.ImageBlock(image=b"x")])
    calls = llama.ChatMessage(role="assistant", content="", additional_kwargs={"tool_calls": [1]})
    for message, seen in [(tool, "'tool'"), (image, "image"), (calls, "tool")]:
        with pytest.raises(InputError, match=seen):
            llm.chat([message])
    parts = llama.ChatMessage(blocks=[llama.TextBlock(text="a"), llama.TextBlock(text="b")])
    assert LlamaLLM(ScriptedLM(reply=str)).chat([parts]).message.content == "a\nb"
    developer = llama.ChatMessage(role="developer", content="x")
    assert "system: x" in LlamaLLM(ScriptedLM(reply=str)).chat([developer]).message.content


def test_a_prompt_that_does_not_fit_is_an_error_everywhere():
    lm = ScriptedLM(context_tokens=20)
    with pytest.raises(QuestionTooLong, match=r"\b20\b"):
        LlamaLLM(lm).complete("Who?")
    with pytest.raises(QuestionTooLong, match=r"\b20\b"):
        ChainLLM(reader=lm).invoke("Who?")
    with pytest.raises(QuestionTooLong, match=r"\b20\b"):
        HWDAGChat(reader=lm).invoke("Who?")


# --- LangChain


class Heard(BaseCallbackHandler):
    def __init__(self):
        self.tokens = []

    def on_llm_new_token(self, token, **kwargs):
        self.tokens.append(token)


async def test_langchain_chats_with_the_template_in_all_four_ways(tiny_lm):
    chat = HWDAGChat(reader=tiny_lm, max_new_tokens=12)
    expected, heard = whole(tiny_lm, TALK), Heard()
    said = chat.invoke(CHAIN)
    assert (said.content, (await chat.ainvoke(CHAIN)).content) == (expected, expected)
    chunks = list(chat.stream(CHAIN, config={"callbacks": [heard]}))
    later = [chunk async for chunk in chat.astream(CHAIN)]
    assert "".join(heard.tokens) == expected
    for found in (chunks, later):
        assert len(found) > 2
        joined = sum(found[1:], found[0])
        assert joined.content == expected
        assert joined.usage_metadata == said.usage_metadata
        assert joined.response_metadata == said.response_metadata
    reply = tiny_lm.reply(TALK, max_new_tokens=12)
    list(reply)
    assert said.usage_metadata["input_tokens"] == reply.prompt_tokens
    assert said.usage_metadata["output_tokens"] == reply.new_tokens
    assert said.response_metadata["finish_reason"] == reply.finish
    assert said.response_metadata["model_name"] == tiny_lm.name


async def test_the_langchain_llm_streams(tiny_lm):
    llm, heard = ChainLLM(reader=tiny_lm, max_new_tokens=12), Heard()
    expected = tiny_lm.write(["Who?"], max_new_tokens=12)[0]
    assert llm.invoke("Who?") == await llm.ainvoke("Who?") == expected
    chunks = list(llm.stream("Who?", config={"callbacks": [heard]}))
    assert heard.tokens == chunks
    later = [chunk async for chunk in llm.astream("Who?")]
    assert chunks == later
    assert len(chunks) > 1
    assert "".join(chunks) == expected
    assert llm.batch(["Who?", "a"]) == tiny_lm.write(["Who?", "a"], max_new_tokens=12)


def test_langchain_options_hold_for_the_model_or_for_one_call():
    chat = HWDAGChat(reader=counting(), max_tokens=3, stop=["three"], temperature=0)
    assert chat.invoke("x").content == "one two"
    assert chat.invoke("x", stop=["two"]).content == "one"
    assert chat.bind(max_new_tokens=1).invoke("x").content == "one"
    assert chat.invoke("x", max_tokens=1).response_metadata["finish_reason"] == "length"
    assert chat._get_ls_params() == {
        "ls_provider": "hwdag",
        "ls_model_name": "scripted",
        "ls_model_type": "chat",
        "ls_temperature": 0.0,
        "ls_max_tokens": 3,
        "ls_stop": ["three"],
    }
    assert chat._get_ls_params(max_tokens=1)["ls_max_tokens"] == 1
    with pytest.raises(UnknownOption, match="'top_p'"):
        chat.invoke("x", top_p=1)
    with pytest.raises(ValidationError, match="temperature"):
        HWDAGChat(reader=counting(), temperature=0.7)
    with pytest.raises(ValidationError, match="top_p"):
        HWDAGChat(reader=counting(), top_p=1)


def test_streaming_makes_invoke_heard():
    heard = Heard()
    chat = HWDAGChat(reader=counting(), streaming=True)
    assert chat.invoke("x", config={"callbacks": [heard]}).content == "one two three four"
    assert heard.tokens[:4] == ["one", " two", " three", " four"]


def test_langchain_refuses_what_is_not_text():
    chat = HWDAGChat(reader=ScriptedLM(reply=str))
    image = HumanMessage([{"type": "text", "text": "see"}, {"type": "image", "url": "x"}])
    calls = AIMessage("", tool_calls=[{"name": "f", "args": {}, "id": "1"}])
    tool = ToolMessage("42", tool_call_id="1")
    for message, seen in [(tool, "ToolMessage"), (image, "image"), (calls, "tool_call")]:
        with pytest.raises(InputError, match=seen):
            chat.invoke([message])
    with pytest.raises(InputError, match="'narrator'"):
        chat.invoke([ChatMessage("x", role="narrator")])
    assert chat.invoke([HumanMessage(["a", {"type": "text", "text": "b"}])]).content == "ab"
    assert "system: x" in chat.invoke([ChatMessage("x", role="system")]).content


def test_a_writer_without_chat_still_serves():
    writer = CallableWriter(lambda prompt: f"{prompt} END of it")
    said = HWDAGChat(reader=writer, stop=["END"]).invoke(CHAIN)
    assert (said.content, said.usage_metadata) == (plain(TALK), None)
    assert ChainLLM(reader=writer).invoke("x", stop=["END"]) == "x"

    class ReaderOnly(ScriptedLM):
        write = reply = None

    with pytest.raises(ValidationError):
        HWDAGChat(reader=ReaderOnly())


async def test_nothing_blocks_the_loop_and_cancelling_ends_the_reply():
    begun, gate = threading.Event(), threading.Event()

    def slow(prompt):
        begun.set()
        gate.wait()
        return "one two"

    lm = ScriptedLM(reply=slow)
    asked = [
        HWDAGChat(reader=lm).ainvoke("x"),
        ChainLLM(reader=lm).ainvoke("x"),
        LlamaLLM(lm).achat(LLAMA),
        LlamaLLM(lm).acomplete("x"),
    ]
    tasks = [asyncio.ensure_future(one) for one in asked]
    await asyncio.to_thread(begun.wait)
    tasks[0].cancel()
    gate.set()  # reached only because nothing waits in the loop
    found = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(found[0], asyncio.CancelledError)
    assert found[1] == str(found[3]) == found[2].message.content == "one two"


class TestStandard(ChatModelUnitTests):
    """LangChain's own tests of chat models, unmodified."""

    @property
    def chat_model_class(self) -> type[BaseChatModel]:
        return HWDAGChat

    @property
    def chat_model_params(self):
        return {"reader": counting()}

    @property
    def standard_chat_model_params(self):
        return {"temperature": 0, "max_tokens": 100, "stop": []}  # there is no server to wait for

    @property
    def supports_model_override(self) -> bool:
        return False

    @property
    def has_tool_calling(self) -> bool:
        return False  # `bind_tools` is there to say so

    @property
    def has_structured_output(self) -> bool:
        return False


@pytest.mark.model
def test_the_default_model_streams_in_llama_index():
    from hwdag.lm.default import default_reader

    llm = LlamaLLM(default_reader(), max_new_tokens=8)
    assert len(list(llm.stream_chat([llama.ChatMessage(content="Name three colours.")]))) > 1


@pytest.mark.model
def test_the_default_model_streams_in_langchain():
    from hwdag.lm.default import default_reader

    chat = HWDAGChat(reader=default_reader(), max_new_tokens=8)
    assert len(list(chat.stream("Name three colours."))) > 2

"""A writer of the core as LLM of both frameworks: the same words, in every way of asking."""

import asyncio
import copy
import threading

import pytest
from app_world import AppChatModel, AppLLM
from langchain_core.language_models.fake import FakeListLLM
from langchain_core.messages import HumanMessage, SystemMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda
from llama_index.core import PromptTemplate
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.llms import LLM
from llama_index.llms.huggingface import HuggingFaceLLM
from tiny import model, tokenizer

import langchain_hwdag
import langchain_hwdag.adapters as of_langchain
import llama_index_hwdag
import llama_index_hwdag.adapters as of_llama_index
from hwdag.building.points import keys_of
from hwdag.errors import InputError, QuestionTooLong, UnknownOption
from hwdag.lm.huggingface import HuggingFaceLM
from hwdag.lm.writers import as_writer
from hwdag_lab.scripted import ScriptedLM

LlamaLLM, ChainLLM = llama_index_hwdag.HWDAGLLM, langchain_hwdag.HWDAGLLM


@pytest.fixture(scope="module")
def lm():
    return HuggingFaceLM(model(seed=3), tokenizer())


def shouting():
    return ScriptedLM(reply=str.upper)


async def test_both_return_the_reply_of_the_writer(lm):
    expected = lm.write(["Who?"], max_new_tokens=12)[0]
    llama, chain = LlamaLLM(lm, max_new_tokens=12), ChainLLM(writer=lm, max_new_tokens=12)
    assert llama.complete("Who?").text == (await llama.acomplete("Who?")).text == expected
    assert llama.predict(PromptTemplate("{q}"), q="Who?") == expected
    assert chain.invoke("Who?") == await chain.ainvoke("Who?") == expected
    assert chain.batch(["Who?", "a"]) == lm.write(["Who?", "a"], max_new_tokens=12)
    streams = [
        [chunk.delta for chunk in llama.stream_complete("Who?")],
        [chunk.delta async for chunk in await llama.astream_complete("Who?")],
        list(chain.stream("Who?")),
        [chunk async for chunk in chain.astream("Who?")],
    ]
    assert streams == [[expected]] * 4


async def test_a_chat_is_written_out_as_one_prompt():
    llm = LlamaLLM(shouting())
    talk = [ChatMessage(role="system", content="be brief"), ChatMessage(content="who?")]
    said = llm.chat(talk).message.content
    assert "BE BRIEF" in said and "WHO?" in said
    assert (await llm.achat(talk)).message.content == said
    assert [chunk.delta for chunk in llm.stream_chat(talk)] == [said]
    chain = ChatPromptTemplate.from_messages([SystemMessage("be brief"), HumanMessage("who?")])
    said = (chain | ChainLLM(writer=shouting()) | StrOutputParser()).invoke({})
    assert "BE BRIEF" in said and "WHO?" in said


def test_the_length_of_a_reply_and_the_context_are_reported():
    reader = shouting()
    llama, chain = LlamaLLM(reader, max_new_tokens=2), ChainLLM(writer=reader, max_new_tokens=2)
    assert llama.complete("one two three").text == chain.invoke("one two three") == "ONE TWO"
    told = llama.metadata
    assert (told.context_window, told.num_output) == (reader.context_tokens, 2)
    assert told.model_name == reader.name == chain._identifying_params["model_name"]
    assert chain.get_num_tokens("one two three") == reader.count_tokens(["one two three"])[0]
    assert LlamaLLM(str.upper).complete("x").text == ChainLLM(writer=str.upper).invoke("x") == "X"


def test_what_they_have_not_is_refused():
    for ask in (LlamaLLM(shouting()).complete, ChainLLM(writer=shouting()).invoke):
        with pytest.raises(UnknownOption, match="'temperature'"):
            ask("x", temperature=1.0)
    with pytest.raises(UnknownOption, match="stop"):
        ChainLLM(writer=shouting()).invoke("x", stop=["y"])
    with pytest.raises(ValueError, match="max_new_tokens"):
        ChainLLM(writer=shouting(), max_new_tokens=0)

    class ReaderOnly(ScriptedLM):
        write = None

    with pytest.raises(InputError):
        LlamaLLM(ReaderOnly())
    with pytest.raises(ValueError, match="writer"):
        ChainLLM(writer=ReaderOnly())


def test_a_prompt_that_does_not_fit_is_an_error(lm):
    prompt = "fox " * lm.context_tokens
    for ask in (LlamaLLM(lm).complete, ChainLLM(writer=lm).invoke):
        with pytest.raises(QuestionTooLong):
            ask(prompt)


def test_a_copy_in_llama_index_writes_with_the_same_weights(lm):
    (copied,) = copy.deepcopy([LlamaLLM(lm, max_new_tokens=3)])
    expected, before = lm.write(["Who?"], max_new_tokens=3)[0], lm.usage.tokens
    assert copied.complete("Who?").text == expected
    assert lm.usage.tokens > before  # the model itself was asked


async def test_nothing_blocks_the_loop():
    begun, gate = threading.Event(), threading.Event()

    def slow(prompt):
        begun.set()
        assert gate.wait(60)
        return "one two"

    lm = ScriptedLM(reply=slow)
    asked = [
        ChainLLM(writer=lm).ainvoke("x"),
        LlamaLLM(lm).achat([ChatMessage(content="x")]),
        LlamaLLM(lm).acomplete("x"),
    ]
    tasks = [asyncio.ensure_future(one) for one in asked]
    await asyncio.to_thread(begun.wait)
    gate.set()  # reached only because nothing waits in the loop
    chain, chat, completion = await asyncio.gather(*tasks)
    assert chain == completion.text == chat.message.content == "one two"


def loaded(name):
    """Return an LLM of LlamaIndex over loaded weights; by default its metadata name another model."""
    weights = model()
    weights.config.name_or_path = name
    return HuggingFaceLLM(model=weights, tokenizer=tokenizer())


class Named(FakeListLLM):
    """A model of LangChain with a name."""

    model_name: str


def chain(prompt, name):
    return (
        ChatPromptTemplate.from_template(prompt)
        | Named(responses=["* x"], model_name=name)
        | StrOutputParser()
    )


@pytest.mark.parametrize(
    ("one", "equal", "other"),
    [
        (lambda: loaded("a"), lambda: loaded("a"), lambda: loaded("b")),
        (
            lambda: AppLLM(reply=str, name="a"),
            lambda: AppLLM(reply=str, name="a"),
            lambda: AppLLM(reply=str, name="b"),
        ),
        (
            lambda: chain("{q}", "a"),
            lambda: chain("{q}", "a").with_config(max_concurrency=2),
            lambda: chain("{q}", "b"),
        ),
        (lambda: chain("{q}", "a"), lambda: chain("{q}", "a"), lambda: chain("Say {q}", "a")),
        (
            lambda: chain("{q}", "a").with_retry(),
            lambda: chain("{q}", "a").with_retry(),
            lambda: chain("{q}", "b").with_retry(),
        ),
        (
            lambda: Named(responses=["* x"], model_name="a").with_fallbacks(
                [Named(responses=["* x"], model_name="b")]
            ),
            lambda: Named(responses=["* x"], model_name="a").with_fallbacks(
                [Named(responses=["* x"], model_name="b")]
            ),
            lambda: Named(responses=["* x"], model_name="a").with_fallbacks(
                [Named(responses=["* x"], model_name="c")]
            ),
        ),
        (lambda: shout, lambda: shout, lambda: str.upper),
    ],
)
def test_models_have_the_finished_calls_of_their_equals_alone(one, equal, other, caplog):
    first, same, another = (key_of(make()) for make in (one, equal, other))
    assert first == same != another
    assert not caplog.text


def shout(prompt):
    return prompt.upper()


@pytest.mark.parametrize(
    "make",
    [
        lambda: loaded(""),
        lambda: AppLLM(reply=str, name="unknown"),
        lambda: AppChatModel(reply=str) | StrOutputParser(),
        lambda: FakeListLLM(responses=["x"]).with_fallbacks(
            [Named(responses=["* x"], model_name="a")]
        ),
        lambda: RunnableLambda(lambda prompt: prompt),
        lambda: lambda prompt: prompt,
    ],
)
def test_nobody_has_the_finished_calls_of_a_model_that_nothing_identifies(make, caplog):
    assert key_of(make()) != key_of(make())
    assert "name its model" in caplog.text


def key_of(model):
    """Return the key of a finished call of a writer, as either framework or the core passes it."""
    face = of_llama_index if isinstance(model, LLM) else of_langchain
    writer = as_writer(face.as_writer(model))
    return keys_of(writer, ["A prompt."], limit=9)

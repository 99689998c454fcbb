"""LangChain's models as reader, writer and embedder."""

from __future__ import annotations

import threading
from functools import cache, partial
from itertools import cycle
from typing import Any

import numpy as np
import pytest
from langchain_core.embeddings import DeterministicFakeEmbedding, Embeddings
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.language_models.fake import FakeListLLM
from langchain_core.language_models.fake_chat_models import FakeListChatModel, GenericFakeChatModel
from langchain_core.language_models.llms import BaseLLM
from langchain_core.messages import AIMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.outputs import ChatGeneration, ChatResult, Generation, LLMResult
from langchain_core.runnables import RunnableLambda
from langchain_world import DOCUMENTS, QUESTION, an_index

import hwdag
from hwdag.config import BuildConfig
from hwdag.embedding.base import Embedder
from hwdag.embedding.hashing import HashingEmbedder
from hwdag.errors import (
    InputError,
    ModelNotFound,
    ReaderRequired,
    WriterFailed,
)
from hwdag.lm.base import ConcurrentWriter, Writer
from hwdag_lab.scripted import ScriptedLM
from langchain_hwdag import HWDAGIndex
from langchain_hwdag.adapters import as_embedder, as_reader, as_writer


class PipelineLLM(BaseLLM):
    """The fields and the calls of `langchain_huggingface.HuggingFacePipeline` 1.2.

    why: that package cannot be installed with the huggingface-hub that transformers 5 needs.
    """

    pipeline: Any = None
    model_id: str = "gpt2"
    model_kwargs: dict[str, Any] | None = None
    pipeline_kwargs: dict[str, Any] | None = None
    batch_size: int = 4

    @property
    def _llm_type(self) -> str:
        return "huggingface_pipeline"

    def _generate(
        self, prompts: list[str], stop: list[str] | None = None, run_manager: Any = None, **_: Any
    ) -> LLMResult:
        options = {"max_new_tokens": 8, "do_sample": False} | (self.pipeline_kwargs or {})
        replies = self.pipeline(prompts, batch_size=1, return_full_text=False, **options)
        return LLMResult(
            generations=[[Generation(text=one["generated_text"])] for [one] in replies]
        )


class ChatOverLLM(BaseChatModel):
    """The same of `langchain_huggingface.ChatHuggingFace` over a pipeline."""

    llm: Any
    tokenizer: Any = None
    model_id: str | None = None

    @property
    def _llm_type(self) -> str:
        return "huggingface-chat-wrapper"

    def _generate(
        self, messages: Any, stop: list[str] | None = None, run_manager: Any = None, **_: Any
    ) -> ChatResult:
        roles = {"human": "user", "ai": "assistant", "system": "system"}
        chat = [{"role": roles[one.type], "content": one.text} for one in messages]
        prompt = self.tokenizer.apply_chat_template(
            chat, tokenize=False, add_generation_prompt=True
        )
        reply = self.llm.invoke(prompt)
        return ChatResult(generations=[ChatGeneration(message=AIMessage(reply))])


@cache
def wrapped():
    import tiny
    from transformers import pipeline

    made = pipeline("text-generation", model=tiny.model(), tokenizer=tiny.tokenizer())
    llm = PipelineLLM(pipeline=made, model_id="tiny")
    return llm, ChatOverLLM(llm=llm, tokenizer=made.tokenizer, model_id="tiny")


def text_of(reply):
    return reply if isinstance(reply, str) else str(reply.text)


@pytest.mark.parametrize("given", [0, 1], ids=["pipeline", "chat"])
def test_weights_of_wrapped_models_are_used_as_they_are(given):
    model = wrapped()[0].pipeline.model
    reader = as_reader(wrapped()[given])
    assert isinstance(reader, hwdag.HuggingFaceLM)
    assert reader.model is model
    made = wrapped()[0].pipeline.tokenizer
    assert reader.codec.tokenizer.get_vocab() == made.get_vocab()
    assert reader.codec.tokenizer is not made  # a call of its own changes settings for all

    said = wrapped()[given].invoke("Who mends the bell?")
    implementation = model.config._attn_implementation
    index = an_index(
        DOCUMENTS[1:], reader=wrapped()[given], writer=wrapped()[given], config=BuildConfig()
    )
    assert index.index.reader.model is model
    assert len(index.invoke(QUESTION, k=1)) == 1
    assert model.config._attn_implementation == implementation
    assert text_of(wrapped()[given].invoke("Who mends the bell?")) == text_of(said)


@pytest.mark.parametrize("given", [ChatOverLLM(llm=object()), PipelineLLM(), FakeListLLM])
def test_a_reader_without_weights_is_refused(given):
    with pytest.raises(ReaderRequired, match="writer"):
        HWDAGIndex.from_documents(DOCUMENTS, reader=given)


def test_readers_and_embedders_of_the_core_pass_through():
    lm, embedder = ScriptedLM(), HashingEmbedder()
    assert as_reader(lm) is lm
    assert as_reader("a/name") == as_embedder("a/name") == "a/name"
    assert as_embedder(embedder) is embedder
    assert as_writer(lm) is lm
    assert as_writer(None) is as_reader(None) is as_embedder(None) is None


@pytest.mark.parametrize(
    "writer",
    [
        FakeListLLM(responses=["* smith and ferry"]),
        FakeListChatModel(responses=["* smith and ferry"]),
        FakeListChatModel(responses=["* smith and ferry"]) | StrOutputParser(),
        RunnableLambda(lambda prompt: "* smith and ferry"),
        lambda prompt: "* smith and ferry",
    ],
)
def test_any_model_or_chain_writes_the_points(writer):
    index = an_index(writer=writer, config=None)
    points = [n for g in index.index.graphs.values() for n in g.nodes if n.level > 1]
    assert {(n.text, n.origin) for n in points} == {("smith and ferry", "generated")}


@pytest.mark.parametrize(
    "content",
    [
        "* smith and ferry",
        "<think>* a thought</think>\n* smith and ferry",
        [{"type": "text", "text": "* smith and ferry"}],
        [
            {"type": "reasoning", "reasoning": "* a thought"},
            {"type": "thinking", "thinking": "* a thought", "signature": "x"},
            {"type": "text", "text": "* smith and "},
            "ferry",
        ],
    ],
)
def test_a_writer_may_reply_in_content_blocks_and_its_thoughts_are_left_out(content):
    writer = GenericFakeChatModel(messages=cycle([AIMessage(content)]))
    index = an_index(writer=writer, config=None)
    points = {n.text for g in index.index.graphs.values() for n in g.nodes if n.level > 1}
    assert points == {"smith and ferry"}


def test_a_writer_is_asked_as_many_prompts_at_a_time_as_its_config_allows():
    both = threading.Barrier(2)

    def meet(prompt: str) -> str:
        both.wait(timeout=60)
        return "* " + prompt

    writer = as_writer(RunnableLambda(meet).with_config(max_concurrency=2))
    assert isinstance(writer, ConcurrentWriter)
    assert writer.concurrency == 2
    prompts = ["one", "two", "three", "four"]
    assert writer.write(prompts, max_new_tokens=9) == [f"* {prompt}" for prompt in prompts]
    found = dict(writer.replies(prompts, max_new_tokens=9))
    assert found == {i: f"* {prompt}" for i, prompt in enumerate(prompts)}


def test_a_config_makes_no_other_writer_and_control_tokens_stay_text():
    asked: list[str] = []
    model = RunnableLambda(lambda prompt: asked.append(prompt) or "* x", name="Model")
    one, several = as_writer(model), as_writer(model.with_config(max_concurrency=2, tags=["a"]))
    assert isinstance(one, Writer)
    assert isinstance(several, Writer)
    assert one.name == several.name == "langchain:RunnableLambda"
    for writer in (one, several):
        writer.write(["<|im_end|> a"], max_new_tokens=9)
    assert asked[0] == asked[1] != "<|im_end|> a"


def test_a_writer_that_does_not_write_is_named():
    with pytest.raises(WriterFailed, match="RunnableLambda"):
        an_index(writer=RunnableLambda(len), config=None)
    with pytest.raises(InputError, match="int"):
        an_index(writer=3)


class Lengths(Embeddings):
    """Vectors that are far from normal; `missing` of them are left out."""

    model = "lengths-1"

    def __init__(self, missing: int = 0) -> None:
        self.missing = missing

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [[3.0 * len(text), 4.0 * len(text)] for text in texts][self.missing :]

    def embed_query(self, text: str) -> list[float]:
        return [0.0, 7.0]


def test_embeddings_are_normalised_for_the_core():
    embedder = as_embedder(Lengths())
    assert isinstance(embedder, Embedder)
    assert (embedder.name, embedder.dimension) == ("langchain:Lengths:lengths-1", 2)
    np.testing.assert_allclose(embedder.embed(["a", "bb"]), [[0.6, 0.8]] * 2, rtol=1e-6)
    np.testing.assert_array_equal(embedder.embed_query("a"), [0.0, 1.0])
    assert embedder.embed([]).shape == (0, 2)
    with pytest.raises(InputError, match="1 vectors for 2 texts"):
        as_embedder(Lengths(missing=1)).embed(["a", "b"])
    with pytest.raises(InputError, match="embedder"):
        an_index(embedder=3)


def test_an_index_of_langchain_embeddings_asks_for_them_again(tmp_path):
    embeddings = DeterministicFakeEmbedding(size=8)
    index = an_index(embedder=embeddings)
    index.save_local(tmp_path)
    load = partial(HWDAGIndex.load_local, tmp_path, reader=ScriptedLM())
    assert load(embedder=embeddings).invoke(QUESTION) == index.invoke(QUESTION)
    with pytest.raises(ModelNotFound, match="DeterministicFakeEmbedding"):
        load().invoke(QUESTION)

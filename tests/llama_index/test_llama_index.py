"""The LlamaIndex package over a scripted model: everything that the framework may ask of an index."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny
from app_world import AppLLM
from llama_index.core import Settings, load_index_from_storage
from llama_index.core.base.llms.types import CompletionResponse
from llama_index.core.base.response.schema import AsyncStreamingResponse, StreamingResponse
from llama_index.core.chat_engine.types import ChatMode
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.indices.base import BaseIndex
from llama_index.core.llms import MockLLM
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.postprocessor import LongContextReorder, SimilarityPostprocessor
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.query_engine import CitationQueryEngine, RetrieverQueryEngine
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import (
    NodeWithScore,
    QueryBundle,
)
from llama_index.llms.huggingface import HuggingFaceLLM
from llama_world import ALL, CONFIG, QUESTION, TEXTS, built, chat_memory, documents, models, plain
from processes import python
from tiny import tiny_lm

import hwdag
from hwdag.config import BuildConfig, SearchConfig
from hwdag.embedding.hashing import HashingEmbedder
from hwdag.errors import InputError, ReaderRequired, UnknownOption
from hwdag_lab.scripted import ScriptedLM
from llama_index_hwdag import (
    HWDAGLLM,
    HWDAGChatEngine,
    HWDAGIndex,
    HWDAGQueryEngine,
    HWDAGReranker,
    HWDAGRetriever,
    engines,
)
from llama_index_hwdag.adapters import as_embedder

ROOT = Path(__file__).parents[2]


# --- the classes and the build


def test_the_face_is_what_llama_index_expects():
    assert BaseIndex in HWDAGIndex.__mro__
    assert BaseRetriever in HWDAGRetriever.__mro__
    index = built()
    assert isinstance(index.as_retriever(), BaseRetriever)
    assert isinstance(index.as_query_engine(), HWDAGQueryEngine)
    for options in ({"response_mode": "refine"}, {"node_postprocessors": []}, {"llm": MockLLM()}):
        assert isinstance(index.as_query_engine(**options), RetrieverQueryEngine)
    assert isinstance(index.as_chat_engine(), HWDAGChatEngine)
    theirs = index.as_chat_engine(system_prompt="Be brief.", memory=chat_memory())
    assert not isinstance(theirs, HWDAGChatEngine)


def test_documents_become_the_graphs_that_the_core_builds():
    index = built()
    same = hwdag.HWDAGIndex.from_documents(
        [hwdag.Document(name, text) for name, text in TEXTS.items()], **models(config=CONFIG)
    )
    assert index.core.graphs.keys() == same.graphs.keys() == TEXTS.keys()
    for name, graph in same.graphs.items():
        assert index.core.graphs[name].nodes == graph.nodes
        assert index.core.documents[name].text == TEXTS[name]
        np.testing.assert_array_equal(index.core.graphs[name].raw.data, graph.raw.data)
    assert max(graph.height for graph in same.graphs.values()) > 1


def test_documents_are_described_with_their_nodes_and_metadata():
    index = built("mill")
    info = index.ref_doc_info["mill"]
    assert info.node_ids == [node.id for node in index.core.graphs["mill"].nodes]
    assert info.metadata == {"place": "mill", "path": "/secret/mill"}


def test_leaves_are_nodes_of_their_document_with_offsets():
    index = built("mill", "ferry")
    leaves = index.nodes()
    graphs = index.core.graphs.values()
    assert [node.node_id for node in leaves] == [
        node.id for graph in graphs for node in graph.nodes if node.level == 1
    ]
    for node in leaves:
        text = TEXTS[node.ref_doc_id]
        assert text[node.start_char_idx : node.end_char_idx] == node.text
        assert node.metadata == {"place": node.ref_doc_id, "path": f"/secret/{node.ref_doc_id}"}


def test_transformations_of_documents_are_applied_to_later_ones_too():
    splitter = SentenceSplitter(chunk_size=24, chunk_overlap=0)
    index = HWDAGIndex.from_documents(
        documents("mill"), transformations=[splitter], **models(config=CONFIG)
    )
    index.insert(documents("ferry")[0])
    assert "\n\n" in index.core.documents["mill"].text
    assert "\n\n" in index.core.documents["ferry"].text
    assert index.refresh_ref_docs(documents("mill", "ferry")) == [False, False]


# --- retrieval


def test_nodes_come_as_the_walk_visits_them():
    index = built()
    found = index.as_retriever().retrieve(QUESTION)
    walked = index.core.search(QUESTION)
    assert [n.node.node_id for n in found] == [step.node.id for step in walked.steps]
    assert [n.text for n in found] == [step.node.text for step in walked.steps]
    assert [n.score for n in found] == [step.score for step in walked.steps]
    assert all(type(n.score) is float for n in found)


def test_k_gives_exactly_that_many_best_first():
    index = built()
    total = len(index.core.search(QUESTION, k=99).best(99))
    for k in (1, 3, 8, 99):
        found = index.as_retriever(k=k).retrieve(QUESTION)
        best = index.core.search(QUESTION, k=k).best(k)
        assert [n.node.node_id for n in found] == [step.node.id for step in best]
        assert len(found) == min(k, total)


def test_document_ids_and_search_options_reach_the_walk():
    index = built()
    found = index.as_retriever(document_ids=["mill"], search=ALL).retrieve(QUESTION)
    assert {n.node.ref_doc_id for n in found} == {"mill"}
    assert len(found) > len(
        index.as_retriever(search=SearchConfig(token_budget=20)).retrieve("bell")
    )
    with pytest.raises(InputError, match="'nope'"):
        index.as_retriever(document_ids=["nope"]).retrieve(QUESTION)


def test_what_is_no_document_is_refused():
    for make in (HWDAGIndex.from_documents, HWDAGIndex):
        with pytest.raises(InputError, match="str"):
            make(["text"], **models())


@pytest.mark.parametrize("streaming", [False, True])
def test_an_empty_index_finds_nothing_and_reports_it(streaming):
    """As every index of LlamaIndex, so that one of several that are fused may be empty."""
    index = HWDAGIndex(nodes=[], **models())
    assert index.as_retriever(k=2).retrieve(QUESTION) == []
    for mode in ("walk", "synthesize"):
        engine = index.as_query_engine(answer_mode=mode, streaming=streaming)
        response = engine.query(QUESTION)
        assert str(response) == "Empty Response"
        assert response.source_nodes == []


async def test_retrieval_does_not_block_the_loop():
    """The walk waits for something that only the loop can do."""
    reached, released = threading.Event(), threading.Event()

    def p_yes(question: str, texts: list[str]) -> float:
        reached.set()
        return 1.0 if released.wait(30) else 0.0

    index = built(reader=ScriptedLM(p_yes=p_yes))
    asked = SearchConfig(confidence=0.5)
    walking = asyncio.create_task(index.as_retriever(search=asked).aretrieve(QUESTION))
    while not reached.is_set():
        await asyncio.sleep(0)
    assert not walking.done()
    released.set()
    assert (await walking)[-1].node.metadata["hwdag"]["stop"] == "sufficient"


async def test_sync_and_async_retrieve_the_same():
    retriever = built().as_retriever(k=4)
    assert plain(await retriever.aretrieve(QUESTION)) == plain(retriever.retrieve(QUESTION))


# --- answers


async def test_the_standard_query_engine_is_also_asynchronous():
    engine = built().as_query_engine(k=2, answer_mode="synthesize")
    assert str(await engine.aquery(QUESTION)) == str(engine.query(QUESTION))


def test_any_llm_and_synthesizer_may_answer():
    engine = built().as_query_engine(MockLLM(max_tokens=3), k=2, response_mode="refine")
    assert str(engine.query(QUESTION)) == "text text text"
    streaming = built().as_query_engine(k=2, streaming=True)
    assert isinstance(streaming.query(QUESTION), StreamingResponse)


def test_the_walk_answers_from_its_own_cache():
    index = built()
    engine = index.as_query_engine(answer_mode="walk")
    assert isinstance(engine, HWDAGQueryEngine)
    response = engine.query(QUESTION)
    answer = index.core.answer(QUESTION)
    assert str(response) == answer.text == "The smith mends the bell of the ferry."
    assert plain(response.source_nodes) == plain(engine.retrieve(QueryBundle(QUESTION)))
    cited = response.metadata["hwdag"]["citations"]
    assert [c["text"] for c in cited] == [c.text for c in answer.citations]


class Unstreamed(AppLLM):
    """Streams nothing, or fills the text so far alone."""

    def stream_complete(self, prompt, formatted=False, **_):
        if self.name == "none":
            raise NotImplementedError
        return iter(
            [CompletionResponse(text="The smith"), CompletionResponse(text="The smith [1]")]
        )


@pytest.mark.parametrize("name", ["none", "text alone"])
def test_an_llm_that_streams_nothing_answers_a_walk(name):
    llm = Unstreamed(reply=lambda prompt: "The smith [1]", name=name)
    engine = built().as_query_engine(llm, answer_mode="walk")
    assert str(engine.query(QUESTION)) == "The smith [1]"


def test_a_streamed_walk_gives_the_same_answer_and_its_citations_at_the_end():
    index = built()
    whole = index.as_query_engine(answer_mode="walk").query(QUESTION)
    streamed = index.as_query_engine(answer_mode="walk", streaming=True).query(QUESTION)
    assert isinstance(streamed, StreamingResponse)
    assert plain(streamed.source_nodes) == plain(whole.source_nodes)
    assert streamed.metadata == {}
    pieces = list(streamed.response_gen)
    assert len(pieces) > 1
    assert "".join(pieces) == str(whole)
    assert streamed.metadata["hwdag"]["citations"] == whole.metadata["hwdag"]["citations"]


@pytest.mark.parametrize("streaming", [False, True])
def test_the_walk_returns_the_empty_response_of_other_engines(streaming):
    options: dict[str, Any] = {"filters": {"place": "nowhere"}, "streaming": streaming}
    index = built()
    said = [str(index.as_query_engine(**options, **way).query(QUESTION)) for way in WAYS]
    assert said == ["Empty Response", "Empty Response"]


WAYS: list[dict[str, Any]] = [{}, {"answer_mode": "walk"}]


async def test_the_walk_answers_asynchronously_too():
    index = built()
    whole = index.as_query_engine(answer_mode="walk").query(QUESTION)
    assert str(await index.as_query_engine(answer_mode="walk").aquery(QUESTION)) == str(whole)
    engine = index.as_query_engine(answer_mode="walk", streaming=True)
    streamed = await engine.aquery(QUESTION)
    assert isinstance(streamed, AsyncStreamingResponse)
    assert "".join([piece async for piece in streamed.async_response_gen()]) == str(whole)
    assert "citations" in streamed.metadata["hwdag"]


@pytest.mark.parametrize(
    "mode", ["context", *(m for m in ChatMode if m not in (ChatMode.REACT, ChatMode.OPENAI))]
)
def test_chat_engines_need_no_other_model(mode):
    options = {} if mode == ChatMode.SIMPLE else {"k": 2}
    engine = built().as_chat_engine(mode, memory=chat_memory(), **options)
    assert str(engine.chat(QUESTION))


def test_chat_engines_take_the_options_of_both_sides():
    engine = built().as_chat_engine(
        k=2, system_prompt="Be brief.", memory=chat_memory(), llm=MockLLM(max_tokens=2)
    )
    assert str(engine.chat(QUESTION)) == "text text"
    with pytest.raises(UnknownOption, match="react"):
        built().as_chat_engine(ChatMode.REACT)


class Keeping(BaseNodePostprocessor):
    """Keeps nodes that say something, and reads their provenance."""

    word: str

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        assert all(n.node.metadata["hwdag"]["id"] == n.node.node_id for n in nodes)
        return [n for n in nodes if self.word in n.text]


@pytest.mark.parametrize("mode", ["compact", "refine", "tree_summarize", "accumulate"])
@pytest.mark.parametrize("sources", [False, True])
def test_no_prompt_holds_provenance_with_any_postprocessor(mode, sources):
    seen: list[str] = []

    def reply(prompt: str) -> str:
        seen.append(prompt)
        return "An answer."

    index = built()
    engine = index.as_query_engine(
        HWDAGLLM(ScriptedLM(reply=reply)),
        search=ALL,
        returns="sources" if sources else "nodes",
        response_mode=mode,
        node_postprocessors=[
            Keeping(word="grain"),
            SimilarityPostprocessor(similarity_cutoff=0.0),
            LongContextReorder(),
        ],
    )
    response = engine.query(QUESTION)
    assert str(response)
    assert {n.node.ref_doc_id for n in response.source_nodes} == {"mill", "ferry"}
    for n in response.source_nodes:
        assert n.node.metadata["hwdag"]["stop"] == "exhausted"
        assert json.loads(json.dumps(n.node.metadata)) == n.node.metadata
    assert any("grain" in prompt for prompt in seen)
    for prompt in seen:
        assert not any(word in prompt for word in ("hwdag", "p_yes", "/secret", "relevance"))


def test_postprocessors_and_response_modes_without_an_llm_are_honoured_by_the_reader():
    index = built()
    scores = sorted(n.score for n in index.as_retriever(k=4).retrieve(QUESTION))
    cut = SimilarityPostprocessor(similarity_cutoff=scores[2])
    ranked = HWDAGReranker(reader=tiny_lm(), top_n=1)
    for processors, left in (([cut], 2), ([ranked], 1), ([cut, ranked], 1)):
        engine = index.as_query_engine(k=4, node_postprocessors=processors)
        response = engine.query(QUESTION)
        assert len(response.source_nodes) == left
        assert str(response)
    silent = index.as_query_engine(k=4, response_mode="no_text").query(QUESTION)
    assert (len(silent.source_nodes), silent.response) == (4, "")


@pytest.mark.parametrize("name", ["node_postprocessors", "response_mode", "response_synthesizer"])
def test_the_walk_lists_the_options_that_need_a_synthesizer(name):
    with pytest.raises(UnknownOption, match=name):
        built("mill").as_query_engine(answer_mode="walk", **{name: None})


# --- options


@pytest.mark.parametrize(
    "call",
    [
        lambda index: index.as_retriever(top_k=2),
        lambda index: index.as_query_engine(top_k=2),
        lambda index: index.as_query_engine(answer_mode="walk", top_k=2),
        lambda index: index.as_chat_engine(top_k=2),
        lambda index: index.insert_nodes([], top_k=2),
        lambda index: index.insert(documents("mill")[0], top_k=2),
        lambda index: index.delete_ref_doc("mill", top_k=2),
    ],
)
def test_unknown_options_are_refused_by_name(call):
    with pytest.raises(UnknownOption, match="top_k"):
        call(built("mill"))


def test_similarity_top_k_is_k():
    index = built()
    wanted = plain(index.as_retriever(k=2).retrieve(QUESTION))
    assert plain(index.as_retriever(similarity_top_k=2).retrieve(QUESTION)) == wanted
    assert plain(index.as_retriever(similarity_top_k=2, k=2).retrieve(QUESTION)) == wanted
    for engine in (
        index.as_query_engine(MockLLM(), similarity_top_k=2),
        index.as_query_engine(answer_mode="walk", similarity_top_k=2),
        CitationQueryEngine.from_args(index, llm=MockLLM(), similarity_top_k=2),
    ):
        assert {n.node.ref_doc_id for n in engine.query(QUESTION).source_nodes}
    with pytest.raises(UnknownOption, match="similarity_top_k"):
        index.as_retriever(k=2, similarity_top_k=3)


def test_the_models_of_settings_are_the_default(monkeypatch, caplog):
    index = built()
    engines.warn_reader_answers.cache_clear()
    for _ in range(2):
        index.as_query_engine(k=1).query(QUESTION)
    assert len([r for r in caplog.records if "Settings.llm" in r.message]) == 1
    monkeypatch.setattr(Settings, "_llm", MockLLM(max_tokens=1))
    monkeypatch.setattr(Settings, "_embed_model", MockEmbedding(embed_dim=3))
    assert str(index.as_query_engine(k=1).query(QUESTION)) == "text"
    made = HWDAGIndex.from_documents(documents(), reader=ScriptedLM(), config=CONFIG)
    assert made.core.embedder.dimension == 3
    assert index.core.embedder.dimension != 3
    chosen = HWDAGIndex.from_documents(documents(), **models())
    assert chosen.core.embedder.name == HashingEmbedder().name
    again = load_index_from_storage(made.storage_context, reader=ScriptedLM())
    assert again.core.embedder.name == made.core.embedder.name
    kept = load_index_from_storage(
        chosen.storage_context, reader=ScriptedLM(), embedder=HashingEmbedder()
    )
    assert plain(kept.as_retriever(k=2).retrieve(QUESTION)) == plain(
        chosen.as_retriever(k=2).retrieve(QUESTION)
    )


def test_unknown_options_of_a_build_are_refused_by_name():
    options: dict[str, Any] = {"chunk_size": 3}
    with pytest.raises(UnknownOption, match="chunk_size"):
        HWDAGIndex.from_documents([], **options)
    with pytest.raises(UnknownOption, match="chunk_size"):
        HWDAGRetriever(built("mill"), **options)


def test_values_of_options_are_checked():
    index = built("mill")
    mode: Any = "both"
    with pytest.raises(UnknownOption, match="answer_mode"):
        index.as_query_engine(answer_mode=mode)
    with pytest.raises(InputError, match=r"\bk\b"):
        index.as_retriever(k=0)


# --- models of LlamaIndex


def test_an_llm_writes_and_an_embedding_model_embeds():
    config = BuildConfig(chunk_tokens=12, window_tokens=220, points="generated")
    index = HWDAGIndex.from_documents(
        documents("mill"),
        reader=ScriptedLM(),
        writer=BulletLLM(),
        embedder=MockEmbedding(embed_dim=4),
        config=config,
    )
    nodes = index.core.graphs["mill"].nodes
    assert {node.text for node in nodes if node.level == 2} == {"A point about the mill."}
    assert {node.origin for node in nodes if node.level == 2} == {"generated"}
    np.testing.assert_allclose(index.core.entries["mill"].vectors, 0.5)


class BulletLLM(MockLLM):
    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
        return super().complete("* A point about the mill.")


def test_embeddings_are_normalised():
    embedder = as_embedder(MockEmbedding(embed_dim=9))
    assert embedder.dimension == 9
    assert embedder.embed([]).shape == (0, 9)
    np.testing.assert_allclose(np.linalg.norm(embedder.embed(["a", "b"]), axis=1), 1, rtol=1e-6)
    assert embedder.name == "llama-index:MockEmbedding:unknown"


def test_weights_of_a_hugging_face_llm_are_used_and_not_loaded_again():
    weights, tokenizer = tiny.model(), tiny.tokenizer()
    llm = HuggingFaceLLM(model=weights, tokenizer=tokenizer, context_window=4096, max_new_tokens=8)
    index = HWDAGIndex.from_documents(
        documents("ferry"), reader=llm, writer=llm, embedder=HashingEmbedder()
    )
    reader = index.core.reader
    assert isinstance(reader, hwdag.HuggingFaceLM)
    assert reader.model is weights
    before = [parameter.data_ptr() for parameter in weights.parameters()]
    response = index.as_query_engine(answer_mode="walk").query(QUESTION)
    assert response.source_nodes
    assert llm.complete("Who?").text is not None  # it still works
    assert [parameter.data_ptr() for parameter in weights.parameters()] == before
    assert {n.node.metadata["hwdag"]["document_id"] for n in response.source_nodes} == {"ferry"}


def test_an_embedding_model_that_is_asynchronous_inside_is_taken():
    class Asynchronous(MockEmbedding):
        async def _aembedded(self, text: str) -> list[float]:
            await asyncio.sleep(0)
            return HashingEmbedder(4).embed_query(text).tolist()

        def _get_text_embedding(self, text: str) -> list[float]:
            return asyncio.run(self._aembedded(text))

        def _get_query_embedding(self, query: str) -> list[float]:
            return asyncio.run(self._aembedded(query))

    given = HashingEmbedder(4)
    index, other = built(embedder=Asynchronous(embed_dim=4)), built(embedder=given)
    assert [n.node.node_id for n in index.as_retriever().retrieve(QUESTION)] == [
        n.node.node_id for n in other.as_retriever().retrieve(QUESTION)
    ]


def test_models_that_will_not_do_are_refused():
    for options, error in (
        ({"reader": MockLLM()}, ReaderRequired),
        ({"writer": 3}, InputError),
        ({"embedder": 3}, InputError),
    ):
        with pytest.raises(error):
            HWDAGIndex(nodes=[], **options)


# --- the package and the example


def test_a_missing_framework_is_named_with_the_way_to_install_it():
    code = "import sys; sys.modules['llama_index'] = None; import llama_index_hwdag"
    assert "hwdag[llama-index]" in python(code, ends=1).stderr


@pytest.mark.model
def test_the_quickstart_runs(capsys):
    path = ROOT / "examples" / "llama_index_quickstart.py"
    spec = importlib.util.spec_from_file_location("llama_index_quickstart", path)
    assert spec is not None and spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    assert example.main().strip()
    assert "mechanism level" in capsys.readouterr().out

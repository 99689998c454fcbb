"""The LlamaIndex face over a scripted model: everything that the framework may ask of an index."""

from __future__ import annotations

import asyncio
import importlib.util
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny
from llama_index.core import Document, Settings, StorageContext, load_index_from_storage
from llama_index.core.base.response.schema import AsyncStreamingResponse, StreamingResponse
from llama_index.core.chat_engine.types import ChatMode
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.indices.base import BaseIndex
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.llms import MockLLM
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.retrievers import BaseRetriever, QueryFusionRetriever
from llama_index.core.schema import (
    MetadataMode,
    NodeRelationship,
    NodeWithScore,
    QueryBundle,
    RelatedNodeInfo,
    TextNode,
)

import hwdag
from hwdag.config import BuildConfig, SearchConfig
from hwdag.embedding.hashing import HashingEmbedder
from hwdag.errors import (
    IndexCorrupt,
    IndexMismatch,
    InputError,
    ReaderRequired,
    UnknownOption,
    WriterFailed,
)
from hwdag.lm.scripted import ScriptedLM
from llama_index_hwdag import HWDAGLLM, HWDAGIndex, HWDAGQueryEngine, HWDAGRetriever, HWDAGStepEvent
from llama_index_hwdag.adapters import as_embedder, as_reader

ROOT = Path(__file__).parent.parent

TEXTS = {
    "mill": "The miller keeps grain behind the river. He counts the sacks at night. "
    "His daughter sells the flour in town. The town lies beyond the hill.",
    "ferry": "The ferry crosses the river at dawn. Its bell wakes the village. "
    "The smith mends the bell of the ferry. He is paid in grain.",
    "orchard": "Nobody owns the orchard. Its apples go to whoever rises first.",
}

QUESTION = "Who mends the bell of the ferry?"

CONFIG = BuildConfig(chunk_tokens=12, window_tokens=220)
"""Several chunks, windows and levels for texts of four sentences."""

ALL = SearchConfig(progress="budget")


def models(**changes: Any) -> dict[str, Any]:
    return {"reader": ScriptedLM(), "embedder": HashingEmbedder()} | changes


def documents(*names: str) -> list[Document]:
    return [
        Document(
            id_=name,
            text=TEXTS[name],
            metadata={"place": name, "path": f"/secret/{name}"},
            excluded_llm_metadata_keys=["path"],
        )
        for name in names or TEXTS
    ]


def built(*names: str, **options: Any) -> HWDAGIndex:
    return HWDAGIndex.from_documents(documents(*names), **models(config=CONFIG, **options))


def plain(found: list[NodeWithScore]) -> list[tuple[Any, ...]]:
    """Everything that a user sees of retrieved nodes."""
    return [(n.node.node_id, n.text, n.score, n.node.metadata, n.node.hash) for n in found]


def persisted(index: HWDAGIndex, folder: Path) -> StorageContext:
    index.storage_context.persist(str(folder))
    return StorageContext.from_defaults(persist_dir=str(folder))


@pytest.fixture(autouse=True)
def no_other_models(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever resolves the global LLM or embedding model would ask for OpenAI."""
    for name in ("llm", "embed_model"):
        monkeypatch.setattr(type(Settings), name, property(lambda _: pytest.fail("touched")))


# --- the classes and the build


def test_the_face_is_what_llama_index_expects() -> None:
    assert BaseIndex in HWDAGIndex.__mro__
    assert BaseRetriever in HWDAGRetriever.__mro__
    index = built()
    assert isinstance(index.as_retriever(), BaseRetriever)
    assert isinstance(index.as_query_engine(), RetrieverQueryEngine)


def test_documents_become_the_graphs_that_the_core_builds() -> None:
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


def test_the_docstore_holds_documents_nodes_and_weighted_edges() -> None:
    index = built("mill")
    graph = index.core.graphs["mill"]
    stored = [index.docstore.get_node(node.id) for node in graph.nodes]
    assert [node.ref_doc_id for node in stored] == ["mill"] * len(graph)
    assert [node.get_content() for node in stored] == [node.text for node in graph.nodes]
    for i, node in enumerate(stored):
        children, weights = graph.children(i)
        edges = node.child_nodes or []
        assert [edge.node_id for edge in edges] == [graph.nodes[j].id for j in children]
        assert [edge.metadata["weight"] for edge in edges] == list(weights)
    assert index.docstore.get_node("mill").get_content() == TEXTS["mill"]
    info = index.ref_doc_info["mill"]
    assert info.node_ids == [node.id for node in graph.nodes]
    assert info.metadata == {"place": "mill", "path": "/secret/mill"}


def test_chunks_know_their_offsets() -> None:
    index = built("ferry")
    chunks = [node for node in index.core.graphs["ferry"].nodes if node.level == 1]
    for chunk in chunks:
        node = index.docstore.get_node(chunk.id)
        assert isinstance(node, TextNode)
        assert TEXTS["ferry"][node.start_char_idx : node.end_char_idx] == node.text


def test_nodes_of_one_ref_doc_are_joined_into_one_document() -> None:
    relation = {NodeRelationship.SOURCE: RelatedNodeInfo(node_id="mill")}
    first, second = TEXTS["mill"][:71], TEXTS["mill"][71:]
    nodes = [
        TextNode(id_="p1", text=first, relationships=relation, metadata={"book": 1, "page": 1}),
        TextNode(id_="p2", text=second, relationships=relation, metadata={"book": 1, "page": 2}),
        TextNode(id_="alone", text=TEXTS["orchard"]),
    ]
    index = HWDAGIndex(nodes, **models())
    assert {key: document.text for key, document in index.core.documents.items()} == {
        "mill": f"{first}\n\n{second}",
        "alone": TEXTS["orchard"],
    }
    assert index.core.documents["mill"].metadata == {"book": 1}


def test_more_nodes_of_a_ref_doc_join_the_others_and_a_document_replaces_them() -> None:
    relation = {NodeRelationship.SOURCE: RelatedNodeInfo(node_id="mill")}
    first, second = (
        TextNode(id_=f"p{i}", text=text, relationships=relation)
        for i, text in enumerate((TEXTS["mill"], TEXTS["orchard"]))
    )
    index = HWDAGIndex([first], **models(config=CONFIG))
    index.insert_nodes([second])
    assert index.core.documents["mill"].text == f"{TEXTS['mill']}\n\n{TEXTS['orchard']}"
    index.insert(documents("mill")[0])
    assert index.core.documents["mill"].text == TEXTS["mill"]
    index.insert_nodes([second])
    assert index.core.documents["mill"].text == TEXTS["orchard"]


def test_a_pipeline_with_a_splitter_feeds_the_index() -> None:
    splitter = SentenceSplitter(chunk_size=24, chunk_overlap=0)
    nodes = IngestionPipeline(transformations=[splitter]).run(documents=documents())
    assert len(nodes) > len(TEXTS)
    index = HWDAGIndex(nodes, **models())
    assert index.core.documents.keys() == TEXTS.keys()
    assert index.core.documents["ferry"].text.split() == TEXTS["ferry"].split()
    assert index.core.documents["ferry"].metadata["place"] == "ferry"


def test_transformations_of_documents_are_applied_to_later_ones_too() -> None:
    splitter = SentenceSplitter(chunk_size=24, chunk_overlap=0)
    index = HWDAGIndex.from_documents(
        documents("mill"), transformations=[splitter], **models(config=CONFIG)
    )
    index.insert(documents("ferry")[0])
    assert "\n\n" in index.core.documents["mill"].text
    assert "\n\n" in index.core.documents["ferry"].text
    assert index.refresh_ref_docs(documents("mill", "ferry")) == [False, False]


def test_blank_documents_are_skipped_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    index = HWDAGIndex.from_documents([Document(id_="blank", text=" \n")], **models())
    assert "blank was skipped" in caplog.text
    assert index.report is not None
    assert [name for name, _ in index.report.skipped] == ["blank"]
    assert len(index.core) == 0


def test_two_contents_under_one_id_are_refused() -> None:
    both = [Document(id_="a", text="The one."), Document(id_="a", text="The other.")]
    with pytest.raises(InputError, match="have the id 'a'"):
        HWDAGIndex.from_documents(both, **models())


def test_a_document_is_in_one_index_of_a_storage_context_only() -> None:
    index = built("mill")
    with pytest.raises(InputError, match="'mill' is in the HWDAG index"):
        built("mill", storage_context=index.storage_context)
    built("ferry", storage_context=index.storage_context)


# --- retrieval


def test_nodes_come_as_the_walk_visits_them() -> None:
    index = built()
    found = index.as_retriever().retrieve(QUESTION)
    walked = index.core.search(QUESTION)
    assert [n.node.node_id for n in found] == [step.node.id for step in walked.steps]
    assert [n.text for n in found] == [step.node.text for step in walked.steps]
    assert [n.score for n in found] == [step.score for step in walked.steps]
    assert all(type(n.score) is float for n in found)


def test_k_gives_exactly_that_many_best_first() -> None:
    index = built()
    for k in (1, 3, 8):
        found = index.as_retriever(k=k).retrieve(QUESTION)
        best = index.core.search(QUESTION, k=k).best(k)
        assert [n.node.node_id for n in found] == [step.node.id for step in best]
        assert len(found) == k


def test_document_ids_and_search_options_reach_the_walk() -> None:
    index = built()
    found = index.as_retriever(document_ids=["mill"], search=ALL).retrieve(QUESTION)
    assert {n.node.ref_doc_id for n in found} == {"mill"}
    assert len(found) > len(
        index.as_retriever(search=SearchConfig(token_budget=20)).retrieve("bell")
    )


def test_sources_are_passages_of_the_original() -> None:
    index = built()
    found = index.as_retriever(search=ALL, return_sources=True).retrieve(QUESTION)
    for n in found:
        where = n.node.metadata["hwdag"]
        text = TEXTS[where["document_id"]]
        assert n.text == "\n".join(text[start:end] for start, end in where["spans"])


def test_provenance_is_metadata_that_no_model_sees() -> None:
    [found] = built().as_retriever(k=1).retrieve(QUESTION)
    node = found.node
    assert node.metadata["hwdag"]["id"] == node.node_id
    assert node.metadata["place"] == "ferry"
    for mode in (MetadataMode.LLM, MetadataMode.EMBED):
        assert "p_yes" not in node.get_content(mode)
        assert "place: ferry" in node.get_content(mode)
    assert "/secret" not in node.get_content(MetadataMode.LLM)


def test_a_retrieved_node_may_be_changed_without_changing_the_index() -> None:
    retriever = built().as_retriever(k=1)
    before = plain(retriever.retrieve(QUESTION))
    [found] = retriever.retrieve(QUESTION)
    found.node.metadata.clear()
    found.node.excluded_llm_metadata_keys.clear()
    assert plain(retriever.retrieve(QUESTION)) == before


def test_every_visited_node_is_an_event() -> None:
    seen: list[str] = []

    class Handler(BaseEventHandler):
        def handle(self, event: Any, **kwargs: Any) -> None:
            if isinstance(event, HWDAGStepEvent):
                seen.append(event.node_id)

    handler = Handler()
    get_dispatcher().add_event_handler(handler)
    try:
        found = built().as_retriever(search=ALL).retrieve(QUESTION)
    finally:
        get_dispatcher().event_handlers.remove(handler)
    assert seen == [n.node.node_id for n in found]


def test_the_retriever_works_inside_others() -> None:
    index = built()
    fused = QueryFusionRetriever(
        [index.as_retriever(k=2), index.as_retriever(k=3, return_sources=True)],
        llm=MockLLM(),
        num_queries=1,
        use_async=False,
        similarity_top_k=3,
    )
    assert len(fused.retrieve(QUESTION)) == 3


def test_an_empty_question_and_an_empty_index_are_refused() -> None:
    with pytest.raises(InputError, match="question is empty"):
        built().as_retriever().retrieve(" ")
    with pytest.raises(InputError, match="holds no document"):
        HWDAGIndex(nodes=[], **models()).as_retriever().retrieve(QUESTION)


async def test_retrieval_does_not_block_the_loop() -> None:
    """The walk waits for something that only the loop can do."""
    reached, released = threading.Event(), threading.Event()

    def p_yes(question: str, texts: list[str]) -> float:
        reached.set()
        return 1.0 if released.wait(30) else 0.0

    index = built(reader=ScriptedLM(p_yes=p_yes))
    walking = asyncio.create_task(index.as_retriever().aretrieve(QUESTION))
    while not reached.is_set():
        await asyncio.sleep(0)
    assert not walking.done()
    released.set()
    assert (await walking)[-1].node.metadata["hwdag"]["stop"] == "sufficient"


async def test_sync_and_async_retrieve_the_same() -> None:
    retriever = built().as_retriever(k=4)
    assert plain(await retriever.aretrieve(QUESTION)) == plain(retriever.retrieve(QUESTION))


# --- answers


def test_the_standard_query_engine_needs_no_other_model() -> None:
    response = built().as_query_engine(k=2).query(QUESTION)
    assert len(response.source_nodes) == 2
    assert str(response)


async def test_the_standard_query_engine_is_also_asynchronous() -> None:
    engine = built().as_query_engine(k=2)
    assert str(await engine.aquery(QUESTION)) == str(engine.query(QUESTION))


def test_any_llm_and_synthesizer_may_answer() -> None:
    engine = built().as_query_engine(MockLLM(max_tokens=3), k=2, response_mode="refine")
    assert str(engine.query(QUESTION)) == "text text text"
    streaming = built().as_query_engine(k=2, streaming=True)
    assert isinstance(streaming.query(QUESTION), StreamingResponse)


def test_prompts_of_the_standard_engine_hold_no_provenance() -> None:
    seen: list[str] = []

    def reply(prompt: str) -> str:
        seen.append(prompt)
        return "An answer."

    built(reader=ScriptedLM(reply=reply)).as_query_engine(search=ALL).query(QUESTION)
    assert any("smith mends" in prompt for prompt in seen)
    assert not any("p_yes" in prompt or "/secret" in prompt for prompt in seen)


def test_the_walk_answers_from_its_own_cache() -> None:
    index = built()
    engine = index.as_query_engine(answer_mode="walk")
    assert isinstance(engine, HWDAGQueryEngine)
    response = engine.query(QUESTION)
    answer = index.core.answer(QUESTION)
    assert str(response) == answer.text == "The smith mends the bell of the ferry."
    assert plain(response.source_nodes) == plain(engine.retrieve(QueryBundle(QUESTION)))
    assert response.metadata is not None
    cited = response.metadata["hwdag"]["citations"]
    assert [c["text"] for c in cited] == [c.text for c in answer.citations]


def test_a_streamed_walk_gives_the_same_answer_and_its_citations_at_the_end() -> None:
    index = built()
    whole = index.as_query_engine(answer_mode="walk").query(QUESTION)
    streamed = index.as_query_engine(answer_mode="walk", streaming=True).query(QUESTION)
    assert isinstance(streamed, StreamingResponse)
    assert plain(streamed.source_nodes) == plain(whole.source_nodes)
    assert streamed.metadata == {}
    pieces = list(streamed.response_gen)
    assert len(pieces) > 1
    assert "".join(pieces) == str(whole)
    assert streamed.metadata is not None and whole.metadata is not None
    assert streamed.metadata["hwdag"]["citations"] == whole.metadata["hwdag"]["citations"]


async def test_the_walk_answers_asynchronously_too() -> None:
    index = built()
    whole = index.as_query_engine(answer_mode="walk").query(QUESTION)
    assert str(await index.as_query_engine(answer_mode="walk").aquery(QUESTION)) == str(whole)
    engine = index.as_query_engine(answer_mode="walk", streaming=True)
    streamed = await engine.aquery(QUESTION)
    assert isinstance(streamed, AsyncStreamingResponse)
    assert "".join([piece async for piece in streamed.async_response_gen()]) == str(whole)
    assert streamed.metadata is not None and "citations" in streamed.metadata["hwdag"]


@pytest.mark.parametrize(
    "mode", [m for m in ChatMode if m not in (ChatMode.REACT, ChatMode.OPENAI)]
)
def test_chat_engines_need_no_other_model(mode: ChatMode) -> None:
    options = {} if mode == ChatMode.SIMPLE else {"k": 2}
    engine = built().as_chat_engine(mode, memory=chat_memory(), **options)
    assert str(engine.chat(QUESTION))


def chat_memory() -> ChatMemoryBuffer:
    """Not the default one, which leaves a database connection open."""
    return ChatMemoryBuffer.from_defaults(token_limit=1000)


def test_chat_engines_take_the_options_of_both_sides() -> None:
    engine = built().as_chat_engine(
        k=2, system_prompt="Be brief.", memory=chat_memory(), llm=MockLLM(max_tokens=2)
    )
    assert str(engine.chat(QUESTION)) == "text text"
    with pytest.raises(UnknownOption, match="react"):
        built().as_chat_engine(ChatMode.REACT)


async def test_the_llm_is_the_reader() -> None:
    reader = ScriptedLM(reply=lambda prompt: prompt.upper())
    llm = built(reader=reader).as_llm(max_new_tokens=2)
    assert llm.complete("one two three").text == "ONE TWO"
    assert (await llm.acomplete("one two three", max_new_tokens=1)).text == "ONE"
    assert [piece.delta for piece in llm.stream_complete("one two three")] == ["ONE TWO"]
    assert llm.metadata.context_window == reader.context_tokens
    with pytest.raises(UnknownOption, match="temperature"):
        llm.complete("one", temperature=1.0)


def test_a_reader_that_only_reads_is_no_llm() -> None:
    class ReaderOnly(ScriptedLM):
        write = None  # type: ignore[assignment]

    with pytest.raises(InputError, match="cannot write"):
        HWDAGLLM(ReaderOnly())


# --- options


@pytest.mark.parametrize(
    "call",
    [
        lambda index: index.as_retriever(similarity_top_k=2),
        lambda index: index.as_query_engine(similarity_top_k=2),
        lambda index: index.as_query_engine(answer_mode="walk", similarity_top_k=2),
        lambda index: index.as_chat_engine(similarity_top_k=2),
        lambda index: index.insert_nodes([], similarity_top_k=2),
        lambda index: index.insert(documents("mill")[0], similarity_top_k=2),
        lambda index: index.delete_ref_doc("mill", similarity_top_k=2),
    ],
)
def test_unknown_options_are_refused_by_name(call: Callable[[HWDAGIndex], object]) -> None:
    with pytest.raises(UnknownOption, match="similarity_top_k"):
        call(built("mill"))


def test_unknown_options_of_a_build_are_refused_by_name() -> None:
    options: dict[str, Any] = {"chunk_size": 3}
    with pytest.raises(TypeError, match="chunk_size"):
        HWDAGIndex.from_documents([], **options)
    with pytest.raises(TypeError, match="chunk_size"):
        HWDAGRetriever(built("mill"), **options)


def test_values_of_options_are_checked() -> None:
    index = built("mill")
    mode: Any = "both"
    with pytest.raises(UnknownOption, match="answer_mode"):
        index.as_query_engine(answer_mode=mode)
    with pytest.raises(UnknownOption, match="takes no llm"):
        index.as_query_engine(MockLLM(), answer_mode="walk")
    with pytest.raises(InputError, match="k must be"):
        index.as_retriever(k=0)


# --- models of LlamaIndex


def test_an_llm_writes_and_an_embedding_model_embeds() -> None:
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


def test_embeddings_are_normalised() -> None:
    embedder = as_embedder(MockEmbedding(embed_dim=9))
    assert embedder.dimension == 9
    assert embedder.embed([]).shape == (0, 9)
    np.testing.assert_allclose(np.linalg.norm(embedder.embed(["a", "b"]), axis=1), 1, rtol=1e-6)
    assert embedder.name == "llama-index:MockEmbedding:unknown"


def test_weights_of_a_hugging_face_llm_are_used_and_not_loaded_again() -> None:
    class HuggingFaceLLM:
        _model = tiny.model()
        _tokenizer = tiny.tokenizer()

    reader = as_reader(HuggingFaceLLM())
    assert isinstance(reader, hwdag.HuggingFaceLM)
    assert reader.model is HuggingFaceLLM._model


def test_models_that_will_not_do_are_refused() -> None:
    for options, error in (
        ({"reader": MockLLM()}, ReaderRequired),
        ({"writer": 3}, InputError),
        ({"embedder": 3}, InputError),
    ):
        with pytest.raises(error, match="must be a"):
            HWDAGIndex(nodes=[], **options)


# --- storage


def test_a_loaded_index_retrieves_the_same(tmp_path: Path) -> None:
    index = built()
    storage = persisted(index, tmp_path)
    loaded = load_index_from_storage(storage, reader=ScriptedLM())
    assert isinstance(loaded, HWDAGIndex)
    for k in (None, 5):
        ours, theirs = loaded.as_retriever(k=k), index.as_retriever(k=k)
        assert plain(ours.retrieve(QUESTION)) == plain(theirs.retrieve(QUESTION))
    engines = [i.as_query_engine(answer_mode="walk") for i in (loaded, index)]
    ours, theirs = (engine.query(QUESTION) for engine in engines)
    assert (str(ours), ours.metadata) == (str(theirs), theirs.metadata)
    assert loaded.ref_doc_info == index.ref_doc_info


def test_a_loaded_index_is_the_same_to_the_last_bit(tmp_path: Path) -> None:
    index = built()
    loaded = load_index_from_storage(persisted(index, tmp_path))
    assert isinstance(loaded, HWDAGIndex)
    for name, entry in index.core.entries.items():
        other = loaded.core.entries[name]
        assert other.document == entry.document
        assert other.graph.nodes == entry.graph.nodes
        np.testing.assert_array_equal(other.graph.raw.toarray(), entry.graph.raw.toarray())
        np.testing.assert_array_equal(other.graph.edges.toarray(), entry.graph.edges.toarray())
        np.testing.assert_array_equal(other.vectors, entry.vectors)
    assert loaded.core.config == CONFIG


def test_joined_nodes_are_loaded_as_they_were_joined(tmp_path: Path) -> None:
    splitter = SentenceSplitter(chunk_size=24, chunk_overlap=0)
    index = HWDAGIndex.from_documents(documents(), transformations=[splitter], **models())
    loaded = load_index_from_storage(persisted(index, tmp_path))
    assert isinstance(loaded, HWDAGIndex)
    assert loaded.core.documents == index.core.documents


def test_loading_needs_no_model(tmp_path: Path) -> None:
    loaded = load_index_from_storage(persisted(built(reader=ScriptedLM(name="/nowhere")), tmp_path))
    assert isinstance(loaded, HWDAGIndex)
    assert loaded.core.built_by == "/nowhere"
    assert loaded.core.graphs.keys() == TEXTS.keys()


def test_a_loaded_index_can_be_changed_and_saved_again(tmp_path: Path) -> None:
    loaded = load_index_from_storage(persisted(built("mill"), tmp_path), reader=ScriptedLM())
    assert isinstance(loaded, HWDAGIndex)
    loaded.insert(documents("ferry")[0])
    loaded.delete_ref_doc("mill", delete_from_docstore=True)
    again = load_index_from_storage(persisted(loaded, tmp_path))
    assert isinstance(again, HWDAGIndex)
    assert again.core.documents.keys() == {"ferry"}


def test_an_empty_index_can_be_loaded_and_filled(tmp_path: Path) -> None:
    storage = persisted(HWDAGIndex(nodes=[], **models(config=CONFIG)), tmp_path)
    loaded = load_index_from_storage(storage, **models())
    assert isinstance(loaded, HWDAGIndex)
    loaded.insert(documents("mill")[0])
    assert loaded.core.graphs["mill"].nodes == built("mill").core.graphs["mill"].nodes


def test_another_embedder_or_config_is_refused(tmp_path: Path) -> None:
    storage = persisted(built("mill"), tmp_path)
    with pytest.raises(IndexMismatch, match="hashing-256"):
        load_index_from_storage(storage, embedder=HashingEmbedder(8))
    with pytest.raises(IndexMismatch, match="chunk_tokens=12"):
        load_index_from_storage(storage, config=BuildConfig())
    load_index_from_storage(storage, embedder="hashing-256", config=CONFIG)


def test_embeddings_of_llama_index_must_be_given_again(tmp_path: Path) -> None:
    storage = persisted(built("mill", embedder=MockEmbedding(embed_dim=4)), tmp_path)
    with pytest.raises(IndexMismatch, match="llama-index:MockEmbedding"):
        load_index_from_storage(storage)
    load_index_from_storage(storage, embedder=MockEmbedding(embed_dim=4))


def test_a_docstore_that_lost_or_changed_something_is_refused(tmp_path: Path) -> None:
    storage = persisted(built("mill"), tmp_path)
    storage.docstore.add_documents([Document(id_="mill", text="Something else altogether.")])
    with pytest.raises(IndexCorrupt, match="has changed since"):
        load_index_from_storage(storage)
    storage.docstore.delete_document("mill#1.0")
    with pytest.raises(IndexCorrupt, match="'mill'"):
        load_index_from_storage(storage)


# --- changes


def long_document(word: str = "grain") -> Document:
    """At least six nodes, the number with which the bug of upstream shows."""
    sentences = [f"The {word} of day {i} lies in room {i} of the old mill." for i in range(12)]
    return Document(id_="long", text=" ".join(sentences))


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_deleting_a_document_leaves_nothing_of_it(asynchronous: bool) -> None:
    index = built("ferry")
    kept = set(index.docstore.docs)
    index.insert(long_document())
    assert len(index.core.graphs["long"]) >= 6
    if asynchronous:
        await index.adelete_ref_doc("long", delete_from_docstore=True)
    else:
        index.delete_ref_doc("long", delete_from_docstore=True)
    assert set(index.docstore.docs) == kept
    assert index.ref_doc_info.keys() == index.core.documents.keys() == {"ferry"}
    assert index.docstore.get_document_hash("long") is None
    found = index.as_retriever(search=ALL).retrieve("grain")
    assert {n.node.ref_doc_id for n in found} == {"ferry"}


def test_deleting_keeps_the_docstore_unless_told_otherwise(
    caplog: pytest.LogCaptureFixture,
) -> None:
    index = built("ferry", "mill")
    before = set(index.docstore.docs)
    index.delete_ref_doc("mill")
    assert set(index.docstore.docs) == before
    assert index.ref_doc_info.keys() == {"ferry"}
    index.delete_ref_doc("mill")
    assert "mill not found" in caplog.text


def test_single_nodes_cannot_be_deleted() -> None:
    with pytest.raises(InputError, match="use delete_ref_doc"):
        built("mill").delete_nodes(["mill#1.0"])


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_refreshing_builds_only_what_is_new_or_changed(asynchronous: bool) -> None:
    reader = ScriptedLM()
    index = built("mill", "ferry", reader=reader)
    changed = Document(id_="mill", text=TEXTS["orchard"])
    new = Document(id_="new", text="A new document.")
    batch = [changed, documents("ferry")[0], new]
    built_before = reader.replays
    if asynchronous:
        refreshed = await index.arefresh_ref_docs(batch)
        again = await index.arefresh_ref_docs(batch)
    else:
        refreshed, again = index.refresh_ref_docs(batch), index.refresh_ref_docs(batch)
    assert (refreshed, again) == ([True, False, True], [False] * 3)
    assert reader.replays == built_before + 2
    assert index.core.documents["mill"].text == TEXTS["orchard"]
    graphs = [node.id for graph in index.core.graphs.values() for node in graph.nodes]
    assert set(index.docstore.docs) == {*graphs, "mill", "ferry", "new"}


async def test_inserting_is_possible_both_ways_and_gives_the_same() -> None:
    index, other = built("mill"), built("mill")
    index.insert(documents("ferry")[0])
    await other.ainsert(documents("ferry")[0])
    assert plain(index.as_retriever().retrieve(QUESTION)) == plain(
        other.as_retriever().retrieve(QUESTION)
    )
    assert plain(built("mill", "ferry").as_retriever().retrieve(QUESTION)) == plain(
        index.as_retriever().retrieve(QUESTION)
    )


def test_a_shorter_text_under_the_same_id_leaves_no_old_nodes() -> None:
    index = built("ferry")
    index.insert(long_document())
    index.insert(Document(id_="long", text="It is short now."))
    ids = [node.id for node in index.core.graphs["long"].nodes]
    assert index.ref_doc_info["long"].node_ids == ids
    assert {key for key in index.docstore.docs if key.startswith("long")} == {"long", *ids}


def test_a_document_that_becomes_blank_is_no_longer_in_the_index() -> None:
    index = built("ferry", "mill")
    index.insert(Document(id_="mill", text="  "))
    assert index.ref_doc_info.keys() == index.core.documents.keys() == {"ferry"}
    assert not any(key.startswith("mill") for key in index.docstore.docs)


def test_a_failed_build_leaves_nothing_behind_and_can_be_repeated() -> None:
    broken = {"now": False}

    def reply(prompt: str) -> str:
        if broken["now"]:
            raise ConnectionError("the server is gone")
        return "* A point."

    index = built("mill", writer=reply)
    before = set(index.docstore.docs)
    broken["now"] = True
    with pytest.raises(WriterFailed):
        index.refresh_ref_docs(documents("ferry"))
    assert set(index.docstore.docs) == before
    broken["now"] = False
    assert index.refresh_ref_docs(documents("ferry")) == [True]
    assert index.core.documents.keys() == {"mill", "ferry"}


def test_what_was_finished_before_a_failure_stays() -> None:
    replies = iter(["* A point."])

    def reply(prompt: str) -> str:
        if (text := next(replies, None)) is None:
            raise ConnectionError("the server is gone")
        return text

    index = HWDAGIndex(nodes=[], **models(writer=reply))
    with pytest.raises(WriterFailed):
        index.insert_nodes(documents("mill", "ferry"))
    assert index.ref_doc_info.keys() == index.core.documents.keys() == {"mill"}
    [stored] = index.storage_context.index_store.index_structs()
    assert stored == index.index_struct


# --- the package and the example


def run(code: str) -> subprocess.CompletedProcess[str]:
    path = f"import sys; sys.path[:0] = [{str(ROOT)!r}, {str(ROOT / 'core')!r}]; "
    return subprocess.run([sys.executable, "-c", path + code], capture_output=True, text=True)


def test_a_missing_framework_is_named_with_the_way_to_install_it() -> None:
    done = run("sys.modules['llama_index'] = None; import llama_index_hwdag")
    assert 'needs llama-index-core: pip install "hwdag[llama-index]"' in done.stderr
    assert done.returncode == 1


def test_importing_the_face_loads_no_model_library() -> None:
    done = run(
        "import llama_index_hwdag; "
        "print({'torch', 'transformers', 'sentence_transformers'} & set(sys.modules))"
    )
    assert (done.returncode, done.stdout.strip()) == (0, "set()"), done.stderr


@pytest.mark.model
def test_the_quickstart_runs(capsys: pytest.CaptureFixture[str]) -> None:
    path = ROOT / "examples" / "llama_index_quickstart.py"
    spec = importlib.util.spec_from_file_location("llama_index_quickstart", path)
    assert spec is not None and spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    assert example.main().strip()
    assert "mechanism level" in capsys.readouterr().out

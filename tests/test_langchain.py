"""The LangChain face on small worlds: what the core finds comes out, in LangChain's shapes."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding, Embeddings
from langchain_core.indexing import InMemoryRecordManager
from langchain_core.indexing import index as index_documents
from langchain_core.language_models.fake import FakeListLLM
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import PromptTemplate
from langchain_core.runnables import ConfigurableField, RunnableLambda, RunnablePassthrough
from langchain_core.tools import create_retriever_tool
from pydantic import ValidationError

import hwdag
from hwdag.config import BuildConfig, SearchConfig
from hwdag.embedding.base import Embedder
from hwdag.embedding.hashing import HashingEmbedder
from hwdag.errors import (
    InputError,
    ModelError,
    ModelNotFound,
    ReaderRequired,
    UnknownOption,
    WriterFailed,
)
from hwdag.lm.scripted import ScriptedLM
from langchain_hwdag import HWDAGLLM, STEP_EVENT, HWDAGIndex, HWDAGRetriever
from langchain_hwdag.adapters import as_embedder, as_reader, as_writer

QUESTION = "Who mends the bell of the ferry?"

MILL = (
    "The miller keeps grain behind the river. He counts the sacks at night. "
    "Every autumn the wheel is greased with tallow."
)
FERRY = (
    "The ferry crosses the river at dawn. Its bell wakes the village. "
    "The smith mends the bell of the ferry and is paid in grain."
)
DOCUMENTS = [
    Document(id="mill", page_content=MILL, metadata={"source": "a.txt", "title": "Mill", "n": [1]}),
    Document(id="ferry", page_content=FERRY, metadata={"source": "b.txt"}),
]

CHUNKS = BuildConfig(chunk_tokens=12)
"""Small enough that every document has several chunks and a level above them."""


def an_index(documents: list[Document] | None = None, **options: Any) -> HWDAGIndex:
    made = {"reader": ScriptedLM(), "embedder": HashingEmbedder(), "config": CHUNKS} | options
    return HWDAGIndex.from_documents(DOCUMENTS if documents is None else documents, **made)


def a_slow_index(p_yes: Callable[[str, list[str]], float]) -> HWDAGIndex:
    """Its walks call `p_yes` from their thread after every forward."""
    return an_index(reader=ScriptedLM(p_yes=p_yes))


def available(index: HWDAGIndex, question: str = QUESTION) -> int:
    """Number of nodes, without those that are read as a part of another."""
    return len(index.index.search(question, k=99).best(99))


def texts(documents: list[Document]) -> list[str]:
    return [document.page_content for document in documents]


class Recorder(BaseCallbackHandler):
    """Names of what happened, and the data of custom events."""

    def __init__(self) -> None:
        self.steps: list[dict[str, Any]] = []

    def on_custom_event(self, name: str, data: Any, **kwargs: Any) -> None:
        assert name == STEP_EVENT
        self.steps.append(data)


# --- retrieval -----------------------------------------------------------------------------------


def test_without_k_the_visited_nodes_come_in_visiting_order() -> None:
    index = an_index()
    walk = index.index.search(QUESTION)
    documents = index.invoke(QUESTION)
    assert [d.id for d in documents] == [step.node.id for step in walk.steps]
    assert texts(documents) == [step.node.text for step in walk.steps]


def test_an_explicit_k_is_exact_and_best_first() -> None:
    index = an_index()
    total = available(index)
    for k in range(1, total + 3):
        best = index.index.search(QUESTION, k=k).best(k)
        documents = index.invoke(QUESTION, k=k)
        assert [d.id for d in documents] == [step.node.id for step in best]
        assert len(documents) == min(k, total)
        assert documents == index.as_retriever(k=k).invoke(QUESTION)


def test_k_of_the_call_goes_before_k_of_the_retriever() -> None:
    assert len(an_index().as_retriever(k=1).invoke(QUESTION, k=2)) == 2


@pytest.mark.parametrize("k", [0, -1, True, "3", 2.0])
def test_an_impossible_k_is_refused(k: Any) -> None:
    index = an_index()
    with pytest.raises(InputError, match="k must be a whole number"):
        index.invoke(QUESTION, k=k)
    with pytest.raises(ValidationError, match="k must be a whole number"):
        HWDAGRetriever(index=index.index, k=k)


def test_an_impossible_k_is_refused_before_the_build() -> None:
    lm = ScriptedLM()
    with pytest.raises(InputError, match="k must be"):
        an_index(reader=lm, k=0)
    assert lm.replays == 0


def test_documents_carry_their_metadata_and_json_able_provenance() -> None:
    index = an_index()
    (document,) = index.invoke(QUESTION, k=1)
    assert document.metadata["source"] == "b.txt"
    provenance = document.metadata["hwdag"]
    assert json.loads(json.dumps(provenance)) == provenance
    assert provenance["id"] == document.id
    assert provenance["document_id"] == "ferry"


def test_changing_a_returned_document_changes_nothing_else() -> None:
    index = an_index()
    index.get(["mill"])[0].metadata["n"].append(2)
    for document in index.invoke(QUESTION):
        document.metadata.clear()
    assert index.get(["mill", "ferry"]) == DOCUMENTS


def test_sources_are_passages_of_the_document() -> None:
    index = an_index(writer=lambda prompt: "* a point in other words", config=None)
    plain = index.invoke(QUESTION, k=99)
    sources = index.as_retriever(return_sources=True, k=99).invoke(QUESTION)
    whole = {document.id: document.page_content for document in DOCUMENTS}
    assert [d.id for d in sources] == [d.id for d in plain]
    assert "a point in other words" in texts(plain)
    for document in sources:
        node = document.metadata["hwdag"]
        passages = [whole[node["document_id"]][start:end] for start, end in node["spans"]]
        assert document.page_content == "\n".join(passages)


def test_only_the_named_documents_are_walked() -> None:
    index = an_index()
    for name in ("mill", "ferry"):
        documents = index.as_retriever(document_ids=[name], k=99).invoke(QUESTION)
        assert {d.metadata["hwdag"]["document_id"] for d in documents} == {name}
    with pytest.raises(InputError, match="no document 'nope'"):
        index.as_retriever(document_ids=["nope"]).invoke(QUESTION)


def test_the_budget_of_the_search_is_kept() -> None:
    tight = SearchConfig(token_budget=20, progress="budget")
    for retriever in (
        an_index(search=tight),
        an_index().as_retriever(search=tight),
        HWDAGRetriever(index=an_index(), search={"token_budget": 20, "progress": "budget"}),
    ):
        expected = retriever.index.search(QUESTION, config=tight).steps
        assert texts(retriever.invoke(QUESTION)) == [step.node.text for step in expected]


def test_a_retriever_takes_the_options_of_its_index() -> None:
    index = an_index(k=2, search=SearchConfig(token_budget=50))
    retriever = index.as_retriever()
    assert (retriever.k, retriever.search) == (2, SearchConfig(token_budget=50))
    assert index.as_retriever(k=3).k == 3


def test_a_retriever_can_be_built_without_an_index_object() -> None:
    retriever = HWDAGRetriever.from_documents(
        DOCUMENTS, reader=ScriptedLM(), embedder=HashingEmbedder(), config=CHUNKS, k=2
    )
    assert type(retriever) is HWDAGRetriever
    assert retriever.invoke(QUESTION) == an_index(k=2).invoke(QUESTION)


@pytest.mark.parametrize("make", [HWDAGRetriever, HWDAGIndex])
def test_unknown_options_are_refused_by_name(make: type[HWDAGRetriever]) -> None:
    index = an_index()
    with pytest.raises(ValidationError, match="top_k"):
        make(index=index.index, top_k=3)
    with pytest.raises(ValidationError, match="SearchConfig has no option 'budget'"):
        make(index=index.index, search={"budget": 3})
    with pytest.raises(TypeError, match="top_k"):
        make.from_documents(DOCUMENTS, top_k=3)
    with pytest.raises(TypeError, match="top_k"):
        make(index=index.index).invoke(QUESTION, top_k=3)


def test_the_representation_shows_no_index_and_no_text() -> None:
    assert "index" not in repr(an_index()).removeprefix("HWDAGIndex")
    assert "index" not in an_index().model_dump()


# --- events, async and threads -------------------------------------------------------------------


def test_every_visited_node_is_an_event_in_order() -> None:
    recorder, index = Recorder(), an_index()
    documents = index.invoke(QUESTION, {"callbacks": [recorder]})
    assert [step["id"] for step in recorder.steps] == [d.id for d in documents]
    assert [step["text"] for step in recorder.steps] == texts(documents)
    assert json.loads(json.dumps(recorder.steps)) == recorder.steps


async def test_async_gives_the_same_documents_and_events() -> None:
    recorder, awaited, index = Recorder(), Recorder(), an_index()
    documents = index.invoke(QUESTION, {"callbacks": [recorder]}, k=4)
    assert await index.ainvoke(QUESTION, {"callbacks": [awaited]}, k=4) == documents
    assert awaited.steps == recorder.steps
    assert len(recorder.steps) > 0


async def test_steps_appear_in_the_event_stream_of_a_chain() -> None:
    index = an_index()
    chain = RunnableLambda(str.strip) | index | RunnableLambda(texts)
    events = [event async for event in chain.astream_events(QUESTION, version="v2")]
    steps = [event["data"]["text"] for event in events if event["name"] == STEP_EVENT]
    names = [event["event"] for event in events]
    assert steps == texts(index.invoke(QUESTION))
    start, end = names.index("on_retriever_start"), names.index("on_retriever_end")
    assert names[start + 1 : end] == ["on_custom_event"] * len(steps)


async def test_an_awaited_walk_leaves_the_loop_free() -> None:
    released = threading.Event()
    seen: list[bool] = []

    def wait_for_the_loop(question: str, nodes: list[str]) -> float:
        seen.append(released.wait(timeout=60))
        return 1.0

    walking = asyncio.create_task(a_slow_index(wait_for_the_loop).ainvoke(QUESTION))
    asyncio.get_running_loop().call_soon(released.set)
    assert len(await walking) > 0
    assert seen == [True]


async def test_cancelling_the_caller_ends_the_walk() -> None:
    loop = asyncio.get_running_loop()
    started, released = asyncio.Event(), threading.Event()

    def hold(question: str, nodes: list[str]) -> float:
        loop.call_soon_threadsafe(started.set)
        assert released.wait(timeout=60)
        return 0.0

    lm = ScriptedLM(p_yes=hold)
    walking = asyncio.create_task(an_index(reader=lm).ainvoke(QUESTION))
    await started.wait()
    walking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await walking
    released.set()
    await loop.shutdown_default_executor()  # waits for the thread of the walk
    assert lm.reads == 1


async def test_errors_of_a_walk_and_of_a_handler_reach_the_caller() -> None:
    class Refusing(BaseCallbackHandler):
        raise_error = True

        def on_custom_event(self, name: str, data: Any, **kwargs: Any) -> None:
            raise ConnectionError("the listener left")

    index = an_index()
    with pytest.raises(InputError, match="empty or only white space"):
        await index.ainvoke(" ")
    with pytest.raises(ConnectionError, match="the listener left"):
        await index.ainvoke(QUESTION, {"callbacks": [Refusing()]})


def test_a_batch_walks_in_several_threads() -> None:
    both = threading.Barrier(2)

    def meet(question: str, nodes: list[str]) -> float:
        both.wait(timeout=60)
        return 1.0

    questions = [QUESTION, "What does the miller count at night?"]
    found = a_slow_index(meet).batch(questions)
    alone = an_index(reader=ScriptedLM(p_yes=[1.0]))
    assert found == [alone.invoke(question) for question in questions]


# --- LCEL ----------------------------------------------------------------------------------------


def test_it_is_a_link_of_a_chain() -> None:
    index = an_index()
    prompt = PromptTemplate.from_template("{context}\n{question}")
    asked: list[str] = []

    def remember(value: Any) -> Any:
        asked.append(value.to_string())
        return value

    chain = (
        {
            "context": index.as_retriever(k=2) | (lambda found: "\n".join(texts(found))),
            "question": RunnablePassthrough(),
        }
        | prompt
        | remember
        | FakeListLLM(responses=["the smith"])
        | StrOutputParser()
    )
    assert chain.invoke(QUESTION) == "the smith"
    assert asked == ["\n".join([*texts(index.invoke(QUESTION, k=2)), QUESTION])]


def test_fields_are_configurable_at_run_time() -> None:
    retriever = an_index().as_retriever(k=1)
    configurable = retriever.configurable_fields(
        k=ConfigurableField(id="k"), document_ids=ConfigurableField(id="documents")
    )
    assert configurable.invoke(QUESTION) == retriever.invoke(QUESTION)
    chosen = configurable.with_config(configurable={"k": 2, "documents": ["mill"]})
    documents = chosen.invoke(QUESTION)
    assert [d.metadata["hwdag"]["document_id"] for d in documents] == ["mill"] * 2


def test_it_becomes_a_tool() -> None:
    retriever = an_index().as_retriever(k=2)
    tool = create_retriever_tool(retriever, "notes", "Searches the village notes.")
    assert tool.invoke({"query": QUESTION}) == "\n\n".join(texts(retriever.invoke(QUESTION)))


# --- the index -----------------------------------------------------------------------------------


def test_documents_come_back_as_they_were() -> None:
    index = an_index()
    assert index.get(["ferry", "nope", "mill", "ferry"]) == DOCUMENTS[::-1]
    assert index.index.documents["mill"].title == "Mill"


def test_the_callers_documents_stay_theirs() -> None:
    document = DOCUMENTS[0].model_copy(deep=True)
    index = an_index([document])
    document.metadata["n"].append(2)
    assert index.get(["mill"]) == DOCUMENTS[:1]


def test_texts_are_documents() -> None:
    options = {"reader": ScriptedLM(), "embedder": HashingEmbedder(), "config": CHUNKS}
    named = HWDAGIndex.from_texts(
        texts(DOCUMENTS), [d.metadata for d in DOCUMENTS], ["mill", "ferry"], **options
    )
    assert named.get(["mill", "ferry"]) == DOCUMENTS
    assert named.invoke(QUESTION) == an_index().invoke(QUESTION)

    bare = HWDAGIndex.from_texts(iter(texts(DOCUMENTS)), **options)
    assert texts(bare.get(list(bare.index.documents))) == texts(DOCUMENTS)
    with pytest.raises(InputError, match="2 texts need as many metadatas and ids, got 1 and 2"):
        HWDAGIndex.from_texts(["a", "b"], [{}], **options)
    with pytest.raises(TypeError, match="top_k"):
        HWDAGIndex.from_texts(["a"], **options, top_k=2)


def test_an_id_is_made_from_text_and_metadata() -> None:
    same = [Document(page_content=MILL), Document(page_content=MILL)]
    other = Document(page_content=MILL, metadata={"page": 2})
    index = an_index([])
    first, again, different = index.add_documents([*same, other])
    assert first == again != different
    assert an_index([]).add_documents(same) == [first, again]
    with pytest.raises(InputError, match="cannot be stored as JSON"):
        index.add_documents([Document(page_content=MILL, metadata={"set": {1, 2}})])


def test_upsert_builds_only_what_changed_and_tells_what_it_could_not() -> None:
    lm = ScriptedLM()
    index = an_index(reader=lm)
    built = lm.replays
    response = index.upsert([DOCUMENTS[0], Document(id="blank", page_content=" \n")])
    assert response == {"succeeded": ["mill"], "failed": ["blank"]}
    assert lm.replays == built

    index.upsert([Document(id="mill", page_content=FERRY)])
    assert lm.replays > built
    assert index.get(["mill"]) == [Document(id="mill", page_content=FERRY)]


def test_delete_really_removes() -> None:
    index = an_index()
    before = index.get(["mill"])
    assert index.delete(["ferry", "nope", "ferry"]) == {
        "num_deleted": 1,
        "succeeded": ["ferry"],
        "num_failed": 0,
        "failed": [],
    }
    assert index.get(["mill", "ferry"]) == before
    assert set(index.index.graphs) == {"mill"}
    found = index.invoke(QUESTION, k=99)
    assert {d.metadata["hwdag"]["document_id"] for d in found} == {"mill"}
    assert index.delete([])["num_deleted"] == 0
    with pytest.raises(ValueError, match="delete needs ids"):
        index.delete()


@pytest.mark.parametrize(
    ("method", "argument"), [("upsert", []), ("delete", []), ("get", []), ("add_documents", [])]
)
def test_unknown_options_of_changes_are_refused(method: str, argument: list[str]) -> None:
    with pytest.raises((UnknownOption, TypeError), match="batch"):
        getattr(an_index(), method)(argument, batch=3)


def test_a_retriever_sees_later_changes() -> None:
    index = an_index(DOCUMENTS[:1])
    retriever = index.as_retriever(k=99)
    assert index.add_documents(DOCUMENTS[1:]) == ["ferry"]
    assert retriever.invoke(QUESTION) == an_index().invoke(QUESTION, k=99)


@pytest.mark.parametrize("cleanup", ["incremental", "full"])
def test_the_indexing_function_keeps_it_in_step_with_a_source(cleanup: Any) -> None:
    target = an_index([])
    manager = InMemoryRecordManager(namespace="village")
    manager.create_schema()
    run = partial(
        index_documents,
        record_manager=manager,
        vector_store=target,
        cleanup=cleanup,
        source_id_key="source",
        key_encoder="sha256",
    )

    def outcome(result: Any) -> tuple[int, int, int]:
        return result["num_added"], result["num_skipped"], result["num_deleted"]

    assert outcome(run(DOCUMENTS)) == (2, 0, 0)
    assert outcome(run(DOCUMENTS)) == (0, 2, 0)
    edited = Document(page_content="The ferry has sunk.", metadata={"source": "b.txt"})
    assert outcome(run([DOCUMENTS[0], edited])) == (1, 1, 1)
    stored = target.get(list(target.index.documents))
    assert sorted(texts(stored)) == sorted([MILL, "The ferry has sunk."])


# --- persistence ---------------------------------------------------------------------------------


def test_saved_and_loaded_equals_the_original(tmp_path: Path) -> None:
    index = an_index()
    index.save_local(tmp_path / "new" / "folder")
    assert [p.name for p in (tmp_path / "new" / "folder").iterdir()] == ["index.hwdag"]
    loaded = HWDAGIndex.load_local(tmp_path / "new" / "folder", reader=ScriptedLM(), k=5)
    assert loaded.get(["mill", "ferry"]) == DOCUMENTS
    assert loaded.k == 5
    assert loaded.invoke(QUESTION) == index.invoke(QUESTION, k=5)


def test_saving_again_replaces_and_a_loaded_index_writes_through(tmp_path: Path) -> None:
    index = an_index()
    index.save_local(tmp_path)
    index.delete(["mill"])
    index.save_local(tmp_path)
    load = partial(HWDAGIndex.load_local, tmp_path, reader=ScriptedLM())
    loaded = load()
    assert set(loaded.index.documents) == {"ferry"}
    loaded.add_documents(DOCUMENTS[:1])
    loaded.save_local(tmp_path)
    assert set(load().index.documents) == {"mill", "ferry"}


def test_a_path_keeps_what_was_built(tmp_path: Path) -> None:
    path = tmp_path / "village.hwdag"
    first = an_index(path=path)
    lm = ScriptedLM()
    again = an_index(path=path, reader=lm)
    assert lm.replays == 0
    assert again.invoke(QUESTION) == first.invoke(QUESTION)


# --- models --------------------------------------------------------------------------------------


@dataclass
class Pipeline:
    """What a transformers text-generation pipeline has, as far as it matters here."""

    model: object
    tokenizer: object


@dataclass
class PipelineLLM:
    """Like `langchain_huggingface.HuggingFacePipeline`."""

    pipeline: object


@dataclass
class ChatOverLLM:
    """Like `langchain_huggingface.ChatHuggingFace`."""

    llm: object


def test_weights_of_wrapped_models_are_used_as_they_are() -> None:
    import tiny

    model, tokenizer = tiny.model(), tiny.tokenizer()
    wrapped = PipelineLLM(Pipeline(model, tokenizer))
    for given in (wrapped, ChatOverLLM(wrapped)):
        reader = as_reader(given)
        assert isinstance(reader, hwdag.HuggingFaceLM)
        assert reader.model is model
        assert reader.codec.tokenizer is tokenizer


@pytest.mark.parametrize("given", [ChatOverLLM(object()), PipelineLLM(None), FakeListLLM])
def test_a_reader_without_weights_is_refused(given: object) -> None:
    with pytest.raises(ReaderRequired, match=r"as writer any LLM will do"):
        HWDAGIndex.from_documents(DOCUMENTS, reader=given)


def test_readers_and_embedders_of_the_core_pass_through() -> None:
    lm, embedder = ScriptedLM(), HashingEmbedder()
    assert as_reader(lm) is lm
    assert as_reader("a/name") == as_embedder("a/name") == "a/name"
    assert as_embedder(embedder) is embedder
    assert as_writer(lm) is lm
    assert as_writer(None) is as_reader(None) is as_embedder(None) is None


@pytest.mark.parametrize(
    "writer",
    [
        FakeListLLM(responses=["* the smith"]),
        FakeListChatModel(responses=["* the smith"]),
        FakeListChatModel(responses=["* the smith"]) | StrOutputParser(),
        RunnableLambda(lambda prompt: "* the smith"),
        lambda prompt: "* the smith",
    ],
)
def test_any_model_or_chain_writes_the_points(writer: Any) -> None:
    index = an_index(writer=writer, config=None)
    points = [n for g in index.index.graphs.values() for n in g.nodes if n.level > 1]
    assert {(n.text, n.origin) for n in points} == {("the smith", "generated")}


def test_a_writer_that_does_not_write_is_named() -> None:
    with pytest.raises(WriterFailed, match="langchain:RunnableLambda returned int"):
        an_index(writer=RunnableLambda(len), config=None)
    with pytest.raises(InputError, match="got int"):
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


def test_embeddings_are_normalised_behind_the_cores_protocol() -> None:
    embedder = as_embedder(Lengths())
    assert isinstance(embedder, Embedder)
    assert (embedder.name, embedder.dimension) == ("langchain:Lengths:lengths-1", 2)
    np.testing.assert_allclose(embedder.embed(["a", "bb"]), [[0.6, 0.8]] * 2, rtol=1e-6)
    np.testing.assert_array_equal(embedder.embed_query("a"), [0.0, 1.0])
    assert embedder.embed([]).shape == (0, 2)
    with pytest.raises(ModelError, match="made 1 vectors of lengths \\[2\\] for 2 texts"):
        as_embedder(Lengths(missing=1)).embed(["a", "b"])
    with pytest.raises(InputError, match="the embedder must be"):
        an_index(embedder=3)


def test_an_index_of_langchain_embeddings_asks_for_them_again(tmp_path: Path) -> None:
    embeddings = DeterministicFakeEmbedding(size=8)
    index = an_index(embedder=embeddings)
    index.save_local(tmp_path)
    load = partial(HWDAGIndex.load_local, tmp_path, reader=ScriptedLM())
    assert load(embedder=embeddings).invoke(QUESTION) == index.invoke(QUESTION)
    with pytest.raises(ModelNotFound, match="langchain:DeterministicFakeEmbedding"):
        load().invoke(QUESTION)


def test_the_reader_is_an_llm_too() -> None:
    index = an_index(reader=ScriptedLM(reply=lambda prompt: prompt.upper()))
    llm = index.as_llm(max_new_tokens=3)
    assert llm.invoke("one two three four") == "ONE TWO THREE"
    assert llm.bind(max_new_tokens=1).invoke("one two") == "ONE"
    assert llm.invoke("one two three", stop=["REE", "TWO"]) == "ONE "
    assert llm._identifying_params == {"model_name": "scripted", "max_new_tokens": 3}
    with pytest.raises(UnknownOption, match="'temperature'"):
        llm.invoke("one", temperature=1)
    with pytest.raises(ValidationError, match="temperature"):
        HWDAGLLM(reader=ScriptedLM(), temperature=1)


# --- the package ---------------------------------------------------------------------------------


def run_python(code: str) -> subprocess.CompletedProcess[str]:
    root = Path(__file__).parents[1]
    path = f"import sys; sys.path[:0] = [{str(root / 'core')!r}, {str(root)!r}]\n"
    return subprocess.run(
        [sys.executable, "-c", path + code], capture_output=True, text=True, check=False
    )


def test_a_missing_framework_is_named_with_the_command() -> None:
    result = run_python("sys.modules['langchain_core'] = None\nimport langchain_hwdag")
    assert result.returncode == 1
    assert result.stderr.strip().endswith(
        'ImportError: langchain_hwdag needs langchain-core: pip install "hwdag[langchain]"'
    )


def test_importing_it_loads_no_model_library() -> None:
    result = run_python(
        "import langchain_hwdag\n"
        "print([m for m in ('torch', 'transformers', 'sentence_transformers') if m in sys.modules])"
    )
    assert result.stdout.strip() == "[]", result.stderr


@pytest.mark.model
def test_the_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    import runpy

    example = Path(__file__).parents[1] / "examples" / "langchain_quickstart.py"
    answer = runpy.run_path(str(example))["main"]()
    printed = capsys.readouterr().out
    assert printed.count("lighthouses.txt  level") == 3
    assert "His tower was lit in 1759." in printed
    assert answer.strip()
    assert printed.rstrip().endswith(answer.rstrip())

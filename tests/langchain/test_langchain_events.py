"""Events are reported as they happen, and no loop is blocked meanwhile."""

from __future__ import annotations

import asyncio
import json
import threading
from functools import partial
from typing import Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda
from langchain_world import CHUNKS, DOCUMENTS, QUESTION, Recorder, a_slow_index, an_index, texts
from worlds import assert_cancelling_ends_a_walk

import hwdag
from hwdag.embedding.hashing import HashingEmbedder
from hwdag.errors import InputError, UnknownOption
from hwdag_lab.methods.bm25 import BM25Retriever
from hwdag_lab.scripted import ScriptedLM
from langchain_hwdag import STEP_EVENT, CoreRetriever, HWDAGIndex, HWDAGRetriever

MODELS: dict[str, Any] = {"reader": ScriptedLM(), "embedder": HashingEmbedder(), "config": CHUNKS}
TAGGED: Any = {"tags": ["call"], "metadata": {"yours": 2}}


def test_every_visited_node_is_an_event_in_order():
    recorder, index = Recorder(), an_index()
    documents = index.invoke(QUESTION, {"callbacks": [recorder]})
    assert [step["id"] for step in recorder.steps] == [d.id for d in documents]
    assert [step["text"] for step in recorder.steps] == texts(documents)
    assert json.loads(json.dumps(recorder.steps)) == recorder.steps


async def test_async_gives_the_same_documents_and_events():
    recorder, awaited, index = Recorder(), Recorder(), an_index()
    documents = index.invoke(QUESTION, {"callbacks": [recorder]}, k=4)
    assert await index.ainvoke(QUESTION, {"callbacks": [awaited]}, k=4) == documents
    assert awaited.steps == recorder.steps
    assert len(recorder.steps) > 0


async def test_steps_appear_in_the_event_stream_of_a_chain():
    index = an_index()
    chain = RunnableLambda(str.strip) | index | RunnableLambda(texts)
    events = [event async for event in chain.astream_events(QUESTION, version="v2")]
    steps = [event["data"]["text"] for event in events if event["name"] == STEP_EVENT]
    names = [event["event"] for event in events]
    assert steps == texts(index.invoke(QUESTION))
    start, end = names.index("on_retriever_start"), names.index("on_retriever_end")
    assert names[start + 1 : end] == ["on_custom_event"] * len(steps)


async def test_an_awaited_walk_leaves_the_loop_free():
    released = threading.Event()
    seen: list[bool] = []

    def wait_for_the_loop(question: str, nodes: list[str]) -> float:
        seen.append(released.wait(timeout=60))
        return 1.0

    walking = asyncio.create_task(a_slow_index(wait_for_the_loop).ainvoke(QUESTION))
    asyncio.get_running_loop().call_soon(released.set)
    assert len(await walking) > 0
    assert seen and all(seen)


async def test_cancelling_the_caller_ends_the_walk():
    await assert_cancelling_ends_a_walk(lambda lm: an_index(reader=lm).ainvoke(QUESTION))


async def test_errors_of_a_walk_and_of_a_handler_reach_the_caller():
    class Refusing(BaseCallbackHandler):
        raise_error = True

        def on_custom_event(self, name: str, data: Any, **kwargs: Any) -> None:
            raise ConnectionError("the listener left")

    index = an_index()
    with pytest.raises(InputError, match="empty"):
        await index.ainvoke(" ")
    with pytest.raises(ConnectionError):
        await index.ainvoke(QUESTION, {"callbacks": [Refusing()]})


def test_a_batch_walks_in_several_threads():
    both = threading.Barrier(2)

    def meet(question: str, nodes: list[str]) -> float:
        both.wait(timeout=60)
        return 1.0

    questions = [QUESTION, "What does the miller count at night?"]
    found = a_slow_index(meet).batch(questions)
    alone = an_index(reader=ScriptedLM(p_yes=[1.0]))
    assert found == [alone.invoke(question) for question in questions]


async def test_streamed_events_belong_to_the_run_of_the_retriever():
    retriever = an_index().as_retriever(tags=["own"], metadata={"mine": 1})
    chain = RunnableLambda(str.strip) | retriever
    events = [event async for event in chain.astream_events(QUESTION, version="v2", config=TAGGED)]
    [start] = [event for event in events if event["event"] == "on_retriever_start"]
    steps = [event for event in events if event["event"] == "on_custom_event"]
    assert len(steps) > 0
    for event in steps:
        assert event["run_id"] == start["run_id"]
        assert event["parent_ids"] == start["parent_ids"]
        assert {"own", "call"} <= set(event["tags"])
        assert (event["metadata"]["mine"], event["metadata"]["yours"]) == (1, 2)


@pytest.mark.parametrize("is_async", [False, True])
async def test_every_question_of_a_batch_is_a_run_with_its_own_events(is_async):
    index, recorder = an_index(), Recorder()
    questions = [QUESTION, "What does the miller count at night?", "What crosses the river?"]
    config: Any = {"callbacks": [recorder]}
    if is_async:
        found = await index.abatch(questions, config)
    else:
        found = index.batch(questions, config)
    runs: dict[object, list[str]] = {}
    for told in recorder.told:
        runs.setdefault(told.run_id, []).append(told.data["id"])
    walked = [[str(document.id) for document in documents] for documents in found]
    assert sorted(runs.values()) == sorted(walked)


# --- building ------------------------------------------------------------------------------------


def finished(recorder):
    documents = [build for build in recorder.builds if build["stage"] == "documents"]
    assert {build["unit"] for build in documents} == {"document"}
    return [(build["document_id"], build["done"], build["total"]) for build in documents]


BUILDS: list[Any] = [
    lambda documents: an_index([]).upsert(documents),
    lambda documents: an_index(documents).report,
    lambda documents: (
        CoreRetriever.from_documents(documents, BM25Retriever, reader=ScriptedLM()).report
    ),
]


@pytest.mark.parametrize("build", BUILDS)
def test_a_build_within_a_run_reports_every_finished_document(build):
    recorder = Recorder()
    RunnableLambda(build).invoke(DOCUMENTS, {"callbacks": [recorder], "tags": ["call"]})
    assert finished(recorder) == [("mill", 1, 2), ("ferry", 2, 2)]
    assert len({told.run_id for told in recorder.told}) == 1
    assert {tag for told in recorder.told for tag in told.tags} == {"call"}


async def test_sync_and_async_builds_report_the_same_with_every_window():
    async def aupsert(documents: list[Document]) -> object:
        return await an_index([], writer=lambda _: "* a point").aupsert(documents)

    def upsert(documents: list[Document]) -> object:
        return an_index([], writer=lambda _: "* a point").upsert(documents)

    blocking, awaited = Recorder(), Recorder()
    blank = Document(id="blank", page_content=" ")
    chain = RunnableLambda(upsert, afunc=aupsert)
    chain.invoke([blank, *DOCUMENTS], {"callbacks": [blocking]})
    await chain.ainvoke([blank, *DOCUMENTS], {"callbacks": [awaited]})
    assert awaited.builds == blocking.builds
    assert json.loads(json.dumps(awaited.builds)) == awaited.builds
    assert [name for name, *_ in finished(awaited)] == ["blank", "mill", "ferry"]
    windows = [build for build in awaited.builds if build["unit"] == "window"]
    assert {build["stage"] for build in windows} == {"points of level 2", "edges of level 2"}
    order = [build["document_id"] for build in awaited.builds]
    assert order == sorted(order, key=["blank", "mill", "ferry"].index)


async def test_a_build_outside_of_any_run_works_without_events():
    assert an_index([]).upsert(DOCUMENTS) == await an_index([]).aupsert(DOCUMENTS)


async def test_an_awaited_build_leaves_the_loop_free_and_equals_the_other():
    released = threading.Event()

    def write(prompt: str) -> str:
        assert released.wait(timeout=60)
        return "* a point"

    for make in (
        partial(HWDAGIndex.afrom_documents, DOCUMENTS),
        partial(HWDAGRetriever.afrom_documents, DOCUMENTS),
        partial(CoreRetriever.afrom_documents, DOCUMENTS, hwdag.HWDAGIndex),
        partial(
            HWDAGIndex.afrom_texts,
            texts(DOCUMENTS),
            metadatas=[document.metadata for document in DOCUMENTS],
            ids=["mill", "ferry"],
        ),
    ):
        released.clear()
        making = asyncio.create_task(make(**MODELS, writer=write))
        asyncio.get_running_loop().call_soon(released.set)
        made = await making
        assert made.report.built == ["mill", "ferry"]
        assert made.invoke(QUESTION) == an_index(writer=write).invoke(QUESTION)


async def test_awaited_changes_leave_the_loop_free_and_equal_the_others():
    released = threading.Event()

    def write(prompt: str) -> str:
        assert released.wait(timeout=60)
        return "* a point"

    index, other = an_index([], writer=write), an_index([], writer=lambda _: "* a point")
    loop = asyncio.get_running_loop()
    adding = asyncio.create_task(index.aadd_documents(DOCUMENTS[:1]))
    loop.call_soon(released.set)
    assert await adding == other.add_documents(DOCUMENTS[:1]) == ["mill"]
    assert await index.aupsert(DOCUMENTS) == other.upsert(DOCUMENTS)
    assert await index.aget(["ferry"]) == other.get(["ferry"]) == DOCUMENTS[1:]
    assert await index.ainvoke(QUESTION) == other.invoke(QUESTION)
    assert await index.adelete(["mill", "nope"]) == other.delete(["mill", "nope"])
    assert index.invoke(QUESTION) == other.invoke(QUESTION)
    with pytest.raises(UnknownOption, match="'batch'"):
        await index.aupsert([], batch=3)
    with pytest.raises(ValueError, match="ids"):
        await index.adelete()


async def test_cancelling_the_caller_ends_the_build_and_keeps_what_is_done():
    loop = asyncio.get_running_loop()
    started, released = asyncio.Event(), threading.Event()
    asked: list[str] = []

    def write(prompt: str) -> str:
        asked.append(prompt)
        if len(asked) == 2:
            loop.call_soon_threadsafe(started.set)
            assert released.wait(timeout=60)
        return "* a point"

    index = an_index([], writer=write)
    building = asyncio.create_task(index.aupsert([*DOCUMENTS, Document(id="x", page_content="X.")]))
    await started.wait()
    building.cancel()
    with pytest.raises(asyncio.CancelledError):
        await building
    released.set()
    again = await index.aupsert(DOCUMENTS)  # waits for the other one
    assert again["succeeded"] == ["mill", "ferry"]
    assert len(asked) == 2
    assert set(index.index.documents) == {"mill", "ferry"}

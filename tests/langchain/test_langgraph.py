"""An agent of LangGraph whose tool is an HWDAG, with a chat model that plays by a script."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import create_retriever_tool
from langchain_world import QUESTION, Recorder, an_index, texts
from langgraph.checkpoint.memory import InMemorySaver

from hwdag.embedding.hashing import HashingEmbedder
from hwdag_lab.scripted import ScriptedLM
from langchain_hwdag import STEP_EVENT, HWDAGIndex

EXAMPLE = Path(__file__).parents[2] / "examples" / "langgraph_agent.py"


@pytest.fixture(scope="module")
def example():
    return runpy.run_path(str(EXAMPLE))


def an_agent(example: dict[str, Any], index: HWDAGIndex, **options: Any) -> Any:
    tool = create_retriever_tool(
        index.as_retriever(**options),
        example["TOOL"],
        "Searches the village notes.",
        response_format="content_and_artifact",
    )
    return example["agent"](tool, example["Planner"]())


def test_the_agent_calls_the_tool_and_answers_from_what_it_found(example):
    index = an_index()
    graph = an_agent(example, index, k=2)
    messages = graph.invoke({"messages": [HumanMessage(QUESTION)]})["messages"]
    kinds = [type(message) for message in messages]
    assert kinds == [HumanMessage, AIMessage, ToolMessage, AIMessage, ToolMessage, AIMessage]
    found = [index.invoke(query, k=2) for query in example["SCRIPT"]]
    assert [messages[2].artifact, messages[4].artifact] == found
    assert [messages[2].text, messages[4].text] == ["\n\n".join(texts(one)) for one in found]
    assert messages[-1].text == found[-1][0].page_content


async def test_asynchronously_it_does_the_same_and_reports_every_step(example):
    recorder = Recorder()
    graph = an_agent(example, an_index(), k=2)
    question = {"messages": [HumanMessage(QUESTION)]}
    expected = graph.invoke(question, {"callbacks": [recorder]})["messages"]
    found = (await graph.ainvoke(question))["messages"]
    assert [message.text for message in found] == [message.text for message in expected]

    events = [one async for one in graph.astream_events(question, version="v2")]
    steps = [one for one in events if one["name"] == STEP_EVENT]
    assert [one["data"] for one in steps] == recorder.steps
    assert {one["metadata"]["langgraph_node"] for one in steps} == {"tools"}


def test_a_checkpoint_keeps_the_documents(example):
    index = an_index()
    graph = an_agent(example, index, k=2)
    graph.checkpointer = InMemorySaver()
    config: Any = {"configurable": {"thread_id": "1"}}
    graph.invoke({"messages": [HumanMessage(QUESTION)]}, config)
    kept = graph.get_state(config).values["messages"]
    documents = [Document(**one) for one in kept[2].artifact]
    assert documents == index.invoke(example["SCRIPT"][0], k=2)


def test_restored_documents_equal_those_of_another_question():
    index = an_index()
    first, second = index.invoke(QUESTION, k=5), index.invoke("Who keeps grain?", k=5)
    fresh, other, different = next(
        (one, two, three)
        for one in first
        for two in second
        for three in first
        if one.id == two.id != three.id
        and one.metadata["hwdag"]["score"] != two.metadata["hwdag"]["score"]
    )
    serializer = InMemorySaver().serde
    restored = serializer.loads_typed(serializer.dumps_typed([fresh, other]))
    for one in (fresh, *restored):
        assert one == other and other == one
    assert all(one != different and different != one for one in (fresh, *restored))
    merged = {one.id: one for one in [*restored, fresh, different]}  # the way of the docs
    assert list(merged) == [fresh.id, different.id]


def test_the_example_runs_on_scripted_models(example, capsys):
    index = HWDAGIndex.from_documents(
        example["DOCUMENTS"], reader=ScriptedLM(), embedder=HashingEmbedder()
    )
    answer = example["main"](index)
    printed = capsys.readouterr().out
    assert [answer] == texts(index.invoke(example["SCRIPT"][-1], k=1))
    assert printed.count("harbour [[") + printed.count("quarry [[") == 2
    assert printed.endswith(f"{example['QUESTION']}\n{answer}\n")


@pytest.mark.model
def test_the_example_runs(example, capsys):
    answer = example["main"]()
    assert answer == "The quarry at Elm Hill belonged to the Sorensen family until 1940."
    assert capsys.readouterr().out.rstrip().endswith(answer)

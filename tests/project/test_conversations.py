"""Questions that refer to earlier ones, with the default models, through every way to ask."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from io import StringIO
from operator import add
from typing import Any

import pytest
from chat_world import serving
from conversation_world import (
    GARDENS,
    GARDENS_PAIRS,
    HOUSE,
    HOUSE_PAIRS,
    SHIPS,
    SHIPS_PAIRS,
    STANDALONE,
    TOWN,
    TOWN_PAIRS,
    Pair,
)
from langchain_core.messages import AIMessage, HumanMessage
from llama_index.core.base.llms.types import ChatMessage
from starlette.testclient import TestClient

import langchain_hwdag
import llama_index_hwdag
from hwdag import HWDAGIndex, Scope, SearchConfig
from hwdag.embedding.hashing import HashingEmbedder
from hwdag.errors import AnswererFailed, InputError
from hwdag.lm.openai_compatible import OpenAIWriter
from hwdag.search.follow_ups import NEAR_LAST_TURNS, checked_history
from hwdag_app.main import main
from hwdag_app.mcp.tools import Tools
from hwdag_app.serve.application import application
from hwdag_lab.scripted import ScriptedLM
from langchain_hwdag import answering
from langchain_hwdag.answering import as_message

MOST = 1  # wrong of 12

Ask = Callable[[Pair], str]
"""From a pair to the first sentence that is shown for its second question."""


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("town") / "town.hwdag"
    HWDAGIndex.from_documents(TOWN, path=path).close()
    return path


@pytest.fixture(scope="module")
def town(file):
    with HWDAGIndex.load(file) as index:
        yield index


def wrong(pairs: list[Pair], ask: Ask) -> list[tuple[str, str, str]]:
    """Return the second questions that another sentence comes first for, with that sentence."""
    return [(p.first, p.then, found) for p in pairs if p.wanted not in (found := ask(p))]


def searched(index: HWDAGIndex) -> Ask:
    def first(pair: Pair) -> str:
        retrieval = index.search(pair.then, history=[(pair.first, pair.answer)])
        assert retrieval.question == pair.then
        assert NEAR_LAST_TURNS in retrieval.notes
        return retrieval.best(1)[0].node.text

    return first


def answered(index: HWDAGIndex) -> Ask:
    return lambda p: index.answer(p.then, history=[(p.first, p.answer)]).to_dict()["citations"][0][
        "text"
    ]


def by_page(index: HWDAGIndex) -> Ask:
    client = TestClient(application(index), base_url="http://localhost")

    def first(pair: Pair) -> str:
        body = {"question": pair.then, "history": [[pair.first, pair.answer]]}
        last = client.post("/api/ask", json=body).text.strip().split("\n\n")[-1]
        shown = json.loads(last.split("data: ", 1)[1])
        return str(shown["answer"]["citations"][0]["text"])

    return first


def by_completions(index: HWDAGIndex) -> Ask:
    client = TestClient(application(index), base_url="http://localhost")

    def first(pair: Pair) -> str:
        said = ("user", pair.first), ("assistant", pair.answer), ("user", pair.then)
        messages = [{"role": role, "content": text} for role, text in said]
        found = client.post("/v1/chat/completions", json={"messages": messages}).json()
        return str(found["choices"][0]["message"]["citations"][0]["text"])

    return first


def by_agent(index: HWDAGIndex) -> Ask:
    answer = Tools(index, SearchConfig(), Scope()).answer
    return lambda p: str(answer(p.then, history=[[p.first, p.answer]])["citations"][0]["text"])


def by_agent_search(index: HWDAGIndex) -> Ask:
    search = Tools(index, SearchConfig(), Scope()).search
    return lambda p: str(
        search(p.then, limit=1, history=[[p.first, p.answer]])["results"][0]["text"]
    )


def by_langchain(index: HWDAGIndex) -> Ask:
    chain = langchain_hwdag.HWDAGIndex(index=index).as_runnable()

    def first(pair: Pair) -> str:
        history = [HumanMessage(pair.first), AIMessage(pair.answer)]
        found = chain.invoke({"input": pair.then, "chat_history": history})
        assert found["context"]
        return str(found["citations"][0]["text"])

    return first


def by_langchain_retriever(index: HWDAGIndex) -> Ask:
    retriever = langchain_hwdag.HWDAGRetriever(index=index)
    return lambda p: str(
        retriever.invoke(p.then, history=[(p.first, p.answer)], k=1)[0].page_content
    )


def by_llama_index(index: HWDAGIndex) -> Ask:
    retriever = llama_index_hwdag.HWDAGRetriever(index)
    engine = llama_index_hwdag.HWDAGChatEngine(retriever)

    def first(pair: Pair) -> str:
        said = ("user", pair.first), ("assistant", pair.answer)
        messages = [ChatMessage(role=role, content=text) for role, text in said]
        response = engine.chat(pair.then, messages)
        assert [message.content for message in engine.chat_history][2:] == [
            pair.then,
            str(response),
        ]
        assert response.metadata is not None
        return str(response.metadata["hwdag"]["citations"][0]["text"])

    return first


@pytest.mark.model
def test_the_right_sentence_is_first(town):
    assert len(found := wrong(TOWN_PAIRS, searched(town))) <= MOST, found


WAYS = [
    by_page,
    by_completions,
    by_agent,
    by_agent_search,
    by_langchain,
    by_langchain_retriever,
    by_llama_index,
]


@pytest.mark.model
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_every_way_to_ask_hands_the_conversation_on(way, town):
    assert wrong([TOWN_PAIRS[7]], way(town)) == []


@pytest.mark.model
def test_the_chat_knows_what_was_asked_before(file, capsys, monkeypatch):
    """Here the first answer is the model's own."""
    pair = TOWN_PAIRS[0]
    monkeypatch.setattr(sys, "stdin", StringIO(f"{pair.first}\n{pair.then}\n"))
    assert main(["chat", str(file)]) == 0
    first = capsys.readouterr().out.rsplit("sources:\n", 1)[1].split("\n")[0]
    assert "Ada Lindqvist was born in Karlstad" in first


@pytest.mark.model
def test_worlds_that_nothing_was_chosen_on():
    index = HWDAGIndex.from_documents(SHIPS)
    assert len(found := wrong(SHIPS_PAIRS, searched(index))) <= 3, found
    assert len(found := wrong(SHIPS_PAIRS[::3], answered(index))) <= 1, found


@pytest.fixture(scope="module")
def gardens():
    with HWDAGIndex.from_documents(GARDENS) as index:
        yield index


@pytest.mark.model
def test_the_first_passage_answers_questions_that_refer_to_anything(gardens):
    def passages(index: HWDAGIndex) -> Ask:
        def first(pair: Pair) -> str:
            history = [(pair.first, pair.answer)]
            found = index.search(pair.then, history=history, returns="passages")
            return found.best(1)[0].node.text

        return first

    assert len(found := wrong(GARDENS_PAIRS, passages(gardens))) <= 2, found
    with HWDAGIndex.from_documents(HOUSE) as house:
        assert len(found := wrong(HOUSE_PAIRS, passages(house))) <= 2, found


@pytest.mark.model
def test_a_question_that_can_be_understood_alone_is_searched_alone(gardens):
    history = [("Who repaired the pump?", "Mr Okafor")]
    for question in STANDALONE:
        within, alone = gardens.search(question, history=history), gardens.search(question)
        assert NEAR_LAST_TURNS not in within.notes, question
        assert (within.steps, within.answerability) == (alone.steps, alone.answerability)


@pytest.mark.model
def test_the_same_question_goes_to_the_document_just_spoken_of(gardens):
    said = {
        "minutes": ("Did the board accept the offer for the pump?", "Yes"),
        "rules": ("When may leaves be burned?", "In October"),
        "chronicle": ("Who built the greenhouse?", "The firm Halden"),
    }
    for question in ("When was that?", "And before that?"):
        found = {
            key: gardens.search(question, history=[turn]).best(1)[0].node.document_id
            for key, turn in said.items()
        }
        assert found == {key: key for key in said}, question


@pytest.mark.model
def test_another_subject_is_found_as_without_a_conversation(town):
    history = [("Who built the waterworks?", "Ada Lindqvist")]
    for question in ("Who built the theatre?", "Where was the curtain painted?"):
        assert town.search(question, history=history).steps == town.search(question).steps


@pytest.fixture
def small():
    return HWDAGIndex.from_documents(
        TOWN, method="evidence", reader=ScriptedLM(), embedder=HashingEmbedder()
    )


HISTORY = [("Who built the waterworks?", "Ada Lindqvist [1]")]


def test_an_answerer_makes_it_a_question_of_its_own(small):
    asked = []

    def model(prompt):
        asked.append(prompt)
        return "When was Ada Lindqvist born?" if "Last question" in prompt else "In 1839"

    answer = small.answer("When was she born?", answerer=model, history=HISTORY)
    assert answer.retrieval.question == "When was she born?"
    assert answer.retrieval.searched_for == "When was Ada Lindqvist born?"
    assert answer.to_dict()["walk"]["searched_for"] == answer.retrieval.searched_for
    assert "Ada Lindqvist\n" in asked[0]
    assert "[1]" not in asked[0]
    assert "Question: When was Ada Lindqvist born?\n" in asked[1]
    plain = small.search("When was Ada Lindqvist born?")
    assert answer.retrieval.steps == plain.steps


@pytest.mark.parametrize("reply", ["", "<think>She is Ada.</think>", RuntimeError("down")], ids=str)
def test_a_note_reports_a_follow_up_that_no_model_rewrote(reply, small):
    def model(prompt):
        if "Last question" in prompt and isinstance(reply, Exception):
            raise reply
        return reply if "Last question" in prompt else "In 1839"

    found = small.answer("When was she born?", answerer=model, history=HISTORY).retrieval
    assert found.searched_for is None
    assert found.notes[-1] == NEAR_LAST_TURNS
    assert len(found.notes) == 3


def test_a_server_rewrites_and_a_failing_one_keeps_what_was_found(small):
    def both(request):
        if "Last question" in request.prompt:
            request.completion('Question: "When was Ada Lindqvist born?"\nBecause ...')
        else:
            request.reply(b"{}", 400)

    with serving(both) as server:
        answerer = OpenAIWriter("m", base_url=server.url)
        with pytest.raises(AnswererFailed) as caught:
            small.answer("When was she born?", answerer=answerer, history=HISTORY)
    assert caught.value.retrieval.searched_for == "When was Ada Lindqvist born?"


@pytest.mark.parametrize("history", ["who?", [("a",)], [("a", 1)], ["ab"], 7], ids=str)
def test_what_is_no_history_is_refused(history, small):
    with pytest.raises(InputError, match="history"):
        small.search("When?", history=history)
    assert checked_history([["a ", "b [2]"]]) == (("a", "b"),)


async def test_the_twins_and_the_streams_know_the_conversation(small):
    alone = small.answer("When was she born?", history=HISTORY)
    assert (await small.aanswer("When was she born?", history=HISTORY)).text == alone.text
    assert (await small.asearch("When was she born?", history=HISTORY)).notes[-1] == NEAR_LAST_TURNS
    index: Any = langchain_hwdag.HWDAGIndex(index=small)
    chain = index.as_runnable()
    given = {"question": "When was she born?", "history": HISTORY}
    whole = chain.invoke(given)
    assert whole["answer"].strip() == alone.text
    assert await chain.ainvoke(given) == whole
    [(asked, answered)] = HISTORY
    messages = [("human", asked), ("ai", answered)]
    for history in (messages, [messages[0], AIMessage(answered)]):
        assert chain.invoke(given | {"history": history}) == whole
    with pytest.raises(InputError, match="not both"):
        chain.invoke(given | {"history": [(asked, answered), AIMessage("Yes.")]})
    assert len(list(chain.stream(given))) > 2
    engine = llama_index_hwdag.HWDAGChatEngine(llama_index_hwdag.HWDAGRetriever(small))
    first = engine.stream_chat("Who built the waterworks?")
    pieces = list(first.response_gen)
    assert len(pieces) > 1
    assert "".join(pieces) == first.response
    second = await engine.astream_chat("When was she born?")
    assert "".join([piece async for piece in second.async_response_gen()])
    assert second.metadata["hwdag"]["walk"]["notes"][-1] == NEAR_LAST_TURNS
    assert len(engine.chat_history) == 4
    engine.reset()
    assert engine.chat_history == []


def test_an_answer_that_is_not_found_is_a_refusal_to_langchain(small):
    answer = small.answer("When was she born?", history=HISTORY)
    said = replace(answer, text="It is not there.", reply="42", found=False)
    replied = replace(said, text="It is not there.\n\nReply: 42", answered_by="model")
    refused = {"type": "refusal", "refusal": "It is not there."}
    marked = {"type": "refusal", "refusal": "It is not there.\n\nReply:"}
    if answering.HAS_REFUSALS:
        assert as_message(said).content_blocks == [refused]
        assert as_message(replied).content_blocks == [marked, {"type": "text", "text": "42"}]
        assert as_message(said).text == ""
    else:
        assert as_message(said).text == said.text
    for found in (True, None):
        assert as_message(replace(said, found=found)).content == said.text
    chain: Any = langchain_hwdag.HWDAGIndex(index=small).as_runnable()
    given = {"question": "When was she born?", "history": HISTORY}
    for whole in (chain.invoke(given), reduce(add, chain.stream(given))):
        assert whole["message"] == as_message(answer)
        assert (whole["found"], whole["confidence"]) == (answer.found, answer.confidence)
    empty: Any = langchain_hwdag.HWDAGIndex(
        index=HWDAGIndex(embedder=HashingEmbedder())
    ).as_runnable()
    assert empty.invoke("Who?")["message"].text == "" and empty.invoke("Who?")["found"] is False

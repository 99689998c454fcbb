"""Filters in LangChain: as fields, as options of a call, as configurable fields."""

from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.runnables import ConfigurableField
from langchain_world import CHUNKS, QUESTION, an_index

import hwdag
from hwdag.config import NEVER
from hwdag.filters import Filter, matches
from hwdag_lab.methods.bm25 import BM25Retriever
from hwdag_lab.scripted import ScriptedLM
from langchain_hwdag import CoreRetriever, HWDAGRetriever

NOTES = [
    Document(
        id=f"{town}-{year}",
        page_content=f"In {year} the smith of {town} mends the bell. The ferry waits for {town}.",
        metadata={"town": town, "year": year, "tags": [f"t{year % 2}"]},
    )
    for town in ("ash", "elm")
    for year in (1, 2, 3)
]
FILTERS: list[Filter] = [
    {"town": "ash"},
    {"year": {"in": [1, 3]}},
    {"year": {"gte": 2}},
    {"tags": "t1"},
    {"town": {"ne": "ash"}},
    {"town": "elm", "or": [{"year": 1}, {"year": {"gt": 2}}]},
    {"town": "oak"},
]


def a_walk(**options):
    return an_index(NOTES, **options)


def a_bm25(**options):
    return CoreRetriever.from_documents(NOTES, BM25Retriever, reader=ScriptedLM(), **options)


MAKERS: list[Callable[..., Any]] = [a_walk, a_bm25]


def seen(documents):
    return {document.metadata["hwdag"]["document_id"] for document in documents}


def matching(wanted):
    return {str(document.id) for document in NOTES if matches(wanted, document.metadata)}


@pytest.mark.parametrize("make", MAKERS)
async def test_only_documents_that_match_are_found_however_the_filter_is_given(make):
    plain = make()
    for wanted in FILTERS:
        expected = plain.invoke(QUESTION, k=99, filters=wanted)
        assert seen(expected) == matching(wanted)
        assert await plain.ainvoke(QUESTION, k=99, filters=wanted) == expected
        assert plain.batch([QUESTION], k=99, filters=wanted) == [expected]
        bound = CoreRetriever(retriever=plain, filters=wanted)
        assert bound.filters == wanted
        assert bound.invoke(QUESTION, k=99) == expected


def test_options_of_a_call_take_the_place_of_the_own_ones():
    retriever = a_walk().as_retriever(filters={"town": "ash"}, document_ids=["ash-1"], k=99)
    assert seen(retriever.invoke(QUESTION)) == {"ash-1"}
    assert seen(retriever.invoke(QUESTION, document_ids=["ash-1", "ash-3"])) == {"ash-1", "ash-3"}
    assert seen(retriever.invoke(QUESTION, filters={"town": "elm"})) == set()
    assert seen(retriever.invoke(QUESTION, filters=None)) == {"ash-1"}


def test_a_dump_has_the_filter():
    wanted = {"or": [{"town": "elm"}, {"year": {"gte": 2}}]}
    dumped = an_index([], filters=wanted).model_dump()
    assert dumped["filters"] == wanted
    assert an_index([]).model_dump()["filters"] is None


# --- configurable fields -------------------------------------------------------------------------


@pytest.mark.parametrize("make", [lambda: a_walk().as_retriever(), a_walk, a_bm25])
async def test_every_field_is_configurable_at_run_time(make):
    names = ("search", "k", "document_ids", "filters", "returns")
    retriever = make()
    configurable = retriever.configurable_fields(
        **{name: ConfigurableField(id=name) for name in names}
    )
    assert configurable.invoke(QUESTION) == retriever.invoke(QUESTION)
    chosen: dict[str, Any] = {
        "search": {"token_budget": 40, "confidence": NEVER},
        "k": 3,
        "document_ids": ["ash-1", "elm-1", "elm-2"],
        "filters": {"year": 1},
        "returns": "sources",
    }
    config: Any = {"configurable": chosen}
    expected = CoreRetriever(retriever=retriever, **chosen).invoke(QUESTION)
    assert seen(expected) <= {"ash-1", "elm-1"}
    assert configurable.invoke(QUESTION, config) == expected
    assert await configurable.ainvoke(QUESTION, config) == expected
    assert configurable.with_config(configurable=chosen).batch([QUESTION]) == [expected]
    schema = configurable.config_schema().model_json_schema()
    assert set(schema["$defs"]["Configurable"]["properties"]) == set(names)


def test_the_core_index_is_taken_with_its_config():
    core = hwdag.HWDAGIndex(config=CHUNKS)
    assert HWDAGRetriever(index=core, filters={"a": 1}).core is core

"""Filters of the LlamaIndex package, and the embedding of a query."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from llama_index.core import Document
from llama_index.core.schema import QueryBundle
from llama_index.core.vector_stores import (
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
)
from llama_index.core.vector_stores.utils import build_metadata_filter_fn
from llama_world import ALL, QUESTION, TEXTS, built, chat_memory, plain

import hwdag
from hwdag.errors import InputError, UnknownOption
from hwdag.filters import matches
from hwdag_lab.methods.bm25 import BM25Retriever
from hwdag_lab.scripted import ScriptedLM
from llama_index_hwdag import CoreRetriever, HWDAGQueryEngine
from llama_index_hwdag.metadata_filters import as_core_filter

METADATA: list[dict[str, Any]] = [
    {},
    {"year": 1871, "lang": "de", "tags": ["a", "b"]},
    {"year": 1902, "lang": "en", "tags": ["b"]},
    {"year": 1950, "lang": "de", "tags": []},
]


def one(key, operator, value):
    return MetadataFilter(key=key, operator=operator, value=value)


ONES = [
    one("lang", FilterOperator.EQ, "de"),
    one("lang", FilterOperator.NE, "de"),
    one("year", FilterOperator.GT, 1902),
    one("year", FilterOperator.GTE, 1902),
    one("year", FilterOperator.LT, 1902),
    one("year", FilterOperator.LTE, 1902),
    one("year", FilterOperator.IN, [1871, 1950]),
    one("lang", FilterOperator.NIN, ["en", "fr"]),
    one("tags", FilterOperator.ANY, ["a", "c"]),
    one("tags", FilterOperator.ALL, ["a", "b"]),
    one("tags", FilterOperator.CONTAINS, "b"),
    one("tags", FilterOperator.IS_EMPTY, None),
]


def matched(filters):
    return [matches(filters, metadata) for metadata in METADATA]


# --- filters


def test_every_operator_and_condition_means_what_it_means_to_llama_index():
    pairs = [list(pair) for pair in itertools.combinations(ONES, 2)]
    for parts in ([[each] for each in ONES], pairs):
        for few, condition in itertools.product(parts, FilterCondition):
            filters = MetadataFilters(filters=few, condition=condition)
            theirs = build_metadata_filter_fn(lambda key: METADATA[int(key)], filters)
            expected = [theirs(str(i)) for i in range(len(METADATA))]
            assert matched(as_core_filter(filters)) == expected, filters


def test_nested_filters_are_translated_too():
    old = MetadataFilters(filters=[one("year", FilterOperator.LT, 1900)])
    english = one("lang", FilterOperator.EQ, "en")
    filters = MetadataFilters(filters=[old, english], condition=FilterCondition.OR)
    assert matched(as_core_filter(filters)) == [False, True, True, False]
    outside = MetadataFilters(filters=[filters], condition=FilterCondition.NOT)
    assert matched(as_core_filter(outside)) == [True, False, False, True]


def test_filters_of_the_core_pass_as_they_are():
    given = {"lang": "de", "not": {"year": 1871}}
    assert as_core_filter(given) is given
    assert as_core_filter(None) is None
    assert as_core_filter(MetadataFilters(filters=[])) is None


def test_what_has_no_equal_is_refused_by_name():
    for operator in (FilterOperator.TEXT_MATCH, FilterOperator.TEXT_MATCH_INSENSITIVE):
        with pytest.raises(UnknownOption, match=f"'{operator.value}'"):
            as_core_filter(MetadataFilters(filters=[one("lang", operator, "d")]))
    with pytest.raises(InputError, match="filter"):
        as_core_filter(MetadataFilters(filters=[MetadataFilters(filters=[])]))
    with pytest.raises(InputError, match="'year'"):
        as_core_filter(MetadataFilters(filters=[one("year", FilterOperator.IN, 1871)]))
    with pytest.raises(UnknownOption, match="operator"):
        built("mill").as_retriever(filters={"year": {"near": 3}})


@pytest.mark.parametrize(
    "filters",
    [
        MetadataFilters(filters=[one("place", FilterOperator.EQ, "mill")]),
        {"place": "mill"},
    ],
    ids=["llama_index", "json"],
)
def test_filters_reach_every_way_of_searching(filters):
    index = built()
    core = CoreRetriever.from_documents(
        [Document(id_=key, text=text, metadata={"place": key}) for key, text in TEXTS.items()],
        BM25Retriever,
        reader=ScriptedLM(),
        filters=filters,
    )
    found = [
        index.as_retriever(filters=filters, search=ALL).retrieve(QUESTION),
        index.as_query_engine(filters=filters, k=9).query(QUESTION).source_nodes,
        index.as_query_engine(answer_mode="walk", filters=filters).query(QUESTION).source_nodes,
        index.as_chat_engine("context", filters=filters, k=9, memory=chat_memory())
        .chat(QUESTION)
        .source_nodes,
        core.retrieve(QUESTION),
        CoreRetriever(core, filters=filters, k=9).retrieve(QUESTION),
        HWDAGQueryEngine(core).query(QUESTION).source_nodes,
    ]
    for nodes in found:
        assert {n.node.ref_doc_id for n in nodes} == {"mill"}


# --- the embedding of a query


def asking(index):
    def ask(**fields: Any) -> list[Any]:
        return plain(index.as_retriever(k=4).retrieve(QueryBundle(QUESTION, **fields)))

    return ask


def test_the_embedding_that_a_query_comes_with_is_used():
    index = built()
    ask, embedder = asking(index), index.core.embedder
    own = embedder.embed_query(QUESTION)
    assert ask(embedding=own.tolist()) == ask()
    other = embedder.embed_query("Whose apples?")
    assert ask(embedding=other.tolist()) != ask()
    assert ask(embedding=other.tolist()) == ask(custom_embedding_strs=["Whose apples?"])
    mean = np.mean([own, other], axis=0)
    assert ask(custom_embedding_strs=[QUESTION, "Whose apples?"]) == ask(embedding=mean.tolist())
    stream, nodes = index.as_retriever(k=4).walk(QueryBundle(QUESTION, embedding=other.tolist()))
    assert stream.retrieval == index.core.search(QUESTION, query_vector=other.tolist())
    assert plain(nodes) != ask()


def test_the_embedding_of_another_model_is_left_aside(caplog):
    ask = asking(built())
    assert ask(embedding=[0.5] * 3) == ask()
    assert "hashing-256" in caplog.text


def test_retrievers_that_embed_nothing_do_not_mind():
    core = BM25Retriever(reader=ScriptedLM())
    core.insert([hwdag.Document("mill", TEXTS["mill"])])
    retriever = CoreRetriever(core)
    given = retriever.retrieve(QueryBundle(QUESTION, embedding=[0.5]))
    assert plain(given) == plain(retriever.retrieve(QUESTION))

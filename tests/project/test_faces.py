"""The packages of both frameworks side by side: the same options under the same names, the same nodes for a question.

Features of only one of them are listed here, with the reason.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Unpack, get_args, get_origin

import pytest
from langchain_core.documents import Document as LangChainDocument
from llama_index.core.schema import Document as LlamaIndexDocument

import hwdag
import langchain_hwdag
import llama_index_hwdag
from hwdag.config import NEVER
from hwdag.embedding.hashing import HashingEmbedder
from hwdag.errors import UnknownOption
from hwdag.trace.provenance import METADATA_KEY
from hwdag_lab.methods.bm25 import BM25Retriever
from hwdag_lab.scripted import ScriptedLM
from langchain_hwdag.base_retriever import CoreSearchRetriever as LangChainRetriever

BUILDING = {
    "method",
    "reader",
    "writer",
    "answerer",
    "embedder",
    "config",
    "prompts",
    "path",
    "show_progress",
}
SEARCHING = {"search", "k", "document_ids", "filters", "returns"}

OF_LLAMA_INDEX = {"callback_manager", "object_map", "verbose", "similarity_top_k"}
"""Options of every retriever of LlamaIndex, and its word for the number of nodes."""

OF_LANGCHAIN = {"name", "tags", "metadata"}
"""Options of every retriever of LangChain."""


def options(call: Callable[..., Any]) -> set[str]:
    """Names of keyword arguments, those of an `Unpack` too, without the first one."""
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    found = inspect.signature(call, eval_str=True).parameters.values()
    named = {one.name for one in found if one.kind in kinds}
    for one in found:
        if get_origin(one.annotation) is Unpack:
            named |= get_args(one.annotation)[0].__annotations__.keys()
    return named - {"self", "documents", "retriever"}


def fields(model: Any) -> set[str]:
    return set(model.model_fields)


# --- names ---------------------------------------------------------------------------------------


def test_building_has_the_same_options():
    # why: documents of LlamaIndex pass through stores and transformations; and an index of
    # LangChain is a retriever itself, so it takes the options of one
    llama_index = {"storage_context", "transformations", "callback_manager", "embed_model"}
    assert options(llama_index_hwdag.HWDAGIndex.from_documents) == BUILDING | llama_index
    for made in (langchain_hwdag.HWDAGIndex, langchain_hwdag.HWDAGRetriever):
        assert options(made.from_documents) == BUILDING | SEARCHING | {"embedding"}


def test_retrievers_have_the_same_options():
    # why: each framework has a word of its own for the number of nodes
    own = {"similarity_top_k"}
    assert options(llama_index_hwdag.HWDAGIndex.as_retriever) == SEARCHING | own
    # why: LlamaIndex has its callbacks in the index
    own = {"tags", "metadata", "search_kwargs", "search_type"}
    assert options(langchain_hwdag.HWDAGIndex.as_retriever) == SEARCHING | own
    assert options(llama_index_hwdag.HWDAGRetriever) == SEARCHING | OF_LLAMA_INDEX
    own = {"index", "score_threshold", "fetch_k", "lambda_mult"}
    assert fields(langchain_hwdag.HWDAGRetriever) == SEARCHING | OF_LANGCHAIN | own


def test_retrievers_of_the_core_have_the_same_options():
    llama_index, langchain = llama_index_hwdag.CoreRetriever, langchain_hwdag.CoreRetriever
    assert options(llama_index) == SEARCHING | OF_LLAMA_INDEX
    assert fields(langchain) == SEARCHING | OF_LANGCHAIN | {"retriever"}
    assert options(langchain.from_documents) == {"show_progress"}
    assert options(llama_index.from_documents) == {"show_progress", "callback_manager"}


def test_models_have_the_same_options():
    llama_index, langchain = llama_index_hwdag.HWDAGIndex, langchain_hwdag.HWDAGIndex
    assert options(llama_index.as_llm) == options(langchain.as_llm) == {"max_new_tokens"}


def test_both_keep_what_searches_and_what_was_built_under_the_same_names():
    for package in (llama_index_hwdag, langchain_hwdag):
        made = of(package, BM25Retriever)
        assert isinstance(made.core, BM25Retriever)
        assert made.report.built == ["mill", "ferry"]
        assert isinstance(an_index(package).core, hwdag.HWDAGIndex)
        assert an_index(package).report.built == ["mill", "ferry"]


# --- the same nodes ------------------------------------------------------------------------------

QUESTION = "Who mends the bell of the ferry?"
TEXTS = {
    "mill": "The miller keeps grain behind the river. He counts the sacks at night.",
    "ferry": "The ferry crosses the river at dawn. The smith mends the bell of the ferry.",
}
METADATA = {"mill": {"owner": "ash", "year": 1}, "ferry": {"owner": "elm", "year": 2}}
PACKAGES: list[Any] = [llama_index_hwdag, langchain_hwdag]


def documents(package: Any) -> list[Any]:
    if package is langchain_hwdag:
        return [
            LangChainDocument(id=key, page_content=text, metadata=METADATA[key])
            for key, text in TEXTS.items()
        ]
    return [
        LlamaIndexDocument(id_=key, text=text, metadata=METADATA[key])
        for key, text in TEXTS.items()
    ]


def an_index(package: Any, **given: Any) -> Any:
    models: dict[str, Any] = {"reader": ScriptedLM(), "embedder": HashingEmbedder()}
    return package.HWDAGIndex.from_documents(documents(package), **models | given)


def of(package: Any, retriever: type[Any], **given: Any) -> Any:
    models: dict[str, Any] = {"reader": ScriptedLM()}
    return package.CoreRetriever.from_documents(documents(package), retriever, **models | given)


def found(retriever: Any) -> list[tuple[str, str, Any]]:
    """Id, text and provenance of every node."""
    if isinstance(retriever, LangChainRetriever):
        return [
            (str(one.id), one.page_content, one.metadata[METADATA_KEY])
            for one in retriever.invoke(QUESTION)
        ]
    nodes = [one.node for one in retriever.retrieve(QUESTION)]
    return [(node.node_id, node.text, node.metadata[METADATA_KEY]) for node in nodes]


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"k": 3},
        {"k": 99, "returns": "sources"},
        {"k": 99, "returns": "passages"},
        {"document_ids": ["mill"]},
        {"filters": {"year": {"gte": 2}}, "k": 99},
        {"filters": {"owner": {"ne": "elm"}}},
        {"search": hwdag.SearchConfig(token_budget=20, confidence=NEVER)},
    ],
)
def test_the_same_question_finds_the_same_nodes_for_the_same_reasons(given):
    llama_index, langchain = (
        found(an_index(package).as_retriever(**given)) for package in PACKAGES
    )
    assert llama_index == langchain != []
    llama_index, langchain = (found(of(package, BM25Retriever, **given)) for package in PACKAGES)
    assert llama_index == langchain != []


@pytest.mark.parametrize("package", PACKAGES)
def test_both_refuse_by_name(package):
    with pytest.raises(UnknownOption, match="'top_k'"):
        an_index(package).as_retriever(top_k=3)
    with pytest.raises((TypeError, ValueError), match="top_k"):
        an_index(package, top_k=3)
    with pytest.raises(ValueError, match=r"\bk\b"):
        an_index(package).as_retriever(k=0)
    for empty in ({}, {"and": []}, {"year": {}}):
        for make in (
            lambda f: an_index(package).as_retriever(filters=f),
            lambda f: of(package, BM25Retriever, filters=f),
        ):
            with pytest.raises(ValueError, match="filter"):
                found(make(empty))

"""Every retriever of the core in LangChain: the finds of the core in LangChain's shapes."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.retrievers import BaseRetriever
from langchain_tests.integration_tests import RetrieversIntegrationTests
from langchain_world import DOCUMENTS, QUESTION, Recorder, texts
from pydantic import ValidationError

import hwdag
from hwdag.embedding.hashing import HashingEmbedder
from hwdag.errors import InputError, UnknownOption
from hwdag_lab.methods.bm25 import BM25Retriever
from hwdag_lab.methods.dense import DenseRetriever
from hwdag_lab.scripted import ScriptedLM
from langchain_hwdag import CoreRetriever, HWDAGIndex, HWDAGRetriever


def a_core(**options):
    return BM25Retriever(**{"reader": ScriptedLM(), "granularity": "sentence"} | options)


def a_retriever(core=None, **options):
    return CoreRetriever.from_documents(DOCUMENTS, core or a_core(), **options)


# --- retrieval -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "options"), [(BM25Retriever, {}), (hwdag.HWDAGIndex, {"embedder": HashingEmbedder()})]
)
def test_every_retriever_of_the_core_is_one_of_langchain(kind, options):
    """Two of them; those of the lab are all tried in `tests/lab/test_methods.py`."""
    options = options | {"reader": ScriptedLM()}
    retriever = CoreRetriever.from_documents(DOCUMENTS, kind, **options)
    recorder = Recorder()
    documents = retriever.invoke(QUESTION, {"callbacks": [recorder]})
    retrieval = retriever.retriever.search(QUESTION)
    assert texts(documents) == [step.node.text for step in retrieval.steps] != []
    assert [d.id for d in documents] == [step["id"] for step in recorder.steps]
    for document in documents:
        assert document.metadata["hwdag"]["document_id"] in ("mill", "ferry")
        assert document.metadata["source"] in ("a.txt", "b.txt")
    best = retriever.retriever.search(QUESTION, k=2).best(2)
    assert [d.id for d in retriever.invoke(QUESTION, k=2)] == [step.node.id for step in best]


# --- making one ----------------------------------------------------------------------------------


def test_a_class_is_made_with_its_options_and_a_finished_one_keeps_what_it_holds():
    made = CoreRetriever.from_documents(
        DOCUMENTS, BM25Retriever, reader=ScriptedLM(), granularity="sentence", k=3
    )
    assert made.invoke(QUESTION) == a_retriever(k=3).invoke(QUESTION)
    named = CoreRetriever.from_documents(
        DOCUMENTS, "bm25", reader=ScriptedLM(), granularity="sentence", k=3
    )
    assert named.invoke(QUESTION) == made.invoke(QUESTION)

    core = a_core()
    CoreRetriever.from_documents(DOCUMENTS[:1], core)
    both = CoreRetriever.from_documents(DOCUMENTS[1:], core, k=3)
    assert both.retriever is core
    assert both.invoke(QUESTION) == made.invoke(QUESTION)
    assert CoreRetriever(retriever=core, k=3).invoke(QUESTION) == made.invoke(QUESTION)


def test_models_of_langchain_are_taken():
    retriever = CoreRetriever.from_documents(
        DOCUMENTS, DenseRetriever, reader=ScriptedLM(), embedder=DeterministicFakeEmbedding(size=8)
    )
    assert isinstance(retriever.retriever, DenseRetriever)
    assert retriever.retriever.embedder.name == "langchain:DeterministicFakeEmbedding"
    assert len(retriever.invoke(QUESTION)) == 2


def test_a_retriever_of_this_face_is_taken_for_the_cores_one():
    index = HWDAGIndex.from_documents(DOCUMENTS, reader=ScriptedLM(), embedder=HashingEmbedder())
    general = CoreRetriever(retriever=index)
    assert general.retriever is index.index
    assert general.invoke(QUESTION) == index.invoke(QUESTION)
    assert HWDAGRetriever(index=general).index is index.index
    again = CoreRetriever.from_documents([], general)
    assert again.retriever is index.index


def test_blank_documents_are_reported_and_other_content_under_an_id_is_refused():
    blank = Document(id="blank", page_content=" \n")
    retriever = CoreRetriever.from_documents([*DOCUMENTS, blank], a_core())
    assert [name for name, _ in retriever.report.skipped] == ["blank"]
    assert CoreRetriever(retriever=retriever.retriever).report is None
    with pytest.raises(InputError, match="'mill'"):
        CoreRetriever.from_documents(
            [Document(id="mill", page_content="Other.")], retriever.retriever
        )


def test_unknown_options_are_refused_by_name():
    core = a_core()
    with pytest.raises(ValidationError, match="top_k"):
        CoreRetriever(retriever=core, top_k=3)
    with pytest.raises(ValidationError, match="'budget'"):
        CoreRetriever(retriever=core, search={"budget": 3})
    with pytest.raises(UnknownOption, match="top_k"):
        CoreRetriever.from_documents(DOCUMENTS, BM25Retriever, top_k=3)
    with pytest.raises(UnknownOption, match="'top_k'"):
        CoreRetriever.from_documents(DOCUMENTS, core, top_k=3)
    with pytest.raises(UnknownOption, match="'top_k'"):
        a_retriever().invoke(QUESTION, top_k=3)


@pytest.mark.parametrize(("given", "seen"), [(3, "int"), (BM25Retriever, "BM25")])
def test_what_is_no_retriever_of_the_core_is_refused(given, seen):
    with pytest.raises(ValidationError, match=seen):
        CoreRetriever(retriever=given)
    with pytest.raises(InputError, match="retriever"):
        CoreRetriever.from_documents(DOCUMENTS, 3)
    with pytest.raises(InputError, match="dict"):
        CoreRetriever.from_documents(DOCUMENTS, dict)


def test_the_representation_shows_no_retriever_of_the_core():
    assert "BM25" not in repr(a_retriever())
    assert "retriever" not in a_retriever().model_dump()


# --- events, async and threads -------------------------------------------------------------------


async def test_an_empty_retriever_finds_nothing():
    retriever = CoreRetriever(retriever=a_core())
    assert retriever.invoke(QUESTION) == retriever.invoke(QUESTION, k=3) == []
    assert await retriever.ainvoke(QUESTION) == []
    with pytest.raises(InputError, match="empty"):
        retriever.invoke(" ")


def test_a_document_that_is_deleted_during_the_search_is_still_returned():
    core = a_core()
    recorder = Recorder(lambda: core.delete("ferry") if "ferry" in core.documents else None)
    retriever = a_retriever(core)
    expected = retriever.invoke(QUESTION)
    assert retriever.invoke(QUESTION, {"callbacks": [recorder]}) == expected
    assert set(core.documents) == {"mill"}


# --- LangChain's own suite, unmodified -----------------------------------------------------------


class TestStandard(RetrieversIntegrationTests):
    @property
    def retriever_constructor(self) -> type[BaseRetriever]:
        return CoreRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"retriever": a_retriever().retriever}

    @property
    def retriever_query_example(self) -> str:
        return QUESTION

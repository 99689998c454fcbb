"""Every retriever of the core in LlamaIndex: the finds of the core in LlamaIndex's shapes."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from llama_index.core import Document
from llama_index.core.base.response.schema import AsyncStreamingResponse, StreamingResponse
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import (
    MetadataMode,
    NodeRelationship,
    QueryBundle,
    RelatedNodeInfo,
    TextNode,
)
from llama_world import QUESTION, TEXTS, built, documents, events_seen, models, plain

import hwdag
from hwdag.embedding.hashing import HashingEmbedder
from hwdag.errors import InputError, UnknownOption
from hwdag_lab.methods.bm25 import BM25Retriever
from hwdag_lab.methods.dense import DenseRetriever
from hwdag_lab.scripted import ScriptedLM
from llama_index_hwdag import CoreRetriever, HWDAGIndex, HWDAGQueryEngine, HWDAGStepEvent
from llama_index_hwdag.nodes import own_metadata

ANSWER = "The smith mends the bell of the ferry."

TWO = ("mill", "ferry")


def a_core(**options):
    return BM25Retriever(**{"reader": ScriptedLM(), "granularity": "sentence"} | options)


def a_retriever(core=None, **options):
    return CoreRetriever.from_documents(documents(*TWO), core or a_core(), **options)


# --- retrieval


@pytest.mark.parametrize(
    ("kind", "options"), [(BM25Retriever, {}), (hwdag.HWDAGIndex, {"embedder": HashingEmbedder()})]
)
def test_every_retriever_of_the_core_is_one_of_llama_index(kind, options):
    """Two of them; those of the lab are all tried in `tests/lab/test_methods.py`."""
    options = options | {"reader": ScriptedLM()}
    retriever = CoreRetriever.from_documents(documents(*TWO), kind, **options)
    assert isinstance(retriever, BaseRetriever)
    with events_seen(HWDAGStepEvent) as events:
        found = retriever.retrieve(QUESTION)
    steps = retriever.core.search(QUESTION).steps
    assert [n.text for n in found] == [step.node.text for step in steps] != []
    assert [event.node_id for event in events] == [n.node.node_id for n in found]
    assert {n.node.ref_doc_id for n in found} <= set(TWO)
    two = CoreRetriever(retriever, k=2).retrieve(QUESTION)
    best = retriever.core.search(QUESTION, k=2).best(2)
    assert [n.node.node_id for n in two] == [step.node.id for step in best]

    response = HWDAGQueryEngine(retriever).query(QUESTION)
    assert str(response) == retriever.core.answer(QUESTION).text != ""
    assert [n.node.node_id for n in response.source_nodes] == [n.node.node_id for n in found]


MAKES = {
    "an index": lambda given: HWDAGIndex.from_documents(given, **models()),
    "a retriever": lambda given: CoreRetriever.from_documents(given, a_core()),
}
"""Both ways from documents to something that finds."""


def held(made):
    """Text and metadata of the documents of an index or a retriever, by id."""
    return {key: (d.text, own_metadata(d)) for key, d in made.core.documents.items()}


@pytest.fixture(params=[lambda: built().as_retriever(k=1), lambda: a_retriever(k=1)])
def retriever(request):
    """Of an index of LlamaIndex, and of any retriever of the core."""
    return request.param()


def test_provenance_is_metadata_that_no_model_sees(retriever):
    [found] = retriever.retrieve(QUESTION)
    node = found.node
    assert node.text == ANSWER == TEXTS["ferry"][node.start_char_idx : node.end_char_idx]
    assert node.metadata["hwdag"]["id"] == node.node_id
    for mode in (MetadataMode.LLM, MetadataMode.EMBED):
        assert "p_yes" not in node.get_content(mode)
        assert "place: ferry" in node.get_content(mode)
    assert "/secret" not in node.get_content(MetadataMode.LLM)
    assert "/secret" in node.get_content(MetadataMode.EMBED)


def test_a_sentence_comes_with_the_heading_above_it():
    text = "# Ferry\n\nIt crossed the river.\n\n# Harbour\n\nIt is old. Clara Holm built it with her two sisters."
    index = HWDAGIndex.from_documents([Document(text=text)], **models())
    [found] = index.as_retriever(k=1).retrieve("Who built it, Clara Holm?")
    assert found.node.text == "Clara Holm built it with her two sisters."
    assert found.node.metadata["hwdag"]["heading"] == "Harbour"
    assert "heading: Harbour" in found.node.get_content(MetadataMode.LLM)


def test_exclusions_hold_for_the_metadata_that_they_came_with():
    retriever = a_retriever(k=1)
    retriever.core.delete("ferry")
    retriever.core.insert([hwdag.Document("ferry", TEXTS["ferry"], metadata={"path": "/public"})])
    [found] = retriever.retrieve(QUESTION)
    assert "path: /public" in found.node.get_content(MetadataMode.LLM)
    assert "place" not in found.node.metadata


def test_a_retrieved_node_may_be_changed_without_changing_what_is_kept(retriever):
    before = plain(retriever.retrieve(QUESTION))
    [found] = retriever.retrieve(QUESTION)
    found.node.metadata.clear()
    found.node.excluded_llm_metadata_keys.clear()
    assert plain(retriever.retrieve(QUESTION)) == before


def test_sources_are_passages_of_the_original():
    retriever = CoreRetriever.from_documents(
        documents(*TWO),
        hwdag.HWDAGIndex,
        reader=ScriptedLM(),
        writer=lambda prompt: "* In other words.",
        embedder=HashingEmbedder(),
        returns="sources",
        k=99,
        search=hwdag.SearchConfig(method="garlic"),  # which keeps written points
    )
    found = retriever.retrieve(QUESTION)
    assert any(n.node.metadata["hwdag"]["origin"] == "generated" for n in found)
    for n in found:
        where = n.node.metadata["hwdag"]
        text = TEXTS[where["document_id"]]
        assert n.text == "\n".join(text[start:end] for start, end in where["spans"])


def test_a_document_that_is_deleted_during_the_search_is_still_returned():
    class Deleting(BM25Retriever):
        def search(self, *args: Any, **options: Any) -> Any:
            found = super().search(*args, **options)
            self.delete("ferry")
            return found

    core = Deleting(reader=ScriptedLM(), granularity="sentence")
    assert plain(a_retriever(core).retrieve(QUESTION)) == plain(a_retriever().retrieve(QUESTION))
    assert set(core.documents) == {"mill"}


def test_an_empty_question_is_refused_and_an_empty_retriever_finds_nothing():
    with pytest.raises(InputError, match="question"):
        a_retriever().retrieve(" ")
    assert CoreRetriever(a_core()).retrieve(QUESTION) == []


# --- answers


async def test_the_reader_answers_in_pieces_and_asynchronously():
    engine = HWDAGQueryEngine(a_retriever(), streaming=True)
    streamed = engine.query(QUESTION)
    assert isinstance(streamed, StreamingResponse)
    pieces = list(streamed.response_gen)
    assert len(pieces) > 1 and "".join(pieces) == ANSWER
    assert "citations" in streamed.metadata["hwdag"]
    awaited = await engine.aquery(QUESTION)
    assert isinstance(awaited, AsyncStreamingResponse)
    assert [piece async for piece in awaited.async_response_gen()] == pieces


def test_the_walk_alone_is_available_too():
    retriever = a_retriever()
    stream, nodes = retriever.walk(QueryBundle(QUESTION))
    assert "".join(stream) == ANSWER
    assert [n.node.node_id for n in nodes] == [s.node.id for s in stream.retrieval.steps]


# --- making one


def test_a_class_is_made_with_its_options_and_a_finished_one_keeps_what_it_holds():
    made = CoreRetriever.from_documents(
        documents(*TWO), BM25Retriever, reader=ScriptedLM(), granularity="sentence", k=3
    )
    expected = plain(a_retriever(k=3).retrieve(QUESTION))
    assert plain(made.retrieve(QUESTION)) == expected
    named = CoreRetriever.from_documents(
        documents(*TWO), "bm25", reader=ScriptedLM(), granularity="sentence", k=3
    )
    assert plain(named.retrieve(QUESTION)) == expected

    first = CoreRetriever.from_documents(documents("mill"), a_core())
    both = CoreRetriever.from_documents(documents("ferry"), first, k=3)
    assert both.core is first.core
    assert plain(both.retrieve(QUESTION)) == expected
    assert plain(CoreRetriever(first, k=3).retrieve(QUESTION)) == expected


def test_models_of_llama_index_are_taken():
    retriever = CoreRetriever.from_documents(
        documents(*TWO), DenseRetriever, reader=ScriptedLM(), embedder=MockEmbedding(embed_dim=4)
    )
    assert isinstance(retriever.core, DenseRetriever)
    assert retriever.core.embedder.name == "llama-index:MockEmbedding:unknown"
    assert len(retriever.retrieve(QUESTION)) == 2


@pytest.mark.parametrize(
    "make", [lambda nodes: HWDAGIndex(nodes, **models()), MAKES["a retriever"]]
)
def test_nodes_of_one_ref_doc_are_joined_into_one_document(make):
    relation = {NodeRelationship.SOURCE: RelatedNodeInfo(node_id="mill")}
    nodes = [
        TextNode(text=text, relationships=relation, metadata={"book": 1, "page": page})
        for page, text in enumerate(("The first page.", "The second page."))
    ]
    alone = TextNode(id_="alone", text=TEXTS["orchard"])
    assert held(make([*nodes, alone])) == {
        "mill": ("The first page.\n\nThe second page.", {"book": 1}),
        "alone": (TEXTS["orchard"], {}),
    }


def test_a_document_goes_before_the_nodes_that_were_made_of_it():
    split = SentenceSplitter(chunk_size=24, chunk_overlap=0)(documents("ferry"))
    retriever = CoreRetriever.from_documents([*split, *documents("ferry")], a_core())
    assert retriever.core.documents["ferry"].text == TEXTS["ferry"]


@pytest.mark.parametrize("make", MAKES.values(), ids=MAKES)
def test_blank_documents_are_skipped_with_a_warning(make, caplog):
    with caplog.at_level(logging.WARNING):
        made = make([*documents(*TWO), Document(id_="blank", text=" \n")])
    assert "blank" in caplog.text
    assert [name for name, _ in made.report.skipped] == ["blank"]
    assert held(made).keys() == set(TWO)
    assert CoreRetriever(made.core).report is None


@pytest.mark.parametrize("make", MAKES.values(), ids=MAKES)
def test_two_contents_under_one_id_are_refused(make):
    with pytest.raises(InputError, match="'a'"):
        make([Document(id_="a", text="The one."), Document(id_="a", text="The other.")])


def test_another_content_under_the_id_of_a_document_that_is_there_is_refused():
    with pytest.raises(InputError, match="'mill'"):
        CoreRetriever.from_documents([Document(id_="mill", text="Other.")], a_retriever())


def test_unknown_options_are_refused_by_name():
    core, options = a_core(), {"top_k": 3}
    with pytest.raises(UnknownOption, match="top_k"):
        CoreRetriever(core, **options)
    with pytest.raises(UnknownOption, match="top_k"):
        CoreRetriever.from_documents(documents(*TWO), BM25Retriever, **options)
    for finished in (core, CoreRetriever(core)):
        with pytest.raises(UnknownOption, match="'top_k'"):
            CoreRetriever.from_documents(documents(*TWO), finished, **options)


def test_an_impossible_k_is_refused_before_anything_is_inserted():
    core = a_core()
    with pytest.raises(InputError, match=r"\bk\b"):
        CoreRetriever.from_documents(documents(*TWO), core, k=0)
    assert not core.documents


def test_what_is_no_retriever_of_the_core_is_refused():
    index = HWDAGIndex(nodes=[], reader=ScriptedLM(), embedder=HashingEmbedder())
    given: tuple[Any, ...] = (3, BM25Retriever, index)
    named = ("int", "the class BM25Retriever", "HWDAGIndex")
    for value, name in zip(given, named, strict=True):
        with pytest.raises(InputError, match=name):
            CoreRetriever(value)
    with pytest.raises(InputError, match="dict"):
        CoreRetriever.from_documents(documents(*TWO), dict)

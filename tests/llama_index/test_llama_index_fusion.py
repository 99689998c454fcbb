"""Fusion with other retrievers over one docstore: a passage has one vote from each, an upsert replaces."""

from __future__ import annotations

import pickle
from collections.abc import Sequence

import pytest
from llama_index.core import Document, QueryBundle, load_index_from_storage
from llama_index.core.ingestion import DocstoreStrategy, IngestionPipeline
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.retrievers import QueryFusionRetriever
from llama_index.core.schema import BaseNode, NodeWithScore, TransformComponent
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.core.vector_stores import SimpleVectorStore
from llama_index.retrievers.bm25 import BM25Retriever
from llama_world import ALL, QUESTION, TEXTS, built, models, persisted

from hwdag import SearchConfig
from llama_index_hwdag import HWDAGIndex, HWDAGRetriever

FIRST = 1 / 60
"""The score of reciprocal rank fusion for a first place."""


@pytest.mark.parametrize("heading", ["", "# The ferry\n\n"])
def test_a_leaf_is_the_same_node_whoever_has_found_it(heading):
    index = HWDAGIndex.from_documents([Document(text=heading + TEXTS["ferry"])], **models())
    leaves = {node.node_id: node for node in index.nodes()}
    found = index.as_retriever(search=ALL).retrieve(QUESTION)
    both = [one.node for one in found if one.node.node_id in leaves]
    assert both
    for node in both:
        assert node.hash == leaves[node.node_id].hash
        assert node.text == leaves[node.node_id].text
        assert "hwdag" in node.metadata


def test_points_that_copy_a_leaf_are_that_leaf_to_a_fusion():
    index = built()
    by_text = {node.text: node.hash for node in index.nodes()}
    found = index.as_retriever(search=ALL).retrieve(QUESTION)
    for one in found:
        assert one.node.hash == by_text.get(one.text, one.node.hash)
    assert len({one.node.hash for one in found}) == len(found)


@pytest.mark.parametrize("loaded", [False, True])
def test_every_passage_has_one_vote_of_each_retriever(loaded, tmp_path):
    index = built()
    if loaded:
        index = load_index_from_storage(persisted(index, tmp_path), **models())
    bm25 = BM25Retriever.from_defaults(nodes=index.nodes(), similarity_top_k=3)
    walk = index.as_retriever(similarity_top_k=3)
    fusion = QueryFusionRetriever(
        [walk, bm25],
        llm=index.as_llm(),
        mode="reciprocal_rerank",
        num_queries=1,
        similarity_top_k=9,
        use_async=False,
    )
    found = fusion.retrieve(QUESTION)
    assert len({one.text for one in found}) == len(found)
    by_score = [
        sorted(some.retrieve(QUESTION), key=lambda one: one.score, reverse=True)
        for some in (walk, bm25)
    ]
    ranks = [[one.text for one in rank] for rank in by_score]
    for one in found:
        votes = sum(1 / (60 + rank.index(one.text)) for rank in ranks if one.text in rank)
        assert one.score == pytest.approx(votes)
    assert found[0].score == pytest.approx(2 * FIRST)


class WordRetriever(BM25Retriever):
    """The class of docs/llama-index.md."""

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return [found for found in super()._retrieve(query_bundle) if found.score]


def test_a_question_without_a_common_word_leaves_the_order_to_the_index():
    index = built()
    question = "Wer hütet das Korn?"
    bm25 = BM25Retriever.from_defaults(nodes=index.nodes(), similarity_top_k=3)
    words = WordRetriever.from_defaults(nodes=index.nodes(), similarity_top_k=3)
    assert [one.score for one in bm25.retrieve(question)] == [0, 0, 0]
    assert words.retrieve(question) == []
    assert [one.text for one in words.retrieve(QUESTION)] == [
        one.text for one in bm25.retrieve(QUESTION) if one.score
    ]
    walk = index.as_retriever(similarity_top_k=3)
    fusion = QueryFusionRetriever(
        [walk, words],
        llm=index.as_llm(),
        mode="reciprocal_rerank",
        num_queries=1,
        similarity_top_k=9,
        use_async=False,
    )
    ranked = sorted(walk.retrieve(question), key=lambda one: one.score, reverse=True)
    assert [one.text for one in fusion.retrieve(question)] == [one.text for one in ranked]


@pytest.mark.parametrize("shared", [False, True], ids=["own docstore", "one docstore"])
def test_a_pipeline_with_upserts_ends_with_the_new_text_alone(shared):
    index = HWDAGIndex([], **models())
    pipeline = IngestionPipeline(
        transformations=[SentenceSplitter(chunk_size=20, chunk_overlap=0), Embedding()],
        docstore=index.docstore if shared else SimpleDocumentStore(),
        docstore_strategy=DocstoreStrategy.UPSERTS,
        vector_store=SimpleVectorStore(),
    )
    new = "The mill burned down. Nobody was hurt."
    for texts in (TEXTS, {"mill": new}, {"mill": new}):
        index.insert_nodes(
            pipeline.run(documents=[Document(id_=key, text=text) for key, text in texts.items()])
        )
    assert set(index.core.documents) == set(TEXTS)
    assert index.core.documents["mill"].text.split() == new.split()
    found = index.as_retriever(search=ALL).retrieve("Who keeps grain?")
    assert not any("miller" in one.text for one in found)


class Embedding(TransformComponent):
    """A pipeline's vector store wants vectors; any will do."""

    def __call__(self, nodes: Sequence[BaseNode], **_: object) -> Sequence[BaseNode]:
        for node in nodes:
            node.embedding = [1.0, 0.0]
        return nodes


def test_more_nodes_of_the_same_version_are_joined_in_order():
    document = Document(id_="mill", text=TEXTS["mill"], metadata={"pair": ("a", "b")})
    first, *others = SentenceSplitter(chunk_size=20, chunk_overlap=0)([document])
    assert len(others) > 1
    index = HWDAGIndex([first], **models())
    for node in others:
        index.insert_nodes([node])
    index.insert_nodes([first])  # again
    assert index.core.documents["mill"].text.split() == TEXTS["mill"].split()
    info = index.ref_doc_info["mill"]
    assert info.node_ids[: len(others) + 1] == [first.node_id, *(n.node_id for n in others)]
    assert info.metadata == {"pair": ["a", "b"]}


def test_a_part_of_a_document_is_not_taken_for_the_document():
    document = Document(id_="mill", text=TEXTS["mill"])
    first, *_ = SentenceSplitter(chunk_size=20, chunk_overlap=0)([document])
    index = HWDAGIndex([first], **models())
    assert index.refresh_ref_docs([document]) == [True]
    assert index.core.documents["mill"].text == TEXTS["mill"]


def test_a_retriever_over_a_file_is_pickled(tmp_path):
    index = built(path=tmp_path / "town.hwdag")
    options = {"search": SearchConfig(token_budget=60), "k": 2, "filters": {"place": "ferry"}}
    retriever = index.as_retriever(**options)
    again = pickle.loads(pickle.dumps(retriever))
    assert isinstance(again, HWDAGRetriever)
    assert again.core.path == index.core.path
    assert again.core.documents == dict(index.core.documents)
    # why so: a file cannot name the scripted models of a test
    given = HWDAGIndex([], path=index.core.path, **models()).as_retriever(**options)
    assert [(n.text, n.score) for n in given.retrieve(QUESTION)] == [
        (n.text, n.score) for n in retriever.retrieve(QUESTION)
    ]


def test_an_index_in_memory_is_not_pickled():
    for made in (index := built("mill"), index.as_retriever()):
        with pytest.raises(TypeError, match="memory"):
            pickle.dumps(made)

"""The component alone and in pipelines of Haystack, which finds what the core finds."""

from __future__ import annotations

import os

import pytest

os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"  # before the import, which reads it
pytest.importorskip("haystack")

from haystack import Pipeline
from haystack.components.builders import PromptBuilder

from haystack_hwdag import HWDAGRetriever
from hwdag import Document, HWDAGIndex
from hwdag.embedding.hashing import HashingEmbedder
from hwdag.errors import InputError, UnknownOption

QUESTION = "Who mends the bell of the ferry?"
DOCUMENTS = [
    Document("mill", "The miller keeps grain. He counts sacks.", "Mill", {"year": 1, "by": "ash"}),
    Document("ferry", "The ferry crosses at dawn. The smith mends its bell.", "", {"year": 2}),
]


@pytest.fixture
def index(tmp_path):
    embedder = HashingEmbedder()
    return HWDAGIndex.from_documents(
        DOCUMENTS, embedder=embedder, method="evidence", path=tmp_path / "village.hwdag"
    )


def found(retriever, **options):
    return retriever.run(QUESTION, **options)["documents"]


def test_it_finds_what_the_core_finds(index):
    steps = index.search(QUESTION).steps
    documents = found(HWDAGRetriever(index))
    assert [(d.id, d.content, d.score) for d in documents] == [
        (step.node.id, step.node.text, step.score) for step in steps
    ]
    (best,) = found(HWDAGRetriever(index, top_k=3), top_k=1)
    assert best.content == "The smith mends its bell."
    assert best.meta["year"] == 2 and best.meta["hwdag"]["spans"] == [[27, 52]]


@pytest.mark.parametrize(
    ("filters", "ids"),
    [
        ({"year": {"gte": 2}}, {"ferry"}),
        ({"field": "meta.year", "operator": "<", "value": 2}, {"mill"}),
        ({"field": "by", "operator": "not in", "value": ["ash", "elm"]}, {"ferry"}),
        (
            {"operator": "NOT", "conditions": [{"field": "year", "operator": "==", "value": 2}]},
            {"mill"},
        ),
        (
            {
                "operator": "OR",
                "conditions": [
                    {"field": "meta.by", "operator": "in", "value": ["ash"]},
                    {"field": "meta.year", "operator": ">=", "value": 2},
                ],
            },
            {"mill", "ferry"},
        ),
    ],
)
def test_filters_of_haystack_and_of_the_core_choose_sources(index, filters, ids):
    for documents in (
        found(HWDAGRetriever(index), filters=filters, top_k=9),
        found(HWDAGRetriever(index, top_k=9, filters=filters)),
    ):
        assert {d.meta["hwdag"]["document_id"] for d in documents} == ids


def test_a_pipeline_is_written_and_loaded_with_the_path_of_its_index(index):
    pipeline = Pipeline()
    pipeline.add_component("retriever", HWDAGRetriever(index, 2, {"year": 2}))
    pipeline.add_component(
        "prompt", PromptBuilder("{% for d in documents %}{{ d.content }}|{% endfor %}")
    )
    pipeline.connect("retriever.documents", "prompt.documents")
    asked = {"retriever": {"query": QUESTION}}
    result = pipeline.run(asked)
    assert "The smith mends its bell.|" in result["prompt"]["prompt"]
    loaded = Pipeline.loads(pipeline.dumps(), allowed_modules=["haystack_hwdag.retriever"])
    assert loaded.run(asked) == result
    assert loaded.get_component("retriever").index.path == index.path


@pytest.mark.parametrize(
    "filters",
    [
        {"field": "meta.year", "value": 2},  # without an operator
        {"field": 5, "operator": "==", "value": 2},
        {"operator": "AND", "conditions": "year"},
        {"operator": "AND", "conditions": ["year"]},
        {"operator": "AND", "conditions": [{"field": "year", "value": 2}]},
        5,
    ],
)
def test_what_is_no_filter_is_refused(index, filters):
    with pytest.raises(UnknownOption, match="no filter"):
        HWDAGRetriever(index, filters=filters)


@pytest.mark.parametrize("wrong", [None, 5, object()])
def test_what_is_no_index_is_refused(wrong):
    with pytest.raises(InputError, match="index"):
        HWDAGRetriever(wrong)


async def test_it_runs_asynchronously(index):
    pipeline = Pipeline()
    pipeline.add_component("retriever", HWDAGRetriever(index, 2))
    result = await pipeline.run_async({"retriever": {"query": QUESTION}})
    assert result["retriever"]["documents"] == found(HWDAGRetriever(index, 2))


def test_misuse_is_met(index):
    for wrong in ({"operator": "LIKE", "field": "by", "value": 1}, {"operator": "AND"}):
        with pytest.raises(UnknownOption, match="filter"):
            HWDAGRetriever(index, filters=wrong)
    with pytest.raises(InputError, match="k"):
        found(HWDAGRetriever(index), top_k=0)
    in_memory = HWDAGIndex(embedder=HashingEmbedder())
    assert found(HWDAGRetriever(in_memory)) == []
    with pytest.raises(InputError, match="path"):
        HWDAGRetriever(in_memory).to_dict()

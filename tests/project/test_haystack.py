"""The component alone and in pipelines of Haystack; it finds the nodes of the core."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from environments import outside, run

os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"  # before the import, which reads it
pytest.importorskip("haystack")

import haystack
from haystack import Pipeline
from haystack.components.builders import PromptBuilder
from haystack.document_stores.in_memory import InMemoryDocumentStore
from haystack.errors import FilterError
from planted import PLANTED, planted

import haystack_hwdag
from haystack_hwdag import HWDAGRanker, HWDAGRetriever
from hwdag import Document, HWDAGIndex, rank_passages
from hwdag.embedding.hashing import HashingEmbedder
from hwdag.errors import IndexFileError, InputError, ReaderRequired, UnknownOption
from hwdag_lab.scripted import ScriptedLM

ROOT = Path(__file__).parents[2]
PATH = os.pathsep.join(map(str, (ROOT / "core", ROOT)))

QUESTION = "Who mends the bell of the ferry?"
MILL = {"field": "meta.year", "operator": "==", "value": 1}
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
    loaded = Pipeline.loads(pipeline.dumps())
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
        {"operator": "OR", "conditions": [MILL, {"field": "year", "value": 2}]},
        {"field": "year", "operator": "in", "value": 2},
        5,
    ],
)
def test_what_is_no_filter_is_refused(index, filters):
    with pytest.raises(UnknownOption, match="no filter"):
        HWDAGRetriever(index, filters=filters)


def test_a_filter_sees_metadata_alone_and_is_not_nested_without_end(index):
    for field in ("content", "id", "blob.meta"):
        with pytest.raises(InputError, match="metadata"):
            HWDAGRetriever(index, filters={"field": field, "operator": "==", "value": "x"})
    deep = MILL
    for _ in range(40):
        deep = {"operator": "NOT", "conditions": [deep]}
    with pytest.raises(InputError, match="nested"):
        HWDAGRetriever(index, filters=deep)


METADATA = [
    {},
    {"date": None},
    {"date": "2025-02-03"},
    {"date": "2025-02-03T00:00:00"},
    {"date": "2025-02-03T01:00:00+01:00"},
    {"date": "2025-02-04"},
    {"date": "soon"},
    {"date": ["2025-02-03", "2025-02-04"]},
    {"date": 7},
    {"date": {"of": "2025-02-03"}},
]
VALUES = [None, 7, "soon", "2025-02-03", "2025-02-03T00:00:00", "2025-02-03T00:00:00Z"]
OPERATORS = ["==", "!=", ">", ">=", "<", "<="]


@pytest.fixture(scope="module")
def dated():
    """An index and a document store of Haystack over the same metadata."""
    documents = [Document(str(i), f"Sentence {i}.", "", meta) for i, meta in enumerate(METADATA)]
    store = InMemoryDocumentStore()
    store.write_documents(
        [haystack.Document(id=d.id, content=d.text, meta=d.metadata) for d in documents]
    )
    made = HWDAGIndex.from_documents(documents, embedder=HashingEmbedder(), method="evidence")
    return HWDAGRetriever(made, top_k=len(METADATA)), store


@pytest.mark.parametrize(
    "comparison",
    [
        *((operator, value) for operator in OPERATORS for value in VALUES),
        *((operator, [value, "9"]) for operator in ("in", "not in") for value in VALUES),
        ("==", ["2025-02-03", "2025-02-04"]),
        (">", ["2025-02-03"]),
    ],
    ids=str,
)
def test_filters_mean_what_they_mean_to_a_document_store(dated, comparison):
    retriever, store = dated
    operator, value = comparison
    for field in ("meta.date", "date", "meta.date.of"):
        plain = {"field": field, "operator": operator, "value": value}
        for filters in (plain, {"operator": "NOT", "conditions": [plain]}):
            try:
                expected = {document.id for document in store.filter_documents(filters)}
            except (FilterError, TypeError):
                with pytest.raises(InputError, match="cannot be applied"):
                    found(retriever, filters=filters)
            else:
                sources = found(retriever, filters=filters)
                assert {d.meta["hwdag"]["document_id"] for d in sources} == expected, filters


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


def test_the_names_of_integrations_are_the_same_classes():
    from haystack_integrations.components import rankers, retrievers

    assert retrievers.hwdag.HWDAGRetriever is haystack_hwdag.HWDAGRetriever
    assert rankers.hwdag.HWDAGRanker is haystack_hwdag.HWDAGRanker


LOADING = """
import sys
from haystack import Pipeline
pipeline = Pipeline.load(open(sys.argv[1]))
assert "haystack_hwdag" not in sys.modules
print(type(pipeline.get_component("ranker")).__module__)
"""


@pytest.mark.slow
def test_another_process_loads_a_pipeline_without_naming_any_module(index, tmp_path):
    pipeline = Pipeline()
    pipeline.add_component("retriever", HWDAGRetriever(index, 2, MILL))
    pipeline.add_component("ranker", HWDAGRanker(top_k=1, window_tokens=200))
    pipeline.connect("retriever.documents", "ranker.documents")
    file = tmp_path / "pipeline.yaml"
    file.write_text(pipeline.dumps())
    printed = run(sys.executable, "-c", LOADING, file, cwd=tmp_path, env=outside(PYTHONPATH=PATH))
    assert printed.strip() == "haystack_integrations.components.rankers.hwdag.ranker"
    loaded = Pipeline.loads(file.read_text())
    retriever, ranker = map(loaded.get_component, ("retriever", "ranker"))
    assert (retriever.top_k, retriever.filters) == (2, MILL)
    assert (ranker.reader, ranker.top_k, ranker.window_tokens) == (None, 1, 200)


LETTERS = ("bbbb kkkk bbbb", "zzzz qqqq zzzz", " ", "mmmm rrrr mmmm", None)


@pytest.fixture(scope="module")
def reader():
    return planted().with_heads([PLANTED])


async def test_a_ranker_equals_rank_passages(reader):
    given = [haystack.Document(id=str(i), content=text, score=9) for i, text in enumerate(LETTERS)]
    scores = rank_passages(reader, "zzzz", [text for text in LETTERS if text and text.strip()])
    ranker = HWDAGRanker(reader)
    ranked = ranker.run("zzzz", [*given, given[0]])["documents"]
    assert [document.id for document in ranked] == ["1", *(d.id for d in ranked[1:])]
    assert {d.id: d.score for d in ranked} == pytest.approx(
        dict(zip(["0", "1", "3"], map(float, scores), strict=True))
    )
    assert {document.score for document in given} == {9}
    assert (await ranker.run_async("zzzz", given, 1))["documents"] == ranked[:1]
    assert ranker.run("zzzz", [])["documents"] == []
    pipeline = Pipeline()
    pipeline.add_component("ranker", HWDAGRanker(reader, top_k=2))
    asked = {"ranker": {"query": "zzzz", "documents": given}}
    assert pipeline.run(asked)["ranker"]["documents"] == ranked[:2]


def test_a_ranker_refuses_misuse(reader):
    for wrong in (0, None, "3"):
        with pytest.raises(InputError, match="k"):
            HWDAGRanker(reader, top_k=wrong)
    with pytest.raises(InputError, match="name of the model"):
        HWDAGRanker(reader).to_dict()
    with pytest.raises(ReaderRequired):
        HWDAGRanker(ScriptedLM()).run("zzzz", [haystack.Document(content="x")])


def test_closing_a_pipeline_closes_a_file_that_it_opened(index):
    HWDAGRetriever(index).close()
    opened = HWDAGRetriever(index.path)
    assert found(opened) == found(HWDAGRetriever(index))
    opened.close()
    with pytest.raises(IndexFileError, match="closed"):
        found(opened)

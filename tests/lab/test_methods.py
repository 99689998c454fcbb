"""The promises of every method, whatever it searches: one test per promise, over all methods."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import fields, replace
from typing import Literal, get_origin, get_type_hints

import numpy as np
import pytest
from langchain_core.documents import Document as LangChainDocument
from llama_index.core import Document as LlamaIndexDocument
from scripted_scoring import ScoringLM
from worlds import random_prose

import langchain_hwdag
import llama_index_hwdag
from hwdag.config import SearchConfig
from hwdag.embedding.hashing import HashingEmbedder
from hwdag.errors import InputError, ReaderRequired, UnknownOption
from hwdag.methods import method_names, retriever_class
from hwdag.retriever import Retriever
from hwdag.scope import Scope
from hwdag.text.prompts import SearchPrompts
from hwdag.types import Document
from hwdag_lab.methods.gemrag import GemRagConfig
from hwdag_lab.methods.graphreader import GraphReaderConfig
from hwdag_lab.methods.longllmlingua import LongLLMLinguaConfig
from hwdag_lab.methods.memwalker import MemWalkerConfig
from hwdag_lab.methods.raptor import RaptorConfig
from hwdag_lab.methods.summaries import JOINT

# why 256 dimensions: UMAP is not needed then, and its first use takes a while
CONFIGS = {
    "raptor": RaptorConfig(
        chunk_tokens=12, summary_tokens=24, max_cluster_tokens=80, dimensions=99, min_nodes=4
    ),
    "memwalker": MemWalkerConfig(segment_tokens=30, summary_tokens=12),
    "graphreader": GraphReaderConfig(chunk_tokens=60, fact_tokens=40, max_calls=2),
    "gem-rag": GemRagConfig(chunk_tokens=16, members=3),
    "longllmlingua": LongLLMLinguaConfig(chunk_tokens=20),
}
MODES = {
    "raptor-tree": ("raptor", {"mode": "tree"}),
    "gem-rag-questions": ("gem-rag", {"mode": "questions"}),
    "graphreader-nodes": ("graphreader", {"answers": "nodes"}),
}
EVERY = pytest.mark.parametrize("name", [*method_names(), *MODES])
SESSION = {"prompts": SearchPrompts(), "heads": "auto", "max_new_tokens": 64}
QUESTIONS = ("Where is the amber bridge?", "dragon castle")


def options_of(name):
    method, options = MODES.get(name, (name, {}))
    options = options | {"reader": ScoringLM()}
    if "embedder" in retriever_class(method).uses:
        options["embedder"] = HashingEmbedder(64)
    if method in CONFIGS:
        options["config"] = CONFIGS[method]
    return retriever_class(method), options


def make(name, documents=()):
    cls, options = options_of(name)
    return cls.from_documents(documents, **options)


def world(seed=0, documents=3):
    rng = np.random.default_rng(seed)
    return [Document(f"d{i}", random_prose(rng, 12, words=(5, 8))) for i in range(documents)]


def search(retriever, question, *, budget=60, **options):
    """Return a retrieval at no cost, since other threads raise the cost."""
    config = SearchConfig(token_budget=budget)
    found = retriever.search(question, config=config, k=20, **options)
    return replace(found, usage=type(found.usage)())


def seen(retriever):
    """Return everything that a user can see of its content."""
    nodes = {key: retriever.nodes(key) for key in retriever.documents}
    return dict(retriever.documents), nodes, [search(retriever, one) for one in QUESTIONS]


@EVERY
def test_it_answers_with_exact_citations(name):
    documents = [
        Document("a", "  The bridge is red. It was built in 1901.\n"),
        Document("b", "The castle stands on a hill. A dragon sleeps below it."),
    ]
    retriever = make(name)
    assert isinstance(retriever, Retriever)
    report = retriever.insert(documents)
    assert report.built == ["a", "b"]
    assert report.nodes == sum(len(retriever.nodes(key)) for key in ("a", "b"))
    answer = retriever.answer("What sleeps below the castle?")
    # the notebooks of a scripted agent mean nothing
    assert "castle" in answer.text or "dragon" in answer.text or name == "graphreader"
    assert answer.citations
    texts = {document.id: document.text for document in documents}
    for citation in answer.citations:
        assert texts[citation.document_id][citation.span.start : citation.span.end] == citation.text
    assert answer.retrieval.p_yes is not None
    assert answer.usage.tokens > answer.retrieval.context_tokens


@EVERY
@pytest.mark.parametrize("budget", [1, 13, 60, 400])
def test_budgets_hold_and_sources_are_exact(name, budget):
    documents = world(budget)
    retriever = make(name, documents)
    lm, found = retriever.reader, search(retriever, "the bridge castle", budget=budget)
    cost = lm.session("the bridge castle", **SESSION).cost
    assert sum(cost(step.node.text) for step in found.steps) == found.context_tokens
    assert found.context_tokens <= budget or name == "full-context"
    nodes = [step.node for step in (*found.steps, *found.unread)]
    assert len({node.id for node in nodes}) == len(nodes)
    texts = {document.id: document.text for document in documents}
    for node in nodes:
        parts = [texts[node.document_id][span.start : span.end] for span in node.sources]
        assert node.tokens == lm.count_tokens([node.text])[0]
        assert node.text == ("" if node.origin == "compressed" else JOINT).join(parts)


@EVERY
def test_questions_and_documents_that_cannot_be_used(name):
    retriever = make(name)
    with pytest.raises(InputError):
        retriever.search("who?")
    report = retriever.insert([Document("blank", " \n\t "), Document("a", "The bridge is red.")])
    assert report.skipped == [("blank", "empty or only white space")]
    assert list(retriever.documents) == ["a"]
    with pytest.raises(InputError, match="question"):
        retriever.search("  ")
    for use in (
        retriever.delete,
        retriever.nodes,
        lambda x: search(retriever, x, scope=Scope([x])),
    ):
        with pytest.raises(InputError, match="'absent'"):
            use("absent")
    with pytest.raises(InputError, match="delete"):
        retriever.insert([Document("a", "Another text.")])
    with pytest.raises(InputError, match=r"\bk\b"):
        retriever.search("who?", k=0)


@EVERY
def test_a_filter_that_lets_nothing_through_finds_nothing(name):
    """At no cost, and the answer is given from nothing."""
    made = make(name, ["Clara built the harbour. Its lamp is new."])
    lm = made.reader
    writes = lm.writes
    for scope in (Scope(filters={"year": 1}), Scope([])):
        found = made.answer("Who built the harbour?", scope=scope)
        assert found.retrieval.steps == found.retrieval.unread == found.citations == ()
        assert found.retrieval.stop == "exhausted"
        assert found.text == ""
    assert lm.writes == writes


@EVERY
def test_inserting_and_deleting_equals_building_from_scratch(name):
    documents = world(1, 4)
    changed = make(name)
    assert changed.insert(documents[:3]).built == ["d0", "d1", "d2"]
    changed.delete("d1")
    assert {s.node.document_id for s in search(changed, QUESTIONS[0]).best(20)} <= {"d0", "d2"}
    assert changed.insert([documents[0], documents[3], documents[1]]).unchanged == ["d0"]
    assert seen(changed) == seen(make(name, [documents[i] for i in (0, 2, 3, 1)]))


@EVERY
def test_other_documents_do_not_show_through(name):
    documents = world(2)
    together, alone = make(name, documents), make(name, documents[1:2])
    for _ in range(2):
        found = search(together, QUESTIONS[0], scope=Scope(["d1"]))
        assert found == search(alone, QUESTIONS[0])
        search(together, QUESTIONS[0])


@EVERY
def test_threads_find_what_one_finds(name):
    retriever, questions = make(name, world(3)), [*QUESTIONS, "silver river", "temple"]
    alone = [search(retriever, question) for question in questions]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda one: search(retriever, one), questions * 2)) == alone * 2


@EVERY
async def test_twins_do_what_the_methods_do(name):
    documents, question, config = world(5), QUESTIONS[0], SearchConfig(token_budget=60)
    cls, options = options_of(name)
    made, plain = await cls.afrom_documents(documents[:2], **options), make(name, documents)
    await asyncio.gather(*(made.ainsert([document]) for document in documents))
    assert seen(made) == seen(plain)
    found = await made.asearch(question, config=config, k=20)
    assert replace(found, usage=type(found.usage)()) == search(plain, question)
    answer = await made.aanswer(question, config=config)
    assert answer.text == plain.answer(question, config=config).text
    pieces = [piece async for piece in made.astream(question, config=config)]
    assert "".join(pieces).strip() == answer.text
    await made.adelete("d1")
    assert set(made.documents) == {"d0", "d2"}


STAGES = {
    "graphreader": ("facts", "chunk"),
    "gem-rag": ("utility questions", "node"),
    "youra": ("windows", "window"),
}


@EVERY
def test_progress_shows_documents_and_what_takes_long(name):
    stages, done = [], []

    class Watching:
        def stage(self, name, total, unit):
            stages.append((name, total, unit))
            return nullcontext(lambda amount=1: done.append(amount))

    cls, options = options_of(name)
    method = MODES.get(name, (name,))[0]
    if method in ("graphreader", "gem-rag"):
        options["writer"] = ScoringLM()
    cls(**options).insert(world(), show_progress=Watching())
    assert stages[0] == ("documents", 3, "document")
    longer = {(name, unit) for name, _, unit in stages[1:]}
    assert longer == ({STAGES[method]} if method in STAGES else set())
    assert sum(done) == sum(total for _, total, _ in stages)


@EVERY
def test_both_frameworks_find_what_the_core_finds(name):
    [document] = world(6, 1)
    cls, options = options_of(name)
    expected = [step.node.text for step in make(name, [document]).search(QUESTIONS[0]).steps]
    nodes = llama_index_hwdag.CoreRetriever.from_documents(
        [LlamaIndexDocument(id_="d0", text=document.text)], cls, **options
    ).retrieve(QUESTIONS[0])
    assert [node.node.text for node in nodes] == expected
    documents = langchain_hwdag.CoreRetriever.from_documents(
        [LangChainDocument(id="d0", page_content=document.text)], make(name)
    ).invoke(QUESTIONS[0])
    assert [document.page_content for document in documents] == expected


@pytest.mark.parametrize("name", ["memwalker", "graphreader"])
def test_a_reader_that_cannot_write_needs_a_writer(name):
    class Mute:
        def __init__(self):
            self._inner = ScoringLM()

        def __getattr__(self, name):
            if name == "write":
                raise AttributeError(name)
            return getattr(self._inner, name)

    with pytest.raises(ReaderRequired, match="writer"):
        retriever_class(name)(reader=Mute())
    made = retriever_class(name)(
        reader=Mute(), writer=ScoringLM(), embedder=HashingEmbedder(64), config=CONFIGS[name]
    )
    made.insert(["Clara built the harbour."])
    assert made.search("Who built the harbour?").steps


@pytest.mark.parametrize("method", method_names())
def test_a_model_that_a_method_does_not_use_is_refused(method):
    cls = retriever_class(method)
    for role in {"writer", "embedder", "cache"} - {*cls.uses}:
        with pytest.raises(UnknownOption, match=f"'{role}'"):
            cls(reader=ScoringLM(), **{role: "any"})


@EVERY
def test_what_is_kept_is_shown_on_the_page_of_graphs(name):
    cls, options = options_of(name)
    retriever = cls(**options)
    rng = np.random.default_rng(3)
    texts = {f"d{i}": random_prose(rng, 12, words=(8, 8)) for i in range(2)}
    retriever.insert([Document(key, text) for key, text in texts.items()])
    shown = retriever.to_dict()
    assert {one["id"]: one["text"] for one in shown["documents"]} == texts
    for graph in shown["graphs"]:
        nodes = [node["id"] for node in graph["nodes"]]
        kept = [node.id for node in retriever.nodes(graph["document_id"])]
        assert nodes[: len(kept)] == kept
        assert len(set(nodes)) == len(nodes) == len(graph["x"])
        for parent in {parent for parent, _, _ in graph["edges"]}:
            weights = [weight for above, _, weight in graph["edges"] if above == parent]
            assert sum(weights) == pytest.approx(1)
        if retriever.name.startswith(("gem-rag", "graphreader", "raptor")):
            assert graph["edges"]
    assert "hwdag-data" in retriever.to_html()


@pytest.mark.parametrize("method", method_names())
def test_every_option_with_documented_values_is_checked(method):
    """Numbers out of range, a word that is not among those, values of another kind."""
    config = retriever_class(method).Config()
    hints = get_type_hints(type(config))
    for option in fields(config):
        limits, hint = option.metadata, hints[option.name]
        wrong = [limits["least"] - 1, float("nan")] if limits else []
        wrong += [limits["most"] + 1] if "most" in limits else []
        wrong += [limits["least"], limits["most"]] if "is_open" in limits else []
        wrong += ["nonsense"] if hint is bool or get_origin(hint) is Literal else []
        wrong += [1] if hint in (bool, str) else []
        for value in wrong:
            with pytest.raises(InputError, match=option.name):
                replace(config, **{option.name: value})


@pytest.mark.parametrize(
    ("method", "option", "error"),
    [
        ("raptor", {"mode": "forest"}, UnknownOption),
        ("raptor", {"writer": 3}, InputError),
        ("gem-rag", {"mode": "walk"}, UnknownOption),
        ("gem-rag", {"prompt_share": 1.5}, InputError),
        ("graphreader", {"answers": "both"}, UnknownOption),
    ],
)
def test_options_of_a_class_are_checked(method, option, error):
    with pytest.raises(error, match=next(iter(option))):
        retriever_class(method)(**option)


@pytest.mark.parametrize(
    "option", [{"chunk_tokens": True}, {"chunk_tokens": 8.5}, {"top_k": "3"}, {"ratio": 0}]
)
def test_numbers_are_numbers(option):
    with pytest.raises(InputError, match=next(iter(option))):
        RaptorConfig(**option)

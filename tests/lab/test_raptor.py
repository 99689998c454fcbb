"""RAPTOR: soft clusters, trees that end and lose nothing, both ways of searching them."""

import sys
import warnings
from dataclasses import replace
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
import torch
from worlds import random_prose

from hwdag.config import SearchConfig
from hwdag.embedding.hashing import HashingEmbedder, unit_rows
from hwdag.errors import ContextTooSmall, InputError, WriterFailed
from hwdag.graph.dag import union_of_spans
from hwdag.lm.writers import CallableWriter
from hwdag.scope import Scope
from hwdag.types import Document, Node, Span
from hwdag_lab.methods.found import Scored, without_repeats
from hwdag_lab.methods.raptor import (
    RaptorConfig,
    RaptorRetriever,
    clusters,
    mixture,
    reduce_by_umap,
    soft_clusters,
)
from hwdag_lab.methods.summaries import JOINT
from hwdag_lab.methods.trees import repetitions_last
from hwdag_lab.scripted import ScriptedLM

OPTIONS = RaptorConfig()
SMALL = RaptorConfig(
    chunk_tokens=12, summary_tokens=24, ratio=0.4, max_cluster_tokens=80, max_components=6
)


@pytest.fixture(scope="module", autouse=True)
def uncompiled():
    """Run the loops of UMAP that take ten seconds to compile as Python: no test has many points.

    pynndescent, which UMAP asks about thousands of points, takes twenty after an installation.
    """
    import numba

    numba.config.DISABLE_JIT = True
    import pynndescent  # noqa: F401

    numba.config.DISABLE_JIT = False
    with warnings.catch_warnings(action="ignore"):  # it misses Tensorflow
        import umap.umap_

    with pytest.MonkeyPatch.context() as patch:
        for name in ("fast_knn_indices", "smooth_knn_dist", "compute_membership_strengths"):
            patch.setattr(umap.umap_, name, getattr(umap.umap_, name).py_func)
        yield


def raptor(**options):
    defaults = {"reader": ScriptedLM(), "embedder": HashingEmbedder(64), "config": SMALL}
    return RaptorRetriever(**defaults | options)


def tree_of(retriever, document="doc"):
    return retriever.built(document)


@cache
def built(sentences=60, seed=0, **options):
    """Return one document; equal builds are shared, so no test may change them."""
    retriever = raptor(**options)
    retriever.insert([Document("doc", random_prose(seed, sentences))])
    return retriever


def vectors(count, seed=0, dimension=32):
    return unit_rows(np.random.default_rng(seed).normal(size=(count, dimension)))


# clusters


@pytest.mark.parametrize("count", [1, 3])
def test_bic_finds_the_number_of_clear_blobs(count):
    rng = np.random.default_rng(count)
    blobs = [rng.normal(size=(40, 2)) + 30 * np.array([i, i % 2]) for i in range(count)]
    found = sorted(members.tolist() for members in mixture(np.concatenate(blobs), OPTIONS))
    assert found == [list(range(40 * i, 40 * i + 40)) for i in range(count)]


def test_a_point_between_two_blobs_belongs_to_both():
    rng = np.random.default_rng(0)
    blobs = [rng.normal(scale=0.5, size=(40, 2)) + np.array([4 * i, 0]) for i in range(2)]
    points = np.concatenate([*blobs, [[2.0, 0.0]]])
    found = mixture(points, replace(OPTIONS, threshold=0.001))
    assert len(found) == 2
    assert all(80 in members for members in found)
    assert sum(len(members) for members in mixture(points, replace(OPTIONS, threshold=0.999))) == 81


def test_a_point_below_the_threshold_everywhere_keeps_its_best_cluster():
    points = np.random.default_rng(1).normal(size=(60, 2)) * [3, 1]
    found = mixture(points, replace(OPTIONS, threshold=0.9999))
    assert set(np.concatenate(found).tolist()) == set(range(60))


DEGENERATE = {
    "one": vectors(1),
    "two": vectors(2),
    "too few for UMAP": vectors(11),
    "just enough for UMAP": vectors(12),
    "more than its neighbours": vectors(15),
    "twelve equal": np.repeat(vectors(1), 12, axis=0),
    "thirty zero": np.zeros((30, 32), np.float32),
    "some zero, some opposite": np.concatenate([vectors(8), -vectors(8), np.zeros((4, 32))]),
    "copies": np.repeat(vectors(4), 6, axis=0),
    "orthogonal": np.eye(20, 32),
    "a line": unit_rows(np.linspace([1, 0.0], [1, 1], 25)),
}


@pytest.mark.parametrize("name", DEGENERATE)
def test_clusters_hold_every_node_of_any_layer(name):
    layer = DEGENERATE[name].astype(np.float32)
    found = clusters(layer, [10] * len(layer), OPTIONS)
    assert {i for members in found for i in members} == set(range(len(layer)))
    assert found == sorted(set(found))
    assert all(list(members) == sorted(set(members)) for members in found)
    assert found == clusters(layer, [10] * len(layer), OPTIONS)


@pytest.mark.parametrize("few", [3, 4, 5, 6, 7])
def test_layers_about_as_small_as_umap_allows(few):
    options = replace(OPTIONS, dimensions=2)
    assert {i for c in clusters(vectors(few), [1] * few, options) for i in c} == set(range(few))


def test_copies_share_all_clusters():
    layer = np.concatenate([vectors(16), vectors(16)[:3]])
    for members in soft_clusters(layer, OPTIONS):
        assert all((i in members) == (16 + i in members) for i in range(3))


def test_no_layer_makes_no_cluster():
    assert clusters(np.zeros((0, 4), np.float32), [], OPTIONS) == []


@pytest.mark.parametrize("layer", [vectors(40), np.repeat(vectors(1), 40, axis=0)])
def test_clusters_beyond_the_token_limit_are_split(layer):
    tokens = [10 + i % 3 for i in range(40)]
    tokens[7] = 99
    found = clusters(layer, tokens, replace(OPTIONS, max_cluster_tokens=40))
    assert all(sum(tokens[i] for i in c) <= 40 or c == (7,) for c in found)
    assert {i for members in found for i in members} == set(range(40))


def test_umap_refuses_layers_that_are_too_small():
    assert reduce_by_umap(vectors(12), 3, OPTIONS).shape == (12, 10)


def test_without_umap_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "umap", None)
    with pytest.raises(InputError, match=r"hwdag\[lab\]"):
        built(61)


# trees


@pytest.mark.parametrize("writer", [None, lambda prompt: "Castle and river. " + prompt[-40:]])
def test_a_tree_has_layers_and_loses_nothing(writer):
    tree = tree_of(built(80, writer=writer))
    assert tree.nodes[-1].level >= 3
    assert len({node.id for node in tree.nodes}) == len(tree.nodes)
    for node, below in zip(tree.nodes, tree.children, strict=True):
        assert [tree.nodes[i].level for i in below] == [node.level - 1] * len(below)
        assert bool(below) == (node.level > 1)
    sizes = np.bincount([node.level for node in tree.nodes])[1:]
    assert all(above < below for below, above in pairwise(sizes))
    reached, layer = set(), set(tree.top)
    while layer:
        reached |= layer
        layer = {child for i in layer for child in tree.children[i]}
    assert reached == set(range(len(tree.nodes)))


def test_extractive_summaries_are_exact_slices_in_reading_order():
    retriever = built(80)
    tree, text = tree_of(retriever), retriever.documents["doc"].text
    for node in tree.nodes:
        assert node.text == JOINT.join(text[span.start : span.end] for span in node.sources)
        assert node.origin == ("chunk" if node.level == 1 else "extractive")
        assert list(node.sources) == sorted(set(node.sources))
        assert node.tokens <= (12 if node.level == 1 else 24)
    for node, below in zip(tree.nodes, tree.children, strict=True):
        held = union_of_spans([span for i in below for span in tree.nodes[i].sources])
        assert not below or all(any(s.overlap(h) == len(s) for h in held) for s in node.sources)


def test_written_summaries_rest_on_all_their_children():
    prompts = []

    def write(prompt):
        prompts.append(prompt)
        return "A summary."

    tree = tree_of(built(writer=write))
    summaries = [i for i, node in enumerate(tree.nodes) if node.level > 1]
    assert len(prompts) == len(summaries) > 0
    for i, prompt in zip(summaries, prompts, strict=True):
        below = [tree.nodes[child] for child in tree.children[i]]
        assert prompt.startswith("Write a summary of the following, including as many key details")
        assert prompt.endswith("\n\n".join(node.text for node in below) + ":")
        assert tree.nodes[i].origin == "generated"
        spans = [span for node in below for span in node.sources]
        assert tree.nodes[i].sources == union_of_spans(spans)


def test_who_summarises():
    def origins(**options):
        return {node.origin for node in tree_of(built(**options)).nodes if node.level > 1}

    def script(prompt):
        return "Written."

    assert origins() == {"extractive"}
    able = ScriptedLM(writes=True, reply=script)
    assert origins(reader=able) == {"generated"}
    assert origins(reader=ScriptedLM(), writer=script) == {"generated"}


def test_long_replies_are_cut_to_whole_sentences():
    reply = " ".join(f"The castle number {i} stands here." for i in range(20))
    tree = tree_of(built(writer=lambda prompt: reply))
    summary = next(node for node in tree.nodes if node.level == 2)
    assert summary.text == " ".join(reply.split(" ")[:18])  # three sentences of seven tokens
    assert summary.tokens == 21


def test_where_nothing_is_written_the_summary_is_extracted_and_counted():
    replies = iter(["Written.", "  "] * 100)
    retriever = raptor(writer=CallableWriter(lambda prompt: next(replies), name="lazy"))
    report = retriever.insert([Document("doc", random_prose(0, 60))])
    tree = tree_of(retriever)
    extracted = sum(node.origin == "extractive" for node in tree.nodes if node.level > 1)
    assert report.fallbacks == extracted < report.retries
    assert {node.origin for node in tree.nodes if node.level == 2} == {"generated", "extractive"}
    assert any("because lazy wrote nothing" in note for note in tree.notes)
    assert tree.notes == retriever.search("castle").notes


def test_a_failing_writer_is_an_error_and_no_summary():
    def fail(prompt):
        raise OSError("no route")

    retriever = raptor(writer=fail)
    with pytest.raises(WriterFailed, match="OSError"):
        retriever.insert([Document("doc", random_prose(0, 60))])
    assert not retriever.documents

    class Forgetful:
        name = "forgetful"

        def write(self, prompts, *, max_new_tokens):
            return ["one"]

    with pytest.raises(WriterFailed):
        built(writer=Forgetful())


def test_clusters_fit_into_the_writers_context():
    seen = []

    def write(prompt):
        seen.append(prompt)
        return "Short."

    reader = ScriptedLM(context_tokens=128, writes=True, reply=write)
    built(reader=reader)
    assert max(reader.count_tokens(seen)) + SMALL.summary_tokens <= 128
    with pytest.raises(ContextTooSmall, match="summary_tokens"):
        built(reader=ScriptedLM(context_tokens=60, writes=True, reply=write))
    with pytest.raises(ContextTooSmall, match=r"\b30\b"):
        built(reader=ScriptedLM(context_tokens=30, writes=True, reply=write))


@pytest.mark.parametrize(
    "text",
    ["One.", "One. Two.", "The same castle. " * 40, "!!! ??? ... " * 40, "word " * 900],
    ids=["a sentence", "two sentences", "equal sentences", "no word", "no sentence"],
)
@pytest.mark.parametrize("min_nodes", [2, 12])
def test_building_ends_on_degenerate_texts(text, min_nodes):
    retriever = raptor(config=replace(SMALL, min_nodes=min_nodes, max_layers=50))
    retriever.insert([Document("doc", text)])
    tree = tree_of(retriever)
    assert len(tree.top) < max(2, min_nodes)
    assert retriever.search("castle").steps


def test_layers_and_nodes_bound_the_height():
    assert tree_of(built(config=replace(SMALL, max_layers=0))).nodes[-1].level == 1
    assert tree_of(built(80, config=replace(SMALL, max_layers=1))).nodes[-1].level == 2
    assert len(tree_of(built(config=replace(SMALL, min_nodes=2))).top) == 1
    assert tree_of(built(config=replace(SMALL, min_nodes=1000))).nodes[-1].level == 1


# searching


def similarities(retriever, question):
    return tree_of(retriever).vectors @ retriever.embedder.embed_query(question)


def test_the_collapsed_tree_ranks_all_layers_by_cosine():
    names = iter(f"Harbor castle {i} bridge." for i in range(999))
    retriever = built(writer=lambda prompt: next(names))
    question = "Which castle is at the harbor?"
    retrieval = retriever.search(question, config=SearchConfig(token_budget=3000))
    tree, cosine = tree_of(retriever), similarities(retriever, question)
    expected = [tree.nodes[i] for i in np.argsort(-cosine, kind="stable")]
    assert [step.node for step in retrieval.steps] == expected
    assert {1, 2} <= {step.node.level for step in retrieval.steps}
    assert retrieval.usage.tokens == 0


def test_what_does_not_fit_is_passed_over():
    retriever = raptor(config=replace(SMALL, chunk_tokens=40))
    long = "The castle " + "and the castle " * 9 + "stands."
    retriever.insert([Document("long", long), Document("short", "The castle stands by a river.")])
    retrieval = retriever.search("castle", config=SearchConfig(token_budget=10))
    assert [step.node.document_id for step in retrieval.steps] == ["short"]
    assert retrieval.stop == "budget"


def test_traversal_goes_down_along_the_children():
    retriever = built(80, mode="tree", config=replace(SMALL, top_k=2, min_nodes=4))
    question = "amber bridge castle"
    tree, cosine = tree_of(retriever), similarities(retriever, question)
    layer, expected = list(tree.top), []
    while layer:
        chosen = sorted(layer, key=lambda i: -cosine[i])[:2]
        expected += chosen
        layer = sorted({child for i in chosen for child in tree.children[i]})
    retrieval = retriever.search(question, config=SearchConfig(token_budget=3000))
    ranked = list(without_repeats(Scored(tree.nodes[i], 0.0) for i in expected))
    assert len(ranked) > 4
    expected = [scored.node for scored in repetitions_last(ranked)]
    assert [step.node for step in retrieval.steps] == expected


def test_the_budget_decides_how_many_are_chosen_per_layer():
    names = iter(f"Harbor castle {i} bridge." for i in range(999))
    retriever = built(mode="tree", writer=lambda prompt: next(names))

    def levels(budget):
        steps = retriever.search("castle", config=SearchConfig(token_budget=budget)).steps
        return np.bincount([step.node.level for step in steps])[1:]

    few, many, everything = levels(60), levels(200), levels(3500)
    assert 0 < few.min() <= many.min()
    assert few.sum() < many.sum() < everything.sum() == len(tree_of(retriever).nodes)


def test_verbatim_nodes_without_new_words_come_last():
    def scored(name, origin, *spans, document="doc"):
        sources = tuple(Span(*span) for span in spans)
        return Scored(Node(name, document, 1, name, origin, 1, sources), 0.0)

    ranked = [
        scored("part", "extractive", (5, 9), (20, 25)),
        scored("whole", "chunk", (0, 10)),
        scored("again", "extractive", (2, 4), (22, 25)),
        scored("elsewhere", "extractive", (2, 4), document="other"),
        scored("written", "generated", (0, 10)),
        scored("new", "chunk", (10, 26)),
    ]
    names = [scored.node.text for scored in repetitions_last(ranked)]
    assert names == ["part", "whole", "elsewhere", "written", "new", "again"]


@pytest.mark.parametrize("mode", ["collapsed", "tree"])
def test_trees_of_several_documents_are_side_by_side(mode):
    retriever = raptor(mode=mode)
    texts = {"short": "A kettle boils.", "long": random_prose(3, 70), "other": random_prose(4, 50)}
    retriever.insert([Document(name, text) for name, text in texts.items()])
    config = SearchConfig(token_budget=100)
    steps = retriever.search("kettle boils", config=config).steps
    assert "A kettle boils." in [step.node.text for step in steps]
    only = retriever.search("kettle boils", config=config, scope=Scope(["other"])).steps
    assert {step.node.document_id for step in only} == {"other"}
    retriever.delete("short")
    assert "short" not in {s.node.document_id for s in retriever.search("kettle boils").steps}


# options


def test_the_threads_of_torch_stay_as_they_are():
    """Numba sets those of all of OpenMP, and torch computes nonsense where they are limited."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        reduce_by_umap(vectors(40), 6, OPTIONS)
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(threads)

"""GEM-RAG: questions of any writer, a spectrum as printed (as far as it can be), both searches."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import random_prose

from hwdag.config import SearchConfig
from hwdag.embedding.hashing import HashingEmbedder, unit_rows
from hwdag.errors import ContextTooSmall
from hwdag.lm.writers import CallableWriter
from hwdag.store.calls import CallCache
from hwdag.types import Document
from hwdag_lab.methods.decisions import Asker
from hwdag_lab.methods.gemrag import GemRagConfig, GemRagRetriever
from hwdag_lab.methods.gemrag.memory import (
    MemoryGraph,
    best_first,
    by_questions,
    own_vectors,
    question_vectors,
)
from hwdag_lab.methods.gemrag.questions import Questioner, own_sentences, parse_questions
from hwdag_lab.methods.gemrag.spectrum import (
    BLOCK,
    Affinity,
    Spectrum,
    by_dense,
    by_lanczos,
    question_sums,
    spectrum,
    top,
)
from hwdag_lab.scripted import ScriptedLM

SMALL = GemRagConfig(chunk_tokens=14, summary_tokens=20, members=4, ratio=0.4)


def gem(**options):
    defaults = {"reader": ScriptedLM(), "embedder": HashingEmbedder(64), "config": SMALL}
    return GemRagRetriever(**defaults | options)


def built(sentences=40, seed=0, **options):
    retriever = gem(**options)
    retriever.insert([Document("doc", random_prose(seed, sentences))])
    return retriever


def memory_of(retriever, document="doc"):
    return retriever.memories[document]


def asks(prompt):
    """Writes two questions about the first words of a text, or a summary."""
    if not prompt.startswith("Write"):
        return "A summary of " + prompt[-30:-1]
    words = prompt.split("Text:\n")[-1].split()
    return f"* Where is the {words[0]}?\n* Who saw the {words[-1]} and the {words[1]}?"


# utility questions


@pytest.mark.parametrize(
    ("reply", "questions"),
    [
        ("* Who built it?\n* When was it built?", ["Who built it?", "When was it built?"]),
        ("1. Who built it?\n2) When?", ["Who built it?", "When?"]),
        ("Who built it?\nWhen was it built?", ["Who built it?", "When was it built?"]),
        ("Who built it? When was it built?", ["Who built it?", "When was it built?"]),
        ("Sure! Here you are:\n\n- **Who built it?**\n- Nothing.", ["Who built it?"]),
        ("* Who built it? Clara Holm.\n* The harbour.", ["Who built it?"]),
        ("Question 1: Who built it?\nAnswer 1: Clara.", ["Who built it?"]),
        ("Q: Who built it?\nA: Clara.", ["Who built it?"]),
        ("* Question 1: 1. Who built it?\n* 2. Who built it?", ["Who built it?"]),
        ("* **1. Who built it?**\n* (b) When?", ["Who built it?", "When?"]),
        ("<think>Is it?</think>* Who built it?", ["Who built it?"]),
        ("```\n* Who built it?\n```", ["Who built it?"]),
        ('* "Who built it?"\n* who built it?', ["Who built it?"]),
        ("* 谁建了港口？\n* متى بني الميناء؟", ["谁建了港口？", "متى بني الميناء؟"]),
        ("* Who \ud800 built it?", ["Who \ufffd built it?"]),
        ("The harbour was built in 1871.", []),
        ("* The harbour.\n* ?!", []),
        ("", []),
        ("?" * 50, []),
        ("* a?\n* b?\n* c?\n* d?\n* e?\n* f?", ["a?", "b?", "c?", "d?", "e?"]),
    ],
)
def test_questions_are_read_from_any_reply(reply, questions):
    assert parse_questions(reply, 5) == questions


@given(st.text(alphabet="*?- ab1.:\n", max_size=60), st.integers(0, 4))
@settings(max_examples=200, deadline=None)
def test_what_is_read_is_a_question(reply, number):
    found = parse_questions(reply, number)
    assert len(found) <= number
    assert len({question.casefold() for question in found}) == len(found)
    for question in found:
        assert question.endswith("?")
        assert question == question.strip()
        assert "\n" not in question


def test_long_replies_are_read_in_linear_time():
    numbers, signs = "1. " * 100_000 + "Who?", ". " * 100_000 + "?! " * 10_000
    for reply in ("a " * 200_000 + "?", "? " * 200_000, numbers, signs, "Question " * 50_000):
        assert len(parse_questions(reply, 5)) <= 5


def questioner(reply, number=3):
    if reply is None:
        return Questioner(None, number, 50)
    writer = CallableWriter(reply, name="w")
    return Questioner(Asker(writer, ScriptedLM(), calls=CallCache.open()), number, 50)


TEXT = "The bridge is red. It is. The castle and the dragon stand on the hill. The end of it all."


def test_a_reply_without_a_question_is_asked_for_once_more():
    prompts = []

    def reply(prompt):
        prompts.append(prompt)
        return "* Where is it?" if "Reply with questions only" in prompt else "No idea."

    asker = questioner(reply)
    assert asker.questions([TEXT]) == [("Where is it?",)]
    assert (asker.texts, asker.asker.retries, asker.asker.defaults) == (1, 1, 0)
    assert prompts[1].startswith(prompts[0])
    assert prompts[0].startswith("Write 3 different questions")
    assert prompts[0].endswith(TEXT)


def test_sentences_replace_questions_that_were_not_written_and_are_counted():
    asker = questioner(lambda prompt: "No idea." if "red" in prompt else "* Why?")
    other = "Another text."
    found = asker.questions([TEXT, other])
    assert found[1] == ("Why?",)
    assert found[0] == tuple(own_sentences(TEXT, 3))
    assert own_sentences(TEXT, 3) == [
        "The bridge is red.",
        "The castle and the dragon stand on the hill.",
        "The end of it all.",
    ]
    [note] = asker.notes("doc")
    assert note == (
        "doc: 1 of 2 nodes were asked about twice, and for 1 of them their own sentences replace "
        "utility questions, because w wrote none"
    )
    silent = questioner(None)
    assert silent.questions([TEXT]) == [tuple(own_sentences(TEXT, 3))]
    assert "no writer" in next(iter(silent.notes("doc")))


def test_question_vectors_are_means_of_question_and_text():
    rng = np.random.default_rng(0)
    asked, texts = rng.normal(size=(3, 4)), rng.normal(size=(3, 4))
    questions = [("a", "b"), (), ("c",)]
    own = own_vectors(questions, texts, lambda flat: asked[: len(flat)])
    assert np.allclose(own, [asked[0], asked[1], texts[1], asked[2]])
    found = question_vectors(questions, own, texts)
    expected = [(asked[0] + texts[0]) / 2, (asked[1] + texts[0]) / 2, texts[1]]
    assert np.allclose(found, [*expected, (asked[2] + texts[2]) / 2])


# the spectrum


def world(nodes, seed=0, *, questions=3, dimension=16, positive=True):
    """(Question vectors by node, text vectors): random unit vectors."""
    rng = np.random.default_rng(seed)
    texts = rng.normal(size=(nodes, dimension))
    asked = rng.normal(size=(nodes, questions, dimension))
    if positive:
        texts, asked = np.abs(texts), np.abs(asked)
    return (asked + texts[:, None]) / 2, unit_rows(texts)


def affinity_of(asked, texts):
    nodes, questions = asked.shape[:2]
    firsts = np.arange(nodes + 1) * questions
    flat = asked.reshape(nodes * questions, -1).astype(np.float32)
    return Affinity.of(question_sums(flat, firsts, questions), texts)


def printed(asked, texts):
    """s[t, v] of the paper, cosine by cosine."""
    size = len(texts)
    found = np.zeros((size, size))
    for t in range(size):
        for v in range(size):
            for question in asked[t]:
                lengths = np.linalg.norm(question) * np.linalg.norm(texts[v])
                found[t, v] += question @ texts[v] / lengths
    return found


def reference(asked, texts):
    """L by its definition, dense."""
    weights = printed(asked, texts)
    weights = (weights + weights.T) / 2
    np.fill_diagonal(weights, 0.0)
    degrees = np.abs(weights).sum(axis=1)
    return weights / np.sqrt(np.outer(degrees, degrees))


def blocks(sizes, *, across=0.0, questions=2):
    """Themes that share nothing: nodes of one theme have one vector, up to `across`."""
    themes = np.eye(len(sizes), 8) + across
    texts = unit_rows(np.repeat(themes, sizes, axis=0))
    return np.repeat(texts[:, None], questions, axis=1), texts


@pytest.mark.parametrize("positive", [True, False])
@pytest.mark.parametrize("nodes", [3, 20, 45])
def test_the_operator_is_the_printed_matrix_with_our_corrections(nodes, positive):
    asked, texts = world(nodes, seed=nodes, positive=positive)
    affinity = affinity_of(asked, texts)
    expected = reference(asked, texts)
    assert np.allclose(affinity.dense(), expected, atol=1e-6)
    for x in np.random.default_rng(0).normal(size=(5, nodes)):
        assert np.allclose(affinity.laplacian(x), expected @ x, atol=1e-6)
    symmetric = (printed(asked, texts) + printed(asked, texts).T) / 2
    np.fill_diagonal(symmetric, 0.0)
    assert np.allclose(affinity.weights([2, 0]), symmetric[[2, 0]], atol=1e-5)


def test_degrees_over_several_blocks_are_those_of_the_whole():
    asked, texts = world(2 * BLOCK + 37, dimension=8, questions=1, positive=False)
    affinity = affinity_of(asked, texts)
    whole = affinity.weights(range(len(texts)))
    assert np.allclose(affinity.degrees, np.abs(whole).sum(axis=1), rtol=1e-5)


@pytest.mark.parametrize("positive", [True, False])
@pytest.mark.parametrize("count", [1, 2, 6])
def test_lanczos_finds_what_a_dense_solver_finds(count, positive):
    affinity = affinity_of(*world(150, seed=count, positive=positive))
    fast, slow = by_lanczos(affinity, count), by_dense(affinity, count)
    assert np.allclose(fast.values, slow.values, atol=1e-8)
    assert np.allclose(fast.vectors, slow.vectors, atol=1e-5)
    assert np.array_equal(spectrum(affinity, count).vectors, fast.vectors)
    again = by_lanczos(affinity, count)
    assert np.array_equal(again.vectors, fast.vectors)
    magnitudes = np.abs(fast.values)
    assert np.all(np.diff(magnitudes) <= 0)


def test_remark_2_the_gap_gives_the_number_of_themes():
    for sizes in ([9, 14, 20], [15] * 5):
        found = spectrum(affinity_of(*blocks(sizes, across=0.01)), 8)
        assert found.estimated_themes(near_one=0.5, gap=0.1) == len(sizes)
    alike = spectrum(affinity_of(*blocks([40])), 8)
    assert alike.estimated_themes(near_one=0.5, gap=0.1) is None
    nothing = Spectrum(np.array([]), np.zeros((3, 0)))
    assert nothing.estimated_themes(near_one=0.5, gap=0.1) is None
    negative = Spectrum(np.array([-0.9, 0.8, 0.1]), np.eye(3))
    assert negative.estimated_themes(near_one=0.5, gap=0.1) is None


def test_themes_are_groups_of_one_sign_strongest_first():
    found = spectrum(affinity_of(*blocks([9, 20], across=0.1)), 2)
    first, second = found.themes(2, 40)
    assert set(first) == set(range(29))
    assert set(second) in (set(range(9)), set(range(9, 29)))
    assert top(np.array([0.1, -0.9, 0.5, 1e-12, 0.5]), 9) == (2, 4, 0)
    assert top(np.array([0.1, -0.9, 0.5, 0.4]), 2) == (2, 3)
    assert top(np.zeros(3), 2) == ()
    assert found.themes(0, 5) == []


DEGENERATE = {
    "equal": np.ones((70, 4)),
    "no words": np.zeros((70, 4)),
    "some without words": np.concatenate([np.eye(30, 40), np.zeros((40, 40))]),
    "opposite": np.concatenate([np.ones((40, 4)), -np.ones((40, 4))]),
    "three": np.eye(3, 4),
    "pairs": np.repeat(np.eye(60, 60), 2, axis=0),
    "one pair": np.concatenate([np.eye(80, 80), np.eye(1, 80)]),
}


@pytest.mark.parametrize("name", DEGENERATE)
def test_degenerate_graphs_have_a_spectrum(name):
    texts = unit_rows(DEGENERATE[name].astype(np.float32))
    affinity = affinity_of(texts[:, None], texts)
    found = spectrum(affinity, 2)
    assert np.isfinite(found.vectors).all()
    assert np.all(np.abs(found.values) <= 1 + 1e-6)
    for theme in found.themes(2, 5):
        assert all(0 <= i < len(texts) for i in theme)


# building


def test_a_memory_is_chunks_with_questions_and_themes_of_them():
    retriever = built(writer=asks)
    memory = memory_of(retriever)
    chunks = [node for node in memory.nodes if node.level == 1]
    themes = [node for node in memory.nodes if node.level == 2]
    text = retriever.documents["doc"].text
    assert len(themes) == 2
    for chunk in chunks:
        [span] = chunk.sources
        assert text[span.start : span.end] == chunk.text
        assert chunk.tokens <= 14
    for node, asked in zip(memory.nodes, memory.questions, strict=True):
        assert len(asked) == 2
        assert node.text.split()[0] in asked[0]
    for theme, members in zip(themes, memory.tree.children[len(chunks) :], strict=True):
        assert theme.origin == "generated"
        assert 0 < len(members) <= 4
        assert list(members) == sorted(members)
    assert len(memory.question_vectors) == 2 * len(memory.nodes)
    assert memory.notes == ()


def test_themes_are_those_of_the_dense_reference():
    retriever = built(60, writer=asks)
    memory = memory_of(retriever)
    count = sum(node.level == 1 for node in memory.nodes)
    asked = memory.question_vectors[: 2 * count].reshape(count, 2, -1).astype(np.float64)
    values, vectors = np.linalg.eigh(reference(asked, memory.tree.vectors[:count]))
    order = np.argsort(-np.abs(values))[:2]
    assert np.allclose(memory.eigenvalues, values[order], atol=1e-6)
    for k, members in zip(order, memory.tree.children[count:], strict=True):
        vector = vectors[:, k] * np.sign(vectors[np.abs(vectors[:, k]).argmax(), k])
        assert set(members) == set(np.argsort(-vector)[:4].tolist())


def test_fewer_questions_than_asked_for_weigh_as_much():
    rows = np.random.default_rng(0).normal(size=(4, 8)).astype(np.float32)
    sums = question_sums(rows, np.array([0, 3, 4]), 3)
    unit = unit_rows(rows)
    assert np.allclose(sums[0], unit[:3].sum(axis=0), atol=1e-6)
    assert np.allclose(sums[1], 3 * unit[3], atol=1e-6)


def test_without_a_writer_everything_is_verbatim_and_reported():
    retriever = gem()
    report = retriever.insert([Document("doc", random_prose(0, 40))])
    memory = memory_of(retriever)
    assert {node.origin for node in memory.nodes} == {"chunk", "extractive"}
    for node, asked in zip(memory.nodes, memory.questions, strict=True):
        assert asked
        assert all(question in node.text for question in asked)
    assert report.notes == list(memory.notes)
    assert "no writer" in report.notes[0]
    assert retriever.search("castle").notes == memory.notes


def test_who_writes():
    able = ScriptedLM(writes=True, reply=asks)
    assert {n.origin for n in memory_of(built(writer=able)).nodes} == {"chunk", "generated"}
    lazy = built(writer=CallableWriter(lambda prompt: " ", name="lazy"))
    assert len(memory_of(lazy).notes) == 2
    assert any("lazy wrote nothing" in note for note in memory_of(lazy).notes)
    assert any("because lazy wrote none" in note for note in memory_of(lazy).notes)


@pytest.mark.parametrize(
    "text", ["One.", "One. Two.", "word " * 500, "!!! ??? ... " * 40, "不" * 90]
)
@pytest.mark.parametrize("components", [0, 2, None])
def test_building_ends_on_degenerate_texts(text, components):
    retriever = gem(config=replace(SMALL, components=components))
    retriever.insert([Document("doc", text)])
    assert retriever.search("castle").steps
    if components == 0:
        assert all(node.level == 1 for node in memory_of(retriever).nodes)


def test_options_of_the_themes():
    def themes(**options):
        memory = memory_of(built(60, config=replace(SMALL, **options)))
        return [c for c in memory.tree.children if c], memory

    many, memory = themes(components=5)
    assert len(many) <= 5
    assert len(memory.eigenvalues) == 5
    by_gap, memory = themes(components=None)
    assert len(memory.eigenvalues) == 11
    assert len(by_gap) == 2
    assert any("no gap" in note for note in memory.notes)
    wide, _ = themes(members=9)
    assert max(map(len, wide)) == 9


def test_without_questions_texts_are_compared():
    retriever = built(config=replace(SMALL, questions=0))
    memory = memory_of(retriever)
    assert set(memory.questions) == {()}
    assert np.array_equal(memory.question_vectors, memory.tree.vectors)
    found = retriever.search("castle dragon", k=3)
    assert found.notes == ()


def test_themes_fit_into_the_writers_context():
    seen = []

    def write(prompt):
        seen.append(prompt)
        return asks(prompt)

    reader = ScriptedLM(context_tokens=120, writes=True, reply=write)
    built(reader=reader, config=replace(SMALL, members=30, question_tokens=8))
    assert max(reader.count_tokens(seen)) <= 120
    with pytest.raises(ContextTooSmall, match="summary_tokens"):
        built(reader=ScriptedLM(context_tokens=40, writes=True, reply=write))


# searching


def every(retriever, question, **options):
    config = SearchConfig(token_budget=3000)
    retrieval = retriever.search(question, config=config, k=10_000, **options)
    return [step.node for step in (*retrieval.steps, *retrieval.unread)]


def similarity_of(memory, prompt, vectors=None):
    """Best cosine of every node's questions, question by question."""
    vectors = memory.question_vectors if vectors is None else vectors
    prompt = prompt / (np.linalg.norm(prompt) or 1.0)
    best = np.full(len(memory.nodes), -np.inf)
    for owner, vector in zip(MemoryGraph.of([memory]).owners, vectors, strict=True):
        cosine = vector @ prompt / (np.linalg.norm(vector) or 1.0)
        best[owner] = max(best[owner], cosine)
    return best


def test_algorithm_1_ranks_nodes_by_their_best_question():
    retriever = built(60, writer=asks, mode="questions")
    assert retriever.name == "gem-rag-questions"
    memory = memory_of(retriever)
    question = "Who saw the castle and the dragon?"
    similarity = similarity_of(memory, retriever.embedder.embed_query(question))
    graph = MemoryGraph.of([memory])
    assert np.allclose(
        graph.similarity(retriever.embedder.embed_query(question)), similarity, atol=1e-6
    )
    scores = {node.id: score for node, score in zip(memory.nodes, similarity, strict=True)}
    found = [scores[node.id] for node in every(retriever, question)]
    assert len(found) == len(memory.nodes)
    assert np.all(np.diff(found) <= 1e-6)


def slow_best_first(memory, start, similarity, budget, share):
    """Return the search by its definition: all edges to all visited nodes, anew for every choice."""
    vectors = unit_rows(memory.question_vectors)
    texts = unit_rows(memory.tree.vectors)
    owners = MemoryGraph.of([memory]).owners

    def weight(t, v):
        rows = np.flatnonzero(owners == t)
        return float(np.mean([vectors[row] @ texts[v] for row in rows]))

    visited = []
    waiting = set(range(len(memory.nodes)))

    def promise(v):
        if not visited:
            return start[v]
        edges = [(weight(t, v) + weight(v, t)) / 2 for t in visited]
        return share * similarity[v] + (1 - share) * max(edges)

    while fitting := [v for v in sorted(waiting) if memory.tree.costs[v] <= budget]:
        best = max(fitting, key=promise)
        visited.append(best)
        waiting.remove(best)
        budget -= memory.tree.costs[best]
    return visited + sorted(waiting, key=lambda v: (-promise(v), v))


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("budget", [0, 40, 110, 10_000])
def test_best_first_search_is_its_definition(share, budget):
    names = iter(f"Where is number {i}?" for i in range(10_000))
    retriever = built(30, writer=lambda prompt: asks(prompt) + f"\n* {next(names)}")
    memory = memory_of(retriever)
    # why: words of few hash buckets give equal numbers, whose order rounding decides
    rng = np.random.default_rng(0)
    memory = replace(
        memory,
        asked=rng.normal(size=memory.asked.shape).astype(np.float32),
        tree=replace(
            memory.tree, vectors=rng.normal(size=memory.tree.vectors.shape).astype(np.float32)
        ),
    )
    prompt = rng.normal(size=64)
    start, similarity = similarity_of(memory, prompt, memory.asked), similarity_of(memory, prompt)
    assert start.argmax() != similarity.argmax()
    ranking = best_first(MemoryGraph.of([memory]), start, similarity, budget, share)
    order = [node for node, _ in ranking]
    assert order == slow_best_first(memory, start, similarity, budget, share)
    if share == 1.0 and budget == 10_000:
        assert best_first(
            MemoryGraph.of([memory]), similarity, similarity, budget, share
        ) == by_questions(similarity)
    assert order[0] == start.argmax()

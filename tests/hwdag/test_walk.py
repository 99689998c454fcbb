"""The walk: equal to the slow reference, every token once, budgets, stop reasons, small worlds."""

import threading
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
from reference import reference_walk
from tiny import FAMILIES, HYBRIDS, model, tokenizer
from worlds import corpus_of, question_of, random_graph, random_vectors, walk

from hwdag.config import NEVER, BuildConfig, Scoring, SearchConfig
from hwdag.corpus.similarity import Similarity
from hwdag.corpus.view import View
from hwdag.errors import InputError
from hwdag.graph.dag import HWDAG, EdgeRow
from hwdag.lm.cards import Card
from hwdag.lm.huggingface import HuggingFaceLM
from hwdag.search.budget import with_headings
from hwdag.search.frontier import Frontier
from hwdag.search.reading import READ_TOGETHER, by_section
from hwdag.search.stopping import Deadline
from hwdag.text.prompts import SearchPrompts
from hwdag.types import Node, Span
from hwdag_lab.scripted import ScriptedLM

QUESTION = "Which dragon guards the silver bridge?"


class FixedEmbedder:
    """Gives the query vector that the test chose."""

    name, dimension = "fixed", 8

    def __init__(self, query):
        self.query = query

    def embed(self, texts):
        raise AssertionError("a walk embeds nothing but the question")

    def embed_query(self, text):
        return self.query


def search(graph, vectors, query, lm, config, **options):
    return walk(
        corpus_of([graph], [vectors]),
        QUESTION,
        reader=lm,
        embedder=FixedEmbedder(query),
        config=config,
        prompts=SearchPrompts(),
        **options,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "chat"), [("llama", True), ("llama", False), ("gemma2", True), ("gpt_oss", True)]
)
def test_the_walk_equals_the_reference(family, chat):
    lm = HuggingFaceLM(model(family), tokenizer(chat))
    for seed in range(4) if family == "llama" else [1]:
        rng = np.random.default_rng(seed)
        graph = random_graph(rng, chunks=8, levels=3)
        vectors, query = random_vectors(rng, len(graph)), random_vectors(rng, 1)[0]
        heads = [None, ((0, 1), (2, 5), (3, 7))][seed % 2]
        budget = int(rng.integers(150, 500))
        options = {"budget": budget, "confidence": 0.5, "patience": 1 + seed}
        config = SearchConfig(
            method="garlic",
            token_budget=budget,
            confidence=NEVER if seed == 3 else 0.5,
            patience=1 + seed,
            heads=heads or "all",
        )
        expected = reference_walk(
            graph, vectors, query, QUESTION, lm, heads=heads, steers=seed != 3, **options
        )
        found = search(graph, vectors, query, lm, config, rules={"initial_share": 1 / 4}).retrieval
        assert [step.node.id for step in found.steps] == [
            graph.nodes[i].id for i in expected.visited
        ]
        readings = [step.p_yes for step in found.steps if step.p_yes is not None]
        np.testing.assert_allclose(readings, expected.p_yes if seed != 3 else [], atol=1e-4)
        assert found.stop == expected.stop


@pytest.mark.parametrize("confidence", [0.9999, NEVER])
def test_every_token_passes_the_model_once(confidence):
    """Prefix, question and nodes once; of the answer slot nothing stays; one forward per node. Where p_yes
    ends no walk there is no slot."""
    inner, rng = model(), np.random.default_rng(5)
    lm = HuggingFaceLM(inner, tokenizer())
    forwards = []
    inner.register_forward_pre_hook(lambda _, args: forwards.append(args[0][0].tolist()))
    graph = random_graph(rng, chunks=6, levels=3)
    vectors, query = random_vectors(rng, len(graph)), random_vectors(rng, 1)[0]
    config = SearchConfig(method="garlic", token_budget=2000, confidence=confidence)
    walked = search(graph, vectors, query, lm, config)

    steps = walked.retrieval.steps
    initial = sum(step.initial for step in steps)
    assert len(forwards) == 1 + len(steps) - initial
    slot = lm.turns.reply
    cropped = slot if confidence < NEVER else []
    assert all(ids[len(ids) - len(cropped) :] == cropped for ids in forwards)
    seen = [token for ids in forwards for token in ids[: len(ids) - len(cropped)]]
    before, between, _ = SearchPrompts().cut()
    whole = [*lm.turns.head, *lm.codec.encode(before + QUESTION + between)]
    for step in steps:
        whole += lm.codec.encode(f"* {step.node.text}\n")
    assert seen == whole
    assert walked.session.cached_tokens == len(whole)
    assert walked.retrieval.usage.tokens == len(whole) + len(cropped) * len(forwards)

    forwards.clear()
    decoding = walked.session.decode(enough=True, max_new_tokens=5)
    assert "".join(decoding).strip() == decoding.text
    prompt = [*slot, *lm.codec.encode("Yes"), *lm.turns.between]
    assert forwards[0][: len(prompt)] == prompt
    assert all(len(ids) == 1 for ids in forwards[1:])


@contextmanager
def patched(model, seen):
    """Call `seen` with the ids of every forward."""
    hook = model.register_forward_pre_hook(lambda _, args: seen(args[0][0].tolist()))
    try:
        yield
    finally:
        hook.remove()


def test_the_answer_equals_generation_from_scratch():
    import torch

    lm, rng = HuggingFaceLM(model(seed=3), tokenizer()), np.random.default_rng(2)
    graph = random_graph(rng, chunks=5, levels=2)
    vectors, query = random_vectors(rng, len(graph)), random_vectors(rng, 1)[0]
    seen = []
    hook = lm.model.register_forward_pre_hook(lambda _, args: seen.append(args[0][0].tolist()))
    walked = search(graph, vectors, query, lm, SearchConfig(token_budget=400, confidence=NEVER))
    context = [token for ids in seen for token in ids]
    seen.clear()
    text = "".join(walked.session.decode(enough=False, max_new_tokens=12))
    hook.remove()
    ids = torch.tensor([context + seen[0]])
    with torch.no_grad():
        generated = lm.model.generate(ids, max_new_tokens=12, do_sample=False, eos_token_id=2)
    expected = lm.codec.decode(generated[0, ids.shape[1] :].tolist())
    assert text == expected


def test_attention_of_the_answer_is_reported_for_the_asked_spans():
    lm, rng = HuggingFaceLM(model(), tokenizer()), np.random.default_rng(2)
    graph = random_graph(rng, chunks=5, levels=2)
    vectors, query = random_vectors(rng, len(graph)), random_vectors(rng, 1)[0]
    walked = search(graph, vectors, query, lm, SearchConfig(token_budget=400, confidence=NEVER))
    nodes = [walked.retrieval.steps[i].node for i, _ in walked.shown]
    spans = [(i, Span(0, len(node.text))) for i, node in enumerate(nodes)]
    decoding = walked.session.decode(enough=True, max_new_tokens=4, spans=spans)
    list(decoding)
    assert decoding.attention.shape == (len(nodes),)
    assert (decoding.attention > 0).all()


@pytest.mark.parametrize("budget", [60, 150, 400])
def test_context_tokens_stay_within_the_budget(budget):
    lm = HuggingFaceLM(model(), tokenizer())
    for seed in range(5):
        rng = np.random.default_rng(seed)
        graph = random_graph(rng, chunks=10, levels=3)
        vectors, query = random_vectors(rng, len(graph)), random_vectors(rng, 1)[0]
        config = SearchConfig(token_budget=budget, confidence=NEVER)
        found = search(graph, vectors, query, lm, config, will_decode=False).retrieval
        kept = [step.node.text for step in found.steps if step.node.origin != "generated"]
        spent = sum(len(lm.codec.encode(f"* {text}\n")) for text in kept)
        assert spent == found.context_tokens <= budget
        leaves = sum(node.level == 1 for node in graph.nodes)
        assert found.stop == ("exhausted" if len(kept) == leaves else "budget")


def test_a_budget_beyond_the_context_is_cut_and_reported():
    lm = HuggingFaceLM(model(max_position_embeddings=512), tokenizer())
    rng = np.random.default_rng(0)
    graph = random_graph(rng, chunks=30, levels=2)
    vectors, query = random_vectors(rng, len(graph)), random_vectors(rng, 1)[0]
    config = SearchConfig(token_budget=10_000, confidence=NEVER)
    walked = search(graph, vectors, query, lm, config, max_new_tokens=8)
    assert any("cut to the" in note for note in walked.retrieval.notes)
    list(walked.session.decode(enough=True, max_new_tokens=8))
    assert walked.session.cached_tokens <= 512


def test_patience_counts_yes_and_not_consecutive_yes():
    script = [0.9, 0.1, 0.9, 0.9]
    lm, rng = ScriptedLM(p_yes=script), np.random.default_rng(1)
    graph = random_graph(rng, chunks=9, levels=2)
    vectors, query = random_vectors(rng, len(graph)), random_vectors(rng, 1)[0]

    def readings(patience):
        config = SearchConfig(token_budget=5000, confidence=0.5, patience=patience)
        found = search(graph, vectors, query, lm, config).retrieval
        assert found.stop == "sufficient"
        return [step.p_yes for step in found.steps if step.p_yes is not None]

    assert readings(1) == [0.9]
    assert readings(2) == [0.9, 0.1, 0.9]
    assert readings(3) == script


def test_p_yes_is_asked_for_only_if_it_may_stop_a_walk():
    lm, rng = ScriptedLM(p_yes=[0.99]), np.random.default_rng(1)
    graph = random_graph(rng, chunks=4, levels=2)
    vectors, query = random_vectors(rng, len(graph)), random_vectors(rng, 1)[0]
    never = SearchConfig(token_budget=5000, confidence=NEVER)
    found = search(graph, vectors, query, lm, never, will_decode=False).retrieval
    assert (found.stop, found.p_yes) == ("exhausted", None)
    forced = search(graph, vectors, query, lm, SearchConfig(token_budget=5000, confidence=0.5))
    assert forced.retrieval.stop == "sufficient"


@pytest.mark.slow
@pytest.mark.parametrize(("family", "seed"), [("llama", 0), ("mistral", 2)])
def test_a_walk_is_read_by_section_before_its_answer(family, seed):
    """The nodes of a walk that reads along; relevance, p_yes and answer are those of a cache that reads
    the same texts one by one."""
    rng = np.random.default_rng(seed)
    graph = headed(rng, random_graph(rng, chunks=30, levels=2))
    vectors, query = random_vectors(rng, len(graph)), random_vectors(rng, 1)[0]
    lm = HuggingFaceLM(model(family), tokenizer(), card=Card(True, True, True))  # reads everything
    options = {"token_budget": 9000, "patience": 1000, "scoring": Scoring(attention=0)}
    config, one_by_one = SearchConfig(**options), SearchConfig(confidence=0.999999, **options)
    along = search(graph, vectors, query, lm, one_by_one, method="evidence").retrieval
    walked = search(graph, vectors, query, lm, config, method="evidence")
    steps = walked.retrieval.steps
    assert [step.node.id for step in along.steps] == [step.node.id for step in steps]

    alone = lm.session(QUESTION, prompts=SearchPrompts(), heads=config.heads, max_new_tokens=8)
    readings = [alone.read([text]) for _, text in walked.shown]
    relevance = {i: (at + 2) * readings[at].attention[0] for at, (i, _) in enumerate(walked.shown)}
    expected = [relevance[i] for i in range(len(steps))]
    np.testing.assert_allclose([s.relevance for s in steps], expected, rtol=1e-3, atol=1e-5)
    assert walked.retrieval.context_tokens > READ_TOGETHER  # so there are several forwards
    assert [step.p_yes for step in steps[:-1]] == [None] * (len(steps) - 1)
    assert steps[-1].p_yes == pytest.approx(readings[-1].p_yes, abs=1e-4)
    one, other = ("".join(s.decode(enough=True, max_new_tokens=8)) for s in (walked.session, alone))
    assert one == other
    assert walked.retrieval.context_tokens == sum(alone.cost(text) for _, text in walked.shown)

    unread = search(
        graph, vectors, query, lm, config, method="evidence", will_decode=False
    ).retrieval
    assert [step.node.id for step in unread.steps] == [step.node.id for step in along.steps]
    assert unread.usage.tokens == 0 and not any(step.relevance for step in unread.steps)
    assert unread.context_tokens == walked.retrieval.context_tokens
    first = max(unread.steps, key=lambda step: step.similarity)
    others = [step for step in unread.steps if step is not first]
    assert unread.best(5) == (first, *others[:4])
    with pytest.raises(InputError, match="-1"):
        unread.best(-1)


@pytest.mark.parametrize(("confidence", "keeps"), [(NEVER, True), (0.9999, True), (0.9999, False)])
def test_a_walk_shows_a_heading_once_while_sentences_stay_under_it(confidence, keeps):
    """A written point has no heading, and the heading before it still holds after it."""
    rng, lm = np.random.default_rng(4), ScriptedLM(p_yes=[0.0])
    graph = headed(rng, random_graph(rng, chunks=12, levels=2))
    vectors, query = random_vectors(rng, len(graph)), random_vectors(rng, 1)[0]
    rules = {"keeps_points": keeps}
    walked = search(graph, vectors, query, lm, SearchConfig(confidence=confidence), rules=rules)
    steps, expected, last = walked.retrieval.steps, [], ""
    for node in (step.node for step in steps):
        if node.origin == "generated":
            expected += [node.text] * keeps
            continue
        is_told = node.heading not in (last, "")
        expected.append(f"{node.heading}: {node.text}" if is_told else node.text)
        last = node.heading
    assert lm.sessions[-1].texts == expected == [text for _, text in walked.shown]
    assert all(steps[i].node.text in text for i, text in walked.shown)
    assert walked.retrieval.context_tokens == sum(lm.count_lines(expected))
    assert 2 < sum(": " in text for text in expected) < len(expected) <= len(steps)
    assert (len(expected) == len(steps)) == keeps


# why few families: that each of them looks at nodes without keeping them is tested below
@pytest.mark.slow
@pytest.mark.parametrize("family", ["llama", *list(HYBRIDS)[:1]])
@pytest.mark.parametrize("confidence", [NEVER, 0.9999])
def test_an_answer_rests_on_the_text_alone(family, confidence):
    """Points pass their relevance on; the cache is that of the sentences: in the order of the visits, or
    by section where p_yes does not end the walk. Then points alone are read before."""
    card = Card(True, True, True)  # reads everything
    rng, lm = np.random.default_rng(4), HuggingFaceLM(model(family), tokenizer(), card=card)
    graph = headed(rng, random_graph(rng, chunks=12, levels=3))
    vectors, query = random_vectors(rng, len(graph)), random_vectors(rng, 1)[0]
    config = SearchConfig(token_budget=600, confidence=confidence)
    walked = search(graph, vectors, query, lm, config)
    steps = walked.retrieval.steps
    assert {step.node.origin for step in steps} == {"generated", "chunk"}
    kept = [i for i, step in enumerate(steps) if step.node.origin == "chunk"]
    assert walked.retrieval.context == tuple(steps[i] for i in kept)
    nodes = [steps[i].node for i in kept]
    expected = list(zip(kept, with_headings(nodes), strict=True))
    if confidence == NEVER:
        expected = [(kept[at], text) for at, text in by_section(nodes)]
    assert walked.shown == expected
    alone = opened(lm)
    attention = alone.append([text for _, text in expected])
    for place, (i, _) in enumerate(expected):
        assert steps[i].relevance == pytest.approx((place + 2) * attention[place], rel=1e-3)
    assert walked.session.cached_tokens == alone.cached_tokens
    one, other = ("".join(s.decode(enough=True, max_new_tokens=8)) for s in (walked.session, alone))
    assert one == other
    if confidence == NEVER:
        later = [step for step in steps if not (step.kept or step.initial)]
        seen = [float(opened(lm).append([step.node.text])[0]) for step in later]
        np.testing.assert_allclose(
            [step.relevance for step in later], 2 * np.array(seen), rtol=1e-3
        )


@pytest.mark.slow
@pytest.mark.parametrize("family", [*FAMILIES, *HYBRIDS])
def test_nodes_that_are_only_looked_at_leave_the_session_as_it_was(family):
    """Their attention is that of nodes that stay; later nodes do not see them."""
    lm, looked_at, kept = HuggingFaceLM(model(family), tokenizer()), ["It snows.", "A ferry."], []
    one, other = opened(lm), opened(lm)
    for node in ("A dragon lives below.", "The bridge is of silver."):
        fresh = opened(lm)
        expected = fresh.append([*kept, *looked_at])[len(kept) :]
        np.testing.assert_allclose(one.score_only(looked_at), expected, atol=1e-5)
        kept.append(node)
        assert one.read([node]).p_yes == pytest.approx(other.read([node]).p_yes, abs=1e-4)
    assert one.cached_tokens == other.cached_tokens
    spans = [(0, Span(2, 8)), (1, Span(4, 10))]
    answers = [
        session.decode(enough=True, max_new_tokens=6, spans=spans) for session in (one, other)
    ]
    assert "".join(answers[0]) == "".join(answers[1])
    np.testing.assert_allclose(answers[0].attention, answers[1].attention, atol=1e-5)


def opened(lm):
    """Return a session of this module's question."""
    return lm.session(QUESTION, prompts=SearchPrompts(), heads="all", max_new_tokens=8)


def headed(rng, graph):
    """Return the same graph; its nodes have one of three headings, or none."""
    names = rng.choice(["", "The harbour", "A bridge of stone", "Ferry"], len(graph)).tolist()
    nodes = (replace(node, heading=name) for node, name in zip(graph.nodes, names, strict=True))
    return replace(graph, nodes=tuple(nodes))


@pytest.mark.slow
@pytest.mark.parametrize(("family", "seed"), [("llama", 0), ("mistral", 0)])
def test_p_yes_ends_a_walk_at_the_same_node_as_when_nodes_are_read_one_by_one(family, seed):
    """The same nodes, p_yes, cache and answer, wherever p_yes ends it."""
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, chunks=30, levels=2)
    vectors, query = random_vectors(rng, len(graph)), random_vectors(rng, 1)[0]
    lm, scoring = HuggingFaceLM(model(family), tokenizer()), Scoring(attention=0)

    def asked(**options):
        config = SearchConfig(token_budget=900, scoring=scoring, **options)
        return search(graph, vectors, query, lm, config, method="evidence")

    chosen = [step.node for step in asked().retrieval.steps]
    prompts = SearchPrompts()
    session = lm.session(QUESTION, prompts=prompts, heads="all", max_new_tokens=8)
    readings, sizes = [], []
    for node in chosen:
        readings.append(session.read([node.text]))
        sizes.append(session.cached_tokens)
    sureness = np.array([reading.p_yes for reading in readings])
    confidence = float(np.median(sureness))
    for patience in (1, 2, 5, 1000):
        walked = asked(confidence=confidence, patience=patience, heads="all")
        said = np.flatnonzero(sureness > confidence)
        end = said[patience - 1] + 1 if patience <= len(said) else len(chosen)
        found = walked.retrieval
        assert [step.node.id for step in found.steps] == [node.id for node in chosen[:end]]
        assert (found.stop == "sufficient") == (patience <= len(said))
        np.testing.assert_allclose([s.p_yes for s in found.steps], sureness[:end], atol=1e-4)
        relevance = [r.attention[0] * (i + 2) for i, r in enumerate(readings[:end])]
        np.testing.assert_allclose([s.relevance for s in found.steps], relevance, rtol=1e-3)
        assert walked.session.cached_tokens == sizes[end - 1]
        alone = lm.session(QUESTION, prompts=prompts, heads="all", max_new_tokens=8)
        alone.read([node.text for node in chosen[:end]])
        answers = [
            "".join(one.decode(enough=True, max_new_tokens=8)) for one in (walked.session, alone)
        ]
        assert answers[0] == answers[1]


def test_after_a_stop_k_nodes_are_filled_up_by_what_would_come_next():
    """Whoever asks for k gets k nodes: those that the walk would have visited next, then by score."""
    rng = np.random.default_rng(3)
    graph = random_graph(rng, chunks=20, levels=2)
    vectors, query = random_vectors(rng, len(graph)), random_vectors(rng, 1)[0]
    options = {"token_budget": 5000, "scoring": Scoring(attention=0)}
    never, config = (SearchConfig(confidence=sure, **options) for sure in (NEVER, 0.5))
    rules = {"initial_share": 0.0, "keeps_points": True}
    whole = search(graph, vectors, query, ScriptedLM(), never, rules=rules).retrieval.steps
    lm = ScriptedLM(p_yes=[0.0, 0.99])
    for k in (1, 3, 4, 6, len(whole)):
        found = search(graph, vectors, query, lm, config, k=k, rules=rules).retrieval
        assert [step.node for step in found.steps] == [step.node for step in whole[:2]]
        assert lm.sessions[-1].texts == [step.node.text for step in whole[:2]]
        unread = [step.node for step in found.unread]
        assert unread[:2] == [step.node for step in whole[2:4]][: max(0, k - 2)]
        places = [step.position for step in (*found.steps, *found.unread)]
        assert places == list(range(2, 2 + max(2, k)))
        assert len({node.id for node in unread}) == len(unread) == max(0, k - 2)


def test_a_walk_that_is_ended_keeps_what_was_read():
    rng = np.random.default_rng(0)
    graph = random_graph(rng, chunks=300, levels=2)
    vectors, query = random_vectors(rng, len(graph)), random_vectors(rng, 1)[0]
    flag = threading.Event()
    config = SearchConfig(token_budget=5000, scoring=Scoring(attention=0))
    found = search(
        graph,
        vectors,
        query,
        ScriptedLM(),
        config,
        method="evidence",
        deadline=Deadline(flag),
        on_step=lambda step: flag.set(),
    ).retrieval
    walked = search(graph, vectors, query, ScriptedLM(), config, method="evidence")
    whole = walked.retrieval
    assert found.stop == "stopped"
    count = len(found.steps)
    assert [s.node for s in found.steps] == [s.node for s in whole.steps[:count]]
    assert 0 < count < len(whole.steps)
    assert found.context_tokens == sum(walked.session.cost(s.node.text) for s in found.steps)
    assert all(step.relevance for step in found.steps)


def diamond():
    """top -0.9-> a,  top -0.1-> b:   attention says a, with no similarity at all."""
    texts = ["alpha", "beta", "top"]
    nodes = [
        Node(f"d#{i}", "d", 2 if text == "top" else 1, text, "generated", 1, (Span(i, i + 1),))
        for i, text in enumerate(texts)
    ]
    row = EdgeRow(2, np.array([0, 1], np.int32), np.array([0.09, 0.01]))
    return HWDAG.from_rows(nodes, [row])


def test_the_walk_follows_the_heavier_edge():
    vectors = np.zeros((3, 8), np.float32)
    found = search(
        diamond(),
        vectors,
        np.ones(8, np.float32),
        ScriptedLM(),
        SearchConfig(method="garlic", confidence=NEVER),
    )
    assert [step.node.text for step in found.retrieval.steps] == ["top", "alpha", "beta"]
    np.testing.assert_allclose([s.attention for s in found.retrieval.steps], [0, 0.9, 0.1])


def test_attention_is_scaled_over_what_is_yet_to_be_read():
    """A heavy node that was read must not make light of those that are left."""
    corpus = corpus_of([diamond()], [np.zeros((3, 8), np.float32)])
    frontier = Frontier(View.of(corpus), np.zeros(3), scoring=Scoring(attention=0.5), scale="peak")
    frontier.visit(2)
    frontier.pass_on(2, 1.0)
    np.testing.assert_allclose(part(frontier, "attention")[:2], [0.5, 0.5 / 9])
    frontier.visit(0)
    frontier.pass_on(0, 1.0)
    assert part(frontier, "attention")[1] == 0.5


def test_a_sentence_is_lifted_by_the_best_one_of_its_paragraph():
    text = "# A\n\nOne one. Two two.\n\nThree three."
    spans = [Span(5, 13), Span(14, 22), Span(24, 36)]
    nodes = [
        Node(f"d#1.{i}", "d", 1, text[span.start : span.end], "chunk", 2, (span,))
        for i, span in enumerate(spans)
    ]
    nodes.append(Node("d#2.0", "d", 2, "A written point.", "generated", 3, (spans[0],)))
    vectors = np.array([[1.0], [0.2], [0.4], [0.6]], np.float32)
    graph = HWDAG.from_rows(nodes, [EdgeRow(3, np.arange(3, dtype=np.int32), np.ones(3))])
    corpus = corpus_of([graph, graph], [vectors, 0.5 * vectors], [text, text])
    query = np.ones(1, np.float32)
    for share, beside in ((0.0, 0.2), (0.2, 0.8 * 0.2 + 0.2 * 1.0)):
        scoring = Scoring(bm25_weight=0.0, paragraph_weight=share)
        found = Similarity(
            View.of(corpus), question_of(QUESTION).asked_words, query, scoring
        ).values
        expected = np.array([1.0, beside, 0.4, 0.6])  # a written point is in no paragraph
        np.testing.assert_allclose(found, [*expected, *(0.5 * expected)], rtol=1e-6)
    hidden = np.array([False, *[True] * 7])  # a hidden node lifts nothing
    scoring = Scoring(bm25_weight=0.0, paragraph_weight=0.2)
    found = Similarity(
        View.of(corpus, hidden), question_of(QUESTION).asked_words, query, scoring
    ).values
    np.testing.assert_allclose(found[:3], [0.0, 0.2, 0.4], rtol=1e-6)


def test_pecan_adds_the_similarity_as_it_is():
    corpus = corpus_of([diamond()], [np.zeros((3, 8), np.float32)])
    frontier = Frontier(
        View.of(corpus), np.array([0.3, 0.2, 0.1]), scoring=Scoring.papers(), scale="none"
    )
    frontier.visit(2)
    frontier.pass_on(2, 2.0)
    scores = [frontier.parts(i).attention + frontier.parts(i).similarity for i in range(2)]
    np.testing.assert_allclose(scores, [1.8 + 0.3, 0.2 + 0.2])


def test_the_methods_of_the_papers_are_theirs():
    garlic, pecan = SearchConfig(method="garlic").plan(), SearchConfig(method="pecan").plan()
    assert (garlic.confidence, garlic.patience, garlic.heads) == (0.5, 1, "all")
    assert (garlic.token_budget, garlic.scoring) == (8192, Scoring.papers())
    assert (garlic.rules.initial_share, garlic.rules.scale) == (1.0, "share")
    assert (garlic.navigator, pecan.rules.scale) == ("none", "none")
    build = BuildConfig(method="garlic").resolved("evidence")
    assert (build.method, build.window_tokens, build.leaves) == ("garlic", 8192, "chunks")
    assert (build.points, build.language, build.edge_heads) == ("generated", "", "all")


def test_given_options_precede_those_of_the_method():
    config = SearchConfig(token_budget=7, confidence=0.25, heads="all", navigator="none")
    plan = config.plan("hwdag", confidence=0.75)
    assert (plan.token_budget, plan.confidence, plan.heads) == (7, 0.25, "all")
    assert SearchConfig().plan("hwdag", confidence=0.75).confidence == 0.75
    assert SearchConfig(method="evidence").plan("hwdag", confidence=0.75).confidence == NEVER
    built = BuildConfig(leaves="chunks", language="German").resolved("hwdag")
    assert (built.method, built.leaves, built.language) == ("hwdag", "chunks", "German")


def test_the_papers_walk_reads_all_top_nodes_first():
    rng = np.random.default_rng(3)
    graph = random_graph(rng, chunks=8, levels=3)
    vectors, query = random_vectors(rng, len(graph)), random_vectors(rng, 1)[0]
    config = SearchConfig(method="garlic", token_budget=5000)
    found = search(graph, vectors, query, ScriptedLM(p_yes=[0.1, 0.9]), config).retrieval
    top = [node.id for node in graph.nodes if node.level == graph.height]
    assert [step.node.id for step in found.steps if step.initial] == top
    assert found.stop == "sufficient"


@pytest.mark.parametrize("seed", range(3))
def test_points_take_their_share_of_the_budget_and_leaves_the_rest(seed):
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, chunks=30, levels=3)
    vectors, query = random_vectors(rng, len(graph)), random_vectors(rng, 1)[0]
    lm, config = ScriptedLM(), SearchConfig(method="hwdag", token_budget=240, confidence=NEVER)
    found = search(graph, vectors, query, lm, config).retrieval
    levels = [step.node.level for step in found.steps]
    costs = lm.count_lines([step.node.text for step in found.steps])
    points = [i for i, level in enumerate(levels) if level > 1]
    before_the_last = sum(costs[i] for i in points[:-1])
    assert before_the_last < config.token_budget / 4
    if before_the_last + costs[points[-1]] >= config.token_budget / 4:
        assert set(levels[points[-1] + 1 :]) == {1}
    assert 1 in levels


def test_a_flag_and_a_time_end_the_walk_before_its_next_step():
    rng = np.random.default_rng(3)
    graph = random_graph(rng, chunks=8, levels=3)
    vectors, query = random_vectors(rng, len(graph)), random_vectors(rng, 1)[0]
    config = SearchConfig(token_budget=5000, confidence=NEVER)
    flag, seen = threading.Event(), []

    def on_step(step):
        seen.append(step)
        if len(seen) == 2:
            flag.set()

    options = {"on_step": on_step, "deadline": Deadline(flag)}
    found = search(graph, vectors, query, ScriptedLM(), config, **options).retrieval
    assert (found.stop, len(found.steps)) == ("stopped", 2) == ("stopped", len(seen))
    hurried = Deadline(max_seconds=1e-9)
    found = search(graph, vectors, query, ScriptedLM(), config, deadline=hurried).retrieval
    assert (found.stop, found.steps) == ("time", ())


def free(indices):
    """Costs of nodes that are as good as none."""
    return [1] * len(indices)


def part(frontier, name):
    """Return one part of the scores of all nodes."""
    return np.array([getattr(frontier.parts(i), name) for i in range(len(frontier.similarity))])


def test_the_frontier_equals_the_matrix_product():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        graph = random_graph(rng, chunks=12, levels=4)
        corpus = corpus_of([graph], [random_vectors(rng, len(graph))])
        similarity = rng.uniform(0, 1, len(graph))
        frontier, r = Frontier(View.of(corpus), similarity), np.zeros(len(graph))
        for _ in range(5):
            index = frontier.best(free, 1)
            r[index] = rng.uniform(0, 1)
            frontier.visit(index)
            frontier.pass_on(index, r[index])
            z = graph.edges.toarray().T @ r
            expected = z / z.sum() if z.sum() else z
            np.testing.assert_allclose(part(frontier, "attention"), expected, atol=1e-12)
        np.testing.assert_allclose(part(frontier, "similarity").sum(), 1)


def test_only_allowed_nodes_are_scored_and_shown():
    rng = np.random.default_rng(7)
    graphs = [random_graph(rng, chunks=5, levels=3, document_id=f"d{i}") for i in range(3)]
    vectors = [random_vectors(rng, len(graph)) for graph in graphs]
    query = random_vectors(rng, 1)[0]
    lm, config = ScriptedLM(), SearchConfig(token_budget=5000, confidence=NEVER)
    corpus = corpus_of(graphs, vectors)
    options = {"reader": lm, "embedder": FixedEmbedder(query), "config": config}
    options |= {"prompts": SearchPrompts()}
    only = walk(corpus, QUESTION, allowed=corpus.within([2]), **options).retrieval
    alone = walk(corpus_of([graphs[1]], [vectors[1]]), QUESTION, **options).retrieval
    assert [s.node.id for s in only.steps] == [s.node.id for s in alone.steps]
    np.testing.assert_allclose([s.score for s in only.steps], [s.score for s in alone.steps])


@pytest.mark.parametrize("keeps", [True, False])
def test_k_nodes_are_filled_up_by_score_after_the_walk(keeps):
    """Written points that would not be kept are no results."""
    rules = {"keeps_points": keeps}
    rng = np.random.default_rng(7)
    graph = random_graph(rng, chunks=8, levels=3)
    vectors, query = random_vectors(rng, len(graph)), random_vectors(rng, 1)[0]
    lm, config = ScriptedLM(p_yes=[0.9]), SearchConfig(confidence=0.5)
    found = search(graph, vectors, query, lm, config, k=6, rules=rules).retrieval
    assert found.stop == "sufficient"
    assert len(found.steps) < 6 == len(found.best(6))
    assert len({step.node.id for step in found.best(6)}) == 6
    scores = [step.score for step in found.unread]
    assert scores == sorted(scores, reverse=True)
    everything = search(graph, vectors, query, lm, config, k=1000, rules=rules).retrieval
    nodes = [node for node in graph.nodes if keeps or node.level == 1]
    assert {step.node.id for step in everything.best(1000)} == {node.id for node in nodes}
    assert len(everything.best(1000)) == len(nodes)
    assert len(found.best(1)) == 1


def verbatim():
    """Return a chunk of two sentences, one of them picked at level 2 and again at level 3."""
    nodes = [
        Node("d#1.0", "d", 1, "aa bb. cc dd.", "chunk", 6, (Span(0, 13),)),
        Node("d#1.1", "d", 1, "ee ff.", "chunk", 3, (Span(14, 20),)),
        Node("d#2.0", "d", 2, "aa bb.", "extractive", 3, (Span(0, 6),)),
        Node("d#2.1", "d", 2, "ee ff.", "extractive", 3, (Span(14, 20),)),
        Node("d#3.0", "d", 3, "aa bb.", "extractive", 3, (Span(0, 6),)),
    ]
    pair = np.array([0, 1], np.int32)
    rows = [
        EdgeRow(2, pair, np.array([0.8, 0.2])),
        EdgeRow(3, pair, np.array([0.1, 0.9])),
        EdgeRow(4, pair + 2, np.array([0.7, 0.3])),
    ]
    return HWDAG.from_rows(nodes, rows)


def test_no_text_is_read_twice_and_copies_pass_relevance_on():
    graph = verbatim()
    corpus = corpus_of([graph], [np.zeros((5, 8), np.float32)])
    frontier = Frontier(View.of(corpus), np.zeros(5))
    frontier.visit(4)
    frontier.pass_on(4, 2.0)  # the copy at level 2 counts as visited, with the same relevance
    z = graph.edges.toarray().T @ np.array([0, 0, 2.0, 0, 2.0])
    np.testing.assert_allclose(part(frontier, "attention"), z / z.sum())
    assert set(frontier.ranking(5)) == {0, 1, 3}
    frontier.visit(1)
    frontier.pass_on(1, 0.5)  # the whole chunk: the point picked from it has been read with it
    assert set(frontier.ranking(5)) == {0}


def test_each_step_keeps_the_best_candidates_that_it_passed_over():
    lm = ScriptedLM()
    for seed in range(5):
        rng = np.random.default_rng(seed)
        graph = random_graph(rng, chunks=10, levels=3)
        vectors, query = random_vectors(rng, len(graph)), random_vectors(rng, 1)[0]
        config = SearchConfig(method="garlic", confidence=NEVER)
        found = search(graph, vectors, query, lm, config, rules={"initial_share": 0.0}).retrieval
        numbers = {node.id: i for i, node in enumerate(graph.nodes)}
        corpus = corpus_of([graph], [vectors])
        question = question_of(QUESTION, query)
        similarity = Similarity(
            View.of(corpus), question.asked_words, query, Scoring.papers()
        ).values
        frontier = Frontier.of(
            View.of(corpus), question, similarity, Scoring.papers(), scale="share"
        )
        for step in found.steps:
            index = numbers[step.node.id]
            best = [graph.nodes[i] for i in frontier.ranking(len(graph)) if i != index]
            assert [one.node for one in step.runners_up] == best[: len(step.runners_up)]
            assert len(step.runners_up) == min(3, len(best))
            for one in step.runners_up:
                parts = frontier.parts(numbers[one.node.id])
                assert (one.attention, one.similarity) == (parts.attention, parts.similarity)
            frontier.visit(index, step.node)
            frontier.pass_on(index, step.relevance)

"""YOURA: reactions equal the dense equations; stored values are reused; limits and order hold."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted_scoring import ScoringLM
from tiny import FAMILIES, tiny_lm, tokenizer
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode
from transformers import DynamicCache
from worlds import random_documents

from hwdag.config import SearchConfig
from hwdag.errors import ContextTooSmall, InputError, QuestionTooLong, ReaderRequired
from hwdag.lm.attention import ColumnRequest, SpanRequest, capture
from hwdag.lm.huggingface import HuggingFaceLM
from hwdag.types import Document
from hwdag_lab.methods.youra import YouraConfig, YouraRetriever
from hwdag_lab.methods.youra.retriever import (
    FLOOR,
    column_reader,
    reaction,
    scaled,
    sentence_scores,
)

QUESTION = "Who rules the silver castle on the island?"
PAIRS = ((1, 3), (3, 0), (3, 7))
LARGE, NONE = 1 << 30, 0

TEXT = (
    "The miller keeps grain behind the river. He counts the sacks at night.\n\n"
    "The ferry crosses the river at dawn. Its bell wakes the village. The smith mends the bell of "
    "the ferry and is paid in grain."
)


def scores_of(retriever, question=QUESTION, **options):
    """Score of every sentence by id."""
    config = SearchConfig(token_budget=1 << 20)
    found = retriever.search(question, config=config, k=100_000, **options)
    return {step.node.id: step.score for step in (*found.steps, *found.unread)}


# the capture, and equations 1 to 6, against dense attention


def attention_matrix(lm, ids, heads):
    """Mean over layers and heads of the full attention matrix (eq. 3), (tokens, tokens)."""
    before = lm.model.config._attn_implementation
    lm.model.set_attn_implementation("eager")
    with torch.no_grad():
        attentions = lm.model(torch.tensor([ids]), output_attentions=True).attentions
    lm.model.set_attn_implementation(before)
    # (layers with attention, heads, tokens, tokens)
    every = torch.stack([matrix for matrix in attentions if matrix is not None])[:, 0]
    if heads == "last":
        every = every[-1:]
    picked = every.flatten(0, 1) if heads in ("all", "last") else [every[pair] for pair in heads]
    return torch.stack(list(picked)).mean(0).double().numpy()


def dense_scores(lm, window, question, config):
    """Return the reaction scores of a window's sentences, straight from the paper."""
    ids = [*(lm.codec.opening or lm.codec.encode("\n")), *window.ids.tolist()]
    asked = lm.codec.encode("\n\n" + question)
    alone = attention_matrix(lm, ids, config.heads).mean(axis=0)  # eq. 2, 4, 5
    together = attention_matrix(lm, [*ids, *asked], config.heads).mean(axis=0)[: len(ids)]
    vector = together - alone
    if config.difference == "absolute":
        vector = np.abs(vector)  # eq. 1
    vector = vector[len(ids) - len(window.ids) :]
    c, q = len(ids), len(asked)
    vector = vector / {"none": 1, "length": q / (c + q) / c}[config.scale]
    floor = FLOOR * np.abs(vector).mean()
    scores = []
    for start, end in window.ranges:
        tokens = vector[start:end]
        if config.mean == "arithmetic":
            scores.append(sum(tokens) / len(tokens))  # eq. 6
        else:  # section 3.3
            scores.append(math.prod(max(t, floor) for t in tokens) ** (1 / len(tokens)))
    return np.array(scores)


CONFIGS = [
    YouraConfig.paper(),
    YouraConfig(heads=PAIRS, difference="increase", mean="arithmetic", scale="length"),
    YouraConfig(heads="last", difference="increase", mean="geometric"),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "config", "memory"),
    [
        *((family, CONFIGS[0], LARGE) for family in FAMILIES),
        *(("gemma2", config, LARGE) for config in CONFIGS[1:]),
        ("gemma2", CONFIGS[0], NONE),
        ("lfm2", CONFIGS[0], LARGE),
        ("lfm2", CONFIGS[2], LARGE),
    ],
    ids=[*FAMILIES, "pairs", "last", "anew", "hybrid", "hybrid, last"],
)
def test_scores_equal_the_dense_equations(family, memory, config):
    lm = tiny_lm(family)
    config = replace(config, window_tokens=100, memory_bytes=memory)
    retriever = YouraRetriever.from_documents([Document("doc", TEXT)], reader=lm, config=config)
    built = retriever.built("doc")
    windows = list(built.windows)
    assert len(windows) > 1
    dense = [dense_scores(lm, window, QUESTION, config) for window in windows]
    expected = np.maximum(0, np.concatenate(dense))
    expected /= expected.sum()  # scores are shares
    found = scores_of(retriever)
    shares = [found[node.id] for node in built.nodes]
    np.testing.assert_allclose(shares, expected, rtol=2e-3, atol=1e-4 * expected.max())


@pytest.mark.parametrize("family", FAMILIES)
def test_means_of_columns_equal_the_dense_matrix(family):
    lm = tiny_lm(family)
    ids = lm.codec.encode(TEXT)[:60]
    dense = attention_matrix(lm, ids, PAIRS)
    cache = DynamicCache()
    with capture(lm.model, [ColumnRequest([(0, 40), (20, 30)])], PAIRS) as captured:
        lm.engine.logits([ids[:40]], last=1, cache=cache)
    np.testing.assert_allclose(captured.mean(0)[0], dense[:40, :40].mean(0), atol=1e-6)
    np.testing.assert_allclose(captured.mean(0)[1], dense[20:30, :40].mean(0), atol=1e-6)
    with capture(lm.model, [ColumnRequest([(5, 20)])], PAIRS) as captured:
        lm.engine.logits([ids[40:]], last=1, cache=cache)
    np.testing.assert_allclose(captured.mean(0)[0], dense[45:].mean(0), atol=1e-6)


def test_columns_are_spans_of_one_token_and_come_in_blocks(monkeypatch):
    lm, ids = tiny_lm(), tokenizer()(TEXT)["input_ids"][:50]

    def run(request):
        with capture(lm.model, [request]) as captured:
            lm.engine.logits([ids], last=1)
        return captured.mean(0).numpy()

    spans = run(SpanRequest([(3, 50)], [(i, i + 1) for i in range(50)]))
    columns = run(ColumnRequest([(3, 50)]))
    np.testing.assert_allclose(columns, spans, atol=1e-7)
    monkeypatch.setattr("hwdag.lm.attention.BLOCK_ELEMENTS", 1000)
    np.testing.assert_allclose(run(ColumnRequest([(3, 50)])), columns, atol=1e-7)


def test_reactions_by_hand():
    context, question = np.float32([0.5, 0.25, 0.25]), np.float32([0.1, 0.7, 0.25])
    found = reaction(context, question, rows=(3, 1), difference="increase")
    np.testing.assert_allclose(found, [-0.1, 0.1125, 0], atol=1e-7)
    absolute = reaction(context, question, rows=(3, 1), difference="absolute")
    np.testing.assert_allclose(absolute, np.abs(found))
    np.testing.assert_allclose(scaled(found, rows=(3, 1), scale="none"), found)
    # b - a = 0.45 is 1.35 times the 1/3 of evenly spread attention
    np.testing.assert_allclose(
        scaled(found, rows=(3, 1), scale="length"), [-1.2, 1.35, 0], atol=1e-6
    )


def test_one_token_without_reaction_does_not_erase_a_sentence():
    ranges = np.array([[0, 2], [2, 4], [4, 5], [0, 0]], np.int32)
    found = np.array([0.4, 0.0, 0.1, 0.1, 0.0])
    geometric = sentence_scores(found, ranges, "geometric")
    floor = FLOOR * 0.12
    np.testing.assert_allclose(geometric, [math.sqrt(0.4 * floor), 0.1, floor, 0])
    np.testing.assert_allclose(sentence_scores(found, ranges, "arithmetic"), [0.2, 0.1, 0, 0])
    assert not sentence_scores(np.zeros(5), ranges, "geometric").any()
    assert sentence_scores(np.zeros(0), np.zeros((1, 2), np.int32), "geometric") == [0]


@pytest.mark.parametrize("heads", ["all", "last", PAIRS[:1]])
@pytest.mark.parametrize("memory", [LARGE, NONE])
def test_forwards_end_with_the_last_head_and_count_what_runs(heads, memory):
    lm = tiny_lm()
    lm.model.set_attn_implementation("eager")
    columns = column_reader(lm, heads, memory_bytes=memory)
    ids = columns.locate(TEXT, []).ids
    shape, last = lm.engine.shape, 1 if heads == PAIRS[:1] else 3

    def above_diagonal(new):  # the plain kernel computes it too
        return last * 4 * shape.heads * shape.head_dim * new * (new - 1) / 2

    def check(found, tokens, usage):
        assert usage.tokens == tokens
        assert usage.tflops * 1e12 + above_diagonal(tokens) == pytest.approx(
            found.get_total_flops(), rel=0.01
        )

    with sdpa_kernel(SDPBackend.MATH):
        with FlopCounterMode(display=False) as found:
            columns.context(ids)
        check(found, len(ids) + columns.opening, lm.usage)
        with FlopCounterMode(display=False) as found:
            asked = columns.ask(ids, QUESTION)
        known = 0 if memory == NONE else len(ids) + columns.opening
        check(found, len(ids) + columns.opening + asked.rows - known, asked.usage)
    if memory:
        [(cache, _)] = columns.caches.held.values()
        assert len(cache.layers) == last + 1
    assert lm.model.config._attn_implementation == "eager"


# stored values are reused, and never for another question


def counting() -> tuple[HuggingFaceLM, list[int]]:
    """Return a model, and the numbers of tokens of its forwards."""
    lm, forwards = tiny_lm(), list[int]()
    logits = lm.engine.logits
    lm.engine.logits = lambda rows, **options: (  # type: ignore[method-assign]
        forwards.append(sum(map(len, rows))) or logits(rows, **options)
    )
    return lm, forwards


def test_a_context_passes_through_the_model_once_while_its_cache_is_kept():
    lm, forwards = counting()
    retriever = YouraRetriever(reader=lm)
    report = retriever.insert([Document("doc", TEXT)])
    [context] = forwards
    assert report.usage.tokens == context == lm.usage.tokens
    asked = len(lm.codec.encode("\n\n" + QUESTION))
    assert retriever.search(QUESTION).usage.tokens == asked
    retriever.search(QUESTION)
    assert forwards == [context, asked, asked]

    lm, forwards = counting()
    config = YouraConfig(memory_bytes=0)
    retriever = YouraRetriever.from_documents([Document("doc", TEXT)], reader=lm, config=config)
    retriever.search(QUESTION)
    assert forwards == [context, context + asked]  # the stored attention is not read again


def test_questions_do_not_know_of_each_other():
    lm, documents = tiny_lm(), random_documents(1)
    questions = [QUESTION, "amber bridge?", "Where is the temple?"]

    def fresh():
        return YouraRetriever.from_documents(documents, reader=lm)

    alone = [scores_of(fresh(), question) for question in questions]
    retriever = fresh()
    together = [scores_of(retriever, question) for question in questions]
    assert together == alone
    assert [scores_of(retriever, question) for question in reversed(questions)] == alone[::-1]
    assert len({tuple(scores.values()) for scores in alone}) == 3
    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(lambda q: scores_of(retriever, q), questions)) == alone


@pytest.mark.slow
@pytest.mark.parametrize("memory", [NONE, 200_000, LARGE])
def test_memory_changes_nothing_but_the_cost(memory):
    lm, documents = tiny_lm(), random_documents(2, documents=4)
    config = YouraConfig(window_tokens=120, memory_bytes=memory)
    plain = YouraRetriever.from_documents(
        documents, reader=lm, config=YouraConfig(window_tokens=120, memory_bytes=0)
    )
    retriever = YouraRetriever.from_documents(documents, reader=lm, config=config)
    expected = scores_of(plain)
    for _ in range(2):
        assert scores_of(retriever) == pytest.approx(expected, rel=1e-3)
    held = retriever.columns.caches
    size = sum(
        layer.keys.nbytes + layer.values.nbytes
        for cache, _ in held.held.values()
        for layer in cache.layers
    )
    assert size == held.bytes <= memory
    assert bool(size) == bool(memory)


def test_what_is_deleted_is_not_kept_in_memory():
    retriever = YouraRetriever.from_documents(random_documents(3, 2), reader=tiny_lm())
    retriever.delete("d0")
    held = retriever.columns.caches
    assert len(held.held) == 1
    retriever.delete("d1")
    assert (len(held.held), held.bytes) == (0, 0)


def test_the_windows_that_were_used_last_stay():
    columns = column_reader(tiny_lm(), "all", memory_bytes=50_000)
    one, two, three = (np.arange(i, i + 20, dtype=np.int32) for i in (5, 6, 7))
    for ids in (one, two):
        columns.context(ids)
    columns.ask(one, "who?")
    columns.context(three)
    asked = len(tokenizer()("\n\nwho?")["input_ids"])
    assert [columns.ask(ids, "who?").usage.tokens for ids in (one, three)] == [asked] * 2
    assert columns.ask(two, "who?").usage.tokens == columns.opening + 20 + asked


# windows


def test_windows_end_with_sentences_and_are_about_equally_long():
    lm = tiny_lm()
    [document] = random_documents(4, 1, sentences=60)
    config = YouraConfig(window_tokens=200)
    retriever = YouraRetriever.from_documents([document], reader=lm, config=config)
    built = retriever.built("d0")
    windows = list(built.windows)
    sizes = [len(window.ids) for window in windows]
    assert len(windows) > 3
    assert max(sizes) <= 150 - 1
    assert min(sizes[:-1]) > 80
    assert [i for window in windows for i in window.sentences] == list(range(len(built.nodes)))
    for window in windows:
        for i, (start, end) in zip(window.sentences, window.ranges, strict=True):
            assert lm.codec.decode(window.ids[start:end]).strip() == built.nodes[i].text
    for node in built.nodes:
        [span] = node.sources
        assert document.text[span.start : span.end] == node.text


def test_a_text_beyond_the_context_is_read_in_windows():
    lm = tiny_lm(max_position_embeddings=256)
    [document] = random_documents(5, 1, sentences=60)
    retriever = YouraRetriever.from_documents([document], reader=lm)
    assert lm.count_tokens([document.text])[0] > 256
    found = retriever.answer(QUESTION, config=SearchConfig(token_budget=60), max_new_tokens=4)
    assert found.retrieval.steps
    with pytest.raises(QuestionTooLong):
        retriever.search("who " * 300)


def test_limits_of_the_model_are_named():
    columns = column_reader(tiny_lm(max_position_embeddings=64), "all", memory_bytes=0)
    with pytest.raises(ContextTooSmall, match="window_tokens"):
        columns.context(np.arange(5, 80, dtype=np.int32))
    with pytest.raises(QuestionTooLong):
        columns.ask(np.arange(5, 60, dtype=np.int32), QUESTION)


TRICKY = [
    "狐狸跳过了懒狗。然后它睡着了。没有人问为什么。",
    "Wait.What? Yes.The end.\n\n\n   Next 👩‍👩‍👧 emoji 🏳️‍🌈. <|im_end|> is text.",
    "\u200b\n\n.",
    "a",
]


@pytest.mark.parametrize("text", TRICKY)
@pytest.mark.parametrize("reader", [tiny_lm, ScoringLM])
def test_any_text_can_be_inserted_and_asked(reader, text):
    retriever = YouraRetriever.from_documents([Document("doc", text)], reader=reader())
    scores = scores_of(retriever, "狐狸 or emoji?")
    assert all(math.isfinite(score) for score in scores.values())
    assert list(retriever.built("doc").nodes)


# selection


@given(st.integers(0, 10_000), st.integers(1, 120), st.sampled_from([0.2, 0.8, 1.0]))
@settings(max_examples=25, deadline=None)
def test_budget_share_and_order(seed, budget, share):
    lm, documents = ScoringLM(), random_documents(seed)
    config = YouraConfig(most_sentences=share, window_tokens=64)
    retriever = YouraRetriever.from_documents(documents, reader=lm, config=config)
    found = retriever.search("amber bridge castle", config=SearchConfig(token_budget=budget), k=99)
    total = sum(len(retriever.built(key).nodes) for key in retriever.documents)
    cost = lm.sessions[-1].cost
    assert sum(cost(step.node.text) for step in found.steps) == found.context_tokens <= budget
    assert len(found.steps) <= max(1, share * total)
    places = [(step.node.document_id, step.node.sources) for step in found.steps]
    assert places == sorted(places)
    assert len(found.best(99)) == total
    unread = [step.score for step in found.unread]
    assert unread == sorted(unread, reverse=True)
    # greedy: a sentence left out that scores more than one taken did not fit
    if found.steps and found.unread:
        room = budget - found.context_tokens
        if len(found.steps) < max(1, int(share * total)):
            assert all(cost(step.node.text) > room for step in found.unread)
            assert found.notes == ()


def test_the_share_of_sentences_is_a_limit_of_its_own():
    retriever = YouraRetriever.from_documents(random_documents(1, 1, 10), reader=ScoringLM())
    found = retriever.search("amber bridge", config=SearchConfig(token_budget=2000), k=10)
    assert (len(found.steps), len(found.unread), found.stop) == (8, 2, "budget")
    assert found.notes == ("8 of 10 sentences were taken, which is the limit of 80%",)
    config = YouraConfig(most_sentences=1.0)
    retriever = YouraRetriever.from_documents(
        random_documents(1, 1, 10), reader=ScoringLM(), config=config
    )
    assert len(retriever.search("amber").steps) == 10
    assert retriever.search("amber").stop == "exhausted"


# the cache


def test_what_is_in_the_cache_is_not_computed_again(tmp_path):
    lm, forwards = counting()
    config = YouraConfig(window_tokens=150, heads=PAIRS)
    options = {"reader": lm, "config": config, "cache": tmp_path / "calls"}
    retriever = YouraRetriever.from_documents(random_documents(8), **options)
    forwards.clear()
    again = YouraRetriever.from_documents(random_documents(8), **options)
    assert forwards == []
    assert scores_of(again) == pytest.approx(scores_of(retriever), rel=1e-4)
    YouraRetriever.from_documents(
        random_documents(8), **options | {"config": replace(config, heads="last")}
    )
    assert forwards  # other heads attend otherwise


# options


@pytest.mark.parametrize("heads", ["first", [(0, -1)]])
def test_heads_are_checked(heads):
    with pytest.raises(InputError):
        YouraConfig(heads=heads)


def test_heads_that_do_not_exist_and_readers_without_columns():
    retriever = YouraRetriever(reader=tiny_lm(), config=YouraConfig(heads=[(9, 0)]))
    with pytest.raises(InputError, match="exist"):
        retriever.insert(["Some text."])
    with pytest.raises(ReaderRequired, match="columns"):
        column_reader(object(), "all", memory_bytes=0)

"""LongLLMLingua: both stages equal plain forwards; kept text is verbatim and fits the budget."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted_scoring import ScoringLM
from test_properties import TEXTS
from tiny import tiny_lm
from worlds import assert_partition, random_prose

from hwdag import Document, SearchConfig
from hwdag.errors import QuestionTooLong, ReaderRequired
from hwdag.lm.base import Reader
from hwdag.text.chunking import chunk
from hwdag.text.prompts import SearchPrompts
from hwdag.types import Span
from hwdag_lab.methods.longllmlingua.retriever import (
    RESTRICTION,
    Compressor,
    LongLLMLinguaConfig,
    LongLLMLinguaRetriever,
    Word,
    cut_text,
    keep_ratios,
    merge_words,
    scoring_of,
    survivors,
)
from hwdag_lab.methods.longllmlingua.whole_words import tokens_of, words

QUESTION = "Who rules the silver castle on the island?"
SMALL = LongLLMLinguaConfig(chunk_tokens=60, segment_tokens=25)
MIXED = (
    "The fox 狐狸跳过了懒狗。然后它睡着了，没有人问为什么。 👩‍👩‍👧 and 🏳️‍🌈 came. Ein Füchslein "
    "คนไทยกินข้าว e\u0301te\u0301 end. "
)


def text_of(seed: int, sentences: int) -> str:
    return random_prose(seed, sentences, words=(4, 13))


def searched(retriever, text, budget, question=QUESTION):
    retriever.insert([Document("doc", text)])
    return retriever.search(question, config=SearchConfig(token_budget=budget))


def check(retrieval, text):
    """Check that every node joins its sources, and that the whole is within the budget."""
    for step in retrieval.steps:
        node = step.node
        assert node.text == "".join(text[s.start : s.end] for s in node.sources)
        assert all(a.end < b.start for a, b in pairwise(node.sources))
        assert node.text.strip() == node.text
        node.text.encode("utf-8")


@pytest.fixture(scope="module", params=["scripted", "tiny"])
def lm(request):
    return ScoringLM() if request.param == "scripted" else tiny_lm()


def test_it_needs_a_scorer():
    class Foreign:
        def __init__(self):
            self._lm = ScoringLM()

        def __getattr__(self, name):
            if name == "scoring":
                raise AttributeError(name)
            return getattr(self._lm, name)

    foreign = Foreign()
    assert isinstance(foreign, Reader)
    with pytest.raises(ReaderRequired, match="Foreign"):
        searched(LongLLMLinguaRetriever(reader=foreign), "A fox.", 20)


@pytest.mark.slow
@pytest.mark.parametrize("budget", [20, 64, 150, 300])
def test_the_budget_is_used_and_never_exceeded(lm, budget):
    text = text_of(1, 90)
    retriever = LongLLMLinguaRetriever(reader=lm, config=SMALL)
    retrieval = searched(retriever, text, budget)
    check(retrieval, text)
    assert 0.85 * budget <= retrieval.context_tokens <= budget
    assert retrieval.steps[0].node.origin == "compressed"
    assert retrieval.usage.tokens > sum(lm.count_tokens([text]))
    scores = [step.similarity for step in retrieval.steps]
    assert scores == sorted(scores, reverse=True)


def test_better_passages_keep_more_of_themselves():
    text = text_of(2, 250)
    retriever = LongLLMLinguaRetriever(reader=ScoringLM())
    retrieval = searched(retriever, text, 512)
    check(retrieval, text)
    assert 0.95 * 512 <= retrieval.context_tokens <= 512
    whole = {node.id: node.tokens for node in retriever.built("doc").nodes}
    shares = [step.node.tokens / whole[step.node.id] for step in retrieval.steps]
    assert len(shares) >= 3
    assert shares[0] > shares[1] > shares[2]
    assert f"{len(shares)} of {len(whole)} passages survived" in retrieval.notes[0]


def test_a_text_shorter_than_the_budget_is_kept_whole(lm):
    text = text_of(4, 12)
    retrieval = searched(LongLLMLinguaRetriever(reader=lm, config=SMALL), text, 2000)
    check(retrieval, text)
    assert {step.node.origin for step in retrieval.steps} == {"chunk"}
    covered = {i for s in retrieval.steps for i in range(*_range(s.node.sources[0]))}
    assert all(i in covered or text[i].isspace() for i in range(len(text)))
    assert retrieval.stop == "exhausted"
    [single] = searched(LongLLMLinguaRetriever(reader=lm), "A fox.", 2000).steps
    assert single.node.text == "A fox."


def _range(span):
    return span.start, span.end


def test_the_coarse_stage_equals_brute_force():
    lm = tiny_lm()
    text = text_of(5, 20)
    retriever = LongLLMLinguaRetriever(reader=lm, config=SMALL)
    retrieval = searched(retriever, text, 3000)
    asked = lm.codec.encode(f"{QUESTION} {RESTRICTION}")
    perplexity = {}
    for node in retriever.built("doc").nodes:
        ids = [*lm.codec.encode("\n"), *lm.codec.encode(node.text), *lm.codec.encode("\n\n")]
        with torch.no_grad():
            logits = lm.model(torch.tensor([[*ids, *asked]])).logits[0, len(ids) - 1 : -1]
        loss = torch.nn.functional.cross_entropy(logits.double(), torch.tensor(asked))
        perplexity[node.id] = float(loss.exp())
    assert len(perplexity) >= 4
    assert [s.node.id for s in retrieval.steps] == sorted(perplexity, key=perplexity.get)
    total = sum(1 / value for value in perplexity.values())
    expected = [1 / perplexity[s.node.id] / total for s in retrieval.steps]
    assert [s.similarity for s in retrieval.steps] == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("family", ["llama", "lfm2"])
def test_contrastive_scores_equal_two_full_forwards(family):
    lm = tiny_lm(family)
    compressor = Compressor(scoring_of(lm), QUESTION, lm.count_tokens, 25)
    before = "The lazy dog sleeps. It is quick."
    pieces = compressor.compress(before, 20, 8)
    assert pieces
    kept = lm.codec.encode("\n" + "".join(before[piece.start : piece.end] for piece in pieces))
    text = "\n" + MIXED
    found = compressor.contrast("\n", MIXED, 100)
    ids, losses = lm.codec.encode(text), []
    for prefix in ("", QUESTION + "\n"):
        known = [*lm.codec.encode("\n"), *lm.codec.encode(prefix), *kept]
        with torch.no_grad():
            logits = lm.model(torch.tensor([[*known, *ids]])).logits[0, len(known) - 1 : -1]
        losses.append(
            torch.nn.functional.cross_entropy(
                logits.double(), torch.tensor(ids), reduction="none"
            ).numpy()
        )
    contrast = losses[0] - losses[1]
    offsets = lm.codec.tokenizer(text, return_offsets_mapping=True)["offset_mapping"]
    for word in found:
        start, end = word.span.start - 99, word.span.end - 99  # one character of lead
        own = [i for i, (a, b) in enumerate(offsets) if a < end and b > start]
        assert word.score == pytest.approx(contrast[own].mean(), abs=1e-4)
        assert word.tokens == len(own)
    visible = [i for i, c in enumerate(MIXED) if not c.isspace()]
    assert sorted(i - 100 for w in found for i in range(*_range(w.span))) == visible


def test_chinese_thai_and_emoji_stay_whole(lm):
    text = MIXED * 6
    retrieval = searched(LongLLMLinguaRetriever(reader=lm, config=SMALL), text, 120)
    check(retrieval, text)
    cuts = {at for s in retrieval.steps for p in s.node.sources for at in _range(p)}
    assert len(cuts) > 8
    for at in cuts - {0, len(text)}:
        assert "\u200d" not in text[at - 1 : at + 1]
        assert text[at] not in "\u0301\ufe0f"
    kept = "".join(step.node.text for step in retrieval.steps)
    for whole in ("👩‍👩‍👧", "🏳️‍🌈", "Füchslein"):
        assert kept.count(whole[0]) == kept.count(whole) * whole.count(whole[0])


@settings(max_examples=25, deadline=None)
@given(st.text(alphabet="ab 狐狸。\n🦊é", min_size=1, max_size=400), st.integers(1, 80))
def test_any_text_is_compressed_to_slices_of_it(text, budget):
    if not text.strip():
        return
    retrieval = searched(
        LongLLMLinguaRetriever(
            reader=ScoringLM(), config=LongLLMLinguaConfig(chunk_tokens=20, segment_tokens=8)
        ),
        text,
        budget,
    )
    check(retrieval, text)
    assert retrieval.context_tokens <= budget


def test_it_answers_with_the_cost_of_both_stages():
    lm = tiny_lm()
    retriever = LongLLMLinguaRetriever(reader=lm, config=SMALL)
    retriever.insert([Document("doc", text_of(6, 40))])
    answer = retriever.answer(QUESTION, config=SearchConfig(token_budget=80), max_new_tokens=8)
    assert answer.usage.tokens > answer.retrieval.usage.tokens > 0
    assert answer.usage.tflops > answer.retrieval.usage.tflops > 0


def test_passages_beyond_the_context_count_by_their_best_window():
    lm = tiny_lm(max_position_embeddings=420)
    text = text_of(7, 80)
    wide = LongLLMLinguaConfig(chunk_tokens=600, segment_tokens=500)
    retriever = LongLLMLinguaRetriever(reader=lm, config=wide)
    retrieval = searched(retriever, text, 60)
    check(retrieval, text)
    assert 0.85 * 60 <= retrieval.context_tokens <= 60
    scoring, asked, perplexities = scoring_of(lm), f"{QUESTION} {RESTRICTION}", {}
    for node in retriever.nodes("doc"):
        limit = scoring.room(asked)
        spans = chunk(node.text, count_tokens=lm.count_tokens, limit=limit)
        windows = [node.text[span.start : span.end] for span in spans]
        perplexities[node.id] = min(np.exp(-one.mean()) for one in scoring.after(windows, asked))
    assert len(perplexities) > 1
    found = retriever.search(QUESTION, config=SearchConfig(token_budget=60), k=99)
    total = sum(1 / one for one in perplexities.values())
    for step in (*found.steps, *found.unread):
        assert step.score == pytest.approx(1 / perplexities[step.node.id] / total, rel=1e-4)


def test_a_question_that_fills_the_context_is_refused():
    bare = SearchPrompts(opening="{question}\n{information}", answer="Answer!")
    lm = ScoringLM(context_tokens=120)
    retriever = LongLLMLinguaRetriever(reader=lm, prompts=bare, config=SMALL)
    with pytest.raises(QuestionTooLong):
        searched(retriever, text_of(8, 20), 40, question="why " * 107)


@given(st.lists(st.integers(1, 400), min_size=1, max_size=12), st.floats(0, 1), st.floats(0, 1))
def test_ratios_spend_the_budget_and_fall_with_the_rank(tokens, share, delta):
    budget = share * sum(tokens)
    found = keep_ratios(tokens, budget, delta)
    assert all(0 <= ratio <= 1 for ratio in found)
    assert all(a >= b for a, b in pairwise(found))
    spent = sum(n * ratio for n, ratio in zip(tokens, found, strict=True))
    assert spent == pytest.approx(budget, abs=1e-6 * sum(tokens))


def test_ratios_and_survivors_by_hand():
    assert keep_ratios([100, 100, 100], 150, 0.25) == pytest.approx([0.75, 0.5, 0.25])
    assert keep_ratios([300], 30, 0.25) == pytest.approx([0.1])
    assert keep_ratios([100, 100], 20, 0.25) == pytest.approx([0.2, 0.0])
    assert [survivors([50, 50, 50], wanted) for wanted in (1, 50, 51, 100, 999)] == [1, 1, 2, 2, 3]


def test_pieces_that_touch_are_merged():
    text = "one two  three 狐狸 four"
    spans = [Span(0, 3), Span(4, 7), Span(9, 14), Span(15, 16), Span(16, 17), Span(18, 22)]
    kept = [Word(span, 0.0, 1) for span in spans]
    assert merge_words(text, kept) == [Span(0, 8), Span(9, 22)]
    assert cut_text(text, merge_words(text, kept)) == "one two three 狐狸 four"
    assert cut_text(text, merge_words(text, [kept[0], kept[3], kept[5]])) == "one 狐four"
    assert merge_words(text, []) == []


def test_words_end_at_the_ends_of_tokens():
    text = "ab,c 狐狸x 人🦊"
    tokens = [Span(0, 2), Span(2, 3), Span(3, 4), Span(4, 7), Span(7, 8), Span(8, 10), Span(10, 11)]
    found = words(text, tokens)
    assert [text[s.start : s.end] for s in found] == ["ab,c", "狐狸", "x", "人", "🦊"]
    assert tokens_of(found, tokens) == [[0, 1, 2], [3], [4], [5], [6]]
    run = "a" * 100
    parts = [Span(i, i + 1) for i in range(100)]
    assert len(words(run, parts)) == 100
    assert words(run[:64], parts[:64]) == [Span(0, 64)]


@st.composite
def tokenised(draw):
    """Return a text with the characters of its tokens: ascending; they may touch, overlap or leave gaps."""
    text = draw(TEXTS)
    borders = sorted(draw(st.lists(st.integers(0, len(text)), max_size=30)))
    return text, [Span(a, b) for a, b in pairwise(borders)]


@given(tokenised())
def test_whole_words_are_a_partition_of_what_is_not_blank(given_tokens):
    text, tokens = given_tokens
    found = words(text, tokens)
    assert_partition(text, found)
    assert not any(re.search(r"\s", text[span.start : span.end]) for span in found)
    cut = {span.start for span in found if span.start and not text[span.start - 1].isspace()}
    assert cut <= {token.start for token in tokens}
    for at, owned in enumerate(tokens_of(found, tokens)):
        assert owned == [i for i, token in enumerate(tokens) if token.overlap(found[at])]

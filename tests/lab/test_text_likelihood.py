"""Likelihoods of texts, from a cache or in batches, equal those of one plain forward."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted_scoring import ScoringLM
from tiny import FAMILIES, cold_logprobs, model, tokenizer
from worlds import WORDS

from hwdag.errors import ContextTooSmall
from hwdag.lm.huggingface import HuggingFaceLM
from hwdag.lm.tokens import Codec
from hwdag_lab.methods.longllmlingua.likelihood import tokens_with_spans
from hwdag_lab.methods.longllmlingua.retriever import scoring_of
from hwdag_lab.scripted import logprobs_after

TEXT = "The lazy dog. Summary 狐狸 points <|im_end|> 🦊!"


@pytest.mark.parametrize(
    ("family", "batched"), [*((family, True) for family in FAMILIES), ("gemma2", False)]
)
def test_a_text_after_contexts_equals_a_plain_forward(family, batched):
    lm = HuggingFaceLM(model(family), tokenizer())
    lm.batched = batched
    contexts = ["The fox", TEXT * 3, "", "dog " * 11]
    scoring = scoring_of(lm)
    found = scoring.after(contexts, TEXT)
    opening, ids = lm.codec.encode("\n"), lm.codec.encode(TEXT)
    for context, logprobs in zip(contexts, found, strict=True):
        whole = [*opening, *lm.codec.encode(context), *lm.codec.encode("\n\n"), *ids]
        np.testing.assert_allclose(logprobs, cold_logprobs(lm, whole, len(ids)), atol=1e-4)
    assert scoring.usage.tokens > 4 * len(ids)
    assert lm.usage.tokens == 0
    assert scoring.after([], TEXT) == []


@pytest.mark.parametrize("family", FAMILIES)
def test_a_stream_equals_plain_forwards_over_all_that_was_kept(family):
    lm = HuggingFaceLM(model(family), tokenizer())
    stream = scoring_of(lm).stream("Who?\n\n")
    known = lm.codec.encode("\n") + lm.codec.encode("Who?\n\n")
    for text, kept in [(TEXT, " lazy dog"), (" x", ""), (TEXT * 2, TEXT), ("", "."), ("fox", "")]:
        ids, scores = lm.codec.encode(text), stream.score(text)
        expected = cold_logprobs(lm, [*known, *ids], len(ids)) if ids else np.zeros(0)
        np.testing.assert_allclose(scores.logprobs, expected, atol=1e-4)
        assert len(scores.spans) == len(ids)
        if kept:
            stream.keep(kept)
            known += lm.codec.encode(kept)


def test_a_full_context_forgets_the_oldest():
    lm = HuggingFaceLM(model(max_position_embeddings=64), tokenizer())
    stream = scoring_of(lm).stream("Who?\n\n")
    prefix = lm.codec.encode("\n") + lm.codec.encode("Who?\n\n")
    kept = lm.codec.encode(" fox" * 20 + " dog" * 20)
    stream.score(" fox")
    stream.keep(" fox" * 20 + " dog" * 20)
    ids = lm.codec.encode(TEXT[:20])
    left = 64 - len(prefix) - len(ids)
    expected = cold_logprobs(lm, [*prefix, *kept[-(left // 2) :], *ids], len(ids))
    np.testing.assert_allclose(stream.score(TEXT[:20]).logprobs, expected, atol=1e-4)
    with pytest.raises(ContextTooSmall, match=r"\b64\b"):
        stream.score("fox " * 70)
    longest = " a" * stream.room
    assert len(stream.score(longest).logprobs) == stream.room == 64 - len(prefix)


def test_contexts_beyond_the_room_are_refused():
    lm = HuggingFaceLM(model(max_position_embeddings=64), tokenizer())
    room = scoring_of(lm).room("Who?")
    assert len(scoring_of(lm).after([" a" * room], "Who?")[0]) == len(lm.codec.encode("Who?"))
    with pytest.raises(ContextTooSmall, match=r"\b65\b"):
        scoring_of(lm).after([" a" * (room + 1)], "Who?")


@given(st.text(max_size=40))
def test_tokens_map_to_characters_that_exist(text):
    codec = Codec(tokenizer())
    ids, spans = tokens_with_spans(codec, text)
    assert ids == codec.encode(text)
    covered = {i for span in spans for i in range(span.start, span.end)}
    assert covered == set(range(len(text)))


def test_scripted_scores_by_hand():
    scoring = scoring_of(ScoringLM(context_tokens=9))
    [after] = scoring.after(["A fox"], "the Fox the")
    assert after == pytest.approx(-np.log([5, 2, 2]))
    stream = scoring.stream("Who? ")
    stream.keep("a fox ")
    scores = stream.score("Fox, who")
    assert scores.logprobs == pytest.approx(-np.log([2, 3, 2]))
    assert [(s.start, s.end) for s in scores.spans] == [(0, 3), (3, 4), (5, 8)]
    assert (scoring.usage.tokens, stream.room, scoring.room("a b")) == (5 + 3, 7, 7)
    with pytest.raises(ContextTooSmall, match=r"\b9\b"):
        scoring.after(["a " * 9], "b")
    assert logprobs_after("", " ".join(WORDS)).max() < -np.log(2)

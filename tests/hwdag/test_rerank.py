"""Passages ranked by attention: equal to the score of a capture, window by window."""

import numpy as np
import pytest
import torch
from planted import PLANTED, planted
from tiny import FAMILIES, HYBRIDS, model, tokenizer

from hwdag.errors import ContextTooSmall, InputError, ModelError, ReaderRequired
from hwdag.lm.huggingface import HuggingFaceLM
from hwdag.rerank import RankingPrompt, rank_passages
from hwdag_lab.heads import AttentionScoring, capture_ranking
from hwdag_lab.scripted import ScriptedLM

QUESTION = "who jumps over the dog?"
PASSAGES = ("The quick brown fox jumps.", "A dog\nsleeps all day.", "Nobody asked.")
LETTERS = ("bbbb kkkk bbbb", "zzzz qqqq zzzz", "mmmm rrrr mmmm", "vvvv cccc vvvv")


def tokens(lm, question, passages):
    return len(RankingPrompt.of(lm, question, passages).ids)


def captured(lm, passages, question=QUESTION):
    """Return the scores of the lab, from attention head by head."""
    return AttentionScoring.preset("qrhead").scores(capture_ranking(lm, question, passages))


@pytest.mark.parametrize(
    ("family", "heads"),
    [*((family, None) for family in (*FAMILIES, *HYBRIDS)), ("gemma2", ((1, 3), (0, 2)))],
)
def test_the_scores_are_those_of_a_capture_of_every_head(family, heads):
    lm = HuggingFaceLM(model(family), tokenizer(), heads=heads)
    found = rank_passages(lm, QUESTION, PASSAGES)
    cost = lm.usage.tokens
    np.testing.assert_allclose(found, captured(lm, PASSAGES), rtol=1e-3, atol=1e-8)
    assert lm.usage.tokens == 2 * cost


def test_passages_beyond_the_window_are_read_in_several():
    """Of about the same length; a score counts in even shares of its window."""
    lm = planted().with_heads([PLANTED])
    read, forward = [], lm.engine.logits
    lm.engine.logits = lambda rows, **options: read.append(rows[0]) or forward(rows, **options)
    passages = ["bbbb " * 8] * 8 + [LETTERS[1]]
    room = tokens(lm, "zzzz", passages[:8])
    found = rank_passages(lm, "zzzz", passages, window_tokens=room)
    first, null, second, _ = map(len, read)
    assert null < first
    assert max(first, second) <= room
    assert abs(first - second) <= lm.count_tokens(["[5] " + passages[0] + "\n\n"])[0]
    [cut] = [n for n in range(1, 9) if read[0] == RankingPrompt.of(lm, "zzzz", passages[:n]).ids]
    expected = []
    for window in (passages[:cut], passages[cut:]):
        held = np.diff(RankingPrompt.of(lm, "zzzz", window).passages).sum()
        expected += (held * captured(lm, window, "zzzz")).tolist()
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-6)
    assert found.argmax() == 8
    with pytest.raises(ContextTooSmall, match="passage 'bbbb"):
        rank_passages(lm, "zzzz", passages, window_tokens=20)


@pytest.mark.parametrize(
    ("question", "passages", "options"),
    [
        (" ", PASSAGES, {}),
        ("Who?", (), {}),
        ("Who?", ("a", "\n"), {}),
        ("Who?", PASSAGES, {"window_tokens": 0}),
        ("Who?", PASSAGES, {"window_tokens": -5}),
    ],
)
def test_what_cannot_be_ranked_is_refused(question, passages, options):
    with pytest.raises(InputError):
        rank_passages(planted(), question, passages, **options)


def test_attention_that_is_not_a_number_is_reported():
    lm = HuggingFaceLM(model(), tokenizer())
    with torch.no_grad():
        lm.model.model.embed_tokens.weight.fill_(float("nan"))
    with pytest.raises(ModelError, match="number"):
        rank_passages(lm, QUESTION, PASSAGES)


def test_only_a_local_model_has_heads():
    with pytest.raises(ReaderRequired, match="ScriptedLM"):
        rank_passages(ScriptedLM(), QUESTION, PASSAGES)

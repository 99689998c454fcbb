"""Likelihoods from a cache equal those of one plain forward over the whole text."""

import numpy as np
import pytest
import torch
from tiny import FAMILIES, cold_logprobs, model, tokenizer

from hwdag import BuildConfig, HWDAGIndex
from hwdag.embedding.hashing import HashingEmbedder
from hwdag.errors import InputError
from hwdag.lm.huggingface import HuggingFaceLM
from hwdag.search.evidence import Evidence
from hwdag.text.prompts import ANSWER, SearchPrompts
from hwdag_lab.eval.choosing import choose, choosing
from hwdag_lab.scripted import ScriptedLM

NODES = ["The fox jumps over the dog.", "Summary of the information: a question.", "狐狸 🦊"]
OPTIONS = ["The fox", "a", "Nobody: <|im_end|> is text", "狐狸 🦊 jumps", "The fox"]


def session_of(lm):
    return lm.session("Who jumps?", prompts=SearchPrompts(), heads="all", max_new_tokens=8)


def until_answer(lm, nodes, verdict, ask=ANSWER):
    """Return the whole chat up to the answer, written down by hand."""
    before, between, after = SearchPrompts().cut()
    codec, turns = lm.codec, lm.turns
    ids = [*turns.head, *codec.encode(before + "Who jumps?" + between)]
    for node in nodes:
        ids += codec.encode(f"* {node}\n")
    ids += [*codec.encode(after), *turns.reply, *codec.encode(verdict), *turns.between]
    return [*ids, *codec.encode(ask), *turns.second_reply]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "enough"), [*((family, True) for family in FAMILIES), ("llama", False)]
)
def test_options_equal_a_cold_forward_over_the_whole_chat(family, enough):
    lm = HuggingFaceLM(model(family), tokenizer())
    session = session_of(lm)
    session.read(NODES[:2])
    session.read(NODES[2:])
    found = session.likelihoods(OPTIONS, enough=enough)
    prompt = until_answer(lm, NODES, "Yes" if enough else "No")
    expected = []
    for option in OPTIONS:
        ids = lm.codec.encode(option)
        expected.append(cold_logprobs(lm, [*prompt, *ids], len(ids)).mean())
    np.testing.assert_allclose(found, expected, atol=1e-4)
    assert found[0] == pytest.approx(found[4], abs=1e-9)


@pytest.mark.parametrize("chat", [True, False])
def test_the_session_continues_as_if_nothing_had_been_scored(chat):
    lm = HuggingFaceLM(model("mistral", seed=4), tokenizer(chat))
    plain, asked = session_of(lm), session_of(lm)
    for session in (plain, asked):
        if session is asked:  # before anything was read
            session.likelihoods(OPTIONS, enough=True)
        session.read(NODES)
    asked.likelihoods(OPTIONS, enough=False)
    assert asked.cached_tokens == plain.cached_tokens
    assert asked.room == plain.room
    assert asked.usage.tokens > plain.usage.tokens
    answers = [list(s.decode(enough=True, max_new_tokens=8)) for s in (plain, asked)]
    assert answers[0] == answers[1]
    assert answers[0]


def test_without_a_template_an_answer_begins_with_a_space():
    lm = HuggingFaceLM(model(), tokenizer(chat=False))
    found = session_of(lm).likelihoods(["the dog"], enough=True)
    ids = lm.codec.encode(" the dog")
    whole = [*until_answer(lm, [], " Yes"), *ids]
    assert found[0] == pytest.approx(cold_logprobs(lm, whole, len(ids)).mean(), abs=1e-4)


def test_texts_that_have_no_likelihood_are_refused():
    lm = HuggingFaceLM(model(max_position_embeddings=320), tokenizer())
    session = session_of(lm)
    assert session.likelihoods([], enough=True).shape == (0,)
    for blank in (
        session,
        ScriptedLM().session("Why?", prompts=SearchPrompts(), heads="all", max_new_tokens=4),
    ):
        with pytest.raises(InputError, match="tokens"):
            blank.likelihoods(["yes", " "], enough=True)
    before = session.cached_tokens
    with pytest.raises(InputError):
        session.likelihoods(["fox " * 300], enough=True)
    assert session.cached_tokens == before


def test_scripted_options_by_hand():
    session = ScriptedLM().session(
        "Who jumps?", prompts=SearchPrompts(), heads="all", max_new_tokens=4
    )
    session.read(["The fox"])
    expected = [-np.log(2), -(np.log(2) + np.log(5)) / 2]
    assert session.likelihoods(["fox", "the hen"], enough=True) == pytest.approx(expected)
    before = session.usage.tokens
    session.likelihoods(["fox"], enough=True)
    [second_turn] = ScriptedLM().count_tokens([SearchPrompts().answer])
    assert session.usage.tokens - before == 1 + second_turn + 1


def test_what_is_asked_may_be_something_else():
    lm = HuggingFaceLM(model("qwen3"), tokenizer())
    ask = choosing("Who {jumps}?", ["The fox", "A\ndog {question}"])
    assert ask.splitlines()[1:4] == ["Question: Who {jumps}?", "A. The fox", "B. A dog {question}"]
    session = session_of(lm)
    session.read(NODES)
    found = session.likelihoods(["A", "B"], enough=True, ask=ask)
    prompt = until_answer(lm, NODES, "Yes", ask)
    expected = [cold_logprobs(lm, [*prompt, *lm.codec.encode(x)], 1).mean() for x in "AB"]
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_options_are_listed_both_ways_round_and_averaged():
    session = session_of(ScriptedLM())
    session.read(["The fox"])
    seen = []

    class Biased:
        """Favours the first letter, whatever it stands for."""

        def likelihoods(self, texts, *, enough, ask):
            seen.append(ask)
            found = session.likelihoods(texts, enough=enough, ask=ask)
            return found + np.array([5.0] + [0.0] * (len(texts) - 1))

        def __getattr__(self, name):
            return getattr(session, name)

    index = HWDAGIndex.from_documents(["The fox."], reader=ScriptedLM(), embedder="hashing-64")
    found = Evidence(index.search("Who jumps?"), Biased(), True, [])
    options = ["the hen", "fox", "a cat"]
    chances = choose(found, options)
    raw = session.likelihoods(options, enough=True) + np.array([2.5, 0, 2.5])
    np.testing.assert_allclose(chances, np.exp(raw) / np.exp(raw).sum())
    assert [ask.splitlines()[2:5] for ask in seen] == [
        ["A. the hen", "B. fox", "C. a cat"],
        ["A. a cat", "B. fox", "C. the hen"],
    ]


def test_choosing_leaves_the_session_as_it_was():
    lm = HuggingFaceLM(model(), tokenizer())
    index = HWDAGIndex.from_documents(
        ["The fox jumps. The dog sleeps."],
        reader=lm,
        embedder=HashingEmbedder(),
        config=BuildConfig(points="extractive"),
    )
    stream, undisturbed = index.stream("Who jumps?"), index.stream("Who jumps?")
    options = ["The fox", "The dog", "A {question}"]
    found = choose(stream.evidence, options)
    np.testing.assert_allclose(choose(stream.evidence, options[::-1])[::-1], found, atol=1e-6)
    assert found.sum() == pytest.approx(1)
    assert stream.answer.text == undisturbed.answer.text
    assert stream.answer.likelihood == pytest.approx(undisturbed.answer.likelihood, abs=1e-6)
    assert stream.answer.usage.tokens > undisturbed.answer.usage.tokens
    fresh = index.stream("Who jumps?").evidence
    for wrong in (["one"], ["a", " "], ["x"] * 27, "two", [1, 2]):
        with pytest.raises(InputError, match="2 to 26 texts"):
            choose(fresh, wrong)


def test_an_answer_has_its_likelihood():
    lm = HuggingFaceLM(model(seed=1), tokenizer())
    session = session_of(lm)
    session.read(NODES)
    decoding = session.decode(enough=True, max_new_tokens=6)
    assert decoding.likelihood is None
    text = "".join(decoding)
    assert decoding.is_cut
    ids = until_answer(lm, NODES, "Yes")
    known = len(ids)
    for _ in range(6):
        with torch.inference_mode():
            ids.append(int(lm.model(torch.tensor([ids])).logits[0, -1].argmax()))
    assert lm.codec.decode(ids[known:]) == text
    expected = cold_logprobs(lm, ids, 6).mean()
    assert decoding.likelihood == pytest.approx(expected, abs=1e-4)


def test_a_scripted_answer_is_as_likely_as_the_same_option():
    lm = ScriptedLM()
    index = HWDAGIndex.from_documents(
        ["The fox jumps. The dog sleeps."], reader=lm, embedder=HashingEmbedder()
    )
    answer = index.answer("Who jumps?")
    [expected] = lm.sessions[-1].likelihoods([answer.text], enough=True)
    assert answer.likelihood == answer.to_dict()["likelihood"] == pytest.approx(expected)

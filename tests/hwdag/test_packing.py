"""Forwards of many callers in one: each gets the values that it would have got alone."""

import os
import threading
from concurrent.futures import CancelledError, ThreadPoolExecutor, as_completed

import numpy as np
import pytest
import torch
from tiny import FAMILIES, model, tiny_lm
from transformers import DynamicCache
from worlds import WORDS

from hwdag import BuildConfig, HWDAGIndex, SearchConfig
from hwdag.embedding.hashing import HashingEmbedder
from hwdag.errors import ModelBusy
from hwdag.lm import packing
from hwdag.lm.attention import Capture, SpanRequest, capture
from hwdag.lm.caches import cache_option
from hwdag.lm.packing import SequenceRow, packed_forward
from hwdag.text.prompts import SearchPrompts

QUESTIONS = [f"Where is the {word} of the palace?" for word in WORDS[:4]]
TEXT = " ".join(f"The {word} has a {word[::-1]}. A {word} is never a palace." for word in WORDS)


@pytest.mark.parametrize("family", FAMILIES)
def test_rows_of_any_length_give_what_each_gives_alone(family):
    """Prefills, steps and single tokens, over several forwards, rows joining and leaving."""
    lm, rng = model(family, seed=1), np.random.default_rng(0)
    together, alone = ([DynamicCache() for _ in range(5)] for _ in range(2))
    for _ in range(4):
        members = rng.permutation(5)[: rng.integers(1, 6)].tolist()
        lengths = rng.choice([1, 2, 9, 30], size=len(members)).tolist()
        rows = []
        for i, length in zip(members, lengths, strict=True):
            ids = rng.integers(3, 300, size=length).tolist()
            heads = [None, ((0, 1), (3, 7))][i % 2]
            request = SpanRequest([(length // 2, length)], [(0, 1)])
            rows.append(SequenceRow(ids, together[i], 1 + length // 9, Capture([request], heads)))
        found = packed_forward(lm, rows)
        for i, row, logits in zip(members, rows, found, strict=True):
            with torch.no_grad(), capture(lm, row.capture.requests, row.capture.heads) as expected:
                output = lm(torch.tensor([row.ids]), **cache_option(lm, alone[i])).logits[0]
            torch.testing.assert_close(logits, output[-row.last :], atol=1e-5, rtol=1e-4)
            torch.testing.assert_close(row.capture.mean(0), expected.mean(0), atol=1e-6, rtol=1e-4)


def forwards_of(lm):
    """Return the lengths of all forwards from now on."""
    lengths = []
    lm.model.register_forward_pre_hook(
        lambda _, args, options: lengths.append((args or (options["input_ids"],))[0].shape[1]),
        with_kwargs=True,
    )
    return lengths


def test_questions_at_once_have_the_same_nodes_and_answers_in_fewer_forwards():
    lm = tiny_lm()
    models = {"reader": lm, "embedder": HashingEmbedder()}
    picked = BuildConfig(points="extractive")  # a random model writes until it may not
    with HWDAGIndex.from_documents([TEXT], config=picked, **models) as index:
        config = SearchConfig(token_budget=90, confidence=0.5, patience=3)
        forwards = forwards_of(lm)
        alone = [index.answer(question, config=config) for question in QUESTIONS]
        one_by_one = len(forwards)
        forwards.clear()
        with ThreadPoolExecutor(4) as pool:
            together = list(pool.map(lambda q: index.answer(q, config=config), QUESTIONS))
    assert len(forwards) < one_by_one
    for one, other in zip(alone, together, strict=True):
        assert one.text == other.text
        assert one.retrieval.stop == other.retrieval.stop
        steps = list(zip(one.retrieval.steps, other.retrieval.steps, strict=True))
        assert all(a.node.id == b.node.id for a, b in steps)
        for name in ("p_yes", "relevance"):
            values = [(getattr(a, name), getattr(b, name)) for a, b in steps]
            known = [pair for pair in values if None not in pair]
            np.testing.assert_allclose(*zip(*known, strict=True), atol=1e-4)
        assert one.usage.tokens == other.usage.tokens


def session(lm, question="Who?"):
    return lm.session(question, prompts=SearchPrompts(), heads="all", max_new_tokens=4)


def test_whoever_leaves_does_not_hold_up_the_others():
    lm = tiny_lm()
    texts = [f"The {word} is here." for word in WORDS]

    def read(count):
        reader = session(lm)
        return [reader.read([text]).p_yes for text in texts[:count]]

    expected = read(len(texts))
    counts = [1, 2, 5, len(texts)]
    with ThreadPoolExecutor(4) as pool:
        for count, found in zip(counts, pool.map(read, counts), strict=True):
            np.testing.assert_allclose(found, expected[:count], atol=1e-4)


def test_an_error_reaches_all_who_were_in_the_forward_and_nobody_else():
    lm = tiny_lm()
    expected = session(lm).read(["The fox."]).p_yes

    def fails(*_):
        raise MemoryError("no more")

    hook = lm.model.register_forward_pre_hook(fails)
    start = threading.Barrier(4)

    def read(_):
        start.wait()
        with pytest.raises(MemoryError):
            session(lm).read(["The fox."])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(read, range(4)))
    hook.remove()
    assert session(lm).read(["The fox."]).p_yes == expected


def test_who_comes_to_a_long_line_is_refused_and_who_has_begun_is_not(monkeypatch):
    monkeypatch.setattr(packing, "MOST_WAITING", 2)
    lm = tiny_lm()
    reader, texts = session(lm), ["The fox.", "The palace."]
    expected = [reader.read([text]).p_yes for text in texts]
    begun = session(lm)
    assert begun.read(texts[:1]).p_yes == pytest.approx(expected[0], abs=1e-4)
    entered, released = threading.Event(), threading.Event()

    def held(*_):
        entered.set()
        assert released.wait(60)

    hook = lm.model.register_forward_pre_hook(held)
    with ThreadPoolExecutor(6) as pool:
        asked = [pool.submit(lambda: session(lm).read(texts[:1]))]
        assert entered.wait(60)
        asked += [pool.submit(lambda: session(lm).read(texts[:1])) for _ in range(3)]
        refused = next(as_completed(asked))
        with pytest.raises(ModelBusy, match=r"\b2\b"):
            refused.result()
        more = pool.submit(begun.read, texts[1:])
        given_up = packing.SequenceRow([5, 6], DynamicCache())
        given_up.cache.update(torch.ones(1, 1, 1, 8), torch.ones(1, 1, 1, 8), 0)
        given_up.logits.cancel()
        with pytest.raises(CancelledError):
            packing.queue_of(lm.model).run(lm.model, given_up)
        hook.remove()
        released.set()
        answered = [one.result().p_yes for one in asked if one is not refused]
    np.testing.assert_allclose(answered, expected[0], atol=1e-4)
    assert more.result().p_yes == pytest.approx(expected[1], abs=1e-4)
    assert given_up.cache.get_seq_length() == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_fork_has_a_thread_of_its_own():
    lm = tiny_lm()
    expected = session(lm).read(["The fox."]).p_yes
    child = os.fork()
    if not child:
        os._exit(int(session(lm).read(["The fox."]).p_yes != expected))
    assert os.waitpid(child, 0)[1] == 0

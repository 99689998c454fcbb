"""Models with linear-attention layers: read, probed and answered as by fresh forwards."""

import numpy as np
import pytest
import torch
from tiny import HYBRIDS, model, tokenizer
from transformers import DynamicCache, LlamaConfig

from hwdag import Document, HWDAGIndex, SearchConfig
from hwdag.config import BuildConfig
from hwdag.embedding.hashing import HashingEmbedder
from hwdag.errors import InputError
from hwdag.lm.attention import attention_layers
from hwdag.lm.caches import Checkpoint, cache_option, new_cache
from hwdag.lm.huggingface import HuggingFaceLM
from hwdag.lm.layout import SearchLayout
from hwdag.text.prompts import SearchPrompts

QUESTION = "Which dragon guards the silver bridge?"
NODES = ["A dragon lives below.", "The bridge is of silver.", "Ferries leave at nine.", "It snows."]


@pytest.fixture(params=HYBRIDS)
def lm(request):
    return HuggingFaceLM(model(request.param), tokenizer())


def opened(lm, prompts=None):
    return lm.session(QUESTION, prompts=prompts or SearchPrompts(), heads="all", max_new_tokens=8)


def cold(lm, ids):
    """Return the logits after a sequence, from one forward without a cache."""
    with torch.no_grad():
        return lm.model(torch.tensor([ids]), use_cache=False).logits[0, -1].float()


@pytest.mark.parametrize("prompts", [SearchPrompts(), SearchPrompts.one_turn()], ids=["2", "1"])
def test_probes_and_answers_equal_fresh_forwards(lm, prompts):
    """p_yes after every node, with all probes before it forgotten; then the answer."""
    session, seen = opened(lm, prompts), []
    layout = SearchLayout(lm.codec, lm.turns, QUESTION, prompts)
    hook = lm.model.register_forward_pre_hook(
        lambda _, args, kwargs: seen.append((args or (kwargs["input_ids"],))[0][0].tolist()),
        with_kwargs=True,
    )
    kept = []
    for node in NODES:
        seen.clear()
        reading = session.read([node])
        new, slot = seen
        kept += new
        logits = cold(lm, kept + slot)
        yes, no = logits[layout.yes].logsumexp(0), logits[layout.no].logsumexp(0)
        assert reading.p_yes == pytest.approx(float(torch.sigmoid(yes - no)), abs=1e-4)
        assert session.cached_tokens == len(kept)
    seen.clear()
    text = "".join(session.decode(enough=True, max_new_tokens=6))
    prompt = [token for ids in seen for token in ids]
    hook.remove()
    assert text.strip() == lm.codec.decode(generated(lm, kept + seen[0], 6)).strip()
    assert prompt[: len(seen[0])] == seen[0]


def generated(lm, ids, count):
    """Greedy tokens, each from a forward over everything before it."""
    found = []
    for _ in range(count):
        token = int(cold(lm, ids + found).argmax())
        if token in lm.engine.end_tokens:
            break
        found.append(token)
    return found


def test_attention_is_that_of_the_layers_that_have_it(lm):
    """Equal to eager attention over the whole sequence, mean over the attention layers."""
    session = opened(lm)
    readings = [session.read([node]) for node in NODES]
    layout = SearchLayout(lm.codec, lm.turns, QUESTION, SearchPrompts())
    origin, rows = len(layout.opening), []
    ids = list(layout.opening)
    for node in NODES:
        tokens, (start, end) = layout.node(node)
        rows.append((origin + start, origin + end))
        ids, origin = ids + tokens, origin + len(tokens)
    lm.model.set_attn_implementation("eager")
    with torch.no_grad():
        attentions = lm.model(torch.tensor([ids]), output_attentions=True).attentions
    dense = torch.stack([one[0] for one in attentions if one is not None]).mean((0, 1))
    begin, end = layout.question
    expected = [float(dense[a:b, begin:end].mean()) for a, b in rows]
    np.testing.assert_allclose([r.attention[0] for r in readings], expected, atol=1e-5)


def test_likelihoods_leave_the_session_as_it_was(lm):
    one, other = opened(lm), opened(lm)
    for session in (one, other):
        session.read(NODES[:2])
    first = one.likelihoods(["a dragon", "nobody at all"], enough=True)
    np.testing.assert_allclose(one.likelihoods(["a dragon", "nobody at all"], enough=True), first)
    assert one.read(NODES[2:]).p_yes == pytest.approx(other.read(NODES[2:]).p_yes, abs=1e-5)


def test_a_checkpoint_brings_a_cache_back(lm):
    config = lm.model.config
    cache, same = new_cache(config), new_cache(config)
    ids = torch.arange(5, 45)[None]
    with torch.no_grad():
        for one in (cache, same):
            lm.model(ids[:, :20], **cache_option(lm.model, one))
        for _ in range(2):  # more than once, which a crop of convolutions does not survive
            before = Checkpoint(cache)
            lm.model(ids[:, 25:40], **cache_option(lm.model, cache))
            before.restore()
        a, b = (lm.model(ids[:, 20:25], **cache_option(lm.model, c)).logits for c in (cache, same))
    torch.testing.assert_close(a, b, atol=1e-6, rtol=0)


def test_a_cache_is_passed_by_the_name_that_forward_gives_it():
    class Renamed(torch.nn.Module):
        def forward(self, input_ids, cache=None, **kwargs): ...

    class Former(torch.nn.Module):
        def forward(self, input_ids, past_key_values=None, **kwargs): ...

    cache = DynamicCache()
    assert cache_option(Renamed(), cache) == {"cache": cache}
    assert cache_option(Former(), cache) == {"past_key_values": cache}
    inner = model()
    found = inner(torch.tensor([[5, 6, 7]]), **cache_option(inner, cache), use_cache=True)
    assert cache.get_seq_length() == 3
    assert [found[name] for name in cache_option(inner, cache)] == [cache]


def test_a_hybrid_builds_edges_and_walks_along_them(lm):
    text = "\n\n".join(f"{node} It is so. And {i} more." for i, node in enumerate(NODES * 3))
    index = HWDAGIndex.from_documents(
        [Document("d", text)],
        reader=lm,
        embedder=HashingEmbedder(),
        config=BuildConfig(method="hwdag", points="extractive", window_tokens=900),
    )
    graph = index.graphs["d"]
    assert max(node.level for node in graph.nodes) > 1
    answer = index.answer(QUESTION, config=SearchConfig(token_budget=200, confidence=0.999))
    assert answer.retrieval.steps and answer.citations


def test_heads_of_layers_without_attention_are_refused():
    inner = model("lfm2")
    assert attention_layers(inner.config) == [1, 3]
    with pytest.raises(InputError, match="attention"):
        HuggingFaceLM(inner, tokenizer()).session(
            "who?", prompts=SearchPrompts(), heads=((0, 1),), max_new_tokens=4
        )
    assert attention_layers(LlamaConfig(num_hidden_layers=3)) == [0, 1, 2]

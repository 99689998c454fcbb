"""Analytic FLOPs against the ones that torch counts while a tiny random model runs."""

from contextlib import contextmanager
from typing import Any

import pytest
import torch
import transformers
from hypothesis import given
from hypothesis import strategies as st
from tiny import model, tokenizer
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from hwdag import flops
from hwdag.config import NEVER, BuildConfig, SearchConfig
from hwdag.errors import InputError
from hwdag.flops import ModelShape, capture_flops, forward_flops
from hwdag.index import HWDAGIndex
from hwdag.lm import engine
from hwdag.lm.base import ReplayRequest
from hwdag.lm.caches import cache_option
from hwdag.lm.huggingface import HuggingFaceLM
from hwdag.lm.packing import ForwardQueue, packed_forward
from hwdag.text.prompts import SearchPrompts
from hwdag.types import Document, Span
from hwdag_lab.methods.longllmlingua import LongLLMLinguaConfig, LongLLMLinguaRetriever

TINY = {
    "vocab_size": 97,
    "hidden_size": 64,
    "intermediate_size": 112,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "pad_token_id": 0,
}
CONFIGS: dict[str, Any] = {
    "llama": transformers.LlamaConfig(**TINY),
    "mistral": transformers.MistralConfig(**TINY),
    "qwen2": transformers.Qwen2Config(**TINY),
    "qwen3": transformers.Qwen3Config(**TINY, head_dim=24),
    "gemma2": transformers.Gemma2Config(**TINY, head_dim=24),
    "gemma3": transformers.Gemma3TextConfig(**TINY, head_dim=24),
    "phi3": transformers.Phi3Config(**TINY),
    "gpt_neox": transformers.GPTNeoXConfig(**(TINY | {"num_key_value_heads": 4})),
    "starcoder2": transformers.Starcoder2Config(**TINY),
    "gpt2": transformers.GPT2Config(vocab_size=97, n_embd=64, n_layer=2, n_head=4),
}


TEXT = "The quick brown fox jumps over the lazy dog. Nobody asked the dog. Who sleeps? " * 6


def eager_flops(shape, *, new_tokens, **options):
    """FLOPs of a forward, with the half of its new tokens' pairs that a causal mask hides."""
    hidden = new_tokens * (new_tokens - 1) // 2
    rest = shape.layers * 4 * shape.heads * shape.head_dim * hidden
    return forward_flops(shape, new_tokens=new_tokens, **options) + rest


@pytest.fixture
def every_pair(monkeypatch):
    """Count all (new token, seen token) pairs as eager attention does, not the causal half of them.

    Everything else is the library's own: which forwards are counted, on top of how many cached
    tokens, with how many rows of logits, and with the capture.
    """
    for module in (flops, engine):
        monkeypatch.setattr(module, "forward_flops", eager_flops)


@pytest.fixture
def on_this_thread(monkeypatch):
    """Run forwards where they are asked for: torch's counter sees those of its own thread alone."""
    monkeypatch.setattr(
        ForwardQueue, "run", lambda self, model, row: packed_forward(model, [row])[0]
    )


def eager(family="llama"):
    inner = model(family)
    inner.set_attn_implementation("eager")
    return HuggingFaceLM(inner, tokenizer())


@contextmanager
def counter():
    """Torch's counter; it knows no FLOPs of the fused CPU kernel, so what is captured avoids it."""
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as found:
        yield found


def check(tflops, found):
    assert tflops * 1e12 == pytest.approx(found.get_total_flops(), rel=0.02)
    assert tflops > 0


def counted(config, *, new, cached=0):
    """FLOPs of a forward with one row of logits, as torch counts them."""
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    model = model.float().eval()
    cache = transformers.DynamicCache()
    with torch.inference_mode():
        if cached:
            model(torch.ones(1, cached, dtype=torch.long), **cache_option(model, cache))
        with FlopCounterMode(display=False) as counter:
            tokens = torch.ones(1, new, dtype=torch.long)
            model(tokens, **cache_option(model, cache), logits_to_keep=1)
    return float(counter.get_total_flops())


@pytest.mark.parametrize("name", CONFIGS)
def test_the_rectangle_is_what_eager_attention_computes(name):
    shape = ModelShape.from_config(CONFIGS[name])
    flops = eager_flops(shape, new_tokens=80, cached_tokens=0, logit_rows=1)
    assert flops == pytest.approx(counted(CONFIGS[name], new=80), rel=0.02)


@pytest.mark.parametrize(("new", "cached"), [(1, 60), (17, 60)])
def test_cached_tokens_cost_attention_only(new, cached):
    shape = ModelShape.from_config(CONFIGS["llama"])
    flops = eager_flops(shape, new_tokens=new, cached_tokens=cached, logit_rows=1)
    assert flops == pytest.approx(counted(CONFIGS["llama"], new=new, cached=cached), rel=0.02)


sizes = st.integers(0, 5000)


@given(sizes, sizes, sizes)
def test_appending_in_two_steps_costs_what_one_step_does(cached, a, b):
    shape = ModelShape(2, 8, 2, 1, 4, 16, 30, gated=True)
    whole = forward_flops(shape, new_tokens=a + b, cached_tokens=cached, logit_rows=0)
    first = forward_flops(shape, new_tokens=a, cached_tokens=cached, logit_rows=0)
    second = forward_flops(shape, new_tokens=b, cached_tokens=cached + a, logit_rows=0)
    assert whole == first + second


def test_by_hand():
    shape = ModelShape(
        layers=2, hidden=8, heads=2, kv_heads=1, head_dim=4, intermediate=16, vocab=30, gated=True
    )
    assert shape.layer_parameters == 8 * 8 + 2 * 8 * 4 + 8 * 8 + 3 * 8 * 16
    linear, head = 2 * shape.layer_parameters, 2 * 8 * 30
    # three new tokens on top of ten see 11, 12 and 13 tokens; two heads of four
    flops = forward_flops(shape, new_tokens=3, cached_tokens=10, logit_rows=1)
    assert flops == 2 * (3 * linear + 4 * 8 * (11 + 12 + 13)) + head


def test_active_experts_are_counted():
    mixtral = transformers.MixtralConfig(**TINY, num_experts_per_tok=2, num_local_experts=8)
    qwen = transformers.Qwen2MoeConfig(
        **TINY, num_experts_per_tok=4, moe_intermediate_size=20, shared_expert_intermediate_size=50
    )
    assert ModelShape.from_config(mixtral).intermediate == 2 * 112
    assert ModelShape.from_config(qwen).intermediate == 4 * 20 + 50


def test_a_multimodal_config_gives_its_text_part():
    config = transformers.Gemma3Config(text_config=TINY | {"head_dim": 24})
    assert ModelShape.from_config(config) == ModelShape.from_config(CONFIGS["gemma3"])


def test_a_config_without_sizes_is_refused():
    with pytest.raises(InputError, match="hidden_size"):
        ModelShape.from_config(transformers.PreTrainedConfig())


HEADS = ["all", ((0, 1), (2, 3), (2, 5))]


@pytest.mark.usefixtures("every_pair", "on_this_thread")
@pytest.mark.parametrize(
    ("family", "heads"),
    [("llama", HEADS[0]), ("mistral", HEADS[1]), ("gemma2", HEADS[1]), ("qwen3", HEADS[0])],
)
def test_a_session_counts_what_runs(family, heads):
    lm = eager(family)
    session = lm.session("Who?", prompts=SearchPrompts(), heads=heads, max_new_tokens=4)
    with counter() as found:
        session.read([TEXT, "The dog."])
        session.read([TEXT[:90]])
        session.read([])
    check(session.usage.tflops, found)
    before = session.usage
    with counter() as found:
        session.likelihoods(["The fox", "Nobody", TEXT[:80]], enough=True)
    check((session.usage - before).tflops, found)
    before = session.usage
    with counter() as found:
        list(session.decode(enough=True, max_new_tokens=4, spans=[(0, Span(0, 44))]))
    check((session.usage - before).tflops, found)


@pytest.mark.usefixtures("every_pair", "on_this_thread")
def test_a_build_and_a_walk_with_its_answer_count_what_runs():
    config, lm = BuildConfig(method="hwdag", points="extractive"), eager()
    with counter() as found:
        index = HWDAGIndex.from_documents([TEXT], reader=lm, embedder="hashing-64", config=config)
    check(index.report.usage.tflops, found)
    with counter() as found:
        answer = index.answer(
            "Who jumps?", config=SearchConfig(token_budget=120, confidence=NEVER), max_new_tokens=6
        )
    assert len(answer.retrieval.steps) > 1
    check(answer.usage.tflops, found)


@pytest.mark.usefixtures("every_pair")
@pytest.mark.parametrize("heads", HEADS)
@pytest.mark.parametrize("family", ["llama", "gemma2"])
def test_replay_counts_what_runs(family, heads):
    lm = eager(family)
    half = len(TEXT) // 2
    units = (Span(0, half), Span(half, len(TEXT)))
    request = ReplayRequest("Summary:\n", (TEXT,), "\nStart.", (TEXT[:60], "A dog."), (units,))
    with counter() as found:
        lm.replay([request, request], heads=heads)
    check(lm.usage.tflops, found)


def test_writing_counts_what_runs():
    lm = eager()
    prompt = [*lm.turns.head, *lm.codec.encode(TEXT), *lm.turns.summary_reply]
    with counter() as found:
        lm.write([TEXT], max_new_tokens=10)
    # only the prompt has pairs above the diagonal: the reply comes token by token
    pairs = len(prompt) * (len(prompt) - 1) // 2
    check(lm.usage.tflops + 4 * 4 * 8 * 16 * pairs / 1e12, found)
    assert len(prompt) < lm.usage.tokens < len(prompt) + 10


@pytest.mark.usefixtures("every_pair", "on_this_thread")
@pytest.mark.parametrize("family", ["llama", "mistral"])
def test_compression_counts_what_runs(family):
    config = LongLLMLinguaConfig(chunk_tokens=80, segment_tokens=40)
    retriever = LongLLMLinguaRetriever(reader=eager(family), config=config)
    retriever.insert([Document("doc", TEXT)])
    with counter() as found:
        retrieval = retriever.search("Who jumps?", config=SearchConfig(token_budget=100))
    assert "were compressed" in retrieval.notes[0]
    check(retrieval.usage.tflops, found)


@pytest.mark.usefixtures("every_pair", "on_this_thread")
def test_a_model_that_gives_all_logits_pays_for_them():
    inner = model("llama")
    forward, [name] = inner.forward, cache_option(inner, None)
    # a signature without logits_to_keep, as older models have it
    inner.forward = lambda input_ids, position_ids=None, use_cache=None, cache=None: forward(
        input_ids, position_ids=position_ids, use_cache=use_cache, **{name: cache}
    )
    inner.set_attn_implementation("eager")
    lm = HuggingFaceLM(inner, tokenizer())
    with counter() as found:
        session = lm.session("Who?", prompts=SearchPrompts(), heads="all", max_new_tokens=4)
        session.read([TEXT])
    check(session.usage.tflops, found)


def test_capture_by_hand():
    shape = ModelShape(2, 8, 2, 1, 4, 16, 30, gated=True)
    flops = capture_flops(shape, heads=3, row_tokens=5, seen_tokens=7, key_spans=2)
    assert flops == 3 * (2 * 5 * 4 * 7 + 2 * 5 * 7 * 2)

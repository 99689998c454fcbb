"""Analytic FLOPs against the ones that torch counts while a tiny random model runs."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode

from hwdag.errors import InputError
from hwdag.lm.flops import ModelShape, forward_flops

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


def counted(config: Any, *, new: int, cached: int = 0) -> float:
    """FLOPs of a forward with one row of logits, as torch counts them."""
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    model = model.float().eval()
    cache = transformers.DynamicCache()
    with torch.inference_mode():
        if cached:
            model(torch.ones(1, cached, dtype=torch.long), past_key_values=cache)
        with FlopCounterMode(display=False) as counter:
            tokens = torch.ones(1, new, dtype=torch.long)
            model(tokens, past_key_values=cache, logits_to_keep=1)
    return float(counter.get_total_flops())


@pytest.mark.parametrize("name", CONFIGS)
def test_the_rectangle_is_what_eager_attention_computes(name: str) -> None:
    shape = ModelShape.from_config(CONFIGS[name])
    flops = forward_flops(shape, new_tokens=80, cached_tokens=0, logit_rows=1, causal=False)
    assert flops == pytest.approx(counted(CONFIGS[name], new=80), rel=0.02)


@pytest.mark.parametrize(("new", "cached"), [(1, 60), (17, 60)])
def test_cached_tokens_cost_attention_only(new: int, cached: int) -> None:
    shape = ModelShape.from_config(CONFIGS["llama"])
    flops = forward_flops(shape, new_tokens=new, cached_tokens=cached, logit_rows=1, causal=False)
    assert flops == pytest.approx(counted(CONFIGS["llama"], new=new, cached=cached), rel=0.02)


sizes = st.integers(0, 5000)


@given(sizes, sizes, sizes)
def test_appending_in_two_steps_costs_what_one_step_does(cached: int, a: int, b: int) -> None:
    shape = ModelShape(2, 8, 2, 1, 4, 16, 30, gated=True)
    whole = forward_flops(shape, new_tokens=a + b, cached_tokens=cached, logit_rows=0)
    first = forward_flops(shape, new_tokens=a, cached_tokens=cached, logit_rows=0)
    second = forward_flops(shape, new_tokens=b, cached_tokens=cached + a, logit_rows=0)
    assert whole == first + second


def test_by_hand() -> None:
    shape = ModelShape(
        layers=2, hidden=8, heads=2, kv_heads=1, head_dim=4, intermediate=16, vocab=30, gated=True
    )
    assert shape.layer_parameters == 8 * 8 + 2 * 8 * 4 + 8 * 8 + 3 * 8 * 16
    linear, head = 2 * shape.layer_parameters, 2 * 8 * 30
    # three new tokens on top of ten see 11, 12 and 13 tokens; two heads of four
    flops = forward_flops(shape, new_tokens=3, cached_tokens=10, logit_rows=1)
    assert flops == 2 * (3 * linear + 4 * 8 * (11 + 12 + 13)) + head
    full = forward_flops(shape, new_tokens=3, cached_tokens=10, logit_rows=1, causal=False)
    assert full - flops == 2 * 4 * 8 * (3 * 13 - 36)


def test_active_experts_are_counted() -> None:
    mixtral = transformers.MixtralConfig(**TINY, num_experts_per_tok=2, num_local_experts=8)
    qwen = transformers.Qwen2MoeConfig(
        **TINY,
        num_experts_per_tok=4,
        moe_intermediate_size=20,
        shared_expert_intermediate_size=50,
    )
    assert ModelShape.from_config(mixtral).intermediate == 2 * 112
    assert ModelShape.from_config(qwen).intermediate == 4 * 20 + 50


def test_a_multimodal_config_gives_its_text_part() -> None:
    config = transformers.Gemma3Config(text_config=TINY | {"head_dim": 24})
    assert ModelShape.from_config(config) == ModelShape.from_config(CONFIGS["gemma3"])


def test_a_config_without_sizes_is_refused() -> None:
    with pytest.raises(InputError, match="PreTrainedConfig names no hidden_size"):
        ModelShape.from_config(transformers.PreTrainedConfig())

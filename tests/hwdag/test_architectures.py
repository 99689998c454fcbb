"""No admitted model is silently wrong: readings equal the model's own forward, or the model is refused."""

import os
import re
from contextlib import nullcontext
from itertools import cycle
from pathlib import Path

import pytest
import torch
import transformers
from tiny import model, tokenizer

from hwdag import rank_passages
from hwdag.errors import CaptureUnsupported
from hwdag.lm import selftest
from hwdag.lm.attention import SpanRequest, capture, switched
from hwdag.lm.engine import Weights
from hwdag.lm.huggingface import HuggingFaceLM
from hwdag.lm.packing import AskedMask
from hwdag.lm.selftest import check_forwards
from tools.architectures import ARCHITECTURES, CLOSE, find, page, tiny, tiny_config

PAGE = Path(__file__).parents[2] / "docs/architectures.md"

READ = {
    "llama": "read",
    "mistral": "read",
    "qwen2": "read",
    "qwen2_moe": "read",  # whose layers do not pass their window on
    "phimoe": "read",
    "starcoder2": "read",
    "gemma3_text": "read",
    "gemma3": "read",  # a composite of text and vision
    "gpt_oss": "read",
    "deepseek_v3": "read",
    "lfm2": "hybrid",
    "qwen3_5_text": "hybrid",
}

REFUSED = {
    "diffllama": "more than once",
    "hrm_text": "more than once",
    "doge": "mask of its own",
    "mllama": r"layers \[3\] do not call",
    "recurrent_gemma": "other logits",
    "jamba": "other logits",
    "bert": "not causal",
    "roberta": "not causal",
    "minimax": "a forward fails",
    "llama4_text": "chunked_attention",
    "mamba": "no|none",
    "bloom": "AttentionInterface",
}


@pytest.mark.parametrize("name", READ)
def test_what_is_read_equals_the_models_own_forward(name):
    finding = find(name)
    assert finding.kind == READ[name], finding


@pytest.mark.parametrize("name", REFUSED)
def test_what_would_be_read_wrongly_is_refused_with_a_reason(name):
    if name not in ARCHITECTURES:
        pytest.skip("this transformers does not have it")
    finding = find(name)
    assert finding.kind == "refused"
    assert re.search(REFUSED[name], finding.reason), finding.reason


@pytest.mark.parametrize(
    "name", ["llama", "gemma2", "gpt_oss", "granitemoe", "lfm2", "diffllama", "jamba", "bert"]
)
def test_the_coarse_rounding_of_bfloat16_is_no_error(name):
    made = tiny(tiny_config(name)).to(torch.bfloat16)
    refused = pytest.raises(CaptureUnsupported) if name in REFUSED else nullcontext()
    with refused:
        check_forwards(made)


@pytest.mark.skipif("HWDAG_EVERY_ARCHITECTURE" not in os.environ, reason="takes half a minute")
@pytest.mark.filterwarnings("ignore")
def test_every_causal_architecture_is_right_or_refused():
    found = list(map(find, ARCHITECTURES))
    assert not [one for one in found if one.kind == "wrong"]
    assert sum(one.kind == "read" for one in found) > 50
    written = PAGE.read_text("utf-8")
    if f"transformers {transformers.__version__}," in written:
        assert page(found) == written  # tools/architectures.py makes it


def test_positions_that_count_from_the_padding_are_refused():
    with pytest.raises(CaptureUnsupported, match=r"roberta.*other logits"):
        check_forwards(tiny(tiny_config("roberta", is_decoder=True)))


def test_a_reader_is_checked_when_its_weights_are_loaded():
    made = tiny(tiny_config("diffllama", vocab_size=len(tokenizer())))
    with pytest.raises(CaptureUnsupported, match=r"DiffLlamaForCausalLM.*writer"):
        HuggingFaceLM(made, tokenizer())
    lazy = HuggingFaceLM(Weights(made.config, lambda: made), tokenizer(), name="lazy")
    with pytest.raises(CaptureUnsupported, match="diffllama"):
        lazy.write(["Hello"], max_new_tokens=2)


def test_a_model_is_checked_once():
    made, forwards = model(), []
    made.register_forward_pre_hook(lambda *_: forwards.append(1))
    for _ in range(2):
        HuggingFaceLM(made, tokenizer())
    assert len(forwards) == 4


@pytest.mark.parametrize(("factor", "noise"), [(1.003, 0.0009), (1.003, 0.5), (1.01, 0.5)])
def test_a_difference_no_larger_than_the_models_own_noise_is_no_error(monkeypatch, factor, noise):
    made = model()
    read = selftest._read
    monkeypatch.setattr(selftest, "_read", lambda *given: [one * factor for one in read(*given)])
    with pytest.raises(CaptureUnsupported, match="other logits"):
        check_forwards(made)
    monkeypatch.setattr(selftest, "_noise", lambda *_: noise)
    is_noise = factor < 1 + selftest.NOISE * selftest.LEAST_ERROR  # which no larger noise raises
    with nullcontext() if is_noise else pytest.raises(CaptureUnsupported, match="other logits"):
        check_forwards(made)


@pytest.mark.parametrize("kind", ["dropout", "steps"])
def test_a_forward_that_does_not_repeat_itself_is_refused(kind):
    made = tiny(tiny_config("llama", attention_dropout=0.5 if kind == "dropout" else 0.0))
    if kind == "dropout":
        made.train()
    else:  # each forward differs as a whole, so that a causal model looks causal
        factors = cycle([1, 1.1, 1.1, 5, 5, 5])
        made.lm_head.register_forward_hook(lambda _1, _2, output: output * next(factors))
    hint = r", model\.eval" if made.training else r"\. Any"
    with pytest.raises(
        CaptureUnsupported, match=rf"LlamaFor.*not deterministic.* [\d.]+ of.*\){hint}"
    ):
        check_forwards(made)


CAUSAL = AskedMask(lambda b, h, q, k: (k <= q) | (b < 0), None)
WINDOW = AskedMask(lambda b, h, q, k: (k <= q) & (k > q - 8) & (b == h), 8)
CHUNKED = AskedMask(lambda b, h, q, k: (k <= q) & (k // 8 == q // 8), 8)
PREFIX = AskedMask(lambda b, h, q, k: (k <= q) | (k < 3), None)
BOTH_WAYS = AskedMask(lambda b, h, q, k: (k - q).abs() < 8, 8)
LONGER = AskedMask(lambda b, h, q, k: (k <= q) & (k > q - 9), 8)
DILATED = AskedMask(lambda b, h, q, k: (k <= q) & ((q - k < 20) | ((q - k) % 2 == 0)), None)
DISTANT = AskedMask(lambda b, h, q, k: (k <= q) & (q - k < 8192), None)


@pytest.mark.parametrize("mask", [CAUSAL, WINDOW])
def test_causal_masks_and_windows_are_known(mask):
    assert selftest._is_window(mask)


@pytest.mark.parametrize("mask", [CHUNKED, PREFIX, BOTH_WAYS, LONGER, DILATED, DISTANT])
def test_other_masks_are_detected_though_a_short_text_does_not_show_them(mask):
    assert not selftest._is_window(mask)


@pytest.mark.parametrize("place", ["cache", "module"])
def test_states_of_their_own_come_back_with_the_cache_or_the_model_is_refused(place):
    """A layer that adds up all that it has seen, which chunks alone do not show to be wrong."""
    made, here = tiny(tiny_config("lfm2")), {}

    def add_up(_module, _args, given, output):
        held = vars(given["cache"].layers[0]) if place == "cache" else here
        past = held["sum"] if given["cache"].get_seq_length() else 0
        sums = output.cumsum(1) + past
        held["sum"] = sums[:, -1:]
        return sums

    made.model.layers[0].register_forward_hook(add_up, with_kwargs=True)
    refused = pytest.raises(CaptureUnsupported, match=r"Lfm2ForCausalLM.*other logits")
    with refused if place == "module" else nullcontext():
        check_forwards(made)


@pytest.mark.parametrize(
    ("scaled", "counted"),
    [("attention", "cache"), ("positions", "cache"), ("positions", "positions")],
)
def test_scales_that_change_late_count_positions_or_the_model_is_refused(scaled, counted):
    """hwdag's forward hands no cache on, so that its length is 0."""
    made = tiny(tiny_config("llama"))
    scale = made.model.layers[0].self_attn.scaling

    def rescale(_module, _args, given):
        cache = given.get("cache", given.get("past_key_values"))
        past = 0 if cache is None else cache.get_seq_length()
        places = given["position_ids"]
        if places is None:
            places = torch.arange(given["input_ids"].shape[1])[None] + past
        is_late = places > 400 if counted == "positions" else torch.tensor(past > 400)
        if scaled == "positions":
            places = places * torch.where(is_late, 0.25, 1.0)
        else:
            for layer in made.model.layers:
                layer.self_attn.scaling = scale * (0.5 if is_late else 1)
        return (), given | {"position_ids": places}

    made.model.register_forward_pre_hook(rescale, with_kwargs=True)
    refused = pytest.raises(CaptureUnsupported, match=r"LlamaForCausalLM.*other logits")
    with refused if counted == "cache" else nullcontext():
        check_forwards(made)


def test_a_mask_that_a_model_makes_for_all_cached_tokens_is_named():
    made = tiny(tiny_config("llama"))

    def mask(_module, _args, given):
        cache, new = given.get("cache", given.get("past_key_values")), given["input_ids"].shape[1]
        past = 0 if cache is None else cache.get_seq_length()
        return (), given | {"attention_mask": torch.ones(1, 1, new, past + new).bool().tril(past)}

    made.model.register_forward_pre_hook(mask, with_kwargs=True)
    with pytest.raises(CaptureUnsupported, match="makes a mask of its own"):
        check_forwards(made)


def test_a_forward_that_does_not_use_the_cache_is_refused():
    made = model()
    own = made.forward
    made.forward = lambda input_ids, kv=None, **options: own(input_ids, **options)
    with pytest.raises(CaptureUnsupported, match=r"LlamaForCausalLM.*takes no cache"):
        HuggingFaceLM(made, tokenizer())
    made.forward = lambda input_ids, cache=None, **options: own(input_ids, **options)
    lm = HuggingFaceLM(made, tokenizer())
    with pytest.raises(CaptureUnsupported, match=r"LlamaForCausalLM.*does not use the cache"):
        rank_passages(lm, "Who?", ["The fox.", "The dog."])


@pytest.mark.parametrize("text", ["eager", "sdpa"])
def test_every_part_of_a_composite_model_gets_its_implementation_back(text):
    made = tiny(tiny_config("gemma3"))
    names = {"text_config": text, "vision_config": "sdpa"}
    made.set_attn_implementation(names)
    with switched(made, "hwdag_capture"):
        assert made.config.text_config._attn_implementation == "hwdag_capture"
    assert {part: getattr(made.config, part)._attn_implementation for part in names} == names


def test_a_mask_of_each_head_is_used_for_that_head():
    """Doge's masks depend on the values of each head."""
    made = tiny(tiny_config("doge", keep_window_size=8))
    for layer in made.model.layers:
        layer.self_attn.A.data.normal_()
    ids = torch.arange(3, 33)[None]
    with torch.inference_mode():
        with capture(
            made, [SpanRequest([(20, 30)], [(0, 5), (5, 20)])], ((1, 2), (3, 0))
        ) as captured:
            made(ids)
        with switched(made, "eager"):
            attentions = made(ids, output_attentions=True).attentions
    rows = (attentions[1][0, 2, 20:] + attentions[3][0, 0, 20:]) / 2
    expected = torch.stack([rows[:, :5].mean(), rows[:, 5:20].mean()])
    torch.testing.assert_close(captured.mean(0)[0], expected, atol=CLOSE, rtol=0)

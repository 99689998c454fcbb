"""Make docs/architectures.md: which causal architectures of transformers hwdag reads.

python tools/architectures.py > docs/architectures.md
python tools/architectures.py llama doge  # the rows of single architectures

Every architecture is built as a tiny random model. Its windows are shorter than the texts, so that an
attention that sees too much or too little shows.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
import transformers
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedConfig, PreTrainedModel
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from hwdag.errors import CaptureUnsupported, first_line
from hwdag.lm.attention import SpanRequest, capture, check_supported, is_hybrid, switched
from hwdag.lm.caches import new_cache
from hwdag.lm.packing import SequenceRow, cached_forward, packed_forward
from hwdag.lm.selftest import check_forwards, own_logits

ARCHITECTURES = sorted(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)

LENGTH, CUT = 30, 13  # tokens of a sequence, and of its first chunk
CLOSE = 1e-3  # of logits and attention in float32

SIZES = {
    **{"vocab_size": 160, "vocab_size_per_layer_input": 160},
    **{"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2},
    **dict.fromkeys(["max_position_embeddings", "n_positions", "max_seq_len"], 512),
    **dict.fromkeys(["hidden_size", "n_embd", "d_model", "embedding_size", "lru_width"], 64),
    **dict.fromkeys(["intermediate_size", "ffn_dim", "decoder_ffn_dim", "encoder_ffn_dim"], 96),
    **dict.fromkeys(["num_hidden_layers", "n_layer", "n_layers", "num_layers"], 4),
    **dict.fromkeys(["decoder_layers", "num_decoder_layers"], 4),
    **dict.fromkeys(["encoder_layers", "num_encoder_layers"], 1),
    **dict.fromkeys(["num_attention_heads", "n_head", "n_heads", "num_heads"], 4),
    **dict.fromkeys(["decoder_attention_heads", "encoder_attention_heads"], 4),
    **dict.fromkeys(["num_key_value_heads", "linear_num_key_heads", "index_n_heads"], 2),
    **dict.fromkeys(["head_dim", "global_head_dim", "v_head_dim", "index_head_dim"], 16),
    **dict.fromkeys(["qk_head_dim", "linear_key_head_dim", "linear_value_head_dim"], 16),
    **dict.fromkeys(["query_pre_attn_scalar", "hidden_size_per_layer_input", "laurel_rank"], 16),
    **dict.fromkeys(["kv_lora_rank", "q_lora_rank", "mamba_d_state", "mamba_d_head"], 16),
    **dict.fromkeys(["mamba_chunk_size", "state_size"], 16),
    **dict.fromkeys(["qk_rope_head_dim", "qk_nope_head_dim", "mamba_n_heads"], 8),
    **dict.fromkeys(["sliding_window", "attention_chunk_size", "attention_window_size"], 8),
    **dict.fromkeys(["window_size", "chunk_size", "index_topk", "keep_window_size"], 8),
    **{"index_block_size": 2, "index_topk_blocks": 3},
    **dict.fromkeys(["num_experts", "n_routed_experts", "num_local_experts"], 4),
    **dict.fromkeys(["num_experts_per_tok", "num_experts_per_token"], 2),
    **dict.fromkeys(["moe_intermediate_size", "shared_expert_intermediate_size"], 32),
    **{"shared_intermediate_size": 32, "linear_num_value_heads": 4},
    **dict.fromkeys(["n_group", "topk_group", "mamba_n_groups"], 1),
}
"""Options of a tiny model."""

TWO = ["sliding_attention", "full_attention"] * 2
LINEAR = ["linear_attention", "full_attention"] * 2

SPECIAL: dict[str, dict[str, Any]] = {
    "cohere_compass_text": {
        "rope_parameters": {kind: {"rope_type": "default", "rope_theta": 1e4} for kind in TWO}
    },
    "bamba": {"attn_layer_indices": [1, 3]},
    "codegen": {"rotary_dim": 16},
    "gptj": {"rotary_dim": 16},
    "dbrx": {"attn_config": {"kv_n_heads": 2, "rope_theta": 1e4, "clip_qkv": 8}},
    "doge": {"sliding_window": None},
    "dots1": {"n_shared_experts": 1},
    "falcon_h1": {"mamba_d_ssm": 128},
    "gemma3n_text": {"layer_types": TWO, "num_kv_shared_layers": 2},
    "gemma4_text": {"layer_types": TWO},
    "gemma4_unified_text": {"layer_types": TWO},
    "gpt_neo": {"attention_types": [[["global", "local"], 2]]},
    "granitemoehybrid": {"layer_types": ["mamba", "attention"] * 2},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1},
    "mamba2": {"num_heads": 8},
    "kimi_linear": {"layer_types": LINEAR},
    "bailing_hybrid": {"layer_types": LINEAR},
    "lfm2": {"layer_types": ["conv", "full_attention"] * 2},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"] * 2},
    "qwen2_moe": {"use_sliding_window": True, "max_window_layers": 2},
    "qwen2": {"use_sliding_window": True, "max_window_layers": 2},
    "qwen3": {"use_sliding_window": True, "max_window_layers": 2},
    "qwen3_moe": {"use_sliding_window": True, "max_window_layers": 2},
    "zaya": {"num_experts_per_tok": 1},
}
"""Options of architectures that need more."""


def tiny_config(name: str, **options: Any) -> PreTrainedConfig:
    """Make the config of a tiny model."""
    config = AutoConfig.for_model(name)
    return type(config)(**_values(config) | SPECIAL.get(name, {}) | options)


def _values(config: PreTrainedConfig) -> dict[str, Any]:
    known = vars(config)
    values = {option: value for option, value in SIZES.items() if option in known}
    if "qk_rope_head_dim" in known:  # latent attention: one key per head, part of it with positions
        values |= {"head_dim": values["qk_rope_head_dim"], "num_key_value_heads": 4}
    parts = {part: known.get(part) for part in config.sub_configs}
    return values | {part: _values(found) for part, found in parts.items() if found is not None}


def tiny(config: PreTrainedConfig) -> PreTrainedModel:
    """Make a random model in which attention matters."""
    torch.manual_seed(0)
    model: PreTrainedModel = AutoModelForCausalLM.from_config(config).eval()
    for weight in model.parameters():
        if weight.ndim > 1:
            torch.nn.init.normal_(weight, std=0.15)
    return model


def difference(model: PreTrainedModel) -> float:
    """Return the largest difference between hwdag's forwards and the model's own."""
    ids = torch.arange(3, 3 + 2 * LENGTH).reshape(2, LENGTH).tolist()
    with torch.inference_mode():
        pairs = _hybrid(model, ids[0]) if is_hybrid(model.config) else _packed(model, *ids)
        pairs += _attentions(model, ids[0])
    return max(float((found - right).abs().max()) for found, right in pairs)


def _own(model: PreTrainedModel, ids: list[int]) -> Tensor:
    return own_logits(model, torch.tensor([ids]))[0]


def _hybrid(model: PreTrainedModel, ids: list[int]) -> list[tuple[Tensor, Tensor]]:
    """Read a sequence in two chunks; return pairs of found and right logits."""
    cache = new_cache(model.config)
    read = [cached_forward(model, SequenceRow(ids[:CUT], cache, CUT))]
    read.append(cached_forward(model, SequenceRow(ids[CUT:], cache, LENGTH - CUT)))
    return [(torch.cat(read), _own(model, ids))]


def _packed(
    model: PreTrainedModel, ids: list[int], other: list[int]
) -> list[tuple[Tensor, Tensor]]:
    """Read two sequences in two chunks; return pairs of found and right logits."""
    cache, second = new_cache(model.config), new_cache(model.config)
    begun = packed_forward(
        model, [SequenceRow(ids[:CUT], cache, CUT), SequenceRow(other[:20], second, 20)]
    )
    ended = packed_forward(
        model,
        [SequenceRow(ids[CUT:], cache, LENGTH - CUT), SequenceRow(other[20:], second, LENGTH - 20)],
    )
    read = [torch.cat(chunks) for chunks in zip(begun, ended, strict=True)]
    return [(found, _own(model, row)) for found, row in zip(read, (ids, other), strict=True)]


SPANS = [(0, 10), (10, 25), (25, LENGTH)]


def _attentions(model: PreTrainedModel, ids: list[int]) -> list[tuple[Tensor, Tensor]]:
    """Return the attention of the last token to spans, in every layer that eager attention has."""
    with capture(model, [SpanRequest([(LENGTH - 1, LENGTH)], SPANS)]) as captured:
        model(torch.tensor([ids]))
    with switched(model, "eager"):
        layers = model(torch.tensor([ids]), output_attentions=True).attentions or ()
    last = [layer[0, :, -1] for layer in layers if layer is not None]
    right = [torch.stack([row[:, slice(*span)].mean(1) for span in SPANS], 1) for row in last]
    found = [heads[0][:, 0] for _, heads in sorted(captured.per_head.items())]
    # why shares: eager attention may or may not leave out the share of a learned sink
    return [(_shares(a), _shares(b)) for a, b in zip(found, right, strict=bool(right))]


def _shares(means: Tensor) -> Tensor:
    return means / means.sum(1, keepdim=True)


@dataclass(frozen=True, slots=True)
class Finding:
    """An architecture, and how hwdag takes it."""

    name: str
    kind: str
    """"read", "hybrid", "refused", "wrong" or "not built"."""
    reason: str = ""


def find(name: str, **options: Any) -> Finding:
    """Build an architecture and sort it."""
    try:
        config = tiny_config(name, **options)
        check_supported(config)
        model = tiny(config)
        check_supported(model.config, type(model))
        with torch.inference_mode():
            own_logits(model, torch.tensor([[5, 6]]))
    except CaptureUnsupported as error:
        return Finding(name, "refused", _reason(error))
    except Exception as error:
        return _unbuilt(name, f"{type(error).__name__}: {first_line(error)}"[:90])
    try:
        check_forwards(model)
    except CaptureUnsupported as error:
        return Finding(name, "refused", _reason(error))
    try:
        largest = difference(model)
    except Exception as error:
        return Finding(name, "wrong", f"{type(error).__name__}: {first_line(error)}")
    if not largest <= CLOSE:
        return Finding(name, "wrong", f"differs by {largest:.2g}")
    return Finding(name, "hybrid" if is_hybrid(model.config) else "read")


def _unbuilt(name: str, failure: str) -> Finding:
    try:
        check_supported(AutoConfig.for_model(name))
    except CaptureUnsupported as error:
        return Finding(name, "refused", _reason(error))
    except Exception:
        return Finding(name, "not built", failure)
    return Finding(name, "not built", failure)


def _reason(error: Exception) -> str:
    """Return the part of a message that gives the reason."""
    found = re.search(r"cannot be (?:captured|read): (.*?)\. (?:Use|Any) ", str(error))
    return found[1] if found else str(error)


INTRODUCTION = """\
# Architectures

<!-- made by tools/architectures.py -->

hwdag reads the attention of its *reader*, so not every model can be one. Any model can be the writer or the [answerer](answerers.md).

## The test of every model

Each model is tested when its weights are loaded, also one with code of its own (`trust_remote_code`). A few tokens of two sequences pass through hwdag's forwards, in chunks and side by side, and through the model's own forward. `CaptureUnsupported` names the architecture and the reason if

- the logits differ beyond the rounding of the dtype: by more than 10 roundings of their standard deviation (0.08 in bfloat16, 0.001 in float32), and by more than 4 times the difference between two of the model's own forwards at other sizes, which counts up to the same limit;
- the model's own forward does not repeat itself;
- a layer calls transformers' attention interface twice, or not at all;
- a token sees later ones;
- a mask is neither causal nor a sliding window.

One sequence begins near the last position that the config names, so that scales and positions that change after thousands of tokens show. The states of a hybrid must come back to an earlier moment instead. The test takes four forwards of 3 to 16 tokens, which a tiny model runs in 10 ms. A processor takes as long as it needs to read all weights four times: 1.4 s of the 3.4 s in which Qwen2.5-Coder-1.5B-Instruct is loaded (two cores of an AMD EPYC, 2026-11-29). A scale that counts the keys themselves and changes only after thousands of them is not seen.

## All architectures of transformers {version}

Every name that `AutoModelForCausalLM` knows ({count}), built as a tiny random model in float32 with windows shorter than the text, by `tools/architectures.py`.

- **read**: two sequences in chunks and the model's own forward have the same logits within 0.001. Captured attention equals eager attention, if transformers returns it.
- **read, hybrid**: the same for one sequence. Layers without attention have no heads.
- **refused**: `CaptureUnsupported`, with this reason.
- **not built**: no tiny model could be made that runs. The test at loading decides.

| architecture | as reader |
|---|---|
"""


def page(findings: Iterable[Finding]) -> str:
    """Return the page."""
    rows = list(findings)
    introduction = INTRODUCTION.format(count=len(rows), version=transformers.__version__)
    return introduction + "".join(map(_row, rows))


def _row(finding: Finding) -> str:
    kind = {"hybrid": "read, hybrid"}.get(finding.kind, finding.kind)
    text = f"{kind}: {finding.reason}" if finding.reason else kind
    return f"| {finding.name} | {text} |\n"


if __name__ == "__main__":
    chosen = sys.argv[1:]
    found = map(find, chosen or ARCHITECTURES)
    sys.stdout.write("".join(map(_row, found)) if chosen else page(found))

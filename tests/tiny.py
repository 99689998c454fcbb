"""Tiny random models of real architectures, and a small real tokenizer, for exact comparisons."""

from functools import cache
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel, PreTrainedTokenizerFast

from hwdag.lm.huggingface import HuggingFaceLM

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

TEXT = [
    "The quick brown fox jumps over the lazy dog. Can this question be answered by the following "
    "information? Response Yes or No in one word. Question: who jumps? Information: * the fox",
    "Summary the following information. Each segment is separated by a new line symbol. Generate "
    "in the format of: * summary point. Do not provide any explanation. Given the above information",
]

SIZES = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 4096,
}

SLIDING = {"sliding_window": 16}

# the architectures that the library promises, and one with learned sinks
FAMILIES: dict[str, dict[str, object]] = {
    "llama": {},
    "mistral": SLIDING,
    "qwen2": {},
    "qwen3": {},
    "gemma2": SLIDING | {"query_pre_attn_scalar": 16},
    "gemma3_text": SLIDING | {"query_pre_attn_scalar": 16},
    "phi3": {},
    "gpt_oss": SLIDING | {"num_local_experts": 4, "num_experts_per_tok": 2},
    "smollm3": {},
    "granite": {},
    "gemma4_text": SLIDING
    | {"global_head_dim": 16, "hidden_size_per_layer_input": 16}
    | {"layer_types": [*["sliding_attention"] * 3, "full_attention"]},
}

MAMBA = {"mamba_n_heads": 8, "mamba_d_head": 16, "mamba_d_state": 16, "mamba_n_groups": 1}
LINEAR = {"linear_num_key_heads": 2, "linear_num_value_heads": 4}

# models with linear-attention layers, whose states cannot be cropped
HYBRIDS: dict[str, dict[str, object]] = {
    "lfm2": {"layer_types": ["conv", "full_attention"] * 2},
    "qwen3_5_text": LINEAR
    | {"layer_types": ["linear_attention", "full_attention"] * 2}
    | {"linear_key_head_dim": 16, "linear_value_head_dim": 16},
    "granitemoehybrid": MAMBA
    | {"layer_types": ["mamba", "attention"] * 2}
    | {"num_local_experts": 0, "shared_intermediate_size": 96},
}


@cache
def tokenizer(chat: bool = True) -> PreTrainedTokenizerFast:
    """Byte-level BPE with control tokens; with a ChatML template or without any."""
    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    control = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    inner.train_from_iterator(
        TEXT,
        trainers.BpeTrainer(
            vocab_size=400, special_tokens=control, initial_alphabet=alphabet, show_progress=False
        ),
    )
    made = PreTrainedTokenizerFast(
        tokenizer_object=inner, eos_token="<|im_end|>", pad_token="<|endoftext|>"
    )
    made.add_special_tokens({"additional_special_tokens": ["<|im_start|>"]})
    if chat:
        made.chat_template = CHATML
    return made


def model(family: str = "llama", *, seed: int = 0, **overrides: object) -> PreTrainedModel:
    """Return a random model in float32; `overrides` are config values."""
    torch.manual_seed(seed)
    values = (
        SIZES | (FAMILIES | HYBRIDS)[family] | {"vocab_size": len(tokenizer()), "pad_token_id": 0}
    )
    values |= {"bos_token_id": 1, "eos_token_id": 2} | overrides
    return AutoModelForCausalLM.from_config(AutoConfig.for_model(family, **values)).eval()


def cold_logprobs(lm: HuggingFaceLM, ids: list[int], last: int) -> NDArray[np.float64]:
    """Log-probabilities of the last tokens of a sequence, from one forward without any cache."""
    with torch.no_grad():
        rows = lm.model(torch.tensor([ids]), use_cache=False).logits[0].double().log_softmax(-1)
    where = range(len(ids) - last, len(ids))
    return np.array([float(rows[i - 1, ids[i]]) for i in where])


def tiny_lm(family: str = "llama", *, seed: int = 3, **overrides: object) -> HuggingFaceLM:
    """Return a random model as a reader; `overrides` are config values."""
    return HuggingFaceLM(model(family, seed=seed, **overrides), tokenizer())


def saved(folder: Path, made: PreTrainedModel | None = None) -> Path:
    """Return a folder with a model, a random one unless it is given, and its tokenizer."""
    (model() if made is None else made).save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return folder

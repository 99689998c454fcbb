"""A tiny model in which one head retrieves: its tokens attend to the same tokens, all others evenly."""

import torch
from tiny import SIZES, model, tokenizer
from transformers import PreTrainedModel

from hwdag.lm.huggingface import HuggingFaceLM

PLANTED = (2, 5)
"""Layer and query head of the retrieval head."""


def planted_model() -> PreTrainedModel:
    """Nothing but embeddings in the residual stream, and one head that compares them."""
    lm = model(rope_theta=1e12)
    dim = SIZES["head_dim"]
    slow = [*range(dim // 4, dim // 2), *range(3 * dim // 4, dim)]  # hardly turned by the distance
    with torch.no_grad():
        lm.model.embed_tokens.weight.copy_(torch.randn_like(lm.model.embed_tokens.weight))
        for layer in lm.model.layers:
            for part in (layer.self_attn.o_proj, layer.mlp.down_proj, layer.self_attn.q_proj):
                part.weight.zero_()
        attention = lm.model.layers[PLANTED[0]].self_attn
        attention.k_proj.weight.zero_()
        group = PLANTED[1] // (SIZES["num_attention_heads"] // SIZES["num_key_value_heads"])
        for i, at in enumerate(slow):
            attention.k_proj.weight[group * dim + at, i] = 3.0
            attention.q_proj.weight[PLANTED[1] * dim + at, i] = 3.0
    return lm


def planted() -> HuggingFaceLM:
    """Return the model as a reader."""
    return HuggingFaceLM(planted_model(), tokenizer(), name="nobody/planted")

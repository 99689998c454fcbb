"""Analytic FLOPs of a transformer: its matrix products only.

Norms, activations, rotary embeddings, biases, the router of a mixture of experts and the embedding
look-up are left out; together they are a few tenths of a per cent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from hwdag.errors import InputError

_UNGATED = """
bloom codegen falcon gpt2 gpt_bigcode gpt_neo gpt_neox gptj mpt nemotron opt persimmon phi starcoder2
"""
UNGATED = frozenset(_UNGATED.split())
"""`model_type`s whose MLP has two matrices; all others have a third, the gate."""


@dataclass(frozen=True, slots=True)
class ModelShape:
    """The sizes of a model; `intermediate` is the MLP width that one token passes through."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocab: int
    gated: bool

    @classmethod
    def from_config(cls, config: Any) -> Self:
        """Read the sizes from a transformers config; for a multimodal model, from its text part.

        Assumes experts in every layer of a mixture of experts. Raises `InputError` for a missing size.
        """
        text = config.get_text_config(decoder=True)
        hidden = _first(text, "hidden_size")
        heads = _first(text, "num_attention_heads")
        return cls(
            layers=_first(text, "num_hidden_layers"),
            hidden=hidden,
            heads=heads,
            kv_heads=_first(text, "num_key_value_heads", default=heads),
            head_dim=_first(text, "head_dim", default=hidden // heads),
            intermediate=_active_intermediate(text, hidden),
            vocab=_first(text, "vocab_size"),
            gated=text.model_type not in UNGATED,
        )

    @property
    def layer_parameters(self) -> int:
        """Matrix weights of one layer that a token passes through."""
        attention = 2 * self.hidden * self.head_dim * (self.heads + self.kv_heads)
        return attention + (3 if self.gated else 2) * self.hidden * self.intermediate


def forward_flops(
    shape: ModelShape, *, new_tokens: int, cached_tokens: int, logit_rows: int
) -> float:
    """FLOPs of one forward of `new_tokens` on top of `cached_tokens`; a multiply-add counts as two.

        layers * (2 * layer_parameters * new + 4 * heads * head_dim * pairs)
            + 2 * hidden * vocab * logit_rows

    `pairs` counts (token, visible token) pairs; every layer sees the whole context.
    """
    pairs = new_tokens * cached_tokens + new_tokens * (new_tokens + 1) // 2
    linear = 2 * shape.layer_parameters * new_tokens
    attention = 4 * shape.heads * shape.head_dim * pairs
    head = 2 * shape.hidden * shape.vocab * logit_rows
    return float(shape.layers * (linear + attention) + head)


def capture_flops(
    shape: ModelShape, *, heads: int, row_tokens: int, seen_tokens: int, key_spans: int
) -> float:
    """FLOPs of capturing attention: scores of some rows, averaged over spans of keys.

        heads * row_tokens * seen_tokens * (2 * head_dim + 2 * key_spans)

    `heads` counts captured heads over all layers. Rows see the full rectangle, or the keys alone that
    they are asked about, as in `hwdag.lm.attention`.
    """
    return float(2 * heads * row_tokens * seen_tokens * (shape.head_dim + key_spans))


def cut_flops(
    shape: ModelShape,
    heads: Sequence[tuple[int, int]] | None,
    *,
    new_tokens: int,
    cached_tokens: int,
    row_tokens: int,
    key_spans: int,
) -> float:
    """FLOPs of a forward that ends at the last captured head, and of capturing the heads.

    `heads` are (layer, head) pairs; None means all. The last layer in use computes only queries, keys
    and values. With `key_spans=0` every visible token is its own span.
    """
    last = max(layer for layer, _ in heads) if heads else shape.layers - 1
    below = forward_flops(
        replace(shape, layers=last),
        new_tokens=new_tokens,
        cached_tokens=cached_tokens,
        logit_rows=0,
    )
    projected = shape.head_dim * (shape.heads + 2 * shape.kv_heads)
    captured = capture_flops(
        shape,
        heads=len(heads) if heads else shape.layers * shape.heads,
        row_tokens=row_tokens,
        seen_tokens=cached_tokens + new_tokens,
        key_spans=key_spans,
    )
    return below + 2 * shape.hidden * projected * new_tokens + captured


def _active_intermediate(text: Any, hidden: int) -> int:
    # GPT-2 and Bloom omit the width if it is four times the hidden size
    names = "intermediate_size", "ffn_hidden_size", "ffn_dim", "n_inner"
    dense = _first(text, *names, default=4 * hidden)
    active = _first(text, "num_experts_per_tok", default=0)
    if not active:
        return dense
    expert = _first(text, "moe_intermediate_size", default=dense)
    shared = _first(text, "n_shared_experts", default=0) * expert
    return active * expert + _first(text, "shared_expert_intermediate_size", default=shared)


def _first(config: Any, *names: str, default: int | None = None) -> int:
    sizes = (getattr(config, name, None) for name in names)
    value = next((value for value in sizes if value is not None), default)
    if value is None:
        raise InputError(
            f"a {type(config).__name__} names no {' or '.join(names)}, so its FLOPs cannot be "
            "counted; pass a ModelShape with the sizes of the model"
        )
    return int(value)

"""Attention capture: averages over spans, computed inside the attention call.

One function is registered with transformers' `AttentionInterface`. During a capture the model's own
scaled-dot-product kernel still computes the output, so logits do not change. In addition the function
computes `softmax(q k^T)` for the requested query rows only, block by block, and averages it over
spans. No array of size heads x T x T is ever allocated. On a CPU the kernel also returns the logarithm
of each row's divisor (FlashAttention, Dao et al. 2022, arXiv 2205.14135), so that attention to a few keys
takes no other keys.

Models without a fused kernel (soft-capped scores, learned sinks) get their output from the same
blocks.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from transformers import (
    MODEL_FOR_CAUSAL_LM_MAPPING,
    AttentionInterface,
    AttentionMaskInterface,
    PreTrainedConfig,
    PreTrainedModel,
    cache_utils,
)
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from hwdag.config import HeadList
from hwdag.errors import CaptureUnsupported, InputError
from hwdag.lm.devices import any_length, memory_errors
from hwdag.lm.tokens import Range
from hwdag.threads import without_spinning

IMPLEMENTATION = "hwdag_capture"
BLOCK_ELEMENTS = 1 << 24
"""Largest block of attention scores (heads x rows x keys) held at once: 64 MB in float32."""

ATTENTION = {"full_attention", "sliding_attention"}
LINEAR = {"linear_attention", "conv"}
"""Kinds of layers, as a config names them."""

LINEAR_LAYER = "LinearAttentionCacheLayerMixin"
"""The class of their caches, which earlier versions of transformers do not have."""


@dataclass(frozen=True, slots=True)
class SpanRequest:
    """The averages to capture for one sequence of the batch.

    `rows` are ranges of the new tokens of this forward (left padding included), `keys` ranges of all
    visible tokens, cached ones first.
    """

    rows: Sequence[Range]
    keys: Sequence[Range]


@dataclass(frozen=True, slots=True)
class ColumnRequest:
    """As `SpanRequest`, with every visible token as its own key: means of columns."""

    rows: Sequence[Range]


Request = SpanRequest | ColumnRequest


@dataclass(eq=False)
class Capture:
    """Captured attention: `per_head` holds (heads, rows, keys) for each layer and sequence."""

    requests: Sequence[Request]
    heads: HeadList | None
    last_layer: int | None = None
    """Layer that ends the forward, or None."""
    per_head: dict[int, list[Tensor]] = field(default_factory=dict)
    is_narrow: bool = False
    """Whether other keys than the requested ones were left out, as the normalizers were known."""
    _averages: dict[tuple[int, int, bool, torch.device], _Average] = field(default_factory=dict)

    def average(self, index: int, seen: int, is_narrow: bool, device: torch.device) -> _Average:
        """Return the averages of one sequence. Layers share them: a GPU waits for every index that is sent."""
        key = index, seen, is_narrow, device
        if key not in self._averages:
            self._averages[key] = _Average.of(self.requests[index], seen, is_narrow, device)
        return self._averages[key]

    def mean(self, index: int) -> Tensor:
        """Return the mean over the chosen layers and heads for one sequence, (row spans, key spans)."""
        picked = [layer[index] for _, layer in sorted(self.per_head.items())]
        # with a device_map layers live on several devices
        return torch.cat([heads.to(picked[0].device) for heads in picked]).mean(dim=0)

    def heads_of(self, layer: int, available: int) -> list[int] | None:
        """Return requested heads of a layer; None if there are none."""
        if self.heads is None:
            return list(range(available))
        return [head for at, head in self.heads if at == layer] or None


class _Cut(Exception):
    """Ends a forward after the last requested layer."""


_LOCKS: WeakKeyDictionary[PreTrainedModel, threading.RLock] = WeakKeyDictionary()
_LOCKING = threading.Lock()

_ACTIVE: ContextVar[Capture | None] = ContextVar("hwdag_capture", default=None)


def lock_of(model: PreTrainedModel) -> threading.RLock:
    """Return the lock of a model, one per model, since a capture changes the model itself."""
    with _LOCKING:
        return _LOCKS.setdefault(model, threading.RLock())


@contextmanager
def running(model: PreTrainedModel) -> Iterator[None]:
    """Prepare a forward of a model: take its lock, without gradients, with kernels for any length.

    Torch's idle threads sleep meanwhile.

    Raises `OutOfMemory`.
    """
    with (
        lock_of(model),
        without_spinning(),
        torch.inference_mode(),
        any_length(model.device),
        memory_errors(model.device),
    ):
        yield


@contextmanager
def capture(
    model: PreTrainedModel,
    requests: Sequence[Request],
    heads: HeadList | None = None,
    *,
    cut: bool = False,
) -> Iterator[Capture]:
    """Capture the attention of the forward that runs inside the block; `heads=None` means all.

    With `cut` the forward ends inside the last requested layer and leaves the block: there is no
    output, and a cache holds keys and values up to that layer.

    Raises `CaptureUnsupported` for a model that does not use transformers' interface, and `InputError`
    for a layer or head that does not exist.
    """
    check_supported(model.config, type(model))
    check_heads(model.config, heads)
    result = Capture(requests, heads, max(_layers(model, heads)) if cut else None)
    with suppress(_Cut), capturing(model, result):
        yield result
    check_complete(model, result)


@contextmanager
def capturing(model: PreTrainedModel, captured: Capture | None) -> Iterator[None]:
    """Fill a capture with the attention of the forward inside the block."""
    token = _ACTIVE.set(captured)
    try:
        with switched(model, IMPLEMENTATION):
            yield
    finally:
        _ACTIVE.reset(token)


@contextmanager
def switched(model: PreTrainedModel, implementation: str) -> Iterator[None]:
    """Switch the attention implementation inside the block, of all parts of a composite model."""
    own, parts = model.config._attn_implementation, _implementations(model.config)
    model.set_attn_implementation(implementation)
    try:
        yield
    finally:
        model.set_attn_implementation(own)
        model.config._attn_implementation = parts


def _implementations(config: PreTrainedConfig) -> dict[str, Any]:
    """Return the attention implementation of a config, under "", and of its parts, by their names."""
    parts = {name: getattr(config, name, None) for name in config.sub_configs}
    known = {name: _implementations(part) for name, part in parts.items() if part is not None}
    return {"": config._attn_implementation} | known


def _layers(model: PreTrainedModel, heads: HeadList | None) -> set[int]:
    return {layer for layer, _ in heads} if heads else set(attention_layers(model.config))


def silent_layers(model: PreTrainedModel, captured: Capture) -> list[int]:
    """Return the requested layers that did not report."""
    return sorted(_layers(model, captured.heads) - set(captured.per_head))


def check_complete(model: PreTrainedModel, captured: Capture) -> None:
    """Raise `CaptureUnsupported` if a requested layer did not report."""
    if missing := silent_layers(model, captured):
        raise CaptureUnsupported(
            f"{describe(model.config, type(model))}: layers {missing} did not report attention; hwdag captures models "
            "whose every layer calls transformers' AttentionInterface"
        )


def check_heads(config: PreTrainedConfig, heads: HeadList | None) -> None:
    """Raise `InputError` for a (layer, head) pair outside the model of this config."""
    sizes = config.get_text_config(decoder=True)
    layers, per_layer = sizes.num_hidden_layers, sizes.num_attention_heads
    known = set(attention_layers(config))
    if bad := [pair for pair in heads or () if pair[0] not in known or pair[1] >= per_layer]:
        linear = sorted(set(range(layers)) - known)
        without = f" Layers {linear} have no attention." if linear else ""
        raise InputError(
            f"the model (model_type {config.model_type!r}) has {layers} layers of {per_layer} heads, counted from 0; "
            f"these (layer, head) pairs do not exist: {bad}.{without}"
        )


def attention_layers(config: PreTrainedConfig) -> list[int]:
    """Return layers that have attention, counted from 0; the others of a hybrid are linear-attention layers."""
    sizes = config.get_text_config(decoder=True)
    kinds = getattr(sizes, "layer_types", None) or ["full_attention"] * _layer_count(config)
    return [layer for layer, kind in enumerate(kinds) if kind not in LINEAR]


def is_hybrid(config: PreTrainedConfig) -> bool:
    """Return whether some layers of a model are linear-attention layers, whose states no cache can crop."""
    return len(attention_layers(config)) < _layer_count(config)


def _layer_count(config: PreTrainedConfig) -> int:
    """Return the number of layers; 0 if the config of the decoder does not name it."""
    return int(getattr(config.get_text_config(decoder=True), "num_hidden_layers", 0))


def describe(config: PreTrainedConfig, kind: type | None) -> str:
    """Name an architecture in messages."""
    return f"{kind.__name__ if kind else 'a model'} (model_type {config.model_type!r})"


def check_supported(config: PreTrainedConfig, kind: type | None = None) -> None:
    """Raise `CaptureUnsupported`, naming the architecture, if its attention cannot be captured.

    `kind` is the class of the model; by default the one that transformers loads for the config, if any.
    """
    if kind is None:
        found = MODEL_FOR_CAUSAL_LM_MAPPING.get(type(config), None)
        kind = found if isinstance(found, type) else None
    types = set(getattr(config.get_text_config(decoder=True), "layer_types", None) or ())
    kinds, reason = types - ATTENTION - LINEAR, ""
    if config.is_encoder_decoder:
        reason = "it is an encoder-decoder, hwdag needs a decoder-only causal LM"
    elif not _layer_count(config):
        reason = "its config does not name a number of layers"
    elif kinds:
        reason = f"it has {', '.join(sorted(kinds))} layers, which hwdag does not know"
    elif is_hybrid(config) and not hasattr(cache_utils, LINEAR_LAYER):
        reason = "its linear-attention layers need a later version of transformers"
    elif not attention_layers(config):
        reason = "it has no attention matrix to read"
    elif kind and not is_hybrid(config) and not getattr(kind, "_supports_attention_backend", False):
        reason = "it does not use transformers' AttentionInterface"
    if reason:
        raise CaptureUnsupported(
            f"{describe(config, kind)} cannot be captured: {reason}. Use a Llama, Mistral, Qwen, Gemma, "
            "Phi-3, Granite, SmolLM3 or LFM2 style model as the reader; any model can be the writer or "
            "the answerer."
        )


def _attention(
    module: torch.nn.Module,
    query: Tensor,  # (batch, heads, new, dim)
    key: Tensor,  # (batch, kv_heads, seen, dim)
    value: Tensor,
    attention_mask: Tensor | None,  # (batch, 1 or heads, new, seen), True or 0 where visible
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Return the registered attention function: the model's own output, plus the requested averages."""
    options = {"scaling": None} | kwargs
    return attend(_ACTIVE.get(), module, query, key, value, attention_mask, **options), None


def attend(
    active: Capture | None,
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    scaling: float | None,
    **kwargs: Any,
) -> Tensor:
    """Compute an attention call, (batch, new, heads, dim), and the averages of an active capture.

    Shapes follow transformers' attention functions.
    """
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    scores = _Scores(query, key, attention_mask, scale, kwargs.get("softcap"), kwargs.get("s_aux"))
    output: Tensor | None = None
    if active is not None:
        layer = int(module.layer_idx)  # type: ignore[arg-type]
        heads = active.heads_of(layer, query.shape[1])
        if layer in active.per_head:
            raise CaptureUnsupported(
                f"{type(module).__name__} of layer {layer} calls attention more than once; hwdag reads "
                "models whose every layer calls it once"
            )
        if heads is not None:
            if scores.is_plain and any(_is_narrow(one, key.shape[2]) for one in active.requests):
                output, normalizers = _with_normalizers(scores, value)
                scores, active.is_narrow = replace(scores, normalizers=normalizers), True
            active.per_head[layer] = [
                _span_means(scores, index, heads, active) for index in range(len(active.requests))
            ]
        if layer == active.last_layer:
            raise _Cut
    if scores.softcap is not None or scores.sinks is not None:
        return _blockwise_output(scores, value)
    if query.shape[2] == 1 and attention_mask is None:
        return _one_token(query, key, value, scale)
    if output is None:
        output, _ = sdpa_attention_forward(
            module, query, key, value, attention_mask, scaling=scaling, **kwargs
        )
    return output


@dataclass(frozen=True, slots=True)
class _Scores:
    """Inputs for the attention probabilities of any block of rows."""

    query: Tensor
    key: Tensor
    mask: Tensor | None
    scale: float
    softcap: float | None
    sinks: Tensor | None  # (heads,) learned logits that take part in the softmax and are dropped
    # (batch, heads, new): logarithms of the softmax's divisors, if known
    normalizers: Tensor | None = None

    @property
    def is_plain(self) -> bool:
        """Whether the CPU's kernel computes just these scores, for several rows."""
        new, seen = self.query.shape[2], self.key.shape[2]
        return (
            self.query.device.type == "cpu"
            # of all devices, in spite of its name
            and torch.backends.cuda.flash_sdp_enabled()  # type: ignore[no-untyped-call]
            and self.query.dtype in (torch.float32, torch.bfloat16)
            and self.softcap is None
            and self.sinks is None
            and new > 1
            and (new == seen or self.mask is not None)
        )

    def of(self, index: int, heads: list[int], columns: Tensor | None = None) -> _Sequence:
        """Return the scores of some heads of one sequence; with normalizers, to these `columns` only."""
        query, sinks, normalizers = self.query[index], self.sinks, self.normalizers
        mask = None if self.mask is None else self.mask[min(index, len(self.mask) - 1)]
        key = self.key[index] if columns is None else self.key[index][:, columns]
        normalizers = None if normalizers is None else normalizers[index]
        if len(heads) < len(query):
            chosen = torch.tensor(heads, device=query.device)
            key = key[chosen // (len(query) // len(key))]
            query = query[chosen]
            normalizers = None if normalizers is None else normalizers[chosen]
            sinks = None if sinks is None else sinks[chosen]
            mask = mask[chosen] if mask is not None and len(mask) > 1 else mask
        seen = self.key.shape[2]
        return _Sequence(
            query, key.float(), mask, seen, columns, self.scale, self.softcap, sinks, normalizers
        )


@dataclass(frozen=True, slots=True)
class _Sequence:
    """Inputs for the attention probabilities of any rows of some heads of one sequence."""

    query: Tensor  # (heads, new, dim); heads that share keys follow each other
    key: Tensor  # (heads or kv_heads, columns, dim), in float32
    mask: Tensor | None  # (1 or heads, new, seen)
    seen: int
    columns: Tensor | None  # (columns,) which keys, if normalizers replace the others
    scale: float
    softcap: float | None
    sinks: Tensor | None  # (heads,)
    normalizers: Tensor | None  # (heads, new)

    def blocks(self, rows: Tensor) -> Iterator[slice]:
        """Return slices of the rows whose scores are held at once."""
        size = max(1, BLOCK_ELEMENTS // (len(self.query) * max(1, self.key.shape[1])))
        return (slice(start, start + size) for start in range(0, len(rows), size))

    def probabilities(self, rows: Tensor) -> Tensor:
        """Return rows of the softmax in float32, (heads, rows, columns)."""
        # scaling the query first keeps half-precision products from overflowing
        q = self.query[:, rows].float() * self.scale
        logits = q.reshape(len(self.key), -1, q.shape[2]) @ self.key.transpose(1, 2)
        logits = logits.reshape(len(q), len(rows), -1)
        if self.softcap is not None:
            logits = torch.tanh(logits / self.softcap) * self.softcap
        logits = self._masked(logits, rows)
        if self.normalizers is not None and self.columns is not None:
            return (logits - self.normalizers[:, rows].unsqueeze(2)).exp()
        if self.sinks is None:
            return logits.softmax(dim=-1)
        sink = self.sinks.float().view(-1, 1, 1).expand(-1, len(rows), 1)
        return torch.cat([logits, sink], dim=-1).softmax(dim=-1)[..., :-1]

    def _masked(self, logits: Tensor, rows: Tensor) -> Tensor:
        seen, columns = self.seen, self.columns
        if self.mask is None:  # the mask factory leaves a plain causal mask out
            offset = seen - self.query.shape[1]
            places = torch.arange(seen, device=logits.device) if columns is None else columns
            return logits.masked_fill(places > (rows + offset).unsqueeze(1), -torch.inf)
        mask = self.mask[:, rows, :seen]
        if columns is not None:
            mask = mask[..., columns]
        if mask.dtype == torch.bool:
            return logits.masked_fill(~mask, torch.finfo(torch.float32).min)
        return logits + mask.float()


@dataclass(frozen=True, slots=True)
class _Average:
    """How to average the attention of one request, with all indices on the device of a layer."""

    rows: Tensor  # (rows,) which of the new tokens
    spans: Tensor  # (rows,) the row span of each
    lengths: Tensor  # (row spans, 1)
    columns: Tensor | None  # (columns,) which keys; None for all
    weights: Tensor | None  # (columns, key spans); None if each key is a span

    @classmethod
    def of(cls, request: Request, seen: int, is_narrow: bool, device: torch.device) -> _Average:
        """Prepare a request to `seen` keys; if it `is_narrow`, only to those that it names."""
        lengths = torch.tensor([end - start for start, end in request.rows])
        spans = torch.arange(len(lengths)).repeat_interleave(lengths)
        columns = weights = None
        if isinstance(request, SpanRequest):  # single tokens need no averaging
            asked = [end - start for start, end in request.keys]
            at = torch.cat([torch.arange(*span) for span in request.keys])
            to = torch.arange(len(asked)).repeat_interleave(torch.tensor(asked))
            share = 1.0 / torch.tensor(asked, dtype=torch.float32)[to]
            columns = at if is_narrow else None
            weights = torch.zeros(len(at) if is_narrow else seen, len(asked))
            weights[torch.arange(len(at)) if is_narrow else at, to] = share
        rows = torch.cat([torch.arange(*span) for span in request.rows])
        return cls(
            rows.to(device),
            spans.to(device),
            lengths.unsqueeze(1).to(device),
            None if columns is None else columns.to(device),
            None if weights is None else weights.to(device),
        )


def _is_narrow(request: Request, seen: int) -> bool:
    """Return whether a request is about so few keys that the kernel's normalizers save most of the work."""
    return isinstance(request, SpanRequest) and 2 * length_of(request.keys) <= seen


def length_of(ranges: Sequence[Range]) -> int:
    """Return the number of tokens in ranges."""
    return sum(end - start for start, end in ranges)


def _with_normalizers(scores: _Scores, value: Tensor) -> tuple[Tensor, Tensor]:
    """Return attention output, (batch, new, heads, dim), as the CPU's kernel computes it, and its normalizers."""
    group = scores.query.shape[1] // scores.key.shape[1]
    key, value = (part.repeat_interleave(group, dim=1) for part in (scores.key, value))
    mask = None if scores.mask is None else scores.mask[..., : key.shape[2]]
    if mask is not None and mask.dtype == torch.bool:
        visible = torch.zeros(mask.shape, dtype=scores.query.dtype, device=mask.device)
        mask = visible.masked_fill(~mask, -torch.inf)
    output, normalizers = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        scores.query, key, value, 0.0, mask is None, attn_mask=mask, scale=scores.scale
    )
    return output.transpose(1, 2).contiguous(), normalizers


def _span_means(scores: _Scores, index: int, heads: list[int], active: Capture) -> Tensor:
    """Average attention of each row span to each key span, (heads, row spans, key spans)."""
    device, seen = scores.key.device, scores.key.shape[2]
    is_narrow = scores.normalizers is not None and _is_narrow(active.requests[index], seen)
    average = active.average(index, seen, is_narrow, device)
    one, weights = scores.of(index, heads, average.columns), average.weights
    width = seen if weights is None else weights.shape[1]
    sums = torch.zeros(len(heads), len(average.lengths), width, device=device)
    for block in one.blocks(average.rows):
        attention = one.probabilities(average.rows[block])
        reduced = attention if weights is None else attention @ weights
        sums.index_add_(1, average.spans[block], reduced)
    return sums / average.lengths


def _one_token(query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor:
    """Return attention output of a single token, (batch, 1, heads, dim); heads that share keys become rows.

    transformers sets `enable_gqa` instead, which makes decoding a third slower on a CPU.
    """
    batch, heads, _, _ = query.shape
    grouped = query.reshape(batch, key.shape[1], heads // key.shape[1], -1)
    output = torch.nn.functional.scaled_dot_product_attention(grouped, key, value, scale=scale)
    return output.reshape(batch, 1, heads, -1)


def _blockwise_output(scores: _Scores, value: Tensor) -> Tensor:
    """Return attention output without a fused kernel, (batch, new, heads, dim)."""
    batch, heads, new, _ = scores.query.shape
    output = scores.query.new_empty(batch, new, heads, value.shape[-1])
    rows = torch.arange(new, device=value.device)
    for index in range(batch):
        one = scores.of(index, list(range(heads)))
        v = value[index].repeat_interleave(heads // value.shape[1], dim=0)
        for block in one.blocks(rows):
            attention = one.probabilities(rows[block]).to(v.dtype)
            output[index, block] = (attention @ v).transpose(0, 1)
    return output


AttentionInterface.register(IMPLEMENTATION, _attention)
AttentionMaskInterface.register(IMPLEMENTATION, sdpa_mask)

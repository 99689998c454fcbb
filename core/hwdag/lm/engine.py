"""A causal LM under one lock: forwards with or without capture, and their cost.

Sessions, replays and replies run on an engine. Every method that runs the model returns the cost, and
the caller decides whom to charge.
"""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
import torch
from transformers import (
    Cache,
    GenerationConfig,
    LogitsProcessorList,
    PreTrainedConfig,
    PreTrainedModel,
)

from hwdag.arrays import Floats
from hwdag.config import HeadList
from hwdag.errors import CaptureUnsupported
from hwdag.flops import ModelShape, capture_flops, cut_flops, forward_flops
from hwdag.lm.attention import (
    Capture,
    Request,
    SpanRequest,
    capture,
    check_complete,
    check_supported,
    describe,
    length_of,
    lock_of,
    running,
)
from hwdag.lm.blocking import CopyBlock
from hwdag.lm.caches import cache_option
from hwdag.lm.layout import Turns
from hwdag.lm.packing import SequenceRow, keeps_logits, queue_of
from hwdag.lm.selftest import check_forwards
from hwdag.lm.tokens import Codec
from hwdag.types import Usage


@dataclass(frozen=True, slots=True, eq=False)
class Forward:
    """Result of one forward for a single sequence, and its cost.

    `logits` of the last positions are float32, (rows, vocabulary). `attention` is the mean over the
    requested heads, (row spans, key spans).
    """

    logits: torch.Tensor
    attention: Floats
    cost: Usage


class Weights:
    """A model loaded on first use, once for all engines that share this object.

    `config` is known before loading; so is `dtype`, in most cases.
    """

    def __init__(
        self,
        config: PreTrainedConfig,
        load: Callable[[], PreTrainedModel],
        dtype: torch.dtype | None = None,
    ) -> None:
        self.config = config
        self.dtype = dtype
        self.load = load
        self._loading = threading.Lock()
        self._model: PreTrainedModel | None = None

    @property
    def model(self) -> PreTrainedModel:
        """The model. Raises `CaptureUnsupported` if hwdag does not read it as it reads itself."""
        with self._loading:
            if self._model is None:
                model = self.load()
                check_supported(model.config, type(model))
                check_forwards(model.train(False))
                self._model = model
            return self._model


class Engine:
    """A model and the codec of its tokenizer.

    Thread-safe: a lock guards the forward, shared by all engines of one model. Callers with caches share
    forwards (`hwdag.lm.packing`). The model keeps its weights, dtype, device and attention
    implementation. `usage` is the sum of all charges.
    """

    def __init__(self, weights: Weights, codec: Codec, *, name: str) -> None:
        self.weights = weights
        self.codec = codec
        self.turns = Turns.of(self.codec)
        self.name = name
        self.shape = ModelShape.from_config(weights.config)
        self._counting = threading.Lock()
        self.usage = Usage()

    @property
    def model(self) -> PreTrainedModel:
        """The model; loads it on first use."""
        return self.weights.model

    def twin(self) -> Self:
        """Return an engine over the same model with its own usage."""
        twin = copy.copy(self)
        twin.usage = Usage()
        return twin

    def charge(self, cost: Usage) -> None:
        """Add to `usage`."""
        with self._counting:
            self.usage += cost

    @property
    def context_tokens(self) -> int:
        """Length of the model's context."""
        config = self.weights.config.get_text_config(decoder=True)
        return int(
            getattr(config, "max_position_embeddings", 0) or self.codec.tokenizer.model_max_length
        )

    @cached_property
    def end_tokens(self) -> frozenset[int]:
        """Token ids that end a reply."""
        with lock_of(self.model):  # `_own_settings` changes them for a while
            generation = self.model.generation_config
        named = generation.eos_token_id if generation else None
        listed = named if isinstance(named, list) else [named]
        ids = {*listed, self.codec.tokenizer.eos_token_id, *self.turns.between[:1]}
        # the template closes an assistant turn with its end token, if it has one
        controls = set(self.codec.tokenizer.all_special_ids)
        return frozenset(i for i in ids if i is not None and (i in controls or i in listed))

    def tflops(self, new_tokens: int, cached_tokens: int, *, logit_rows: int = 1) -> float:
        """Return analytic TFLOPs of one causal forward of `new_tokens` on top of `cached_tokens`."""
        flops = forward_flops(
            self.shape,
            new_tokens=new_tokens,
            cached_tokens=cached_tokens,
            logit_rows=logit_rows if self._keeps_logits else new_tokens,
        )
        return flops / 1e12

    def forward(
        self,
        ids: list[int],
        cache: Cache,
        *,
        request: SpanRequest | None = None,
        heads: HeadList | None = None,
        logit_rows: int = 1,
    ) -> Forward:
        """Run new tokens on top of a cache and append them to it; `heads=None` means all."""
        began, cached = time.perf_counter(), int(cache.get_seq_length())
        tflops = self.tflops(len(ids), cached, logit_rows=logit_rows)
        attention = np.zeros((0, 1))
        captured = None if request is None else Capture([request], heads)
        row = SequenceRow(ids, cache, logit_rows, captured)
        logits = queue_of(self.model).run(self.model, row)
        if row.capture is not None and request is not None:
            check_complete(self.model, row.capture)
            attention = row.capture.mean(0).double().cpu().numpy()
            flops = capture_flops(
                self.shape,
                heads=self.shape.layers * self.shape.heads if heads is None else len(heads),
                row_tokens=length_of(request.rows),
                seen_tokens=length_of(request.keys) if row.capture.is_narrow else len(ids) + cached,
                key_spans=len(request.keys),
            )
            tflops += flops / 1e12
        return Forward(logits, attention, Usage(len(ids), tflops, time.perf_counter() - began))

    def attention(
        self,
        rows: Sequence[list[int]],
        requests: Sequence[Request],
        heads: HeadList | None,
        *,
        cache: Cache | None = None,
    ) -> tuple[Capture, Usage]:
        """Capture attention only: the forward ends inside the last requested layer.

        Takes rows and cache as `logits` does.
        """
        began = time.perf_counter()
        cached = 0 if cache is None else int(cache.get_seq_length())
        with lock_of(self.model), capture(self.model, requests, heads, cut=True) as captured:
            self.logits(rows, last=1, cache=cache)
        if cache is not None and cache.get_seq_length() != cached + len(rows[0]):
            raise CaptureUnsupported(
                f"{describe(self.model.config, type(self.model))} does not use the cache that it is given"
            )
        flops = sum(
            cut_flops(
                self.shape,
                heads,
                new_tokens=len(row),
                cached_tokens=cached,
                row_tokens=length_of(request.rows),
                key_spans=len(request.keys) if isinstance(request, SpanRequest) else 0,
            )
            for row, request in zip(rows, requests, strict=True)
        )
        seconds = time.perf_counter() - began
        return captured, Usage(sum(map(len, rows)), flops / 1e12, seconds)

    def logits(
        self,
        rows: Sequence[list[int]],
        *,
        last: int,
        cache: Cache | None = None,
    ) -> torch.Tensor:
        """Return float32 logits of the last positions of every row, left-padded, (rows, last, vocabulary).

        With a `cache` there is a single row, which is appended to it.
        """
        options: dict[str, Any] = (
            {"use_cache": False} if cache is None else cache_option(self.model, cache)
        )
        if self._keeps_logits:
            options["logits_to_keep"] = last
        ids, mask = self._left_padded(rows)
        if not mask.all():
            options |= {
                "attention_mask": mask,
                "position_ids": (mask.cumsum(1) - 1).clamp(min=0)[:, -ids.shape[1] :],
            }
        with running(self.model):
            found: torch.Tensor = self.model(ids, **options).logits[:, -last:].float()
        return found

    def generate(
        self, rows: Sequence[list[int]], *, max_new_tokens: int, longest_copy: int | None = None
    ) -> tuple[list[list[int]], Usage]:
        """Decode greedy replies in one padded batch; end tokens and padding may follow a reply.

        With `longest_copy`, no reply repeats more than this many consecutive tokens of its row and a word
        (`hwdag.lm.blocking`).
        """
        began = time.perf_counter()
        ids, mask = self._left_padded(rows)
        config = GenerationConfig(  # type: ignore[no-untyped-call]
            max_new_tokens=max_new_tokens,
            eos_token_id=sorted(self.end_tokens) or None,
            pad_token_id=self._pad_token,
        )
        blocks = [] if longest_copy is None else [CopyBlock(self.codec, rows, longest_copy)]
        run: Any = self.model.generate
        with running(self.model), _own_settings(self.model):
            output = run(
                ids,
                attention_mask=mask,
                generation_config=config,
                logits_processor=LogitsProcessorList(blocks),
            )
        replies: list[list[int]] = output[:, ids.shape[1] :].tolist()
        cost = Usage()
        for row, reply in zip(rows, replies, strict=True):
            ends = (i for i, token in enumerate(reply) if token in self.end_tokens)
            # padding follows the end token, and the last token does not pass the model
            steps = next(ends, len(reply) - 1)
            tflops = self.tflops(len(row), 0) + self.tflops(steps, len(row), logit_rows=steps)
            cost += Usage(len(row) + steps, tflops)
        return replies, cost + Usage(seconds=time.perf_counter() - began)

    @cached_property
    def _keeps_logits(self) -> bool:
        return keeps_logits(self.model)

    @property
    def _pad_token(self) -> int:
        pad = self.codec.tokenizer.pad_token_id
        return pad if pad is not None else min(self.end_tokens, default=0)

    def _left_padded(self, rows: Sequence[list[int]]) -> tuple[torch.Tensor, torch.Tensor]:
        """Return ids and attention mask, (rows, tokens)."""
        longest, pad, device = max(map(len, rows)), self._pad_token, self.model.device
        ids = [[pad] * (longest - len(row)) + row for row in rows]
        mask = [[0] * (longest - len(row)) + [1] * len(row) for row in rows]
        return torch.tensor(ids, device=device), torch.tensor(mask, device=device)


@contextmanager
def _own_settings(model: PreTrainedModel) -> Iterator[None]:
    """Hide the checkpoint's settings, which `generate` takes for whatever its caller leaves unset."""
    before = model.generation_config
    model.generation_config = GenerationConfig()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        model.generation_config = before

"""A Hugging Face causal LM as Reader and Writer, from a name, a path, or loaded objects."""

from __future__ import annotations

import copy
import inspect
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from transformers import Cache, PreTrainedModel, PreTrainedTokenizerBase

from hwdag.arrays import Floats
from hwdag.config import PAPER_CONFIDENCE, PAPER_WINDOW_TOKENS, HeadList, Heads
from hwdag.errors import ContextTooSmall, InputError, ReaderRequired
from hwdag.flops import ModelShape, capture_flops, forward_flops
from hwdag.lm.adapter import Adapter
from hwdag.lm.attention import (
    SpanRequest,
    capture,
    check_heads,
    check_supported,
    cut_flops,
    lock_of,
)
from hwdag.lm.base import Replay, ReplayRequest
from hwdag.lm.chat import KVReply
from hwdag.lm.controller import Controller, controllers_from
from hwdag.lm.generation import plainly_greedy
from hwdag.lm.heads import GivenHeads, head_file, resolve, warn_unknown
from hwdag.lm.loading import load
from hwdag.lm.messages import Message
from hwdag.lm.replay import Layout
from hwdag.lm.session import KVSession
from hwdag.lm.tokens import Codec, cut_template, summary_reply
from hwdag.text.prompts import SearchPrompts
from hwdag.types import Usage


class HuggingFaceLM:
    """A local causal LM: reads attention, walks with a KV cache, and writes.

    Thread-safe: a lock guards the forward, every question has its own session, and all wrappers of
    one model share the lock. The model keeps its weights, dtype, device and attention implementation; nothing of it is changed for good.

    Args:
        model: a loaded decoder-only `PreTrainedModel`.
        tokenizer: its tokenizer.
        name: recorded in indexes; by default the model's `name_or_path`.
        window_tokens: default length of a summary call (8,192 as in the papers).
        prefers_extraction: this model is too small to write Information Points.
        p_yes_is_informative: whether its "Yes" may stop a walk.
        confidence: from which p_yes on its "Yes" is to be believed (PECAN App. E has some).
        heads: what "auto" stands for: a `HeadFile`, its path, or (layer, head) pairs; by default the
            list that hwdag ships for the model, and where there is none, all heads.
        batched_replay: replay several windows, and score several texts, in one padded forward; by
            default only where there is an accelerator, since a CPU gains nothing from it and pays
            for the padding.

    Raises:
        ReaderRequired: not a model and a tokenizer.
        CaptureUnsupported: the architecture's attention cannot be captured.
        InputError: the head list is one of another architecture or size.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        *,
        name: str | None = None,
        window_tokens: int = PAPER_WINDOW_TOKENS,
        prefers_extraction: bool = False,
        p_yes_is_informative: bool = True,
        confidence: float = PAPER_CONFIDENCE,
        batched_replay: bool | None = None,
        heads: GivenHeads | None = None,
    ) -> None:
        if not isinstance(model, PreTrainedModel) or not isinstance(
            tokenizer, PreTrainedTokenizerBase
        ):
            raise ReaderRequired(
                "hwdag reads attention, so it needs a local transformers model and its tokenizer; "
                f"got {type(model).__name__} and {type(tokenizer).__name__}. Pass loaded objects, "
                "or HuggingFaceLM.from_pretrained(name)"
            )
        check_supported(model)
        self.model = model
        self.model.train(False)
        self.codec = Codec(tokenizer)
        self.turns = cut_template(self.codec)
        self._name = name or model.name_or_path or type(model).__name__
        self._default_window = window_tokens
        self._prefers_extraction = prefers_extraction
        self._p_yes_is_informative = p_yes_is_informative
        self._confidence = confidence
        on_cpu = model.device.type == "cpu"
        self.batched = not on_cpu if batched_replay is None else batched_replay
        self._lock = lock_of(model)
        self._usage = Usage()
        self._shape = ModelShape.from_config(model.config)
        self._use_heads(heads)

    @classmethod
    def from_pretrained(
        cls,
        source: str,
        /,
        *,
        dtype: torch.dtype | str = "auto",
        device: torch.device | str | None = None,
        device_map: Any = None,
        trust_remote_code: bool = False,
        adapter: Adapter | str | Path | None = None,
        **options: Any,
    ) -> Self:
        """Load by hub name or local path.

        Args:
            source: what `AutoModelForCausalLM.from_pretrained` takes.
            dtype: a torch dtype or its name; "auto" takes the checkpoint's.
            device: "cpu", "cuda", "mps", ...; None takes CUDA or MPS where there is one.
            device_map: passed on, for models over several devices; excludes `device`.
            trust_remote_code: passed on; False unless you mean it.
            adapter: a LoRA adapter in PEFT's format to merge into the weights in memory, or its
                folder. The name then ends with "+" and the beginning of its fingerprint.
            **options: those of the constructor.

        Raises:
            ModelNotFound: nothing can be loaded under that name, or from the adapter's folder.
            InputError: both `device` and `device_map`, or the adapter is not one for this model.
        """
        if isinstance(adapter, str | Path):
            adapter = Adapter.load(adapter)
        name = source if adapter is None else adapter.reader_name(source)
        model, tokenizer = load(
            source,
            dtype=dtype,
            device=device,
            device_map=device_map,
            trust_remote_code=trust_remote_code,
        )
        if adapter is not None:
            adapter.merge(model)
        return cls(model, tokenizer, **({"name": name} | options))

    def with_heads(self, heads: GivenHeads) -> Self:
        """A reader of the same weights, lock included, whose "auto" stands for other heads."""
        twin = copy.copy(self)
        twin._usage = Usage()
        twin._use_heads(heads)
        return twin

    @property
    def name(self) -> str:
        """Recorded in the index."""
        return self._name

    @property
    def context_tokens(self) -> int:
        """Length of the model's context."""
        config = self.model.config.get_text_config(decoder=True)
        return int(
            getattr(config, "max_position_embeddings", 0) or self.codec.tokenizer.model_max_length
        )

    @property
    def window_tokens(self) -> int:
        """Default length of a summary call."""
        return min(self._default_window, self.context_tokens)

    @property
    def template_tokens(self) -> int:
        """Tokens that the chat template puts around a prompt."""
        return len(self.turns.head) + len(self._summary_reply)

    @property
    def prefers_extraction(self) -> bool:
        """True for a model known to be too small to write Information Points."""
        return self._prefers_extraction

    @property
    def p_yes_is_informative(self) -> bool:
        """False for a model known to be unable to tell "enough" from "not enough"."""
        return self._p_yes_is_informative

    @property
    def confidence(self) -> float:
        """From which p_yes on its "Yes" is to be believed."""
        return self._confidence

    @property
    def controllers(self) -> Mapping[str, Controller]:
        """The progress controllers that came with the head list, by name."""
        return controllers_from(self.head_file.controller if self.head_file else None)

    @property
    def usage(self) -> Usage:
        """Cost of all replays and writing so far."""
        return self._usage

    @cached_property
    def end_tokens(self) -> frozenset[int]:
        """Ids that end an answer."""
        generation = self.model.generation_config
        named = generation.eos_token_id if generation else None
        listed = named if isinstance(named, list) else [named]
        ids = {*listed, self.codec.tokenizer.eos_token_id, *self.turns.between[:1]}
        # the template closes an assistant turn with its end token, where it has one
        controls = set(self.codec.tokenizer.all_special_ids)
        return frozenset(i for i in ids if i is not None and (i in controls or i in listed))

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Number of tokens of each text, control tokens taken as plain text."""
        return self.codec.count(texts)

    def tflops(
        self,
        new_tokens: int,
        cached_tokens: int,
        *,
        logit_rows: int = 1,
        request: SpanRequest | None = None,
        heads: HeadList | None = None,
        cut: bool = False,
    ) -> float:
        """Analytic TFLOPs of one causal forward, and of what was captured in it.

        With `cut` it ends within the last layer whose heads are captured, and has no logits.
        """
        rows = sum(end - start for start, end in request.rows) if request else 0
        if cut:
            flops = cut_flops(
                self._shape,
                heads,
                new_tokens=new_tokens,
                cached_tokens=cached_tokens,
                row_tokens=rows,
                key_spans=len(request.keys) if request else 0,
            )
            return flops / 1e12
        flops = forward_flops(
            self._shape,
            new_tokens=new_tokens,
            cached_tokens=cached_tokens,
            logit_rows=logit_rows if self._keeps_logits else new_tokens,
        )
        if request is not None:
            flops += capture_flops(
                self._shape,
                heads=self._shape.layers * self._shape.heads if heads is None else len(heads),
                row_tokens=rows,
                seen_tokens=cached_tokens + new_tokens,
                key_spans=len(request.keys),
            )
        return flops / 1e12

    def verdict_tokens(self, prompts: SearchPrompts) -> tuple[list[int], list[int]]:
        """First tokens of all spellings of "Yes" and of "No", without those that both share."""
        yes, no = (
            {self.codec.encode(word)[0] for word in words} for words in (prompts.yes, prompts.no)
        )
        if not yes - no or not no - yes:
            raise InputError(
                f"the tokenizer of {self.name} starts {prompts.yes} and {prompts.no} with the same "
                "tokens, so p_yes cannot be read; pass SearchPrompts with other spellings"
            )
        return sorted(yes - no), sorted(no - yes)

    def session(
        self, question: str, *, prompts: SearchPrompts, heads: Heads, max_new_tokens: int
    ) -> KVSession:
        """A fresh KV cache for one question. Raises `QuestionTooLong` if it leaves no room."""
        pairs = self._resolve(heads)
        return KVSession(
            self, question, prompts=prompts, heads=pairs, max_new_tokens=max_new_tokens
        )

    def replay(self, requests: Sequence[ReplayRequest], *, heads: Heads) -> list[Replay]:
        """Attention of points to the units of their windows.

        Raises `ContextTooSmall` if a window and its points exceed the context.
        """
        if self.batched:
            return self._replay_together(requests, heads)
        return [found for one in requests for found in self._replay_together([one], heads)]

    def _replay_together(self, requests: Sequence[ReplayRequest], heads: Heads) -> list[Replay]:
        """Several windows in one left-padded forward."""
        layouts = [Layout(self.codec, self.turns.head, self._summary_reply, r) for r in requests]
        longest = max(len(layout.ids) for layout in layouts)
        if longest > self.context_tokens:
            raise ContextTooSmall(
                f"a window with its points takes {longest} tokens, the context of {self.name} "
                f"holds {self.context_tokens}; lower window_tokens"
            )
        pads = [longest - len(layout.ids) for layout in layouts]
        spans = [layout.request(pad) for layout, pad in zip(layouts, pads, strict=True)]
        pairs, ids = self._resolve(heads), [layout.ids for layout in layouts]
        tflops = [
            self.tflops(len(row), 0, request=request, heads=pairs, cut=True)
            for row, request in zip(ids, spans, strict=True)
        ]
        with (
            self._metered(sum(map(len, ids)), sum(tflops)),
            # cut: edges need no logits, and nothing that stands above the last of the heads
            capture(self.model, spans, pairs, cut=True) as captured,
        ):
            self._run(*self._left_padded(ids), use_cache=False)
        means = [captured.mean(i).double().cpu().numpy() for i in range(len(layouts))]
        return [layout.replay(mean) for layout, mean in zip(layouts, means, strict=True)]

    def write(self, prompts: Sequence[str], *, max_new_tokens: int) -> list[str]:
        """Greedy replies to chat prompts, in one left-padded batch."""
        ids = [
            [*self.turns.head, *self.codec.encode(prompt), *self._summary_reply]
            for prompt in prompts
        ]
        input_ids, mask, _ = self._left_padded(ids)
        if mask is None:
            mask = torch.ones_like(input_ids)
        config = plainly_greedy(max_new_tokens, self.end_tokens, self._pad_token)
        generate: Any = self.model.generate
        tflops = sum(self.tflops(len(row), 0) for row in ids)
        with self._metered(sum(map(len, ids)), tflops), self._exclusive():
            output = generate(input_ids, attention_mask=mask, generation_config=config)
            replies = output[:, input_ids.shape[1] :].tolist()
            for row, reply in zip(ids, replies, strict=True):
                steps = self._length(reply) - 1  # the last token does not pass through the model
                self._usage += Usage(steps, self.tflops(steps, len(row), logit_rows=steps))
        return [self.codec.decode(row).strip() for row in replies]

    @property
    def has_chat_template(self) -> bool:
        """Whether the tokenizer has one; without it, chats are plain lines."""
        return bool(self.codec.tokenizer.chat_template)

    def reply(
        self, messages: Sequence[Message], *, max_new_tokens: int, stop: Sequence[str] = ()
    ) -> KVReply:
        """The greedy reply to chat messages, piece by piece; see `hwdag.lm.base.Chat`."""
        return KVReply(self, messages, max_new_tokens=max_new_tokens, stop=stop)

    def charge(self, cost: Usage) -> None:
        """Add to `usage`."""
        with self._lock:
            self._usage += cost

    def forward(
        self,
        ids: list[int],
        cache: Cache,
        request: SpanRequest | None,
        heads: HeadList | None,
    ) -> tuple[torch.Tensor, Floats]:
        """One cached forward: float32 logits of the last token, and mean span attention."""
        input_ids = torch.tensor([ids], device=self.model.device)
        if request is None:
            logits = self._run(input_ids, past_key_values=cache)
            return logits[0, -1].float(), np.zeros((0, 1))
        with self._lock, capture(self.model, [request], heads) as captured:
            logits = self._run(input_ids, past_key_values=cache)
        return logits[0, -1].float(), captured.mean(0).double().cpu().numpy()

    def logits(
        self, rows: Sequence[list[int]], *, last: int, cache: Cache | None = None
    ) -> torch.Tensor:
        """Float32 logits of the last positions of every row, (rows, last, vocabulary); unmetered.

        Rows are padded on the left where their lengths differ. A single row may go on top of a
        `cache`, which it enters.
        """
        options = {"use_cache": False} if cache is None else {"past_key_values": cache}
        return self._run(*self._left_padded(rows), logit_rows=last, **options).float()

    @cached_property
    def _summary_reply(self) -> list[int]:
        return summary_reply(self.codec, self.turns)

    @property
    def _pad_token(self) -> int:
        pad = self.codec.tokenizer.pad_token_id
        return pad if pad is not None else min(self.end_tokens, default=0)

    def _use_heads(self, given: GivenHeads | None) -> None:
        self.head_file = head_file(given, self._name, self.model.config)
        self.known_heads = None if self.head_file is None else self.head_file.pairs

    def _resolve(self, heads: Heads) -> HeadList | None:
        if heads == "auto" and self.known_heads is None:
            warn_unknown(self._name)
        pairs = resolve(heads, self.known_heads)
        check_heads(self.model, pairs)
        return pairs

    def _run(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        *,
        logit_rows: int = 1,
        **options: Any,
    ) -> torch.Tensor:
        """The model's forward; returns the logits of the last positions, (batch, rows, vocab)."""
        if self._keeps_logits:
            options["logits_to_keep"] = logit_rows
        if attention_mask is not None:
            options |= {"attention_mask": attention_mask, "position_ids": position_ids}
        with self._exclusive():
            output = self.model(input_ids, **options)
        logits: torch.Tensor = output.logits[:, -logit_rows:]
        return logits

    @cached_property
    def _keeps_logits(self) -> bool:
        return "logits_to_keep" in inspect.signature(self.model.forward).parameters

    def _left_padded(
        self, rows: Sequence[list[int]]
    ) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None]:
        """Ids, attention mask and positions; mask and positions are None where nothing is padded."""
        longest = max(map(len, rows))
        pads = [longest - len(row) for row in rows]
        device = self.model.device
        ids = torch.tensor(
            [[self._pad_token] * pad + row for pad, row in zip(pads, rows, strict=True)],
            device=device,
        )
        if not any(pads):
            return ids, None, None
        mask = torch.tensor([[0] * pad + [1] * (longest - pad) for pad in pads], device=device)
        return ids, mask, (mask.cumsum(1) - 1).clamp(min=0)

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        with self._lock, torch.inference_mode():
            yield

    def _length(self, reply: list[int]) -> int:
        """Tokens of a generated row without the padding behind its end token."""
        ends = (i + 1 for i, token in enumerate(reply) if token in self.end_tokens)
        return next(ends, len(reply))

    @contextmanager
    def _metered(self, tokens: int, tflops: float) -> Iterator[None]:
        began = time.perf_counter()
        with self._lock:
            yield
            self._usage += Usage(tokens, tflops, time.perf_counter() - began)

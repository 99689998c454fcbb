"""A Hugging Face causal LM as Reader and Writer, from a name, a path, or loaded objects."""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import torch
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from hwdag.checks import whole
from hwdag.config import HeadList, Heads
from hwdag.errors import (
    ContextTooSmall,
    InputError,
    ModelNotFound,
    QuestionTooLong,
    ReaderRequired,
    first_line,
)
from hwdag.lm.adapter import CONFIG, Adapter
from hwdag.lm.attention import check_heads, check_supported, is_hybrid
from hwdag.lm.base import Replay, ReplayRequest, Speed
from hwdag.lm.blocking import LONGEST_COPY
from hwdag.lm.devices import device_of, in_halves, move, weights_dtype
from hwdag.lm.engine import Engine, Weights
from hwdag.lm.heads import HeadSource, given_heads, resolve, warn_unknown
from hwdag.lm.layout import ReplayLayout, bullet_line, writing_ids
from hwdag.lm.model_file import CardSource, card_and_heads
from hwdag.lm.session import KVSession
from hwdag.lm.tokens import Codec
from hwdag.loading_bars import without_bars
from hwdag.text.prompts import SearchPrompts
from hwdag.types import Usage

WRITER_BATCH = 16

"""Prompts in a batch. Decoding one token reads all weights, whether for one reply or for sixteen
(docs/performance.md)."""

BATCH_TOKENS = 1 << 15
"""Most tokens in a batch of prompts and replies, padding included, so that keys and values of long
prompts fit into memory."""


TIMED_PROMPT = "Write the numbers from one to one hundred as words.\n" * 8
TIMED_STEPS = 4  # tokens that are decoded to time a model
TIMED_ROWS = 4  # replies that are decoded together then; larger batches are a little faster


class HuggingFaceLM:
    """A local causal LM: reads attention, walks with a KV cache, and writes.

    Thread-safe (`hwdag.lm.engine.Engine`); every question has a session of its own.

    Args:
        model: a loaded decoder-only `PreTrainedModel`, or `Weights` that are loaded when needed.
        tokenizer: its tokenizer, of which a copy is used, or the `Codec` of one.
        name: recorded in indexes; by default the model's `name_or_path`.
        card: its abilities and prompts: a `Card`, a `ModelFile` or its path; by default the one that
            hwdag ships for the model, or else a guess from its size.
        heads: the meaning of "auto": a `ModelFile`, its path, or (layer, head) pairs; by default those
            of the card's file or of the file that hwdag ships for the model, or else all.
        concurrency: replies that are written in one batch, at most; long prompts take smaller ones.
        replay_batch: windows that are replayed in one forward.

    Raises:
        ReaderRequired: not a model and a tokenizer.
        CaptureUnsupported: the architecture's attention cannot be captured, or hwdag's forwards of a few
            tokens differ from its own.
        InputError: a model file is one of another architecture or size.
    """

    def __init__(
        self,
        model: PreTrainedModel | Weights,
        tokenizer: PreTrainedTokenizerBase | Codec,
        *,
        name: str | None = None,
        card: CardSource | None = None,
        heads: HeadSource | None = None,
        concurrency: int = WRITER_BATCH,
        replay_batch: int = 4,
    ) -> None:
        if not isinstance(model, PreTrainedModel | Weights) or not isinstance(
            tokenizer, PreTrainedTokenizerBase | Codec
        ):
            raise ReaderRequired(
                "hwdag reads attention, so it needs a local transformers model and its tokenizer; "
                f"got {type(model).__name__} and {type(tokenizer).__name__}. Pass loaded objects, "
                "or HuggingFaceLM.from_pretrained(name)"
            )
        self.name = name or model.config.name_or_path or type(model).__name__
        check_supported(model.config, None if isinstance(model, Weights) else type(model))
        if isinstance(model, PreTrainedModel):
            loaded = model
            model = Weights(loaded.config, lambda: loaded, loaded.dtype)
            model.model  # noqa: B018 - checks its forwards now
        codec = tokenizer if isinstance(tokenizer, Codec) else Codec(tokenizer)
        self.engine = Engine(model, codec, name=self.name)
        self.codec, self.turns = self.engine.codec, self.engine.turns
        self.context_tokens = self.engine.context_tokens
        self._use_card(card)
        self.template_tokens = len(self.turns.head) + len(self.turns.summary_reply)
        self.concurrency = concurrency
        whole("replay_batch", replay_batch, 1)
        # why one: padding would enter the states of linear-attention layers
        self.replay_batch = 1 if is_hybrid(model.config) else replay_batch
        if heads:
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
        lazy: bool = False,
        **options: Any,
    ) -> Self:
        """Load by hub name or local path.

        Args:
            source: as for `AutoModelForCausalLM.from_pretrained`.
            dtype: a torch dtype or its name. "auto" is bfloat16 on CPUs and CUDA devices that are
                faster in it, else float32; "checkpoint" is that of the stored weights.
            device: "cpu", "cuda", "mps", ...; None takes CUDA or MPS if there is one.
            device_map: passed on, for models over several devices; excludes `device`.
            trust_remote_code: passed on; False unless you mean it.
            adapter: a LoRA adapter in PEFT's format to merge into the weights in memory, or its
                folder. The name then ends with "+" and the beginning of its fingerprint.
            lazy: load the weights when they are first needed: a default search never needs them.
                Their errors are raised then.
            **options: those of the constructor.

        Raises:
            ModelNotFound: nothing can be loaded under that name, or from the adapter's folder.
            InputError: both `device` and `device_map`, the adapter is not one for this model, or the
                folder holds an adapter as well as weights.
        """
        if device is not None and device_map is not None:
            raise InputError("pass either device or device_map, not both")
        if isinstance(adapter, str | Path):
            adapter = Adapter.load(adapter)
        if (Path(source) / CONFIG).is_file():
            raise _second_adapter(source)
        name = source if adapter is None else adapter.reader_name(source)
        target = device_of(device)
        weights = weights_dtype(dtype, target)
        common = {"trust_remote_code": trust_remote_code}
        with _loading(source):
            # if mistral-common is installed, its tokenizer would be preferred, which has no offsets
            tokenizer = AutoTokenizer.from_pretrained(source, mistral_format=False, **common)
            config = AutoConfig.from_pretrained(source, **common)

        def load() -> PreTrainedModel:
            with _loading(source):
                model = AutoModelForCausalLM.from_pretrained(
                    source, dtype=weights, device_map=device_map, **common
                )
            if getattr(model, "_hf_peft_config_loaded", False):
                raise _second_adapter(source)
            if device_map is None:
                move(model, target)
            if adapter is not None:
                adapter.merge(model)
            return model

        known = weights if isinstance(weights, torch.dtype) else None
        model = Weights(config, load, known) if lazy else load()
        found = cls(model, Codec(tokenizer, is_own=True), **({"name": name} | options))
        if adapter is not None and adapter.prompts is not None:
            found.card = replace(found.card, prompts=adapter.prompts)
        return found

    @property
    def model(self) -> PreTrainedModel:
        """The model; loads it on first use."""
        return self.engine.model

    @cached_property
    def batched(self) -> bool:
        """Whether one padded forward reads several windows; not on a CPU, where padding costs time."""
        return self.model.device.type != "cpu"

    def with_heads(self, heads: HeadSource) -> Self:
        """Return a reader with the same weights and lock, whose "auto" means other heads."""
        twin = copy.copy(self)
        twin.engine = self.engine.twin()
        twin._use_heads(heads)
        return twin

    @property
    def dtype(self) -> str:
        """The data type of the computation, such as "float32"; recorded in the index."""
        return str(self.engine.weights.dtype or self.model.dtype).removeprefix("torch.")

    @property
    def usage(self) -> Usage:
        """Cost of all replays and writing so far."""
        return self.engine.usage

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Return the number of tokens of each text, control tokens taken as plain text."""
        return self.codec.count(texts)

    def with_card(self, card: CardSource) -> Self:
        """Return a reader with the same weights and lock, and another card."""
        twin = copy.copy(self)
        twin.engine = self.engine.twin()
        twin._use_card(card)
        return twin

    @property
    def tokenizer_fingerprint(self) -> str:
        """Fingerprint of the tokenizer."""
        return self.codec.fingerprint

    def count_lines(self, texts: Sequence[str]) -> list[int]:
        """Return the number of tokens of each text as a node: a line with a bullet."""
        return self.codec.count_parts(list(map(bullet_line, texts)))

    def tflops(self, new_tokens: int, cached_tokens: int, *, logit_rows: int = 1) -> float:
        """Return analytic TFLOPs of one causal forward of `new_tokens` on top of `cached_tokens`."""
        return self.engine.tflops(new_tokens, cached_tokens, logit_rows=logit_rows)

    def speed(self) -> Speed:
        """Time a forward and a few decoded tokens, once; they do not count in `usage`."""
        return self._speed

    @cached_property
    def _speed(self) -> Speed:
        ids = writing_ids(self.codec, self.turns, TIMED_PROMPT)[: self.context_tokens - TIMED_STEPS]
        rows = [ids] * min(self.concurrency, TIMED_ROWS)
        times = []
        for steps in (1, 1, TIMED_STEPS + 1):  # why twice: the first call loads the weights
            began = time.perf_counter()
            self.engine.generate(rows, max_new_tokens=steps)
            times.append(time.perf_counter() - began)
        read = times[1] / sum(map(len, rows))
        return Speed(read, max(0.0, times[2] - times[1]) / TIMED_STEPS)

    def session(
        self, question: str, *, prompts: SearchPrompts, heads: Heads, max_new_tokens: int
    ) -> KVSession:
        """Return a fresh KV cache for one question. Raises `QuestionTooLong` if it leaves no room."""
        pairs = self.pairs_of(heads)
        return KVSession(
            self.engine, question, prompts=prompts, heads=pairs, max_new_tokens=max_new_tokens
        )

    def replay(self, requests: Sequence[ReplayRequest], *, heads: Heads) -> list[Replay]:
        """Return attention of points to the units of their windows.

        Raises `ContextTooSmall` if a window and its points exceed the context.
        """
        batches = [requests] if self.batched else [[one] for one in requests]
        return [
            found
            for batch in batches
            for found in in_halves(lambda some: self._replay_together(some, heads), batch)
        ]

    def _replay_together(self, requests: Sequence[ReplayRequest], heads: Heads) -> list[Replay]:
        layouts = [ReplayLayout(self.codec, self.turns, request) for request in requests]
        longest = max(len(layout.ids) for layout in layouts)
        if longest > self.context_tokens:
            raise ContextTooSmall(
                f"a window with its points takes {longest} tokens, the context of {self.name} "
                f"holds {self.context_tokens}; lower window_tokens"
            )
        spans = [layout.request(longest - len(layout.ids)) for layout in layouts]
        # edges need no logits, and no layer above the last head
        captured, cost = self.engine.attention(
            [layout.ids for layout in layouts], spans, self.pairs_of(heads)
        )
        self.engine.charge(cost)
        means = [captured.mean(i).double().cpu().numpy() for i in range(len(layouts))]
        return [layout.replay(mean) for layout, mean in zip(layouts, means, strict=True)]

    def write(self, prompts: Sequence[str], *, max_new_tokens: int) -> list[str]:
        """Return greedy replies to chat prompts, in left-padded batches of similar lengths.

        Raises `QuestionTooLong` for a prompt that leaves the reply no room in the context.
        """
        return self._write(prompts, max_new_tokens, None)

    def condense(self, prompts: Sequence[str], *, max_new_tokens: int) -> list[str]:
        """Do the same as `write`, but no reply copies more than `LONGEST_COPY` tokens of its prompt and a word."""
        return self._write(prompts, max_new_tokens, LONGEST_COPY)

    def _write(
        self, prompts: Sequence[str], max_new_tokens: int, longest_copy: int | None
    ) -> list[str]:
        rows = [writing_ids(self.codec, self.turns, prompt) for prompt in prompts]
        longest = max(map(len, rows), default=0)
        if longest + max_new_tokens > self.context_tokens:
            raise QuestionTooLong(
                f"a prompt takes {longest} tokens and the reply may take {max_new_tokens}, but the "
                f"context of {self.name} holds {self.context_tokens}; shorten the prompt, lower "
                "max_new_tokens, or use a model with a longer context"
            )
        written = [""] * len(rows)
        for batch in _batches([len(row) + max_new_tokens for row in rows], self.concurrency):
            replies = in_halves(
                lambda some: self._generated(some, max_new_tokens, longest_copy),
                [rows[i] for i in batch],
            )
            for i, reply in zip(batch, replies, strict=True):
                written[i] = self.codec.decode(reply).strip()
        return written

    def _generated(
        self, rows: Sequence[list[int]], max_new_tokens: int, longest_copy: int | None
    ) -> list[list[int]]:
        replies, cost = self.engine.generate(
            rows, max_new_tokens=max_new_tokens, longest_copy=longest_copy
        )
        self.engine.charge(cost)
        return replies

    def pairs_of(self, heads: Heads) -> HeadList | None:
        """Resolve a choice of heads to (layer, head) pairs; None means all heads.

        Raises `InputError` for a layer or head that the model does not have.
        """
        if heads == "auto" and not self._knows_heads:
            warn_unknown(self.name)
        pairs = resolve(heads, self.known_heads)
        check_heads(self.engine.weights.config, pairs)
        return pairs

    def _use_card(self, source: CardSource | None) -> None:
        """Take over a card, and the heads of its file."""
        self.card, heads = card_and_heads(source, self.name, self.engine.weights.config)
        self.window_tokens = min(self.card.window_tokens, self.context_tokens)
        self.known_heads, self._knows_heads = heads or None, heads is not None

    def _use_heads(self, source: HeadSource) -> None:
        self.known_heads = given_heads(source, self.name, self.engine.weights.config)
        self._knows_heads = True


def _second_adapter(source: str) -> InputError:
    return InputError(
        f"{source!r} holds an adapter ({CONFIG}) beside the weights of a model, and transformers would "
        "add it if PEFT is installed, and else not; move it to a folder of its own, and pass that folder "
        "as adapter= if it is meant to be used"
    )


@contextmanager
def _loading(source: str) -> Iterator[None]:
    try:
        with without_bars():
            yield
    except (OSError, ValueError) as error:
        raise ModelNotFound(
            f"cannot load {source!r}: {first_line(error)} Pass the path of a folder with a "
            "transformers checkpoint, a hub name that is reachable, or loaded model and "
            "tokenizer objects to HuggingFaceLM(model, tokenizer)"
        ) from error


def _batches(lengths: Sequence[int], most: int) -> Iterator[list[int]]:
    """Yield ordinals in batches, longest first: `most` of them, or fewer to stay below `BATCH_TOKENS`."""
    waiting = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    while waiting:
        size = max(1, min(most, BATCH_TOKENS // lengths[waiting[0]]))
        yield waiting[:size]
        waiting = waiting[size:]

"""Log-probabilities of texts by a Hugging Face model, after a context or in a growing text.

Every token passes through the model after everything before it, in a KV cache or again, so the
numbers equal those of one plain forward over the whole.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np
import torch
from transformers import DynamicCache

from hwdag.arrays import Floats
from hwdag.errors import ContextTooSmall
from hwdag.lm.attention import is_hybrid
from hwdag.lm.caches import new_cache
from hwdag.lm.huggingface import HuggingFaceLM
from hwdag.lm.session import logprobs
from hwdag.lm.tokens import Codec
from hwdag.types import Span, Usage

BATCH = 8  # contexts per padded forward

BLANK_LINE = "\n\n"
"""Between a context and its text."""

_PIECE = re.compile(r"\s*\S+|\s+$")


@dataclass(frozen=True, slots=True)
class TokenScores:
    """Natural log-probability of every token of a text, and the characters of the token.

    Several tokens may belong to one character.
    """

    spans: tuple[Span, ...]
    logprobs: Floats  # (tokens,)


def tokens_with_spans(codec: Codec, text: str) -> tuple[list[int], list[Span]]:
    """Return the token ids of plain text, and the characters of each token.

    A tokenizer without offsets encodes word by word, and each token gets its whole word.
    """
    if codec.tokenizer.is_fast:
        ids, offsets = codec.encode_with_offsets(text)
        return ids, [Span(start, end) for start, end in offsets]
    pieces = _PIECE.findall(text) or [text]
    ids, ranges = codec.encode_parts(*pieces)
    borders = pairwise(accumulate(map(len, pieces), initial=0))
    spans = [
        Span(*border)
        for border, (start, end) in zip(borders, ranges, strict=True)
        for _ in range(start, end)
    ]
    return ids, spans


class TextScoring:
    """Log-probabilities of plain texts, without a chat template; belongs to one thread.

    Nothing predicts the first token. So the tokenizer's opening token goes before it, or a line
    break if there is none.
    """

    def __init__(self, lm: HuggingFaceLM) -> None:
        self._lm = lm
        self._usage = Usage()
        self._opening = lm.codec.opening or lm.codec.encode("\n")

    @property
    def usage(self) -> Usage:
        """Cost so far, including streams."""
        return self._usage

    def room(self, text: str) -> int:
        """Return tokens of the longest context that fits before `text`."""
        return self._lm.context_tokens - len(self._opening) - len(self._tail(text))

    def after(self, contexts: Sequence[str], text: str) -> list[Floats]:
        """Return the log-probability of every token of `text` after each context and a blank line.

        Raises `ContextTooSmall` for a context longer than `room(text)`.
        """
        codec = self._lm.codec
        tail, scored = self._tail(text), codec.encode(text)
        # the last token predicts nothing that is asked for
        rows = [[*self._opening, *codec.encode(one), *tail[:-1]] for one in contexts]
        _check_fits(self._lm, max(map(len, rows), default=0) + 1)
        size = BATCH if self._lm.batched else 1
        return [
            logprobs(logits, scored)
            for first in range(0, len(rows), size)
            for logits in self._together(rows[first : first + size], len(scored))
        ]

    def stream(self, prefix: str) -> TextStream:
        """Return a text that begins with `prefix`."""
        return TextStream(self, [*self._opening, *self._lm.codec.encode(prefix)])

    def logits(self, ids: list[int], last: int, cache: DynamicCache) -> torch.Tensor:
        """Run new tokens on a cache and count the cost: float32 logits, (last, vocabulary)."""
        found = self._lm.engine.forward(ids, cache, logit_rows=last)
        self._usage += found.cost
        return found.logits

    def _tail(self, text: str) -> list[int]:
        return [*self._lm.codec.encode(BLANK_LINE), *self._lm.codec.encode(text)]

    def _together(self, rows: Sequence[list[int]], last: int) -> torch.Tensor:
        began = time.perf_counter()
        logits = self._lm.engine.logits(rows, last=last)
        tflops = sum(self._lm.tflops(len(row), 0, logit_rows=last) for row in rows)
        self._usage += Usage(sum(map(len, rows)), tflops, time.perf_counter() - began)
        return logits


class TextStream:
    """A growing text in a KV cache: kept text precedes everything scored later."""

    def __init__(self, scoring: TextScoring, prefix: list[int]) -> None:
        self._scoring = scoring
        self._lm = scoring._lm
        self._known = (
            prefix  # never empty; the last token is not cached, because it predicts the next
        )
        self._prefix = len(prefix)
        self._cache = new_cache(self._lm.model.config)

    @property
    def room(self) -> int:
        """Tokens of the longest text that can be scored, if all kept text is forgotten."""
        return self._lm.context_tokens - self._prefix

    def score(self, text: str) -> TokenScores:
        """Score a text after the prefix and all kept text, then forget it.

        If the context is full, the older half of the kept text is forgotten for good. Raises
        `ContextTooSmall` for a text longer than `room`.
        """
        ids, spans = tokens_with_spans(self._lm.codec, text)
        if not ids:
            return TokenScores((), np.zeros(0))
        self._make_room(len(ids))
        new = [*self._known[self._cache.get_seq_length() :], *ids[:-1]]
        logits = self._scoring.logits(new, len(ids), self._cache)
        self._crop(len(self._known) - 1)
        return TokenScores(tuple(spans), logprobs(logits, ids))

    def keep(self, text: str) -> None:
        """Append a text; costs nothing before the next `score`."""
        self._known = [*self._known, *self._lm.codec.encode(text)]

    def _make_room(self, tokens: int) -> None:
        _check_fits(self._lm, self._prefix + tokens)
        left = self.room - tokens
        if len(self._known) - self._prefix > left:
            latest = self._known[max(self._prefix, len(self._known) - left // 2) :]
            self._known = [*self._known[: self._prefix], *latest]
            self._crop(min(self._prefix, len(self._known) - 1))

    def _crop(self, length: int) -> None:
        """Crop the cache to `length` tokens; a hybrid's is emptied, since its states cannot be taken back."""
        if (surplus := self._cache.get_seq_length() - length) <= 0:
            return
        if is_hybrid(self._lm.model.config):
            self._cache = new_cache(self._lm.model.config)
        else:
            self._cache.crop(-surplus)


def _check_fits(lm: HuggingFaceLM, tokens: int) -> None:
    if tokens > lm.context_tokens:
        raise ContextTooSmall(
            f"a text of {tokens} tokens was to be scored, but the context of {lm.name} holds "
            f"{lm.context_tokens}; score shorter texts, or use a model with a longer context"
        )

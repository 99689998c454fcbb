"""Column vectors of attention: how much a context, and a question after it, attend to each token.

In a causal model, rows see nothing that comes later, so those of the context are the same with and
without the question. Their mean is computed once per context and can be stored; a question adds its
own rows. KV caches of contexts stay in memory up to a limit.
"""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import pairwise
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from transformers import DynamicCache

from hwdag.arrays import Vectors
from hwdag.config import HeadList, Heads
from hwdag.errors import ContextTooSmall, QuestionTooLong
from hwdag.lm.attention import ColumnRequest, attention_layers
from hwdag.lm.caches import croppable_cache
from hwdag.lm.tokens import Codec
from hwdag.types import Span, Usage
from hwdag_lab.methods.longllmlingua.likelihood import BLANK_LINE, tokens_with_spans
from hwdag_lab.methods.youra.easy import Ids, TokenRange, by_offsets, by_wiggling

if TYPE_CHECKING:
    from hwdag.lm.huggingface import HuggingFaceLM

BLOCK = 32
"""Sentences encoded together if a tokenizer has no offsets.

Algorithm 1 encodes the text from its beginning for every sentence, which is quadratic.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Located:
    """The tokens of a text, and the range of each sentence.

    `ranges` are half-open and ascending, without the white space between sentences; empty for a
    sentence without a token.
    """

    ids: Ids  # (tokens,)
    ranges: NDArray[np.int32]  # (sentences, 2)


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """Mean attention of a question of `rows` tokens to every token of the context before it."""

    means: Vectors  # (tokens,)
    rows: int
    usage: Usage


class ModelColumns:
    """Reads contexts, and questions after them, with a model; threads may share it.

    Args:
        lm: the model.
        heads: heads to average.
        memory_bytes: most bytes of KV caches of contexts to keep, those used last first; with a
            cache, a question costs its own tokens only.
    """

    def __init__(
        self, lm: HuggingFaceLM, heads: Heads | Literal["last"], *, memory_bytes: int
    ) -> None:
        self._lm = lm
        self._pairs = _pairs(lm, heads)
        self._before = lm.codec.opening or lm.codec.encode("\n")
        self.caches = ContextCaches(memory_bytes)

    @property
    def heads(self) -> HeadList | None:
        """The (layer, head) pairs to average; None for all."""
        return self._pairs

    @property
    def opening(self) -> int:
        """Tokens before every context: the tokenizer's opening tokens, or a line break.

        They absorb the attention that models pay to the first token.
        """
        return len(self._before)

    def locate(self, text: str, sentences: Sequence[Span]) -> Located:
        """Encode a text and find the tokens of its ascending, disjoint sentences."""
        codec = self._lm.codec
        if codec.tokenizer.is_fast:
            ids, spans = tokens_with_spans(codec, text)
            ranges = by_offsets(spans, sentences)
        else:
            ids, ranges = wiggled(codec, text, sentences)
        return Located(
            np.array(ids, np.int32), np.array(ranges, np.int32).reshape(len(sentences), 2)
        )

    def context(self, ids: Ids) -> Vectors:
        """Return the mean attention of a context to each of its tokens, (tokens,).

        The rows include the opening. Counted in the reader's usage. Raises `ContextTooSmall` if the
        model cannot hold it.
        """
        row = [*self._before, *ids.tolist()]
        if len(row) > self._lm.context_tokens:
            raise ContextTooSmall(
                f"a window takes {len(row)} tokens, the context of {self._lm.name} holds "
                f"{self._lm.context_tokens}; lower window_tokens"
            )
        cache = self._empty()
        means, cost = self._means(row, 0, cache)
        self._lm.engine.charge(cost)
        self.caches.put(ids, cache)
        return means[len(self._before) :]

    def ask(self, ids: Ids, question: str) -> Asked:
        """Return the mean attention of a question, after a blank line, to each token of a context.

        Raises `QuestionTooLong` if they do not fit together.
        """
        asked = self._lm.codec.encode(BLANK_LINE + question)
        length = len(self._before) + len(ids)
        if length + len(asked) > self._lm.context_tokens:
            raise QuestionTooLong(
                f"a window of {length} tokens and a question of {len(asked)} exceed the context of "
                f"{self._lm.name}, which holds {self._lm.context_tokens}; shorten the question, or "
                "build with smaller window_tokens"
            )
        cache = self.caches.get(ids)
        known = 0 if cache is None else length
        row = [*self._before, *ids.tolist(), *asked][known:]
        if cache is None:
            cache = self._empty()
        means, cost = self._means(row, len(row) - len(asked), cache)
        if cache is not None and not known:
            cache.crop(-len(asked))
            self.caches.put(ids, cache)
        return Asked(means[len(self._before) : length], len(asked), cost)

    def forget(self, ids: Ids) -> None:
        """Drop a context's cache."""
        self.caches.drop(ids)

    def _empty(self) -> DynamicCache | None:
        """Return a cache, unless none is kept; a hybrid reads every context anew."""
        return croppable_cache(self._lm.model.config) if self.caches.limit else None

    def _means(
        self, row: list[int], first: int, cache: DynamicCache | None
    ) -> tuple[Vectors, Usage]:
        """Run new tokens; return the mean of the rows from `first` on, (seen,)."""
        request = ColumnRequest([(first, len(row))])
        captured, cost = self._lm.engine.attention([row], [request], self._pairs, cache=cache)
        return captured.mean(0)[0].cpu().numpy(), cost


class ContextCaches:
    """KV caches by their tokens, up to a number of bytes; those used last stay."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        # by a digest of their tokens, with their bytes; used last comes last
        self.held: OrderedDict[bytes, tuple[DynamicCache, int]] = OrderedDict()
        self._lock = Lock()

    @property
    def bytes(self) -> int:
        """Bytes of all caches."""
        return sum(size for _, size in self.held.values())

    def get(self, ids: Ids) -> DynamicCache | None:
        """Return a copy that may grow; it never changes the part that it shares with the kept cache."""
        with self._lock:
            held, _ = self.held.get(_digest(ids), (None, 0))
            if held is None:
                return None
            self.held.move_to_end(_digest(ids))
        grown = copy.copy(held)
        grown.layers = [copy.copy(layer) for layer in held.layers]
        return grown

    def put(self, ids: Ids, cache: DynamicCache | None) -> None:
        """Keep a cache, and drop the oldest beyond the limit."""
        if cache is None or (size := _size(cache)) > self.limit:
            return
        with self._lock:
            self.held.pop(_digest(ids), None)
            self.held[_digest(ids)] = cache, size
            while self.bytes > self.limit:
                self.held.popitem(last=False)

    def drop(self, ids: Ids) -> None:
        """Forget a cache, if it is there."""
        with self._lock:
            self.held.pop(_digest(ids), None)


def _digest(ids: Ids) -> bytes:
    return blake2b(ids.tobytes(), digest_size=16).digest()


def _size(cache: DynamicCache) -> int:
    layers: Any = cache.layers
    return sum(int(layer.keys.nbytes + layer.values.nbytes) for layer in layers)


def _pairs(lm: HuggingFaceLM, heads: Heads | Literal["last"]) -> HeadList | None:
    if heads != "last":
        return lm.pairs_of(heads)
    last = attention_layers(lm.model.config)[-1]
    return tuple((last, head) for head in range(lm.engine.shape.heads))


def wiggled(
    codec: Codec, text: str, sentences: Sequence[Span]
) -> tuple[list[int], list[TokenRange]]:
    """Encode a text and find the tokens of its sentences by Algorithm 1, in blocks of sentences."""
    ids: list[int] = []
    ranges: list[TokenRange] = []
    for first in range(0, len(sentences), BLOCK):
        block = sentences[first : first + BLOCK]
        starts = [*(span.start for span in block), block[-1].end]
        parts = [text[a:b] for a, b in pairwise(starts)]
        found = codec.encode("".join(parts))
        ends = by_wiggling(found, parts, encode=codec.encode, decode=codec.decode, clean=_bare)
        for start, end in pairwise([0, *ends]):
            ranges.append(_visible(codec, found, start, end, len(ids)))
        ids += found
    return ids, ranges


def _visible(codec: Codec, ids: Sequence[int], start: int, end: int, origin: int) -> TokenRange:
    """Return a range without surrounding white space, moved by `origin`."""
    while end > start and not codec.decode(ids[end - 1 : end]).strip():
        end -= 1
    while start < end and not codec.decode(ids[start : start + 1]).strip():
        start += 1
    return (origin + start, origin + end) if start < end else (0, 0)


def _bare(text: str) -> str:
    """Return a text without case and spacing, which a tokenizer may change."""
    return "".join(text.split()).casefold()

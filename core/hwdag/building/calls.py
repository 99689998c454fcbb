"""Finished model calls, kept by what went into them, so that none is paid for twice.

A build commits what a call gave before it makes the next one: if it is killed it repeats at most the
call that was running, and an edited document pays only for the windows whose text changed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from hwdag.arrays import Vectors
from hwdag.lm.base import Replay, ReplayRequest
from hwdag.store.calls import CallCache

T = TypeVar("T")

MALFORMED = (ValueError, TypeError, LookupError, RecursionError, SafetensorError)
"""What a value raises that is no result of its kind."""

Finished = Generator[Mapping[int, T], None, None]
"""Results by ordinal of the call, as they are finished; what comes together is kept together."""


class Codec(Protocol[T]):
    """How the results of one kind of call become bytes and come back."""

    def encode(self, result: T) -> bytes:
        """Return the bytes of a result."""

    def decode(self, value: bytes, ordinal: int) -> T:
        """Return the result of the call with this ordinal; raises one of `MALFORMED` if it is none."""


class Calls:
    """The calls of one document's build.

    Attributes:
        before_call: for those who make calls, before each of them; raises where none may be made.
        kept: keys of the calls that a later version of the document may need again.
        reused: calls that were not made, because the cache had their results.
    """

    def __init__(
        self, cache: CallCache | None = None, before_call: Callable[[], None] = lambda: None
    ) -> None:
        self.kept: set[bytes] = set()
        self.reused = 0
        self._cache = CallCache.open() if cache is None else cache
        self.before_call = before_call

    def results(
        self,
        keys: Sequence[bytes],
        codec: Codec[T],
        call: Callable[[list[int]], Sequence[T]],
        *,
        size: int = 1,
        order: Callable[[int], int] = lambda ordinal: ordinal,
        keep: bool = True,
        advance: Callable[[int], object] = lambda amount: None,
    ) -> list[T]:
        """Return the result of every call, in order; what the cache does not have is made.

        `call` gets ordinals of missing calls, `size` at a time and sorted by `order`, and what it gives is
        committed before the next ones. With `keep` a later version of the document may need them again.
        `advance` is told how many results were found or made.
        """

        def make(missing: list[int]) -> Finished[T]:
            missing = sorted(missing, key=order)
            for start in range(0, len(missing), size):
                batch = missing[start : start + size]
                self.before_call()
                yield dict(zip(batch, call(batch), strict=True))

        return self.streamed(keys, codec, make, keep=keep, advance=advance)

    def streamed(
        self,
        keys: Sequence[bytes],
        codec: Codec[T],
        make: Callable[[list[int]], Finished[T]],
        *,
        keep: bool = True,
        advance: Callable[[int], object] = lambda amount: None,
    ) -> list[T]:
        """Do as `results` for calls that finish one by one: `make` gets all missing ordinals at once."""
        first: dict[bytes, int] = {}
        for i, key in enumerate(keys):
            first.setdefault(key, i)
        found = {key: result for key, i in first.items() for result in self._found(key, codec, i)}
        missing = [i for key, i in first.items() if key not in found]
        self.reused += len(found)
        self.kept.update(keys if keep else ())
        advance(len(keys) - len(missing))
        with closing(make(missing)) as made:
            while len(found) < len(first):
                finished = {keys[i]: result for i, result in next(made).items()}
                self._cache.put_all({key: codec.encode(r) for key, r in finished.items()})
                found |= finished
                advance(len(finished))
        return [found[key] for key in keys]

    def _found(self, key: bytes, codec: Codec[T], ordinal: int) -> list[T]:
        value = self._cache.get(key)
        try:
            return [] if value is None else [codec.decode(value, ordinal)]
        except MALFORMED:
            return []


class Replies:
    """Texts as JSON."""

    def encode(self, result: str) -> bytes:
        """Return a JSON string."""
        return json.dumps(result).encode()

    def decode(self, value: bytes, ordinal: int) -> str:
        """Return the text; raises one of `MALFORMED`."""
        text = json.loads(value)
        _demand(isinstance(text, str))
        return str(text)


@dataclass(frozen=True, slots=True)
class Picks:
    """Ascending indices as JSON; `available[i]` things could be picked from in call i."""

    available: Sequence[int]

    def encode(self, result: list[int]) -> bytes:
        """Return a JSON list."""
        return json.dumps(result).encode()

    def decode(self, value: bytes, ordinal: int) -> list[int]:
        """Return the indices; raises one of `MALFORMED`."""
        picked = json.loads(value)
        _demand(isinstance(picked, list) and all(type(i) is int for i in picked))
        _demand(picked == sorted(set(picked)) and bool(picked) == bool(self.available[ordinal]))
        _demand(all(0 <= i < self.available[ordinal] for i in picked))
        return list(picked)


@dataclass(frozen=True, slots=True)
class Replays:
    """Attention as safetensors; `requests` are the calls."""

    requests: Sequence[ReplayRequest]

    def encode(self, result: Replay) -> bytes:
        """Return the three arrays of a replay."""
        return save(
            {
                "attention": np.ascontiguousarray(result.attention),
                "unit_tokens": np.ascontiguousarray(result.unit_tokens),
                "unit_segment": np.ascontiguousarray(result.unit_segment),
            }
        )

    def decode(self, value: bytes, ordinal: int) -> Replay:
        """Return the replay, if it fits its request; raises one of `MALFORMED`."""
        request, arrays = self.requests[ordinal], load(value)
        attention, tokens, segment = (
            arrays[name] for name in ("attention", "unit_tokens", "unit_segment")
        )
        expected = [i for i, units in enumerate(request.units) for _ in units]
        _demand(attention.dtype == np.float64 and tokens.dtype == segment.dtype == np.int64)
        _demand(segment.tolist() == expected and tokens.shape == segment.shape)
        _demand(attention.shape == (len(request.points), len(expected)))
        _demand(bool(np.isfinite(attention).all() and (attention >= 0).all()))
        return Replay(attention, tokens, segment)


@dataclass(frozen=True, slots=True)
class Embeddings:
    """Vectors as safetensors; call i embeds `counts[i]` texts."""

    counts: Sequence[int]
    dimension: int

    def encode(self, result: Vectors) -> bytes:
        """Return a float32 array."""
        return save({"vectors": np.ascontiguousarray(result, np.float32)})

    def decode(self, value: bytes, ordinal: int) -> Vectors:
        """Return the vectors, (texts, dimension); raises one of `MALFORMED`."""
        vectors = load(value)["vectors"]
        _demand(vectors.dtype == np.float32)
        _demand(vectors.shape == (self.counts[ordinal], self.dimension))
        _demand(bool(np.isfinite(vectors).all()))
        return vectors


def _demand(holds: bool) -> None:
    if not holds:
        raise ValueError("this is no result of its kind")

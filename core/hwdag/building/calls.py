"""Finished model calls, kept by what went into them, so that none is paid for twice.

A build commits what a call gave before it makes the next one: if it is killed it repeats at most the
call that was running, and an edited document pays only for the windows whose text changed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from hwdag.lm.base import Replay, ReplayRequest
from hwdag.store.calls import CallCache

Value = str | list[int] | Mapping[str, NDArray[Any]]
"""A result that can be kept."""

T = TypeVar("T", bound=Value)

MALFORMED = (ValueError, TypeError, AttributeError, LookupError, RecursionError, SafetensorError)
"""What a value raises that is no result of its kind."""

Finished = Generator[Mapping[int, T], None, None]
"""Results by ordinal of the call, as they are finished; what comes together is kept together."""

Fits = Callable[[Any, int], bool]
"""Whether a kept value is a result of the call with this ordinal; may raise one of `MALFORMED`."""


def encode(result: Value) -> bytes:
    """Return a text or a list as JSON, arrays as safetensors."""
    if isinstance(result, Mapping):
        return save({name: np.ascontiguousarray(array) for name, array in result.items()})
    return json.dumps(result).encode()


def decode(value: bytes) -> Any:
    """Return what was encoded, or something else; raises one of `MALFORMED` for other bytes."""
    # the length of a header of safetensors ends with a zero byte, and JSON has none
    return load(value) if value[7:8] == b"\0" else json.loads(value)


class CachedCalls:
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
        fits: Fits,
        call: Callable[[list[int]], Sequence[T]],
        *,
        size: int = 1,
        order: Callable[[int], int] = lambda ordinal: ordinal,
        keep: bool = True,
        advance: Callable[[int], object] = lambda amount: None,
    ) -> list[T]:
        """Return the result of every call, in order; what the cache does not have is made.

        Results are what `encode` takes; a kept one that does not fit its call is made again.

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

        return self.streamed(keys, fits, make, keep=keep, advance=advance)

    def streamed(
        self,
        keys: Sequence[bytes],
        fits: Fits,
        make: Callable[[list[int]], Finished[T]],
        *,
        keep: bool = True,
        advance: Callable[[int], object] = lambda amount: None,
    ) -> list[T]:
        """Do as `results` for calls that finish one by one: `make` gets all missing ordinals at once."""
        first: dict[bytes, int] = {}
        for i, key in enumerate(keys):
            first.setdefault(key, i)
        found = {key: result for key, i in first.items() for result in self._found(key, fits, i)}
        missing = [i for key, i in first.items() if key not in found]
        self.reused += len(found)
        self.kept.update(keys if keep else ())
        advance(len(keys) - len(missing))
        with closing(make(missing)) as made:
            while len(found) < len(first):
                finished = {keys[i]: result for i, result in next(made).items()}
                self._cache.put_all({key: encode(r) for key, r in finished.items()})
                found |= finished
                advance(len(finished))
        return [found[key] for key in keys]

    def _found(self, key: bytes, fits: Fits, ordinal: int) -> list[Any]:
        value = self._cache.get(key)
        try:
            found = [] if value is None else [decode(value)]
            return found if all(fits(one, ordinal) for one in found) else []
        except MALFORMED:
            return []


def is_text(value: Any, _: int) -> bool:
    """Say whether a value is a reply."""
    return isinstance(value, str)


def picks_of(available: Sequence[int]) -> Fits:
    """Values that are ascending indices into the `available[i]` things of call i; none only of none."""

    def fits(value: Any, ordinal: int) -> bool:
        most = available[ordinal]
        is_list = isinstance(value, list) and all(type(i) is int and 0 <= i < most for i in value)
        return is_list and value == sorted(set(value)) and bool(value) == bool(most)

    return fits


def replays_of(requests: Sequence[ReplayRequest]) -> Fits:
    """Values that are the arrays of a `Replay` of each request."""

    def fits(value: Any, ordinal: int) -> bool:
        replay, request = Replay(**value), requests[ordinal]
        attention, tokens, segment = replay.attention, replay.unit_tokens, replay.unit_segment
        expected = [i for i, units in enumerate(request.units) for _ in units]
        return bool(
            attention.dtype == np.float64
            and tokens.dtype == segment.dtype == np.int64
            and segment.tolist() == expected
            and tokens.shape == segment.shape
            and attention.shape == (len(request.points), len(expected))
            and np.isfinite(attention).all()
            and (attention >= 0).all()
        )

    return fits


def vectors_of(counts: Sequence[int], dimension: int) -> Fits:
    """Values that are float32 `vectors`, `counts[i]` of them in call i."""

    def fits(value: Any, ordinal: int) -> bool:
        vectors = value["vectors"]
        is_shaped = vectors.shape == (counts[ordinal], dimension) and vectors.dtype == np.float32
        return bool(is_shaped and np.isfinite(vectors).all())

    return fits

"""Metadata filters of random JSON, and random metadata."""

from __future__ import annotations

import atheris
from harness import fuzz, instrumented

with instrumented("hwdag.filters"):
    from hwdag.filters import predicate

from hwdag.errors import InputError

WORDS = (
    "and",
    "or",
    "not",
    "eq",
    "ne",
    "in",
    "gt",
    "gte",
    "lt",
    "lte",
    "exists",
    "a",
    "b",
    "a.b",
    "",
)


def value(data: atheris.FuzzedDataProvider, depth: int) -> object:
    """Any value of JSON, NaN and infinities included."""
    kind = data.ConsumeIntInRange(0, 5 if depth > 4 else 8)
    if kind < 4:
        plain = (None, data.ConsumeBool(), data.ConsumeInt(4), data.ConsumeFloat())
        return plain[kind]
    if kind < 6:
        return data.ConsumeUnicode(3)
    size = data.ConsumeIntInRange(0, 3)
    if kind == 6:
        return [value(data, depth + 1) for _ in range(size)]
    return {data.PickValueInList(list(WORDS)): value(data, depth + 1) for _ in range(size)}


def check(data: atheris.FuzzedDataProvider) -> None:
    """A filter that is read decides about anything."""
    form, metadata = value(data, 0), value(data, 1)
    for _ in range(data.ConsumeIntInRange(0, 1) * 40):
        form = {"not": form}
    try:
        decide = predicate(form)  # type: ignore[arg-type] # that is the question
    except InputError as error:
        assert str(error)
        return
    assert isinstance(decide(metadata if isinstance(metadata, dict) else {"a": metadata}), bool)


if __name__ == "__main__":
    fuzz(check)

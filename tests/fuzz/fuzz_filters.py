"""Metadata filters of random JSON, and random metadata."""

from __future__ import annotations

import json

import atheris
from harness import fuzz, instrumented

with instrumented("hwdag.filters"):
    from hwdag.filters import as_filter

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
    """A filter that is made, decides about anything, and survives its JSON form."""
    form, metadata = value(data, 0), value(data, 1)
    for _ in range(data.ConsumeIntInRange(0, 1) * 40):
        form = {"not": form}
    try:
        made = as_filter(form)
    except InputError as error:
        assert str(error)
        return
    if made is not None:
        found = metadata if isinstance(metadata, dict) else {"a": metadata}
        decided = made.matches(found)
        assert isinstance(decided, bool)
        again = as_filter(json.loads(json.dumps(made.to_dict())))
        assert again is not None
        assert again.matches(found) == decided


if __name__ == "__main__":
    fuzz(check)

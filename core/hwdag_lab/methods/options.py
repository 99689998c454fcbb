"""Options of methods: each field of a config says what is legal for it."""

from __future__ import annotations

from dataclasses import field, fields
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from hwdag.checks import one_of, whole
from hwdag.errors import InputError


def at_least(minimum: int, default: int | None) -> Any:
    """A field of a config: a whole number of at least `minimum`, or None where its type says so."""
    return field(default=default, metadata={"least": minimum})


def share(default: float) -> Any:
    """A field of a config: a number between 0 and 1, which it may not be."""
    return field(default=default, metadata={"is_share": True})


class CheckedOptions:
    """Base of dataclasses whose fields are checked: those above, and every `Literal`."""

    __slots__ = ()

    def __post_init__(self) -> None:
        hints = get_type_hints(type(self))
        for each in fields(self):  # type: ignore[arg-type] # a dataclass
            value, hint = getattr(self, each.name), hints[each.name]
            if get_origin(hint) is Literal:
                one_of(each.name, value, get_args(hint))
            elif "least" in each.metadata and not (value is None and NoneType in get_args(hint)):
                whole(each.name, value, each.metadata["least"])
            elif "is_share" in each.metadata and not 0.0 < value < 1.0:
                raise InputError(f"{each.name} must be between 0 and 1, got {value!r}")

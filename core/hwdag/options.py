"""Options as dataclasses whose fields declare their accepted values.

    @dataclass(frozen=True, slots=True)
    class BM25Config(CheckedOptions):
        granularity: Literal["300", "sentence"] = "300"  # one of these words
        contextual: bool = False  # true or false
        k1: float = at_least(0, 1.5)  # a finite number of at least 0
        b: float = between(0, 1, 0.75)  # a number from 0 to 1

`X | None` also accepts None. A tuple of numbers needs at least one. Classes check other types
themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, field, fields
from math import inf
from types import NoneType
from typing import Any, ClassVar, Literal, get_args, get_origin, get_type_hints

from hwdag.checks import one_of
from hwdag.errors import InputError


def at_least(least: float, default: Any) -> Any:
    """Return a field for numbers >= `least`."""
    return field(default=default, metadata={"least": least})


def between(least: float, most: float, default: float | None) -> Any:
    """Return a field for numbers in [least, most]."""
    return field(default=default, metadata={"least": least, "most": most})


def share(default: float) -> Any:
    """Return a field for numbers in (0, 1)."""
    return field(default=default, metadata={"least": 0, "most": 1, "is_open": True})


class CheckedOptions:
    """Base class of option dataclasses; see the module.

    Raises:
        UnknownOption: a field does not accept this word.
        InputError: a value of the wrong type, or a number out of range.
    """

    __slots__ = ()
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def __post_init__(self) -> None:
        hints = get_type_hints(type(self))
        for each in fields(self):
            _check(each.name, getattr(self, each.name), hints[each.name], each.metadata)


def members(hint: Any) -> list[Any]:
    """Types and words of a union."""
    if get_origin(hint) is Literal:
        return list(get_args(hint))
    if get_origin(hint) is tuple or not get_args(hint):
        return [hint]
    return [member for one in get_args(hint) for member in members(one)]


def _check(name: str, value: object, hint: Any, limits: Mapping[str, Any]) -> None:
    if get_origin(hint) is tuple and int in get_args(hint):
        _check_numbers(name, value, limits)
        return
    found = members(hint)
    words = [one for one in found if isinstance(one, str)]
    kinds = [one for one in found if one not in words and one is not NoneType]
    if (value is None and NoneType in found) or (isinstance(value, str) and value in words):
        return
    if not kinds:
        one_of(name, value, words)  # type: ignore[arg-type] # it takes any value
    [kind, *others] = kinds or [None]
    legal = _legal(kind, limits)
    if legal and not others and not words and not _fits(value, kind, limits):
        raise InputError(f"{name} must be {legal}, got {value!r}")


def _check_numbers(name: str, value: object, limits: Mapping[str, Any]) -> None:
    numbers = value if isinstance(value, tuple) else ()
    if not numbers or not all(_fits(number, int, limits) for number in numbers):
        raise InputError(f"{name} must be one or more of {_legal(int, limits)}, got {value!r}")


def _fits(value: object, kind: Any, limits: Mapping[str, Any]) -> bool:
    if kind not in (int, float):
        return isinstance(value, kind)
    if isinstance(value, bool) or not isinstance(value, int | kind):
        return False
    least, most = limits.get("least", -inf), limits.get("most", inf)
    inside = least < value < most if limits.get("is_open") else least <= value <= most
    return bool(inside and abs(value) < inf)


def _legal(kind: Any, limits: Mapping[str, Any]) -> str:
    """Describe the accepted values of a field of a simple type; "" for other types."""
    words = {bool: "true or false", str: "a text", int: "a whole number", float: "a number"}
    bounds = ""
    if "most" in limits:
        ends = "excluded" if limits.get("is_open") else "included"
        bounds = f" between {limits['least']} and {limits['most']}, both {ends}"
    elif "least" in limits:
        bounds = f" of at least {limits['least']}"
    if isinstance(kind, type) and kind not in words:
        return f"a {kind.__name__}"
    return words[kind] + bounds if kind in words else ""

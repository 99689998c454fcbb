"""Checks of options, JSON and JSON files; errors name the field, its value and the accepted ones."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from reprlib import repr as brief
from typing import Any

from hwdag.errors import InputError, UnknownOption


def whole(name: str, value: object, minimum: int) -> int:
    """Return a whole number. Raises `InputError` for anything else, or below the minimum."""
    if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
        raise InputError(f"{name} must be a whole number of at least {minimum}, got {value!r}")
    return value


def positive(name: str, value: object) -> float:
    """Return a finite number above 0. Raises `InputError` for anything else."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 < value < float("inf"):  # type: ignore[operator]
        raise InputError(f"{name} must be a finite number above 0, got {value!r}")
    return value  # type: ignore[return-value]


def one_of(name: str, value: str, legal: Collection[str]) -> str:
    """Return one of some words. Raises `UnknownOption` for any other."""
    if value not in legal:
        raise UnknownOption(f"{name} must be one of {', '.join(legal)}, got {value!r}")
    return value


def under_one_name(**values: object) -> Any:
    """Return the value of an option with several names, or None; `UnknownOption` if values differ."""
    found = {name: value for name, value in values.items() if value is not None}
    first = next(iter(found.values()), None)
    if any(value is not first and value != first for value in found.values()):
        said = " and ".join(f"{name}={brief(value)}" for name, value in found.items())
        raise UnknownOption(f"{said} are one option; pass one of them")
    return first


def refuse(unknown: Mapping[str, object], where: str, known: str) -> None:
    """Raise `UnknownOption` for whatever `**kwargs` left over."""
    if unknown:
        names = ", ".join(map(repr, sorted(unknown)))
        raise UnknownOption(f"{where} has no option {names}; it has {known}")


_LEGAL: Mapping[str, Callable[[Any], bool]] = {
    "a text": lambda value: isinstance(value, str),
    "true or false": lambda value: isinstance(value, bool),
    "a positive number": lambda value: type(value) is int and value > 0,
    "a finite number": lambda value: (
        type(value) in (int, float) and abs(value) <= sys.float_info.max
    ),
    "a list of texts": lambda value: _all(value, _LEGAL["a text"]),
    "a list of finite numbers": lambda value: _all(value, _LEGAL["a finite number"]),
    "a list of [layer, head]": lambda value: _all(
        value, lambda pair: _all(pair, lambda i: type(i) is int) and len(pair) == 2
    ),
}


def _all(value: Any, is_legal: Callable[[Any], bool]) -> bool:
    return isinstance(value, list) and all(map(is_legal, value))


def json_object(
    data: object, kinds: Mapping[str, str], required: Collection[str]
) -> dict[str, Any]:
    """Return the fields of an untrusted JSON object, lists as tuples.

    `kinds` gives the kind of each field, a key of `_LEGAL`. Raises `InputError` for anything else.
    """
    if not isinstance(data, dict):
        raise InputError(f"it holds a {type(data).__name__}, not an object")
    if missing := sorted(set(required) - data.keys()):
        raise InputError(f"{', '.join(map(repr, missing))} missing; it needs {sorted(required)}")
    if unknown := sorted(data.keys() - kinds.keys()):
        raise InputError(f"unknown {', '.join(map(brief, unknown))}; it may have {sorted(kinds)}")
    for name, value in data.items():
        if not _LEGAL[kinds[name]](value):
            raise InputError(f"{name!r} must be {kinds[name]}, got {brief(value)}")
    return {name: tuple(v) if isinstance(v, list) else v for name, v in data.items()}


MOST_JSON_BYTES = 1 << 24


def regular(path: Path) -> Path:
    """Return the path of a regular file. Raises `OSError` for others: a pipe or device may never end."""
    path.stat()
    if not path.is_file():
        raise OSError(None, "not a regular file", str(path))
    return path


def json_bytes(path: Path) -> bytes:
    """Return the bytes of a JSON file. Raises `OSError` if it exceeds 16 MB or cannot be read."""
    with regular(path).open("rb") as file:
        found = file.read(MOST_JSON_BYTES + 1)
    if len(found) > MOST_JSON_BYTES:
        raise OSError(None, f"larger than {MOST_JSON_BYTES >> 20} MB", str(path))
    return found


def listed(ids: Collection[str], limit: int = 5) -> str:
    """Return a few ids for a message."""
    found = list(ids)
    more = f" and {len(found) - limit} more" if len(found) > limit else ""
    return ", ".join(map(repr, found[:limit])) + more

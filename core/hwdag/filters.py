"""Filters over the metadata of documents, as JSON.

    matches({"lang": "de", "year": {"gte": 2019}}, document.metadata)

A filter sees only the metadata, before anything is scored or shown to a model:

    filter    = {key: value, ...} | {key: {operator: value, ...}, ...}    all entries must hold
              | {"and": [filter, ...]} | {"or": [filter, ...]} | {"not": filter}
    operator  = "eq" | "ne" | "in" | "gt" | "gte" | "lt" | "lte" | "exists"

A bare value means `{"eq": value}`. A missing key equals nothing, so `{"lang": {"ne": "de"}}` matches a
document without a language. A filter that no document can match raises `InputError`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from reprlib import repr as brief
from typing import Any, TypeAlias

from hwdag.errors import InputError, UnknownOption

Filter: TypeAlias = Mapping[str, Any]
"""The JSON form above."""

Predicate: TypeAlias = Callable[[Mapping[str, Any]], bool]
"""Decides whether a document with this metadata (parsed JSON) matches."""

OPERATORS = ("eq", "ne", "in", "gt", "gte", "lt", "lte", "exists")
MAX_DEPTH = 32  # levels of nesting

_COMPARISONS = {"gt": operator.gt, "gte": operator.ge, "lt": operator.lt, "lte": operator.le}
_MISSING = object()
_NO_SCALAR = ("other", None)

_Identity: TypeAlias = tuple[str, Any]
"""Kind and value, equal if a filter takes the values as equal: 1 and 1.0, but not 1 and True."""


def matches(form: Filter | Predicate, metadata: Mapping[str, Any]) -> bool:
    """Return whether a document with this metadata matches; errors as in `predicate`."""
    return predicate(form)(metadata)


def predicate(form: Filter | Predicate) -> Predicate:
    """Check a filter and return the function that applies it; a function is returned as it is.

    - `eq`: texts equal texts and numbers equal numbers (1 is 1.0, true is not a number). A value also
      equals a list that contains it; a list equals a list, or is contained in a list of lists.
    - `in`: `eq` holds for one of the values; an empty list never matches.
    - `gt`, `gte`, `lt`, `lte`: numbers compare with numbers, texts with texts character by character,
      so ISO dates sort correctly. Lists, truth values and all else never match.
    - `exists`: the key is present, even if null (true), or missing (false).
    - If there is no key "a.b", it means the key "b" of the mapping under "a".

    Raises:
        UnknownOption: the operator does not exist.
        InputError: not a valid filter, or an empty one.
    """
    return form if callable(form) else _read(form, 0)


def _read(form: Any, depth: int) -> Predicate:
    if not isinstance(form, Mapping) or not form:
        raise InputError(
            f'a filter is a mapping with at least one key, such as {{"lang": "de"}}, got {brief(form)}; '
            "leave the filter out to see every document"
        )
    if depth > MAX_DEPTH:
        raise InputError(
            f"the filter is nested more than {MAX_DEPTH} deep; write it flatter: and, or and in take "
            "any number of parts"
        )
    return _all([_read_entry(key, value, depth) for key, value in form.items()])


def _read_entry(key: Any, value: Any, depth: int) -> Predicate:
    if key == "not":
        return _negation(_read(value, depth + 1))
    if key in ("and", "or"):
        if not isinstance(value, list | tuple) or not value:
            raise InputError(f'"{key}" takes a list of filters, got {brief(value)}')
        parts = [_read(part, depth + 1) for part in value]
        return _all(parts) if key == "and" else _any(parts)
    if not isinstance(key, str) or not key:
        raise InputError(f"the key of a filter is a text that is not empty, got {brief(key)}")
    if isinstance(value, list | tuple):
        raise InputError(
            f'{brief(key)}: a bare list is ambiguous; use {{"in": [...]}} for one of its values, or '
            '{"eq": [...]} for the whole list'
        )
    return _read_operators(key, value if isinstance(value, Mapping) else {"eq": value})


def _read_operators(key: str, operators: Mapping[Any, Any]) -> Predicate:
    unknown = [name for name in operators if name not in OPERATORS]
    if unknown or not operators:
        raise UnknownOption(
            f"a filter has no operator {', '.join(map(brief, unknown)) or '{}'} for {brief(key)}; it has "
            f"{', '.join(OPERATORS)}"
        )
    bounds = {name: operators[name] for name in _COMPARISONS if name in operators}
    others = [_READ[name](key, operators[name]) for name in operators if name in _READ]
    return _all([*([_within(key, bounds)] if bounds else []), *others])


def _all(parts: list[Predicate]) -> Predicate:
    return parts[0] if len(parts) == 1 else lambda metadata: all(part(metadata) for part in parts)


def _any(parts: list[Predicate]) -> Predicate:
    return lambda metadata: any(part(metadata) for part in parts)


def _negation(part: Predicate) -> Predicate:
    return lambda metadata: not part(metadata)


def _equals(key: str, value: Any) -> Predicate:
    for one in value if isinstance(value, list | tuple) else [value]:
        _check_scalar(one)
    wanted = _identity(value)
    return lambda metadata: wanted in _identities(_look_up(metadata, key))


def _in(key: str, values: Any) -> Predicate:
    if not isinstance(values, list | tuple):
        raise InputError(
            f'"in" takes a list of values, got {brief(values)} for {brief(key)}; for one value use "eq"'
        )
    for one in values:
        _check_scalar(one)
    wanted = frozenset(map(_identity, values))
    return lambda metadata: not wanted.isdisjoint(_identities(_look_up(metadata, key)))


def _exists(key: str, wanted: Any) -> Predicate:
    if not isinstance(wanted, bool):
        raise InputError(f'{brief(key)}: "exists" takes true or false, got {brief(wanted)}')
    return lambda metadata: (_look_up(metadata, key) is not _MISSING) is wanted


def _within(key: str, bounds: Mapping[str, Any]) -> Predicate:
    for bound in bounds.values():
        _check_scalar(bound)
    kinds = {_identity(bound)[0] for bound in bounds.values()}
    if len(kinds) != 1 or not kinds <= {"number", "text"}:
        raise InputError(
            f"a range needs bounds ({', '.join(_COMPARISONS)}) that are all numbers or all texts, got "
            f'{brief(bounds)} for {brief(key)}; write dates as text, such as "2024-05-31"'
        )
    (kind,) = kinds

    def holds(metadata: Mapping[str, Any]) -> bool:
        value = _look_up(metadata, key)
        return _identity(value)[0] == kind and all(
            _COMPARISONS[name](value, bound) for name, bound in bounds.items()
        )

    return holds


_READ: Mapping[str, Callable[[str, Any], Predicate]] = {
    "eq": _equals,
    "ne": lambda key, value: _negation(_equals(key, value)),
    "in": _in,
    "exists": _exists,
}


def _check_scalar(value: Any) -> None:
    """Raise `InputError` unless the value is a finite JSON scalar."""
    is_finite = not isinstance(value, float) or math.isfinite(value)
    if not (is_finite and _identity(value)[0] in ("null", "truth", "number", "text")):
        raise InputError(
            f"a filter compares with texts, finite numbers, true, false and null, got {brief(value)} "
            f"({type(value).__name__})"
        )


def _look_up(metadata: Any, key: str) -> Any:
    """Return the value under a key or a dotted path; `_MISSING` if there is none."""
    while isinstance(metadata, Mapping):
        if key in metadata:
            return metadata[key]
        head, dot, key = key.partition(".")
        if not dot:
            break
        metadata = metadata.get(head)
    return _MISSING


def _identities(found: Any) -> list[_Identity]:
    """Return the values that a metadata value equals: itself, and each element of a list."""
    elements = map(_identity, found) if isinstance(found, list | tuple) else ()
    return [_identity(found), *elements]


def _identity(value: Any) -> _Identity:
    """Return kind and value; "other" for values that a filter cannot hold, such as nested lists."""
    match value:
        case None:
            return "null", None
        case bool():
            return "truth", value
        case int() | float():
            return "number", value
        case str():
            return "text", value
        case list() | tuple():
            return "list", tuple(
                _NO_SCALAR if isinstance(v, list | tuple) else _identity(v) for v in value
            )
        case _:
            return _NO_SCALAR

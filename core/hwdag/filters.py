"""Filters over the metadata of documents: Python values, and a JSON form that says the same.

A filter decides from the metadata alone, before anything is scored or shown to a model:

    as_filter({"lang": "de", "year": {"gte": 2019}})
    And(Equals("lang", "de"), Range("year", gte=2019))

Both lines make the same filter. A missing key matches nothing, so `Not(Equals("lang", "de"))`
matches a document without a language. What no document can have raises `InputError`.
"""

from __future__ import annotations

import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from reprlib import repr as brief
from typing import Any, ClassVar

from hwdag.errors import InputError, UnknownOption

Scalar = str | int | float | bool | None  # a value of JSON that holds no others
MAX_DEPTH = 32  # filters that may stand inside one another; deeper ones are nobody's question

OPERATORS = ("eq", "ne", "in", "gt", "gte", "lt", "lte", "exists")
COMBINATIONS = ("and", "or", "not")

_COMPARISONS = {"gt": operator.gt, "gte": operator.ge, "lt": operator.lt, "lte": operator.le}
_MISSING = object()
_NO_SCALAR = ("other", None)

_Identity = tuple[str, Any]
"""Kind and value: equal for values that a filter calls equal, so 1 and 1.0, but not 1 and True."""


class Filter(ABC):
    """What decides whether a document may be seen."""

    __slots__ = ()

    def matches(self, metadata: Mapping[str, Any]) -> bool:
        """Whether a document with this metadata, parsed JSON, may be seen."""
        return self._holds(metadata)

    def to_dict(self) -> dict[str, Any]:
        """The JSON form, as `as_filter` reads it."""
        return self._form()

    @abstractmethod
    def _holds(self, metadata: Mapping[str, Any]) -> bool: ...

    @abstractmethod
    def _form(self) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True)
class Equals(Filter):
    """The value under `key` is `value`, or is a list that contains `value`.

    Texts equal texts, numbers equal numbers (1 is 1.0), and `True` is no number.

    Attributes:
        key: a key of the metadata. Where there is none of that name, "a.b" is key "b" of the
            mapping under key "a".
        value: text, number, True, False, None, or a list of these, which a list must equal (or,
            being a list of lists, contain).

    Raises `InputError` for a key or value that no document can have.
    """

    key: str
    value: Scalar | tuple[Scalar, ...] | list[Scalar] = field(compare=False)
    _wanted: _Identity = field(init=False, repr=False)

    def __post_init__(self) -> None:
        _check_key(self.key)
        if isinstance(self.value, list | tuple):
            object.__setattr__(self, "value", tuple(map(_scalar, self.value)))
        else:
            _scalar(self.value)
        object.__setattr__(self, "_wanted", _identity(self.value))

    def _holds(self, metadata: Mapping[str, Any]) -> bool:
        return self._wanted in _identities(_look_up(metadata, self.key))

    def _form(self) -> dict[str, Any]:
        if isinstance(self.value, tuple):
            return {self.key: {"eq": list(self.value)}}
        return {self.key: self.value}


@dataclass(frozen=True, slots=True)
class In(Filter):
    """The value under `key` is one of `values`, or is a list that contains one of them.

    Without values it matches nothing. Raises `InputError` for a single text, a list or a mapping in them.
    """

    key: str
    values: Iterable[Scalar] = field(compare=False)
    _wanted: frozenset[_Identity] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        _check_key(self.key)
        if isinstance(self.values, str | bytes | Mapping) or not isinstance(self.values, Iterable):
            raise InputError(
                f'"in" takes a list of values, got {brief(self.values)} for {brief(self.key)}; for one value '
                'use "eq"'
            )
        object.__setattr__(self, "values", tuple(map(_scalar, self.values)))
        object.__setattr__(self, "_wanted", frozenset(map(_identity, self.values)))

    def _holds(self, metadata: Mapping[str, Any]) -> bool:
        return not self._wanted.isdisjoint(_identities(_look_up(metadata, self.key)))

    def _form(self) -> dict[str, Any]:
        return {self.key: {"in": list(self.values)}}


@dataclass(frozen=True, slots=True)
class Range(Filter):
    """The value under `key` lies within all bounds that are set, which are all numbers or all texts.

    Number bounds match numbers only. Text bounds match texts only, compared character by
    character, which puts ISO dates in order. Lists, truth values and all else never match.
    Raises `InputError` for no bound, bounds of two kinds, or a bound that has no order.
    """

    key: str
    gt: str | int | float | None = None
    gte: str | int | float | None = None
    lt: str | int | float | None = None
    lte: str | int | float | None = None
    _kind: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _check_key(self.key)
        bounds = self._bounds()
        kinds = {_identity(_scalar(bound))[0] for bound in bounds.values()}
        if len(kinds) != 1 or not kinds <= {"number", "text"}:
            raise InputError(
                f"a range needs bounds ({', '.join(_COMPARISONS)}) that are all numbers or all texts, "
                f"got {brief(bounds)} for {brief(self.key)}; write dates as text, such as "
                '"2024-05-31"'
            )
        object.__setattr__(self, "_kind", kinds.pop())

    def _holds(self, metadata: Mapping[str, Any]) -> bool:
        value = _look_up(metadata, self.key)
        return _identity(value)[0] == self._kind and all(
            _COMPARISONS[name](value, bound) for name, bound in self._bounds().items()
        )

    def _form(self) -> dict[str, Any]:
        return {self.key: self._bounds()}

    def _bounds(self) -> dict[str, Any]:
        bounds = ((name, getattr(self, name)) for name in _COMPARISONS)
        return {name: bound for name, bound in bounds if bound is not None}


@dataclass(frozen=True, slots=True)
class Exists(Filter):
    """There is something under `key`, be it None."""

    key: str

    def __post_init__(self) -> None:
        _check_key(self.key)

    def _holds(self, metadata: Mapping[str, Any]) -> bool:
        return _look_up(metadata, self.key) is not _MISSING

    def _form(self) -> dict[str, Any]:
        return {self.key: {"exists": True}}


@dataclass(frozen=True, slots=True, init=False)
class _Several(Filter):
    filters: tuple[Filter, ...]
    word: ClassVar[str]
    enough: ClassVar[Callable[[Iterable[bool]], bool]]

    def __init__(self, *filters: Filter) -> None:
        _check_parts(self.word, filters)
        object.__setattr__(self, "filters", filters)

    def _holds(self, metadata: Mapping[str, Any]) -> bool:
        return type(self).enough(part.matches(metadata) for part in self.filters)

    def _form(self) -> dict[str, Any]:
        return {self.word: [part.to_dict() for part in self.filters]}


class And(_Several):
    """All of at least one filter match.

    Raises `InputError` for no filter, something else than one, or nesting beyond `MAX_DEPTH`.
    """

    __slots__ = ()
    word, enough = "and", all


class Or(_Several):
    """One or more of at least one filter match; raises as `And` does."""

    __slots__ = ()
    word, enough = "or", any


@dataclass(frozen=True, slots=True)
class Not(Filter):
    """The filter does not match; raises as `And` does."""

    filter: Filter

    def __post_init__(self) -> None:
        _check_parts("not", (self.filter,))

    def _holds(self, metadata: Mapping[str, Any]) -> bool:
        return not self.filter.matches(metadata)

    def _form(self) -> dict[str, Any]:
        return {"not": self.filter.to_dict()}


def as_filter(value: Filter | Mapping[str, Any] | None) -> Filter | None:
    """A filter as it is, its JSON form read, None as None.

    Args:
        value: in the JSON form `{"lang": "de"}` is equality, `{"year": {"gte": 2019, "lt": 2021}}`
            applies operators (all of `OPERATORS` are known), `{"and": [...]}`, `{"or": [...]}` and
            `{"not": {...}}` combine, and several keys of one mapping must all match.

    Raises:
        UnknownOption: an operator that does not exist.
        InputError: anything else that is not such a form; an empty one among them.
    """
    return None if value is None else _read(value, 0)


def _read(form: Any, depth: int) -> Filter:
    if isinstance(form, Filter):
        return form
    if not isinstance(form, Mapping) or not form:
        raise InputError(
            f'a filter is a mapping with at least one key, such as {{"lang": "de"}}, got {brief(form)}; '
            "leave the filter out to see every document"
        )
    _check_depth(depth)
    return _all_of([_read_entry(key, value, depth) for key, value in form.items()])


def _read_entry(key: Any, value: Any, depth: int) -> Filter:
    if key == "not":
        return Not(_read(value, depth + 1))
    if key in COMBINATIONS:
        if not isinstance(value, list | tuple):
            raise InputError(f'"{key}" takes a list of filters, got {brief(value)}')
        parts = [_read(part, depth + 1) for part in value]
        return And(*parts) if key == "and" else Or(*parts)
    if isinstance(value, list | tuple):
        raise InputError(
            f'{brief(key)}: a list says too little; use {{"in": [...]}} for one of its values, or '
            '{"eq": [...]} for the whole list'
        )
    return _read_operators(key, value) if isinstance(value, Mapping) else Equals(key, value)


def _read_operators(key: Any, operators: Mapping[str, Any]) -> Filter:
    unknown = [name for name in operators if name not in OPERATORS]
    if unknown or not operators:
        raise UnknownOption(
            f"a filter has no operator {', '.join(map(brief, unknown)) or '{}'} for {brief(key)}; it has "
            f"{', '.join(OPERATORS)}"
        )
    bounds = {name: operators[name] for name in _COMPARISONS if name in operators}
    if None in bounds.values():
        raise InputError(
            f"{brief(key)}: null is no bound, got {brief(bounds)}; leave such a bound out"
        )
    ranges = [Range(key, **bounds)] if bounds else []
    others = [_MADE[name](key, operators[name]) for name in operators if name in _MADE]
    return _all_of([*ranges, *others])


def _exists(key: str, wanted: Any) -> Filter:
    if not isinstance(wanted, bool):
        raise InputError(f'{brief(key)}: "exists" takes true or false, got {brief(wanted)}')
    return Exists(key) if wanted else Not(Exists(key))


_MADE: Mapping[str, Callable[[str, Any], Filter]] = {
    "eq": Equals,
    "ne": lambda key, value: Not(Equals(key, value)),
    "in": In,
    "exists": _exists,
}


def _all_of(filters: list[Filter]) -> Filter:
    return filters[0] if len(filters) == 1 else And(*filters)


def _check_parts(word: str, filters: tuple[Any, ...]) -> None:
    if not filters:
        raise InputError(f'"{word}" needs at least one filter; leave it out to see every document')
    for part in filters:
        if not isinstance(part, Filter):
            raise InputError(
                f'"{word}" combines filters, got {brief(part)}; use as_filter(...) for the JSON form'
            )
    _check_depth(1 + max(map(_depth, filters)))


def _depth(what: Filter) -> int:
    parts = what.filters if isinstance(what, _Several) else ()
    parts = (what.filter,) if isinstance(what, Not) else parts
    return 1 + max(map(_depth, parts)) if parts else 0


def _check_depth(depth: int) -> None:
    if depth > MAX_DEPTH:
        raise InputError(
            f"the filter is nested more than {MAX_DEPTH} deep; write it flatter: and, or and in take "
            "any number of parts"
        )


def _check_key(key: object) -> None:
    if not isinstance(key, str) or not key:
        raise InputError(f"the key of a filter is a text that is not empty, got {brief(key)}")
    if key in COMBINATIONS:
        raise InputError(
            f"{brief(key)} combines filters and cannot be the key of one; documents that are to be "
            "filtered by it need another name for it in their metadata"
        )


def _scalar(value: Any) -> Any:
    """`value` itself, checked to be a finite value of JSON that holds no others."""
    is_finite = not isinstance(value, float) or math.isfinite(value)
    if is_finite and _identity(value)[0] in ("null", "truth", "number", "text"):
        return value
    raise InputError(
        f"a filter compares with texts, finite numbers, true, false and null, got {brief(value)} "
        f"({type(value).__name__})"
    )


def _look_up(metadata: Any, key: str) -> Any:
    """The value under a key, or under the path that the key is; `_MISSING` where there is none."""
    while isinstance(metadata, Mapping):
        if key in metadata:
            return metadata[key]
        head, dot, key = key.partition(".")
        if not dot:
            break
        metadata = metadata.get(head)
    return _MISSING


def _identities(found: Any) -> list[_Identity]:
    """What a value of the metadata equals: itself, and each element of a list."""
    elements = map(_identity, found) if isinstance(found, list | tuple) else ()
    return [_identity(found), *elements]


def _identity(value: Any) -> _Identity:
    """Kind and value; "other" stands for all that a filter cannot be made of, lists in lists too."""
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

"""Conversion of LlamaIndex's `MetadataFilters` to filters of the core."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from llama_index.core.vector_stores.types import (
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
)

from hwdag.errors import InputError, UnknownOption
from hwdag.filters import Filter

Filters: TypeAlias = Filter | MetadataFilters
"""Type of the option `filters`."""


def as_core_filter(filters: Filters | None) -> Filter | None:
    """Convert to a filter of the core; None if every document matches.

    A missing field matches only `!=`, `nin` and `is_empty`, as in LlamaIndex's own vector store.

    Raises:
        UnknownOption: the core lacks an operator.
        InputError: an operator cannot use its value.
    """
    if not isinstance(filters, MetadataFilters):
        return filters
    return _combined(filters) if filters.filters else None


def _combined(filters: MetadataFilters) -> Filter:
    if not filters.filters:
        raise InputError("a nested MetadataFilters holds no filter; leave it out")
    parts = [
        _combined(part) if isinstance(part, MetadataFilters) else _translated(part)
        for part in filters.filters
    ]
    if filters.condition == FilterCondition.OR:
        return {"or": parts}
    if filters.condition == FilterCondition.NOT:  # LlamaIndex means that all of them fail
        return {"not": {"or": parts}}
    return {"and": parts}


def _translated(part: MetadataFilter) -> Filter:
    make = _OPERATORS.get(part.operator)
    if make is None:
        known = ", ".join(operator.value for operator in _OPERATORS)
        raise UnknownOption(
            f"the operator {part.operator.value!r} (of {part.key!r}) is not supported, since values "
            f"are compared as a whole; supported are {known}. Filter by another field, or pass "
            "document_ids"
        )
    return make(part.key, part.value)


def _several(key: str, value: Any) -> Sequence[Any]:
    if not isinstance(value, list | tuple):
        raise InputError(f"the filter of {key!r} takes a list of values, got {value!r}")
    return value


def _by(operator: str) -> Callable[[str, Any], Filter]:
    return lambda key, value: {key: {operator: value}}


def _in(key: str, value: Any) -> Filter:
    return {key: {"in": _several(key, value)}}


def _all(key: str, value: Any) -> Filter:
    parts = [{key: {"eq": each}} for each in _several(key, value)]
    return {"and": parts} if parts else {key: {"exists": True}}


def _is_empty(key: str, value: Any) -> Filter:
    return {"or": [{key: {"exists": False}}, {key: {"in": [None, ""]}}, {key: {"eq": []}}]}


_OPERATORS: dict[FilterOperator, Callable[[str, Any], Filter]] = {
    FilterOperator.EQ: _by("eq"),
    FilterOperator.NE: _by("ne"),
    FilterOperator.GT: _by("gt"),
    FilterOperator.GTE: _by("gte"),
    FilterOperator.LT: _by("lt"),
    FilterOperator.LTE: _by("lte"),
    FilterOperator.IN: _in,
    FilterOperator.NIN: lambda key, value: {"not": _in(key, value)},
    FilterOperator.ANY: _in,
    FilterOperator.ALL: _all,
    FilterOperator.CONTAINS: _by("eq"),
    FilterOperator.IS_EMPTY: _is_empty,
}

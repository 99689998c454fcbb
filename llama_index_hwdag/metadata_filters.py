"""LlamaIndex's `MetadataFilters` as filters of the core."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from llama_index.core.vector_stores.types import (
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
)

from hwdag.errors import InputError, UnknownOption
from hwdag.filters import And, Equals, Exists, Filter, In, Not, Or, Range, as_filter

Filters = Filter | Mapping[str, Any] | MetadataFilters
"""What the option `filters` takes: a core filter, its JSON form, or LlamaIndex's own."""


def as_core_filter(filters: Filters | None) -> Filter | None:
    """A filter of the core; None where every document matches.

    What is missing matches `!=`, `nin` and `is_empty` alone, as in LlamaIndex's own vector store.

    Raises:
        UnknownOption: an operator that the core has no equal of.
        InputError: anything else that cannot be a filter.
    """
    if not isinstance(filters, MetadataFilters):
        return as_filter(filters)
    return _combined(filters) if filters.filters else None


def _combined(filters: MetadataFilters) -> Filter:
    if not filters.filters:
        raise InputError("a nested MetadataFilters holds no filter; leave it out")
    parts = [
        _combined(part) if isinstance(part, MetadataFilters) else _translated(part)
        for part in filters.filters
    ]
    if filters.condition == FilterCondition.OR:
        return Or(*parts)
    if filters.condition == FilterCondition.NOT:  # none of them, as LlamaIndex reads it
        return Not(Or(*parts))
    return And(*parts)


def _translated(part: MetadataFilter) -> Filter:
    make = _OPERATORS.get(part.operator)
    if make is None:
        known = ", ".join(operator.value for operator in _OPERATORS)
        raise UnknownOption(
            f"the operator {part.operator.value!r} (of {part.key!r}) has no equal here, where values "
            f"are compared as a whole; there are {known}. Choose the documents by another field, or "
            "by document_ids"
        )
    return make(part.key, part.value)


def _several(key: str, value: Any) -> Sequence[Any]:
    if not isinstance(value, list | tuple):
        raise InputError(f"the filter of {key!r} takes a list of values, got {value!r}")
    return value


def _all(key: str, value: Any) -> Filter:
    parts = [Equals(key, each) for each in _several(key, value)]
    return And(*parts) if parts else Exists(key)


_OPERATORS: dict[FilterOperator, Callable[[str, Any], Filter]] = {
    FilterOperator.EQ: Equals,
    FilterOperator.NE: lambda key, value: Not(Equals(key, value)),
    FilterOperator.GT: lambda key, value: Range(key, gt=value),
    FilterOperator.GTE: lambda key, value: Range(key, gte=value),
    FilterOperator.LT: lambda key, value: Range(key, lt=value),
    FilterOperator.LTE: lambda key, value: Range(key, lte=value),
    FilterOperator.IN: lambda key, value: In(key, _several(key, value)),
    FilterOperator.NIN: lambda key, value: Not(In(key, _several(key, value))),
    FilterOperator.ANY: lambda key, value: In(key, _several(key, value)),
    FilterOperator.ALL: _all,
    FilterOperator.CONTAINS: Equals,
    FilterOperator.IS_EMPTY: lambda key, _: Or(
        Not(Exists(key)), In(key, (None, "")), Equals(key, ())
    ),
}

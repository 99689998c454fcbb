"""Filters of Haystack, judged by Haystack's own function, and those of `hwdag.filters`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from haystack import Document
from haystack.errors import FilterError
from haystack.utils.filters import document_matches_filter

from hwdag.errors import InputError, UnknownOption
from hwdag.filters import MAX_DEPTH, Filter, Predicate, predicate

FORM = ("operator", "conditions", "field")
"""Keys of a filter of Haystack."""

OWN_FIELDS = {field.name for field in fields(Document)} - {"meta"}
"""Fields of a document of Haystack that a source does not have."""


def checked(filters: Mapping[str, Any] | None) -> Filter | Predicate | None:
    """Return the filter in a form that the core takes; None if it is empty.

    Raises:
        UnknownOption: it is no filter, or has an unknown operator.
        InputError: it asks for another field than metadata.
    """
    if filters is None or filters == {}:
        return None
    if isinstance(filters, Mapping) and filters.keys().isdisjoint(FORM):
        predicate(filters)  # raises for an invalid filter
        return filters
    _check(filters)
    return lambda metadata: _matches(filters, metadata)


def _check(part: Any, depth: int = 0) -> None:
    """Check every part by itself, since Haystack stops at the first that decides."""
    if depth > MAX_DEPTH:
        raise InputError(f"the filter is nested more than {MAX_DEPTH} deep; write it flatter")
    conditions = part.get("conditions") if isinstance(part, Mapping) else None
    if not isinstance(part, Mapping) or not isinstance(conditions, list | None):
        raise _no_filter(part)
    for condition in conditions or ():
        _check(condition, depth + 1)
    field = part.get("field", "meta")
    if not isinstance(field, str):
        raise _no_filter(part)
    if field.partition(".")[0] in OWN_FIELDS:
        raise InputError(
            f"the filter {part!r} asks for {field!r}; a filter sees the metadata of a source, so begin the "
            'field with "meta."'
        )
    try:
        document_matches_filter(dict(part), Document(id="-"))
    except FilterError as error:
        raise _no_filter(part, f": {error}") from error


def _matches(filters: Mapping[str, Any], metadata: Mapping[str, Any]) -> bool:
    try:  # why an id: without one Haystack hashes the document
        return document_matches_filter(dict(filters), Document(id="-", meta=dict(metadata)))
    except (FilterError, TypeError) as error:  # values that have no order
        raise InputError(
            f"the filter {filters!r} cannot be applied to the metadata {metadata!r}: {error}"
        ) from error


def _no_filter(part: object, reason: str = "") -> UnknownOption:
    return UnknownOption(
        f"{part!r} is no filter of Haystack{reason}; a comparison has field, operator and value, a "
        "condition has operator and conditions"
    )

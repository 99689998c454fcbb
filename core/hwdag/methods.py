"""Retrieval methods of other packages, by name: entry points of the group "hwdag.methods"."""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from hwdag.checks import one_of

GROUP = "hwdag.methods"


def method_names() -> list[str]:
    """Return the names of all installed methods; no method is imported."""
    return list(_installed())


def retriever_class(method: str) -> type[Any]:
    """Import the class of a method. Raises `UnknownOption` for an unknown name."""
    loaded: type[Any] = _installed()[one_of("method", method, method_names())].load()
    return loaded


@cache
def _installed() -> dict[str, EntryPoint]:
    return {point.name: point for point in sorted(entry_points(group=GROUP))}

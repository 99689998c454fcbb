"""Which documents a search may see.

index.answer("Who was born here?", scope=Scope(filters={"year": {"gte": 1900}}))
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from reprlib import repr as brief
from typing import Any

from hwdag.errors import InputError
from hwdag.filters import Filter, Predicate, matches, predicate


@dataclass(frozen=True, slots=True)
class Scope:
    """The documents that a search may use; all others are neither scored nor shown.

    Attributes:
        document_ids: only these; None for all.
        filters: only documents whose metadata match (`hwdag.filters`, or a function of the metadata);
            None for all.

    Raises `InputError` for invalid ids or filters.
    """

    document_ids: Collection[str] | None = None
    filters: Filter | Predicate | None = None

    def __post_init__(self) -> None:
        wanted = self.document_ids
        if wanted is not None:
            is_list = isinstance(wanted, Collection) and not isinstance(wanted, str | Mapping)
            if not is_list or not all(isinstance(one, str) for one in wanted):
                raise InputError(f"document_ids must be a list of ids, got {brief(wanted)}")
            object.__setattr__(self, "document_ids", tuple(dict.fromkeys(wanted)))
        if self.filters is not None:
            predicate(self.filters)  # raises for an invalid filter

    def admits(self, metadata: Mapping[str, Any]) -> bool:
        """Return whether a document with this metadata passes the filters."""
        return self.filters is None or matches(self.filters, metadata)

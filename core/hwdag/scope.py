"""Which documents a search may see: one value for every method, `scope=` of `search` and `answer`.

index.answer("Who was born here?", scope=Scope(filters={"year": {"gte": 1900}}))
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from reprlib import repr as brief
from typing import Any

from hwdag.errors import InputError
from hwdag.filters import Filter, as_filter


@dataclass(frozen=True, slots=True)
class Scope:
    """The documents that a search may use; all others are neither scored nor shown.

    Attributes:
        document_ids: only these; None for all.
        filters: only documents whose metadata match, see `hwdag.filters`; its JSON form is read.
        tenant: whose documents; needed if and only if the index has a `tenant_key`.

    Raises:
        InputError: something that cannot be read as such.
    """

    document_ids: Collection[str] | None = None
    filters: Filter | Mapping[str, Any] | None = None
    tenant: str | None = None

    def __post_init__(self) -> None:
        wanted = self.document_ids
        if wanted is not None:
            if isinstance(wanted, str) or not all(isinstance(one, str) for one in wanted):
                raise InputError(f"document_ids must be a list of ids, got {brief(wanted)}")
            object.__setattr__(self, "document_ids", tuple(dict.fromkeys(wanted)))
        if self.tenant is not None and not isinstance(self.tenant, str):
            raise InputError(f"a tenant is named by a text, got {self.tenant!r}")
        object.__setattr__(self, "filters", as_filter(self.filters))

    def admits(self, metadata: Mapping[str, Any], tenant: Filter | None = None) -> bool:
        """Whether the filters, and that of the tenant, let a document with this metadata through."""
        wanted = (as_filter(self.filters), tenant)
        return all(one is None or one.matches(metadata) for one in wanted)

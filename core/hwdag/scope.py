"""Which documents a search may see, and whose they are.

    index.answer("Who was born here?", scope=Scope(filters={"year": {"gte": 1900}}))

In an index with a `tenant_key` every document has a tenant, every search a filter that lets only those
of one tenant through, and no change touches another tenant's: that is checked before anything is
built, and again in the transaction that writes (`hwdag.store.sqlite.Store.put`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from reprlib import repr as brief
from typing import Any

from hwdag.errors import InputError
from hwdag.filters import Equals, Filter, as_filter
from hwdag.types import Document


@dataclass(frozen=True, slots=True)
class Scope:
    """The documents that a search may use; all others are neither scored nor shown.

    Attributes:
        document_ids: only these; None for all.
        filters: only documents whose metadata match, see `hwdag.filters`; its JSON form is read.
        tenant: whose documents; needed if and only if the index has a `tenant_key`.

    Raises `InputError` for something that cannot be read as such.
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


def required_filter(tenant_key: str | None, scope: Scope) -> Equals | None:
    """Return what every document of a search must match; None where documents belong to nobody.

    Raises `InputError` where there are tenants and the scope names none, or the other way round.
    """
    if tenant_key is None and scope.tenant is None:
        return None
    if tenant_key is None:
        raise InputError(
            "the index has no tenant_key, so a search cannot name a tenant; leave it out"
        )
    if scope.tenant is None:
        raise InputError(
            f"the documents of this index belong to tenants (tenant_key={tenant_key!r}); say "
            "whose are to be searched with tenant=... (in the core, scope=Scope(tenant=...))"
        )
    return Equals(tenant_key, scope.tenant)


def knows_no_tenants(name: str) -> InputError:
    """Make the error of a search that names a tenant to a retriever that has none."""
    return InputError(
        f"{name} knows no tenants, so a search cannot name one; filter by the metadata field that "
        "says whose a document is: filters={field: tenant}"
    )


def tenant_of(document: Document, tenant_key: str | None) -> str | None:
    """Say whose a document is, nobody's without a tenant key; `InputError` if it does not say so."""
    if tenant_key is None:
        return None
    tenant = document.metadata.get(tenant_key)
    if not isinstance(tenant, str):
        raise InputError(
            f"document {document.id!r} does not say whose it is: its metadata must have a text "
            f"under {tenant_key!r}, the tenant_key of this index; got {tenant!r}"
        )
    return tenant


def check_same_tenant(document_id: str, tenant: str | None, found: str | None) -> None:
    """Raise `InputError` if an id was found to be of another tenant than a new document's."""
    if found not in (None, tenant):
        raise InputError(
            f"the id {document_id!r} is taken, and not by a document of this tenant; ids are "
            "shared by all tenants, so choose another one"
        )

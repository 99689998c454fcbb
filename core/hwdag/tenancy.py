"""Whose a document is.

In an index with a `tenant_key` every document has a tenant, every search a filter that lets only those
of one tenant through, and no change touches another tenant's: that is checked before anything is
built, and again in the transaction that writes (`hwdag.store.sqlite.Store.put`).
"""

from __future__ import annotations

from hwdag.errors import InputError
from hwdag.filters import Equals
from hwdag.scope import Scope
from hwdag.types import Document


def required_filter(tenant_key: str | None, scope: Scope) -> Equals | None:
    """Return what every document of a search must match; None where documents belong to nobody.

    Raises:
        InputError: there are tenants and the scope names none, or the other way round.
    """
    if (tenant_key is None) != (scope.tenant is None):
        raise InputError(
            "the index has no tenant_key, so a search cannot name a tenant; leave it out"
            if tenant_key is None
            else f"the documents of this index belong to tenants (tenant_key={tenant_key!r}); say "
            "whose are to be searched with tenant=... (in the core, scope=Scope(tenant=...))"
        )
    if tenant_key is None or scope.tenant is None:
        return None
    return Equals(tenant_key, scope.tenant)


def knows_no_tenants(name: str) -> InputError:
    """Make the error of a search that names a tenant to a retriever that has none."""
    return InputError(
        f"{name} knows no tenants, so a search cannot name one; filter by the metadata field that "
        "says whose a document is: filters={field: tenant}"
    )


def tenant_of(document: Document, tenant_key: str | None) -> str | None:
    """Say whose a document is; nobody's without a tenant key.

    Raises:
        InputError: it does not say whose it is.
    """
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

"""Whose a document is.

In an index with a `tenant_key` every document has a tenant, every search a filter that lets only those
of one tenant through, and no change touches another tenant's: that is checked before anything is
built, and again in the transaction that writes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from hwdag.errors import InputError
from hwdag.filters import Equals
from hwdag.scope import Scope
from hwdag.types import Document


def required_filter(tenant_key: str | None, scope: Scope) -> Equals | None:
    """What every document of a search must match; None where documents belong to nobody.

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
    """The error of a search that names a tenant to a retriever that has none."""
    return InputError(
        f"{name} knows no tenants, so a search cannot name one; filter by the metadata field that "
        "says whose a document is: filters={field: tenant}"
    )


def check_same_tenant(document_id: str, tenant: str | None, found: str | None) -> None:
    """Raise `InputError` if an id was found to be of another tenant than a new document's."""
    if found not in (None, tenant):
        raise InputError(
            f"the id {document_id!r} is taken, and not by a document of this tenant; ids are "
            "shared by all tenants, so choose another one"
        )


class TenantStore(Protocol):
    """What knows whose the stored documents are."""

    def check_tenant(self, document: Document) -> None:
        """Raise `InputError` if the id is taken by another tenant."""

    def tenant_under(self, document_id: str) -> str | None:
        """Whose the document of that id is; None for nobody's."""


class Owners:
    """Whose documents one change brings, noted as they come by; nobody's without a tenant key.

    Attributes:
        store: where they go; None before there is one.
    """

    def __init__(self, tenant_key: str | None, store: TenantStore | None) -> None:
        self._key = tenant_key
        self._tenants: set[str] = set()
        self.store = store

    def checked(self, document: Document) -> Document:
        """The document itself, which says whose it is.

        Raises:
            InputError: it does not, or its id is taken by another tenant.
        """
        if self._key is None:
            return document
        tenant = document.metadata.get(self._key)
        if not isinstance(tenant, str):
            raise InputError(
                f"document {document.id!r} does not say whose it is: its metadata must have a text "
                f"under {self._key!r}, the tenant_key of this index; got {tenant!r}"
            )
        if self.store is not None:
            self.store.check_tenant(document)  # again in the transaction that writes
        self._tenants.add(tenant)
        return document

    def prunable(self, prune: bool | Callable[[str], bool]) -> Callable[[str], bool]:
        """Which ids may be deleted: with tenants those of documents of the noted ones alone."""

        def gone(identity: str) -> bool:
            if self._key is not None and (
                self.store is None or self.store.tenant_under(identity) not in self._tenants
            ):
                return False
            return prune(identity) if callable(prune) else prune

        return gone

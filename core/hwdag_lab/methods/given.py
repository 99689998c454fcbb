"""A core retriever from whatever a face was given: a finished one, or a class with options."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import signature
from typing import Any

from hwdag.config import refuse
from hwdag.errors import InputError
from hwdag.retriever import Retriever

Adapters = Mapping[str, Callable[[Any], object]]
"""By option ("reader", ...): a framework's model to the core's."""


def as_core_retriever(retriever: object) -> Retriever:
    """A retriever of the core, as it is. Raises `InputError` for anything else, classes included."""
    if isinstance(retriever, Retriever) and not isinstance(retriever, type):
        return retriever
    got = type(retriever).__name__
    if isinstance(retriever, type):
        got = f"the class {retriever.__name__}"
    raise InputError(
        "the retriever must be one of the core, such as hwdag.HWDAGIndex or those of "
        f"hwdag_lab.methods, got {got}; a class is taken by "
        "CoreRetriever.from_documents(documents, that_class)"
    )


def made_retriever(retriever: object, options: Mapping[str, Any], adapters: Adapters) -> Retriever:
    """A class of the core made with options, models adapted; a finished retriever as it is.

    Raises:
        UnknownOption: options for a finished retriever.
    """
    if not isinstance(retriever, type):
        found = as_core_retriever(retriever)
        refuse(options, f"a finished {type(found).__name__}", "those that it was made with")
        return found
    adapted = {k: adapters[k](v) if k in adapters else v for k, v in options.items()}
    return as_core_retriever(retriever(**adapted))


def tenant_option(retriever: Retriever, tenant: str | None) -> dict[str, Any]:
    """`tenant` as an argument of `retriever.search` and its kin; nothing where there is none.

    Raises:
        InputError: the retriever knows no tenants, or a tenant is no text.
    """
    if tenant is None:
        return {}
    if not isinstance(tenant, str):
        raise InputError(f"a tenant is named by a text, got {tenant!r}")
    if "tenant" not in signature(retriever.search).parameters:
        raise InputError(
            f"{retriever.name} knows no tenants, so a search cannot name one; filter by the metadata "
            "field that says whose a document is: filters={field: tenant}"
        )
    return {"tenant": tenant}

"""A core retriever from whatever a face was given: a finished one, or a class with options."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hwdag.config import refuse
from hwdag.errors import InputError
from hwdag.index import HWDAGIndex
from hwdag.retriever import Retriever
from hwdag_lab.methods.base import knows_no_tenants

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


def check_tenant(retriever: Retriever, tenant: str | None) -> None:
    """Raise `InputError` where a tenant is named to a retriever that knows none."""
    if tenant is not None and not isinstance(retriever, HWDAGIndex):
        raise knows_no_tenants(retriever.name)

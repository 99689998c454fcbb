"""A retriever of what a framework's package is passed: a name, a class with options, or one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from hwdag.checks import refuse
from hwdag.errors import InputError
from hwdag.retriever import Retriever
from hwdag_lab.methods.registry import retriever_class

Adapters: TypeAlias = Mapping[str, Callable[[Any], object]]
"""By option ("reader", ...): a framework's model to the core's."""


def make_retriever(retriever: object, options: Mapping[str, Any], adapters: Adapters) -> Retriever:
    """Make a retriever of a method's name or of a class; a finished one is taken as it is.

    Args:
        retriever: such as "raptor", `RaptorRetriever`, or one of these.
        options: of the class; models among them may be a framework's.
        adapters: from a framework's models to the core's.

    Raises:
        UnknownOption: no such method, or options for a finished retriever.
    """
    made = retriever_class(retriever) if isinstance(retriever, str) else retriever
    if not isinstance(made, type):
        found = as_core_retriever(made)
        refuse(options, f"a finished {type(found).__name__}", "those that it was made with")
        return found
    adapted = {k: adapters[k](v) if k in adapters else v for k, v in options.items()}
    return as_core_retriever(made(**adapted))


def as_core_retriever(retriever: object) -> Retriever:
    """A retriever of the core, as it is. Raises `InputError` for anything else, classes included."""
    if isinstance(retriever, Retriever) and not isinstance(retriever, type):
        return retriever
    got = type(retriever).__name__
    if isinstance(retriever, type):
        got = f"the class {retriever.__name__}"
    raise InputError(
        "the retriever must be one of the core, such as hwdag.HWDAGIndex or those of "
        f"hwdag_lab.methods, got {got}; a class or the name of a method is taken by "
        "CoreRetriever.from_documents(documents, that)"
    )

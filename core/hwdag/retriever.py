"""The protocol of every retriever: documents in, nodes and answers out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, TypeAlias, TypedDict, Unpack, runtime_checkable

from hwdag.answers.stream import AnswerStream
from hwdag.building.report import BuildReport
from hwdag.checks import refuse
from hwdag.config import SearchConfig
from hwdag.errors import InputError
from hwdag.scope import Scope
from hwdag.trace.bars import Reporter
from hwdag.types import Answer, Document, OnStep, Retrieval


class SearchOptions(TypedDict, total=False):
    """How every retriever searches.

    Attributes:
        config: token budget, progress control, heads.
        scope: the documents to search; None for all.
        on_step: called with every node as it is read.
    """

    config: SearchConfig | None
    scope: Scope | None
    on_step: OnStep | None


class AnswerOptions(SearchOptions, total=False):
    """How every retriever answers: `max_new_tokens` limits the answer."""

    max_new_tokens: int


@runtime_checkable
class Retriever(Protocol):
    """Holds documents, and finds nodes and an answer for a question; `hwdag.HWDAGIndex` is one."""

    @property
    def name(self) -> str:
        """Name of the method in tables and traces."""

    @property
    def documents(self) -> Mapping[str, Document]:
        """Documents by id."""

    def insert(
        self, documents: Iterable[Document | str], *, show_progress: bool | Reporter = False
    ) -> BuildReport:
        """Add documents; one that is there with the same content costs nothing."""

    def delete(self, document_id: str) -> None:
        """Remove a document and everything derived from it."""

    def search(
        self, question: str, *, k: int | None = None, **options: Unpack[SearchOptions]
    ) -> Retrieval:
        """Find the nodes for a question, within `config.token_budget`."""

    def stream(self, question: str, **options: Unpack[AnswerOptions]) -> AnswerStream:
        """Search, then stream the answer in pieces of text."""

    def answer(self, question: str, **options: Unpack[AnswerOptions]) -> Answer:
        """Search, then answer from the results."""


Adapters: TypeAlias = Mapping[str, Callable[[Any], object]]
"""For each option ("reader", ...), the function that converts a framework's model to the core's."""


def make_retriever(retriever: object, options: Mapping[str, Any], adapters: Adapters) -> Retriever:
    """Make a retriever from a class and its options, and convert a framework's models among them.

    Returns a retriever object as it is. Raises `UnknownOption` for options with such an object.
    """
    if not isinstance(retriever, type):
        found = finished(retriever)
        refuse(options, f"a finished {type(found).__name__}", "those that it was made with")
        return found
    adapted = {k: adapters[k](v) if k in adapters else v for k, v in options.items()}
    return finished(retriever(**adapted))


def finished(retriever: object) -> Retriever:
    """Return a retriever object as it is. Raises `InputError` for anything else, even a class."""
    if isinstance(retriever, Retriever) and not isinstance(retriever, type):
        return retriever
    got = type(retriever).__name__
    if isinstance(retriever, type):
        got = f"the class {retriever.__name__}"
    raise InputError(
        f"the retriever must be one of the core, such as hwdag.HWDAGIndex, got {got}; a class or the "
        "name of a method is taken by CoreRetriever.from_documents(documents, that)"
    )

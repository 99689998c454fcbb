"""What frameworks, command line and evaluation ask of a method: documents in, nodes and an answer out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol, runtime_checkable

from hwdag.building.report import BuildReport
from hwdag.config import SearchConfig
from hwdag.scope import Scope
from hwdag.search.answering import AnswerStream
from hwdag.trace.bars import Reporter
from hwdag.types import Answer, Document, OnStep, Retrieval


@runtime_checkable
class Retriever(Protocol):
    """Documents in, a question to nodes and an answer out. `hwdag.HWDAGIndex` is one."""

    @property
    def name(self) -> str:
        """Names the method in tables and traces."""

    @property
    def documents(self) -> Mapping[str, Document]:
        """Documents by id."""

    def insert(
        self, documents: Iterable[Document | str], *, show_progress: bool | Reporter = False
    ) -> BuildReport:
        """Add documents; those that are there with the same content cost nothing."""

    def delete(self, document_id: str) -> None:
        """Remove a document with all that was derived from it."""

    def search(
        self,
        question: str,
        *,
        config: SearchConfig | None = None,
        scope: Scope | None = None,
        k: int | None = None,
        on_step: OnStep | None = None,
    ) -> Retrieval:
        """The nodes for a question, within `config.token_budget`."""

    def stream(
        self,
        question: str,
        *,
        config: SearchConfig | None = None,
        scope: Scope | None = None,
        on_step: OnStep | None = None,
    ) -> AnswerStream:
        """Search, then the answer as a stream of text pieces."""

    def answer(
        self,
        question: str,
        *,
        config: SearchConfig | None = None,
        scope: Scope | None = None,
        on_step: OnStep | None = None,
    ) -> Answer:
        """Search, then answer from what was found."""

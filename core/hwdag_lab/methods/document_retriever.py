"""The base of all other methods: documents, budget, answers and provenance are the same for all.

A method implements `_build`, which prepares one document for searching, and `_retrieve`, which
ranks the nodes of all documents for a question. Comparisons then differ in retrieval only.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar, Unpack

from hwdag.answers.stream import AnswerStream
from hwdag.building.drafts import as_documents
from hwdag.building.report import BuildReport
from hwdag.checks import refuse
from hwdag.config import (
    MAX_NEW_TOKENS,
    SearchConfig,
    SearchPlan,
    checked_config,
    checked_k,
)
from hwdag.embedding.base import Embedder
from hwdag.embedding.default import as_embedder
from hwdag.errors import EmptyIndex, InputError, ReaderRequired, UnknownDocument
from hwdag.graph.dag import HWDAG
from hwdag.lm.base import Metered, Reader, Session, Writer
from hwdag.lm.writers import as_writer, loaded_reader
from hwdag.options import CheckedOptions
from hwdag.page import page
from hwdag.retriever import AnswerOptions
from hwdag.scope import Scope
from hwdag.search.budget import FIRST_POSITION, with_headings
from hwdag.search.evidence import Evidence
from hwdag.store.calls import CallCache
from hwdag.text.characters import without_surrogates
from hwdag.text.prompts import SearchPrompts
from hwdag.threads import Lazy, asynchronous, asynchronous_pieces, in_builder_thread
from hwdag.trace.bars import Reporter, as_reporter
from hwdag.types import Answer, Document, Node, OnStep, Retrieval, Step, Usage, shown_document
from hwdag_lab.methods.cached_embedder import CachedEmbedder
from hwdag_lab.methods.decisions import Asker
from hwdag_lab.methods.found import Found, Scored, SearchRequest, fit_to_budget


class Searchable(Protocol):
    """The index that a method keeps of one document."""

    @property
    def nodes(self) -> Sequence[Node]:
        """All nodes of the document that a search may return."""


@dataclass(frozen=True, slots=True)
class NoOptions(CheckedOptions):
    """For a method without options."""


T = TypeVar("T", bound=Searchable)
J = TypeVar("J")


class DocumentRetriever(ABC, Generic[T]):
    """Base of all retrievers other than HWDAG.

    Searches are safe from many threads; changes run one at a time. Each method has an async twin.

    Args:
        reader: counts tokens and answers; some methods also search with it. A local model, the name
            of one, or None for the embedded default, which is loaded on first use.
        prompts: how the reader is asked for the answer.
        writer: a Writer, or a function from prompt to text; None for the method's own choice.
        embedder: an Embedder, the name of one, or None for the embedded default.
        cache: a file for finished model calls and embeddings, so that building the same documents
            again costs nothing. None keeps the calls of an interrupted insertion in memory.
        config: options of the method, a `Config` of its class; None for the defaults.
        options: fields of the config by name; they override `config`.

    Attributes:
        config: the options of the method.

    Raises:
        UnknownOption: the method does not use one of these.
        InputError: an option has an illegal value.
        ReaderRequired: the method needs written replies, there is no writer, and the reader cannot
            write.
    """

    Config: ClassVar[type[CheckedOptions]] = NoOptions

    name: ClassVar[str]
    bounded: ClassVar[bool] = True
    """False if the method reads everything and ignores the token budget."""
    uses: ClassVar[tuple[str, ...]] = ("reader", "prompts", "writer", "embedder", "cache")
    """The arguments above that the method uses."""
    needs_replies: ClassVar[bool] = False
    """True if the method decides by written replies, so the writer or the reader must write."""
    config: Any

    def __init__(
        self,
        reader: Reader | str | None = None,
        *,
        prompts: SearchPrompts | None = None,
        writer: Writer | Callable[[str], str] | None = None,
        embedder: Embedder | str | None = None,
        cache: str | Path | None = None,
        config: CheckedOptions | None = None,
        **options: Any,
    ) -> None:
        named = {"writer": writer, "embedder": embedder, "cache": cache}
        idle = {k: v for k, v in named.items() if v is not None and k not in self.uses}
        known = [each.name for each in fields(self.Config)]
        unknown = {k: v for k, v in options.items() if k not in known}
        if config is not None and not isinstance(config, self.Config):
            raise InputError(
                f"config of {type(self).__name__} must be a {self.Config.__name__}, got a "
                f"{type(config).__name__}"
            )
        refuse(idle | unknown, type(self).__name__, ", ".join([*self.uses, *known]))
        self.config = replace(config or self.Config(), **options)
        self._reader = Lazy(lambda: loaded_reader(reader))
        self._embedder = Lazy(lambda: as_embedder(embedder))
        self._writer = as_writer(writer)
        self._prompts = prompts
        self._keeps_calls = cache is not None
        self._cache = CallCache.open(cache)
        # why: replaced, never changed, so that searches need no lock
        self._held: Mapping[str, tuple[Document, T]] = {}
        self._changes = threading.RLock()
        self._reporter = as_reporter(False)  # of the insertion that is running
        self._calls = CallCache.open()
        self._askers: list[Asker] = []  # of the document that is being built
        self._latest: tuple[tuple[T, ...], Any] | None = None  # see `_joined`
        # why: a model's name is not loaded before it is needed
        if self.needs_replies and isinstance(reader, Reader):
            self._replying()

    @abstractmethod
    def _build(self, document: Document) -> T:
        """Prepare a document for searching; called once per document."""

    @abstractmethod
    def _retrieve(self, request: SearchRequest, built: Mapping[str, T]) -> Found:
        """Rank the nodes of these documents (at least one), given by id, for a question."""

    @property
    def reader(self) -> Reader:
        """The local model; loaded on first use."""
        return self._reader.value

    @property
    def embedder(self) -> Embedder:
        """The embedding model, loaded on first use; reads from the cache, if any."""
        embedder = self._embedder.value
        return CachedEmbedder(embedder, self._cache) if self._keeps_calls else embedder

    @property
    def documents(self) -> Mapping[str, Document]:
        """Documents by id."""
        return MappingProxyType({key: document for key, (document, _) in self._held.items()})

    def nodes(self, document_id: str) -> Sequence[Node]:
        """Return all nodes of a document. Raises `InputError` if there is no such document."""
        return self._of(document_id)[1].nodes

    def built(self, document_id: str) -> T:
        """Return the kept data of a document. Raises `InputError` if there is no such document."""
        return self._of(document_id)[1]

    def insert(
        self, documents: Iterable[Document | str], *, show_progress: bool | Reporter = False
    ) -> BuildReport:
        """Add documents; unchanged ones cost nothing.

        Raises:
            InputError: another document has the same id.
        """
        report, found = BuildReport(), list(as_documents(documents))
        with self._changes:
            self._reporter, self._calls = as_reporter(show_progress), self._cache.fresh()
            reading, writing = self._spent()
            with self._reporter.stage("documents", len(found), "document") as advance:
                for document in found:
                    self._insert(document, report)
                    advance()
            after = self._spent()
            report.usage, report.writing = after[0] - reading, after[1] - writing
            report.reused += self._calls.reused
            if not self._keeps_calls:
                self._cache.forget()
        return report

    def delete(self, document_id: str) -> None:
        """Remove a document. Raises `InputError` if there is no such document."""
        with self._changes:
            self._of(document_id)
            self._held = {k: held for k, held in self._held.items() if k != document_id}
            self._latest = None

    def search(
        self,
        question: str,
        *,
        config: SearchConfig | None = None,
        scope: Scope | None = None,
        k: int | None = None,
        on_step: OnStep | None = None,
    ) -> Retrieval:
        """Return the nodes for a question, within `config.token_budget`.

        Args:
            question: any text.
            config: token budget.
            scope: the documents to search; None for all.
            k: number of nodes wanted, for `Retrieval.best`.
            on_step: called with every node.

        Raises:
            InputError: the question is blank, there is no document, or k is not a number.
            QuestionTooLong: the question leaves no room in the reader's context.
        """
        plan = checked_config(config, SearchConfig).plan()
        return self._search(question, plan, scope, on_step, checked_k(k))[0]

    def stream(
        self,
        question: str,
        *,
        config: SearchConfig | None = None,
        scope: Scope | None = None,
        on_step: OnStep | None = None,
        max_new_tokens: int = MAX_NEW_TOKENS,
    ) -> AnswerStream:
        """Search, read the nodes in one forward, and answer; see `search`."""
        plan = checked_config(config, SearchConfig).plan()
        searched = self._search(question, plan, scope, on_step, max_new_tokens=max_new_tokens)
        retrieval, session = self._answering(*searched, plan, max_new_tokens)
        texts = with_headings([step.node for step in retrieval.steps])
        reading = session.read(texts)
        if retrieval.steps:
            last = replace(retrieval.steps[-1], p_yes=reading.p_yes)
            retrieval = replace(retrieval, steps=(*retrieval.steps[:-1], last))
        read = Evidence(retrieval, session, True, list(enumerate(texts)), spent=retrieval.usage)
        return AnswerStream(read, max_new_tokens)

    def answer(self, question: str, **options: Unpack[AnswerOptions]) -> Answer:
        """Search, then answer from the nodes; see `search`."""
        return self.stream(question, **options).answer

    def to_html(self) -> str:
        """Return a page that draws the documents as graphs; it needs no network."""
        return page("The graph", self.to_dict())

    def to_dict(self) -> dict[str, Any]:
        """Return documents and graphs as JSON-able values, the input of the page."""
        held = list(self._held.values())
        graphs = [{"document_id": d.id, **self._graph(built).to_dict()} for d, built in held]
        return {"documents": [shown_document(d) for d, _ in held], "graphs": graphs}

    def _graph(self, built: T) -> HWDAG:
        """Return the nodes of a document by level, without edges unless the method has a graph."""
        own = getattr(built, "graph", None)
        return own() if own else HWDAG.from_rows(built.nodes, ())

    @classmethod
    def from_documents(
        cls,
        documents: Iterable[Document | str],
        *,
        show_progress: bool | Reporter = False,
        **options: object,
    ) -> Self:
        """Construct a retriever with these options and insert documents."""
        made = cls(**options)  # type: ignore[arg-type]
        made.insert(documents, show_progress=show_progress)
        return made

    @classmethod
    async def afrom_documents(
        cls,
        documents: Iterable[Document | str],
        *,
        show_progress: bool | Reporter = False,
        **options: object,
    ) -> Self:
        """Run `from_documents` in the thread for builds."""
        make = partial(cls.from_documents, documents, show_progress=show_progress, **options)
        return await in_builder_thread(make)

    ainsert = asynchronous(insert, builds=True)
    adelete = asynchronous(delete, builds=True)
    asearch = asynchronous(search)
    aanswer = asynchronous(answer)
    astream = asynchronous_pieces(stream)

    def _of(self, document_id: str) -> tuple[Document, T]:
        if document_id not in self._held:
            raise UnknownDocument(f"no document {document_id!r} in {self.name}")
        return self._held[document_id]

    def _insert(self, document: Document, report: BuildReport) -> None:
        document = replace(document, text=without_surrogates(document.text)[0])
        known, _ = self._held.get(document.id, (None, None))
        if not document.text.strip():
            report.skipped.append((document.id, "empty or only white space"))
        elif known == document:
            report.unchanged.append(document.id)
        elif known is not None:
            raise InputError(
                f"{self.name} holds another document under the id {document.id!r}; delete() it first"
            )
        else:
            self._askers = []
            built = self._build(document)
            report.retries += sum(asker.retries for asker in self._askers)
            report.fallbacks += sum(asker.defaults for asker in self._askers)
            report.built.append(document.id)
            report.nodes += len(built.nodes)
            named = f"{document.id}: "
            report.notes += [named + n.removeprefix(named) for n in getattr(built, "notes", ())]
            self._held = {**self._held, document.id: (document, built)}

    def _joined(self, built: Mapping[str, T], join: Callable[[tuple[T, ...]], J]) -> J:
        """Join documents; the result is kept for the next question about the same ones."""
        documents = tuple(built.values())
        latest = self._latest
        # why: documents are compared by identity
        if latest is None or latest[0] != documents:
            self._latest = latest = (documents, join(documents))
        joined: J = latest[1]
        return joined

    def _asker(self, writer: Writer | None) -> Asker | None:
        """Return an Asker for the document being built; the report counts its retries and defaults."""
        if writer is None:
            return None
        self._askers.append(Asker(writer, self.reader, calls=self._calls))
        return self._askers[-1]

    def _replying(self) -> Writer:
        """Return the writer, or else the reader.

        Raises:
            ReaderRequired: there is no writer, and the reader cannot write.
        """
        writer = self._writer or self.reader
        if not isinstance(writer, Writer):
            raise ReaderRequired(
                f"{self.name} decides by written replies, and the reader {writer.name} cannot write; pass "
                "writer=: any Writer, or a function from prompt to text"
            )
        return writer

    def _spent(self) -> tuple[Usage, Usage]:
        """Return the cost so far of the reader, and of the writer if it is another model."""
        writer, reader = self._writer, self.reader
        if isinstance(writer, Metered) and writer is not reader:
            return reader.usage, writer.usage
        return reader.usage, Usage()

    def _search(
        self,
        question: str,
        plan: SearchPlan,
        scope: Scope | None,
        on_step: OnStep | None,
        k: int | None = None,
        *,
        max_new_tokens: int = MAX_NEW_TOKENS,
    ) -> tuple[Retrieval, Session, object]:
        """Return the nodes found, the session that will read them, and data of the method for the answer."""
        if not question.strip():
            raise InputError("the question is empty or only white space")
        question = without_surrogates(question)[0]
        held = self._chosen(scope)
        built = {key: made for key, (_, made) in held.items()}
        session = self._session(question, plan, max_new_tokens)
        budget = min(plan.token_budget, session.room) if self.bounded else session.room
        request = SearchRequest(question, budget, session.cost)
        # why: a filter may let nothing through
        found = self._retrieve(request, built) if built else Found(())
        sources = {key: document for key, (document, _) in held.items()}
        retrieval = self._retrieval(request, found, sources, k)
        if on_step:
            for step in retrieval.steps:
                on_step(step)
        return retrieval, session, found.carried

    def _retrieval(
        self,
        request: SearchRequest,
        found: Found,
        sources: Mapping[str, Document],
        k: int | None,
    ) -> Retrieval:
        """Cut the nodes found to the budget; scores become shares of their sum."""
        taken, left = list(found.ranked), list[Scored]()
        if self.bounded:
            taken, left = fit_to_budget(found.ranked, request.cost, request.budget)
        left += found.unread
        total = sum(max(0.0, scored.score) for scored in [*found.ranked, *found.unread]) or 1.0
        steps = [
            Step(FIRST_POSITION + i, scored.node, False, 0.0, scored.score / total, 0.0, p_yes=None)
            for i, scored in enumerate([*taken, *left])
        ]
        return Retrieval(
            request.question,
            tuple(steps[: len(taken)]),
            "budget" if left or found.left_out else "exhausted",
            sum(map(request.cost, with_headings([scored.node for scored in taken]))),
            found.usage,
            found.notes,
            tuple(steps[len(taken) : max(len(taken), k or 0)]),
            sources,
        )

    def _answering(
        self,
        retrieval: Retrieval,
        session: Session,
        carried: Any,
        plan: SearchPlan,
        max_new_tokens: int,
    ) -> tuple[Retrieval, Session]:
        """Prepare the answer: the nodes that it rests on, and the session that gives it."""
        return retrieval, session

    def _session(self, question: str, plan: SearchPlan, max_new_tokens: int) -> Session:
        """Return a session that reads the nodes; raises `QuestionTooLong`."""
        return self.reader.session(
            question,
            prompts=self._prompts or self.reader.card.prompts,
            heads=plan.heads,
            max_new_tokens=max_new_tokens,
        )

    def _chosen(self, scope: Scope | None) -> Mapping[str, tuple[Document, T]]:
        """Return the documents in scope, each with its index."""
        held, scope = self._held, scope or Scope()
        if not held:
            raise EmptyIndex(f"{self.name} holds no document; insert some first")
        wanted = held.keys() if scope.document_ids is None else set(scope.document_ids)
        if missing := sorted(wanted - held.keys()):
            raise UnknownDocument(f"no document {missing[0]!r} in {self.name}")
        return {
            key: (document, built)
            for key, (document, built) in held.items()
            if key in wanted and scope.admits(document.metadata)
        }

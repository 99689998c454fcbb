"""What a user calls: documents in, answered questions out.

    index = HWDAGIndex.from_documents([Document("a", text)], path="notes.hwdag")
    answer = index.answer("Who wrote it?")

An index is one SQLite file, or lives in memory; every finished model call is written through at
once, so an interrupted build loses nothing that was finished. `hwdag.stored` has where it lives,
this file what is done with it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Self

from hwdag.building.builder import Tools
from hwdag.building.estimate import Estimate, estimate
from hwdag.building.insertion import Insertion, as_document, titled
from hwdag.building.limits import Limits
from hwdag.building.report import BuildReport
from hwdag.config import BuildConfig, SearchConfig, checked_k
from hwdag.embedding.base import Embedder
from hwdag.errors import IndexMismatch, InputError
from hwdag.lm.base import Reader, Writer
from hwdag.page import page
from hwdag.scope import Scope
from hwdag.search.answering import AnswerStream
from hwdag.search.interruption import Interruption, StopFlag
from hwdag.search.live import some
from hwdag.search.walk import OnStep, Walked
from hwdag.store.opening import holds_something
from hwdag.stored import StoredIndex
from hwdag.tenancy import required_filter
from hwdag.text.characters import without_surrogates
from hwdag.text.prompts import Prompts
from hwdag.threads import (
    asynchronous,
    asynchronous_build,
    asynchronous_pieces,
    asynchronous_question,
)
from hwdag.trace.bars import Reporter, as_reporter
from hwdag.types import Answer, Document, Retrieval

LEAST_SHOWN = 0.01
"""Weight below which an edge is left out of a page."""

WAIT_SECONDS = 30.0
"""How long a change waits for the build of another process to end."""


class HWDAGIndex(StoredIndex):
    """HWDAGs of many documents, and the walk over them.

    Searching is safe from many threads, and from many processes that have the same file open: each
    search sees the documents of the moment at which it begins. Changes are serialised. Models are
    loaded when first needed: opening an index and looking at its graphs needs no language model.
    Searching and changing have asynchronous twins (`asearch`, `ainsert`, ...).

    Relations: `llama_index_hwdag.HWDAGIndex` and `langchain_hwdag.HWDAGIndex` are thin faces on it.
    """

    @classmethod
    def from_documents(
        cls,
        documents: Iterable[Document | str],
        *,
        reader: Reader | str | None = None,
        writer: Writer | Callable[[str], str] | None = None,
        embedder: Embedder | str | None = None,
        config: BuildConfig | None = None,
        prompts: Prompts | None = None,
        path: str | Path | None = None,
        show_progress: bool | Reporter = False,
        max_tokens: int | None = None,
        max_seconds: float | None = None,
    ) -> Self:
        """Build an index; see `__init__` and `refresh` for the arguments, `report` for what happened.

        With a `path` that holds an index already, documents that are in it with the same content
        cost nothing, and finished calls of others are not repeated: an interrupted build goes on
        where it was.
        """
        options = {"reader": reader, "writer": writer, "embedder": embedder, "prompts": prompts}
        if path is not None and holds_something(Path(path)):
            index = cls.load(path, config=config, **options)  # type: ignore[arg-type]
        else:
            index = cls(config=config, path=path, **options)  # type: ignore[arg-type]
        try:
            index.report = index.refresh(
                documents,
                show_progress=show_progress,
                max_tokens=max_tokens,
                max_seconds=max_seconds,
            )
        except BaseException:
            index.close()
            raise
        return index

    @property
    def name(self) -> str:
        """Names the method in tables and traces, as with every retriever."""
        return "hwdag"

    def insert(
        self,
        documents: Iterable[Document | str],
        *,
        show_progress: bool | Reporter = False,
        max_tokens: int | None = None,
        max_seconds: float | None = None,
    ) -> BuildReport:
        """Add documents. Those that are there with the same content cost nothing.

        Arguments and errors as in `refresh`.

        Raises:
            InputError: an id is taken by a document with other content (`refresh` replaces it).
        """
        limits = Limits(max_tokens, max_seconds)
        return self._change(documents, show_progress, limits, replaces=False)

    def refresh(
        self,
        documents: Iterable[Document | str],
        *,
        show_progress: bool | Reporter = False,
        max_tokens: int | None = None,
        max_seconds: float | None = None,
        prune: bool | Callable[[str], bool] = False,
    ) -> BuildReport:
        """Bring the index up to date: add new documents, rebuild changed ones; others cost nothing.

        Of a document that was edited only the windows whose text changed are summarised again.

        Args:
            documents: documents, or bare texts.
            show_progress: True for bars on standard error, or your own.
            max_tokens: make no further call once the models have taken this many tokens; the last
                call (of a writer on a server: the last few rounds of prompts) may exceed it.
            max_seconds: make no further call after this time. Either way `report.stopped` says so,
                what was finished is kept, and the same call goes on from there.
            prune: delete the documents that are not among these; a function says of an id whether
                it may be deleted.

        Raises:
            InputError: a document cannot be used.
            WriterFailed: the writer gave up; what it had written is kept.
            IndexMismatch: reader or embedder are not those that the index was built with.
            IndexBusy: another process is changing the file.
        """
        limits = Limits(max_tokens, max_seconds)
        return self._change(documents, show_progress, limits, replaces=True, prune=prune)

    def delete(self, document_id: str) -> None:
        """Remove a document with all that was derived from it.

        When this returns, nothing of it is left in the file, and no search that begins finds it.

        Raises:
            InputError: it is not there.
        """
        self._bind_existing()
        store = self._maybe_store()
        if store is None or not store.delete(document_id):
            listed = "" if self.config.tenant_key else f"; there are {some(self.documents)}"
            raise InputError(f"no document {document_id!r}{listed}")

    def to_html(self, document_ids: Collection[str] | None = None) -> str:
        """Return a page that shows the graphs, of all documents or of some; it needs no network.

        Edges below 1 % are left out. Raises `InputError` for a document that is not there.
        """
        wanted = list(self.documents) if document_ids is None else list(document_ids)
        if missing := sorted(set(wanted) - set(self.documents)):
            raise InputError(f"no document {missing[0]!r}; there are {some(self.documents)}")
        found = [self.entries[key] for key in wanted]
        documents = [{"id": d.id, "title": d.title, "text": d.text} for d, _, _ in found]
        graphs = [
            {"document_id": document.id, **graph.to_dict(least_weight=LEAST_SHOWN)}
            for document, graph, _ in found
        ]
        return page("The graph", {"documents": documents, "graphs": graphs})

    def estimate(self, documents: Iterable[Document | str], *, timed: bool = True) -> Estimate:
        """What building these documents would cost, before anything is built.

        Documents that are in the index with the same content are not counted.

        Args:
            documents: as for `refresh`.
            timed: time a few windows on this machine; without it no seconds are given.
        """
        self._bind_existing()
        store = self._maybe_store()
        new = {
            document.id: document
            for document in (
                titled(as_document(given), self.config.title_from)[0] for given in documents
            )
            if store is None or not store.holds(document)
        }
        return estimate(new.values(), self._tools(), timed=timed)

    def search(
        self,
        question: str,
        *,
        config: SearchConfig | None = None,
        scope: Scope | None = None,
        k: int | None = None,
        query_vector: Sequence[float] | None = None,
        on_step: OnStep | None = None,
        stop: StopFlag | None = None,
    ) -> Retrieval:
        """Walk the graphs for a question.

        Args:
            question: any text.
            config: budget, progress control, heads.
            scope: which documents are scored and shown; None for all.
            k: number of nodes wanted, for `Retrieval.best`; the walk itself does not change.
            query_vector: the question's embedding where it is there already; None asks the embedder.
            on_step: called with every visited node as it happens. Where another process deletes a
                document that the walk wants to read, the walk begins anew, and so do the steps.
            stop: such as a `threading.Event`: once it is set, the walk ends before the next node
                (`Retrieval.stop` is "stopped"), and an answer before the next piece. The task of an
                asynchronous twin sets one of its own when it is cancelled.

        Raises:
            InputError: the question is blank, the index holds no document, k is not a number, or
                query_vector is not comparable with the nodes.
            QuestionTooLong: the question leaves no room in the reader's context.
        """
        config = config or SearchConfig()
        interruption = Interruption(stop, config.max_seconds)
        return self._walk(
            question, config, scope, on_step, query_vector, interruption, checked_k(k)
        ).retrieval

    def answer(
        self,
        question: str,
        *,
        config: SearchConfig | None = None,
        scope: Scope | None = None,
        query_vector: Sequence[float] | None = None,
        on_step: OnStep | None = None,
        stop: StopFlag | None = None,
    ) -> Answer:
        """Walk, then answer from the same KV cache; arguments and errors as in `search`."""
        return self.stream(
            question,
            config=config,
            scope=scope,
            query_vector=query_vector,
            on_step=on_step,
            stop=stop,
        ).answer

    def stream(
        self,
        question: str,
        *,
        config: SearchConfig | None = None,
        scope: Scope | None = None,
        query_vector: Sequence[float] | None = None,
        on_step: OnStep | None = None,
        stop: StopFlag | None = None,
    ) -> AnswerStream:
        """Walk, then return the answer as a stream of text pieces; see `search`."""
        config = config or SearchConfig()
        interruption = Interruption(stop, config.max_seconds)
        walked = self._walk(question, config, scope, on_step, query_vector, interruption)
        return AnswerStream(walked, config.max_new_tokens, interruption)

    ainsert = asynchronous_build(insert)
    arefresh = asynchronous_build(refresh)
    adelete = asynchronous(delete)
    asearch = asynchronous_question(search)
    aanswer = asynchronous_question(answer)
    astream = asynchronous_pieces(stream, stops=True)

    def _walk(
        self,
        question: str,
        config: SearchConfig,
        scope: Scope | None,
        on_step: OnStep | None,
        query_vector: Sequence[float] | None,
        interruption: Interruption,
        k: int | None = None,
    ) -> Walked:
        if not question.strip():
            raise InputError("the question is empty or only white space")
        scope = scope or Scope()
        tenant = required_filter(self.config.tenant_key, scope)
        self._filled()
        return self._searcher.walk(
            without_surrogates(question)[0],
            scope,
            tenant,
            reader=self.reader,
            embedder=self.embedder,
            config=config,
            prompts=self.prompts.search,
            k=k,
            query_vector=query_vector,
            on_step=on_step,
            interruption=interruption,
        )

    def _change(
        self,
        documents: Iterable[Document | str],
        show_progress: bool | Reporter,
        limits: Limits,
        *,
        replaces: bool,
        prune: bool | Callable[[str], bool] = False,
    ) -> BuildReport:
        with self._changes:
            self._bind_existing()
            self._tools().check()  # what cannot be built must not make a file
            tenants: set[str] = set()
            checked: Iterable[Document] = (self._checked(given, tenants) for given in documents)
            if isinstance(documents, Collection):  # what is wrong is told before anything is built
                checked = list(checked)
            with self._building(WAIT_SECONDS) as store:
                insertion = Insertion(
                    self._tools(),
                    store,
                    replace=replaces,
                    prune=self._prunable(prune, tenants) if prune else None,
                    limits=limits,
                )
                return insertion.run(checked, as_reporter(show_progress))

    def _checked(self, given: Document | str, tenants: set[str]) -> Document:
        """A document that says whose it is, where that must be said; it is noted in `tenants`."""
        document, key = as_document(given), self.config.tenant_key
        if key is None:
            return document
        tenant = document.metadata.get(key)
        if not isinstance(tenant, str):
            raise InputError(
                f"document {document.id!r} does not say whose it is: its metadata must have a text "
                f"under {key!r}, the tenant_key of this index; got {tenant!r}"
            )
        if (store := self._maybe_store()) is not None:
            store.check_tenant(document)  # again in the transaction that writes
        tenants.add(tenant)
        return document

    def _prunable(
        self, prune: bool | Callable[[str], bool], tenants: Collection[str]
    ) -> Callable[[str], bool]:
        """Which ids may be deleted: with tenants those of documents of the given ones alone."""

        def gone(identity: str) -> bool:
            store = self._filled()
            theirs = self.config.tenant_key is None or store.tenant_under(identity) in tenants
            return theirs and (prune is True or (callable(prune) and prune(identity)))

        return gone

    def _tools(self) -> Tools:
        reader = self.reader
        if self.built_by not in (None, reader.name):
            raise IndexMismatch(
                f"the index was built by {self.built_by!r}; {reader.name!r} may search it but not "
                "extend it, since token counts and attention would not compare"
            )
        writer = self._models.points_writer(self.config)
        return Tools(reader, writer, self.embedder, self.config, self.prompts)

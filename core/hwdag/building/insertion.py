"""Documents into a store: checked, built, stored and counted in their order, within limits.

    check -> GraphBuilder.build (leaves -> levels -> embeddings) -> store

Every finished call of a model is committed before the next one begins, so a run that a limit, an error
or a crash has ended goes on from there. A commit waits for the disk, so short documents are stored in
groups, with the only call that each of them needs: a crash costs at most about a second of them. A limit
or an error costs none, and everything is on disk when a run returns. A writer gets the first windows of
as many short documents together as make a batch.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import asdict
from functools import cached_property, partial
from queue import SimpleQueue
from reprlib import repr as brief
from typing import NamedTuple, Protocol, runtime_checkable

from hwdag.arrays import Vectors
from hwdag.building.levels import BuiltGraph, GraphBuilder, embedded_parts
from hwdag.building.points import Unwritten
from hwdag.building.report import MOST_NAMED, BuildReport, LimitReached, Limits, Meter, named
from hwdag.embedding.titles import Parts
from hwdag.errors import IndexCorrupt, InputError
from hwdag.store.calls import DocumentCalls, Withdrawn
from hwdag.store.records import DocumentRows
from hwdag.store.sqlite import Store
from hwdag.text.characters import is_blank
from hwdag.text.draft import Draft
from hwdag.threads import Lazy
from hwdag.trace.bars import Advance, Reporter, Silent
from hwdag.types import Document

EMPTY = "empty or only white space"  # why a document was skipped

BEGUN_PER_BUILDER = 2  # documents, so that no builder waits while the oldest document is finished

GROUP_SECONDS = 1.0
"""A document that is finished so long after the last commit is committed at once."""

GROUP_BYTES = 4 << 20
"""So much is committed at once too: searches of this process wait for a commit."""

Build = Callable[[GraphBuilder, Reporter], BuiltGraph]

Start = Callable[[Build], Callable[[], BuiltGraph]]


@runtime_checkable
class Executor(Protocol):
    """Something with models beyond those of this process; `hwdag.RayExecutor` is one."""

    def builders(self, local: GraphBuilder) -> AbstractContextManager[Sequence[GraphBuilder]]:
        """Builders that build what `local` builds, one for each document that is built at a time."""


class _Finished(NamedTuple):
    rows: DocumentRows
    calls: DocumentCalls
    result: BuiltGraph


class _Waiting(NamedTuple):
    draft: Draft
    calls: DocumentCalls
    unwritten: Unwritten


class Insertion:
    """One-use state of an insertion: documents are built, then stored in order.

    Args:
        builder: builds the documents if there is no executor; made when the first one has changed.
        store: receives them.
        replace: a document takes the place of another one with its id; else that is an error.
        prune: delete documents that do not come; a function says of an id whether it may be deleted.
        limits: what the run may spend.
        executor: builds several documents at a time.
    """

    def __init__(
        self,
        builder: Lazy[GraphBuilder],
        store: Store,
        *,
        replace: bool,
        prune: bool | Callable[[str], bool] = False,
        limits: Limits | None = None,
        executor: Executor | None = None,
    ) -> None:
        self._builder = builder
        self._store = store
        self._replace = replace
        self._prune = prune
        self._limits = limits or Limits()
        self._began = time.monotonic()
        self._meter: Meter | None = None  # made before the first call of a model
        self._executor = executor
        self._waiting: dict[str, _Waiting] = {}  # by document id, for a batch of the writer
        self._waiting_for = 0  # windows
        self._begun: dict[str, Callable[[], None]] = {}  # by document id: wait for it, and store it
        self._most_begun = 0
        self._finished: dict[str, _Finished] = {}  # by document id, not yet committed
        self._finished_bytes = 0
        self._committed = time.monotonic()
        self._stopped = False
        self._found_pending = False
        self._seen: set[str] = set()
        self._report = BuildReport()
        self._done = 0
        self._advance: Advance = lambda amount=1: None

    def run(self, documents: Iterable[Document | str | Draft], reporter: Reporter) -> BuildReport:
        """Build and store what is new or changed; raises as `HWDAGIndex.refresh`."""
        total = len(documents) if isinstance(documents, Sized) else None
        is_limited = self._limits != Limits() and self._store.config().rules.has_points
        if is_limited and total is not None:  # a stream is taken as it is needed
            documents = self._leaves_first(list(map(as_draft, documents)), reporter)
        try:
            with (
                reporter.stage("documents", total or 0, "document") as self._advance,
                ExitStack() as stack,
            ):
                start = Lazy(lambda: stack.enter_context(self._start(reporter)))
                try:
                    for document in documents:
                        self._check_limits()
                        self._insert(as_draft(document).working_copy(), start, reporter)
                    self._begin_waiting(start, reporter)
                    self._store_begun()
                except LimitReached:
                    raise
                except Exception:  # what came before a wrong document is built
                    self._begin_waiting(start, reporter)
                    raise
                finally:
                    self._commit()
            if self._prune:
                self._delete_missing()
            self._note_copies()
        except LimitReached as reached:
            self._report.stopped = reached.limit
            self._report.pending = None if total is None else total - self._done
            if self._found_pending:
                self._report.notes.append(
                    "leaves come first: documents whose points are still to be made are searched by "
                    "similarity"
                )
        if (meter := self._meter) is not None:
            self._report.notes += meter.notes
            self._report.usage, self._report.writing = meter.reading, meter.writing
        return self._report

    def _leaves_first(self, drafts: Sequence[Draft], reporter: Reporter) -> Sequence[Draft]:
        """Store the leaves of what is to be built, so that it is found before its points are made."""
        ids = set[str]()
        with reporter.stage("leaves", len(drafts), "document") as advance:
            for one in drafts:
                identity = one.document.id
                content = self._store.content_hash_of(identity)
                is_new = content is None or (self._replace and content != one.content_hash)
                if is_new and not is_blank(one.document.text) and identity not in ids:
                    draft, known = one.working_copy(), self._known_vectors(identity)
                    leaves = self._builder.value.leaves(draft, reporter, known)
                    self._store.put(draft, leaves.graph, leaves.vectors, is_pending=True)
                ids.add(identity)
                self._found_pending |= self._store.is_pending(identity)
                advance(1)
        return drafts

    def _insert(self, draft: Draft, start: Lazy[Start], reporter: Reporter) -> None:
        """Check a document, and begin to build it if that is needed, or let it wait for others."""
        document = draft.document
        if any(document.id in some for some in (self._waiting, self._begun, self._finished)):
            self._begin_waiting(start, reporter)
            self._store_begun()
            self._commit()
        if draft.replaced:
            self._report.notes.append(f"{document.id}: {draft.replaced} lone surrogates replaced")
        if is_blank(document.text):
            self._report.skipped.append((document.id, EMPTY))
            if self._replace:  # what it said before is no longer so
                self._delete(document.id)
            self._count()
        elif self._is_unchanged(draft):
            self._store.abandon(document.id)
            self._report.unchanged.append(document.id)
            self._count()
        else:
            calls = self._store.building(document.id)
            calls.before_call = self._before_call
            if self._written_ahead:
                self._wait(draft, calls, start, reporter)
            else:
                self._begin(draft, calls, start)
        self._seen.add(document.id)

    def _wait(
        self, draft: Draft, calls: DocumentCalls, start: Lazy[Start], reporter: Reporter
    ) -> None:
        """Let a document wait until there are enough for a batch of the writer."""
        unwritten = self._builder.value.unwritten(draft, calls)
        if self._waiting and self._waiting_for + unwritten.share > self._written_ahead:
            self._begin_waiting(start, reporter)
        self._waiting[draft.document.id] = _Waiting(draft, calls, unwritten)
        self._waiting_for += unwritten.share
        if self._waiting_for >= self._written_ahead:
            self._begin_waiting(start, reporter)

    def _begin_waiting(self, start: Lazy[Start], reporter: Reporter) -> None:
        """Have the first points of the waiting documents written, and begin to build these."""
        waiting, self._waiting = list(self._waiting.values()), {}
        self._waiting_for = 0
        ahead = [(one.unwritten, one.calls) for one in waiting if one.unwritten.prompts]
        if len(ahead) > 1:
            self._builder.value.write_ahead(ahead, reporter, self._before_call)
        for one in waiting:
            self._begin(one.draft, one.calls, start)

    def _begin(self, draft: Draft, calls: DocumentCalls, start: Lazy[Start]) -> None:
        identity = draft.document.id
        known = self._known_vectors(identity)
        built = start.value(lambda builder, reporter: builder.build(draft, reporter, calls, known))
        self._begun[identity] = partial(self._store_built, draft, calls, built)
        self._store_begun(but=self._most_begun)

    def _is_unchanged(self, draft: Draft) -> bool:
        """Return whether the store holds this very document; raises `InputError` if its id is taken."""
        # why first: a document that cannot be stored must not cost a build
        content, document = draft.content_hash, draft.document
        found = self._store.content_hash_of(document.id)
        if found is None or found == content:
            return found is not None and not self._store.is_pending(document.id)
        if document.id in self._seen:
            raise InputError(
                f"two different documents have the id {document.id!r}; ids must be unique"
            )
        if not self._replace:
            raise InputError(
                f"the index holds another document under the id {document.id!r}; use refresh() to "
                "replace it, or delete() it first"
            )
        return False

    def _known_vectors(self, document_id: str) -> Mapping[Parts, Vectors]:
        """Embeddings of the stored version of a document, by what was embedded."""
        with suppress(InputError, IndexCorrupt):  # it is not there, or damaged
            entry = self._store.load(document_id)
            return dict(zip(embedded_parts(entry.graph.nodes), entry.vectors, strict=True))
        return {}

    def _before_call(self) -> None:
        if self._stopped:
            raise CancelledError("the run has ended, so nobody waits for this document")
        if self._meter is None:
            self._measure(self._builder.value)
        assert self._meter is not None  # set by `_measure`
        self._meter.before_call()

    def _check_limits(self) -> None:
        if self._meter is not None:
            self._meter.check()

    @cached_property
    def _written_ahead(self) -> int:
        # why not with several builders: they ask for several documents at the same time already
        return 0 if self._executor else self._builder.value.written_ahead

    @contextmanager
    def _start(self, reporter: Reporter) -> Iterator[Start]:
        """Give a function that starts a build and returns a function that waits for its result."""
        local = self._builder.value
        if self._executor is None:
            yield lambda build: partial(build, local, reporter)
            return
        with self._executor.builders(local) as builders:
            self._measure(builders[0])  # why not `local`: remote models count their own usage
            self._most_begun = BEGUN_PER_BUILDER * len(builders)
            free: SimpleQueue[GraphBuilder] = SimpleQueue()
            for builder in builders:
                free.put(builder)

            def job(build: Build) -> BuiltGraph:
                builder = free.get()
                try:  # bars of several documents would be written over each other
                    return build(builder, Silent())
                finally:
                    free.put(builder)

            threads = ThreadPoolExecutor(len(builders), thread_name_prefix="hwdag-document")
            try:
                yield lambda build: threads.submit(job, build).result
            finally:
                self._stopped = True
                # why wait: a call that is under way is paid for, and its result is kept
                threads.shutdown(cancel_futures=True)

    def _measure(self, builder: GraphBuilder) -> None:
        self._meter = Meter(builder.reader, builder.writer, self._limits, self._began)

    def _store_begun(self, but: int = 0) -> None:
        """Store the documents that were begun first, all `but` so many."""
        while len(self._begun) > but:
            self._begun.pop(next(iter(self._begun)))()

    def _store_built(
        self, draft: Draft, calls: DocumentCalls, built: Callable[[], BuiltGraph]
    ) -> None:
        try:
            result = built()
        except Withdrawn:
            self._withdraw(draft.document.id)
            return
        finally:
            self._report.reused += calls.reused
        rows = self._store.encode(draft, result.graph, result.vectors)
        self._finished[draft.document.id] = _Finished(rows, calls, result)
        self._finished_bytes += rows.size
        if (
            self._store.config().rules.has_points  # windows are told of the document in progress
            or self._finished_bytes >= GROUP_BYTES
            or time.monotonic() - self._committed >= GROUP_SECONDS
        ):
            self._commit()

    def _commit(self) -> None:
        """Store what is finished, in one transaction, and report it."""
        group, self._finished, self._finished_bytes = self._finished, {}, 0
        if group:
            withdrawn = self._store.put_all([(one.rows, one.calls) for one in group.values()])
            for identity, one in group.items():
                if identity in withdrawn:
                    self._withdraw(identity)
                else:
                    self._tell(identity, one.result)
        self._committed = time.monotonic()

    def _withdraw(self, document_id: str) -> None:
        note = f"{document_id}: deleted while it was being built, and so not stored"
        self._report.notes.append(note)
        self._count()

    def _tell(self, document_id: str, result: BuiltGraph) -> None:
        self._report.built.append(document_id)
        self._report.nodes += len(result.graph)
        for name, count in asdict(result.replies).items():
            setattr(self._report, name, getattr(self._report, name) + count)
        self._report.notes += result.notes
        self._count()

    def _count(self) -> None:
        self._done += 1
        self._advance()

    def _delete_missing(self) -> None:
        for identity in (*self._store.ids(), *self._store.unfinished()):
            if identity in self._seen or (callable(self._prune) and not self._prune(identity)):
                continue
            self._delete(identity)

    def _note_copies(self) -> None:
        """Note which of the documents that were built have the text of another one."""
        groups = list[list[str]]()
        with suppress(IndexCorrupt):  # why: `verify` reports damage
            groups = self._store.same_texts(set(self._report.built)) if self._report.built else []
        for names in groups[:MOST_NAMED]:
            self._report.notes.append(
                f"the same text under {len(names)} ids: {named(names)}; delete those that are copies"
            )
        if len(groups) > MOST_NAMED:
            self._report.notes.append(f"{len(groups) - MOST_NAMED} more texts under several ids")

    def _delete(self, document_id: str) -> None:
        known = self._store.number_of(document_id) is not None
        if self._store.delete(document_id) and known:
            self._report.deleted.append(document_id)


def is_built(store: Store, draft: Draft) -> bool:
    """Return whether a store holds this very document, with everything that is derived from it."""
    identity = draft.document.id
    return store.content_hash_of(identity) == draft.content_hash and not store.is_pending(identity)


def as_drafts(documents: Iterable[Document | str]) -> Iterator[Draft]:
    """Begin the drafts of documents and bare texts. Raises `InputError` for a single one."""
    return map(Draft.of, as_documents(documents))


def as_draft(document: Document | str | Draft) -> Draft:
    """Begin the draft of a document or a bare text, unless it is one already."""
    return document if isinstance(document, Draft) else Draft.of(as_document(document))


def as_documents(documents: Iterable[Document | str]) -> Iterator[Document]:
    """Take documents and bare texts as documents. Raises `InputError` for a single one."""
    # why: a text is a list of letters, and each would be a document
    if isinstance(documents, str | bytes | Mapping | Document) or not isinstance(
        documents, Iterable
    ):
        raise InputError(
            f"documents must be a list of hwdag.Document or texts, got one {type(documents).__name__}; "
            "put a single one into a list: [document]"
        )
    return map(as_document, documents)


def as_document(document: Document | str) -> Document:
    """Give a bare text an id made from its content."""
    if isinstance(document, Document):
        for name in ("id", "text", "title"):
            if not isinstance(value := getattr(document, name), str):
                raise InputError(f"{name} of a document must be a text, got {brief(value)}")
        return document
    if isinstance(document, str):
        # why surrogates pass: they are replaced later, and reported
        content = document.encode("utf-8", "surrogatepass")
        return Document(f"text-{hashlib.sha256(content).hexdigest()[:12]}", document)
    raise InputError(
        f"documents must be hwdag.Document or str, got {type(document).__name__}; framework "
        "documents go through llama_index_hwdag or langchain_hwdag"
    )

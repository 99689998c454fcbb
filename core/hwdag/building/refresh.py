"""Bring a store up to date with documents: check, build and store them in their order, within limits.

    check -> GraphBuilder.build (leaves -> levels -> embeddings) -> store

Every finished call of a model is committed before the next one begins, so a run that a limit, an error
or a crash has ended continues from there. Short documents are committed in groups (`commits`), with the only
call that each of them needs: a crash costs at most about a second of them. A limit or an error costs none,
and everything is on disk when a run returns. A writer gets the first windows of several short documents as
one batch (`writer_batches`), and an executor builds several documents at a time (`executors`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from contextlib import suppress
from dataclasses import asdict
from functools import partial

from hwdag.arrays import Vectors
from hwdag.building.commits import Commits
from hwdag.building.drafts import as_draft
from hwdag.building.executors import BuildQueue, Executor
from hwdag.building.levels import BuiltGraph, GraphBuilder, embedded_parts
from hwdag.building.report import (
    MOST_NAMED,
    BuildReport,
    LimitReached,
    Limits,
    RunMeter,
    named,
)
from hwdag.building.writer_batches import Ready, WriterBatches
from hwdag.embedding.titles import EmbeddedText
from hwdag.errors import IndexCorrupt, InputError
from hwdag.store.calls import DocumentCalls, Withdrawn
from hwdag.store.sqlite import Store
from hwdag.text.characters import is_blank
from hwdag.text.draft import Draft
from hwdag.threads import Lazy
from hwdag.trace.bars import Advance, Reporter
from hwdag.types import Document

EMPTY = "empty or only white space"  # why a document was skipped


class Refresh:
    """One-use state of a run: documents are built, then stored in order.

    Args:
        builder: builds the documents if there is no executor; made when the first one has changed.
        store: receives them.
        reporter: shows the progress.
        replace: a document takes the place of another one with its id; else that is an error.
        prune: delete documents that do not come; a function returns whether an id may be deleted.
        limits: time and tokens that the run may spend.
        executor: builds several documents at a time.
    """

    def __init__(
        self,
        builder: Lazy[GraphBuilder],
        store: Store,
        reporter: Reporter,
        *,
        replace: bool,
        prune: bool | Callable[[str], bool] = False,
        limits: Limits | None = None,
        executor: Executor | None = None,
    ) -> None:
        self._builder, self._store, self._reporter = builder, store, reporter
        self._replace, self._prune, self._limits = replace, prune, limits or Limits()
        self._meter = RunMeter(self._limits, lambda: (builder.value.reader, builder.value.writer))
        is_parallel = executor is not None
        self._batches = WriterBatches(builder, self._meter, reporter, is_parallel=is_parallel)
        self._queue = BuildQueue(builder, executor, self._meter, reporter)
        self._commits = Commits(store, self._count_stored)
        self._found_pending = False
        self._seen: set[str] = set()
        self._report = BuildReport()
        self._done = 0
        self._advance: Advance = lambda amount=1: None

    def run(self, documents: Iterable[Document | str | Draft]) -> BuildReport:
        """Build and store new and changed documents; raises as `HWDAGIndex.refresh`."""
        total = len(documents) if isinstance(documents, Sized) else None
        is_limited = self._limits != Limits() and self._store.config().rules.has_points
        if is_limited and total is not None:  # a stream is taken as it is needed
            drafts = list(map(as_draft, documents))
            self._leaves_first(drafts)
            documents = drafts
        try:
            with (
                self._reporter.stage("documents", total or 0, "document") as self._advance,
                self._queue,
            ):
                self._insert_all(documents)
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
        self._meter.add_to(self._report)
        return self._report

    def _leaves_first(self, drafts: Sequence[Draft]) -> None:
        """Store the leaves of documents to build, so that a search finds them before their points are made."""
        ids = set[str]()
        with self._reporter.stage("leaves", len(drafts), "document") as advance:
            for one in drafts:
                identity = one.document.id
                content = self._store.content_hash_of(identity)
                is_new = content is None or (self._replace and content != one.content_hash)
                if is_new and not is_blank(one.document.text) and identity not in ids:
                    draft, known = one.working_copy(), self._known_vectors(identity)
                    leaves = self._builder.value.leaves(draft, self._reporter, known)
                    self._store.put(draft, leaves.graph, leaves.vectors, is_pending=True)
                ids.add(identity)
                self._found_pending |= self._store.is_pending(identity)
                advance(1)

    def _insert_all(self, documents: Iterable[Document | str | Draft]) -> None:
        """Build and store documents; those before a wrong one are kept."""
        try:
            for document in documents:
                self._meter.check()
                self._insert(as_draft(document).working_copy())
            self._begin(self._batches.flush())
            self._queue.drain()
        except LimitReached:
            raise
        except Exception:
            self._begin(self._batches.flush())
            raise
        finally:
            self._commits.commit()

    def _insert(self, draft: Draft) -> None:
        """Check a document, and begin to build it if that is needed, or let it wait for others."""
        identity = draft.document.id
        if any(identity in some for some in (self._batches, self._queue, self._commits)):
            self._begin(self._batches.flush())
            self._queue.drain()
            self._commits.commit()
        if draft.replaced:
            self._report.notes.append(f"{identity}: {draft.replaced} lone surrogates replaced")
        if is_blank(draft.document.text):
            self._report.skipped.append((identity, EMPTY))
            if self._replace:  # the earlier text is no longer that of the source
                self._delete(identity)
            self._count()
        elif self._is_unchanged(draft):
            self._store.abandon(identity)
            self._report.unchanged.append(identity)
            self._count()
        else:
            calls = self._store.building(identity)
            calls.before_call = self._meter.before_call
            self._begin(self._batches.add(draft, calls))
        self._seen.add(identity)

    def _begin(self, ready: Ready) -> None:
        for draft, calls in ready:
            known = self._known_vectors(draft.document.id)
            build = partial(_build, draft, calls, known)
            self._queue.add(draft.document.id, build, partial(self._finish, draft, calls))

    def _finish(self, draft: Draft, calls: DocumentCalls, wait: Callable[[], BuiltGraph]) -> None:
        """Wait until a document is built, and store it."""
        try:
            result = wait()
        except Withdrawn:
            self._count_stored(draft.document.id, None)
            return
        finally:
            self._report.reused += calls.reused
        self._commits.add(draft, calls, result)

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

    def _known_vectors(self, document_id: str) -> Mapping[EmbeddedText, Vectors]:
        """Return the embeddings of the stored version of a document, by their texts."""
        with suppress(InputError, IndexCorrupt):  # it is not there, or damaged
            entry = self._store.load(document_id)
            return dict(zip(embedded_parts(entry.graph.nodes), entry.vectors, strict=True))
        return {}

    def _count_stored(self, document_id: str, result: BuiltGraph | None) -> None:
        """Report a document that was stored, or deleted while it was being built."""
        if result is None:
            note = f"{document_id}: deleted while it was being built, and so not stored"
            self._report.notes.append(note)
        else:
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
        self._report.copies = groups
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


def _build(
    draft: Draft,
    calls: DocumentCalls,
    known: Mapping[EmbeddedText, Vectors],
    builder: GraphBuilder,
    reporter: Reporter,
) -> BuiltGraph:
    return builder.build(draft, reporter, calls, known)


def is_built(store: Store, draft: Draft) -> bool:
    """Return whether a store holds this very document, with everything that is derived from it."""
    identity = draft.document.id
    return store.content_hash_of(identity) == draft.content_hash and not store.is_pending(identity)

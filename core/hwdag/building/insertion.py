"""Putting documents into a store: finished, stored and counted one by one, within limits."""

from __future__ import annotations

import hashlib
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sized
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial

from hwdag.arrays import Vectors
from hwdag.building.builder import Built, build, embedded_texts
from hwdag.building.calls import Calls
from hwdag.building.executor import Crew, Executor
from hwdag.building.report import BuildReport, Stop
from hwdag.building.tools import Tools
from hwdag.checks import positive
from hwdag.errors import IndexCorrupt, InputError
from hwdag.lm.base import Metered, Reader
from hwdag.store.calls import DocumentCalls, Withdrawn
from hwdag.store.sqlite import Entry, Store, content_hash
from hwdag.text.characters import without_surrogates
from hwdag.trace.bars import Advance, Reporter, Silent
from hwdag.types import Document, Usage

EMPTY = "empty or only white space"  # why a document was skipped


@dataclass(frozen=True, slots=True)
class Limits:
    """What one run may spend, None without a limit: it stops before the next call, and always makes one."""

    max_tokens: int | None = None
    max_seconds: float | None = None

    def __post_init__(self) -> None:
        for name in ("max_tokens", "max_seconds"):
            if getattr(self, name) is not None:
                positive(name, getattr(self, name))


class LimitReached(Exception):
    """Ends a run from within; never seen by users."""

    def __init__(self, limit: Stop) -> None:
        super().__init__(limit)
        self.limit: Stop = limit


class Meter:
    """What a run has spent so far, and whether it may go on; a writer counts if it is `Metered`."""

    def __init__(
        self,
        reader: Reader,
        writer: object,
        limits: Limits,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._reader = reader
        # why: a model that reads and writes counts both in one usage
        self._writer = writer if isinstance(writer, Metered) and writer is not reader else None
        self._limits = limits
        self._clock = clock
        self._began = clock()
        self._before = reader.usage, self._written()
        self._calls = 0

    @property
    def reading(self) -> Usage:
        """Of the local model."""
        return self._reader.usage - self._before[0]

    @property
    def writing(self) -> Usage:
        """Of a writer beside it, as far as that counts."""
        return self._written() - self._before[1]

    def before_call(self) -> None:
        """Count a call; raises `LimitReached` instead where a limit is."""
        self.check()
        self._calls += 1

    def check(self) -> None:
        """Raise `LimitReached` where a limit is, but not before the first call."""
        limits, spent = self._limits, (self.reading + self.writing).tokens
        if not self._calls:
            return
        if limits.max_tokens is not None and spent >= limits.max_tokens:
            raise LimitReached("max_tokens")
        if limits.max_seconds is not None and self._clock() - self._began >= limits.max_seconds:
            raise LimitReached("max_seconds")

    def _written(self) -> Usage:
        return Usage() if self._writer is None else self._writer.usage


@dataclass(frozen=True, slots=True)
class _Begun:
    """A document whose build has begun; `built` waits for it, and raises what it raises."""

    document: Document
    cache: DocumentCalls
    calls: Calls
    built: Callable[[], Built]


class Insertion:
    """One-use state of an insertion: documents are finished and stored one by one, in order.

    With `replace` a document takes the place of another one with its id. `prune` says which documents
    that do not come are deleted.
    """

    def __init__(
        self,
        tools: Tools,
        store: Store,
        *,
        replace: bool,
        prune: bool | Callable[[str], bool] = False,
        limits: Limits | None = None,
        clock: Callable[[], float] = time.monotonic,
        executor: Executor | None = None,
    ) -> None:
        self._tools = tools
        self._executor = executor
        self._crew: Crew | None = None
        self._begun: deque[_Begun] = deque()
        self._done = 0
        self._advance: Advance = lambda amount=1: None
        self._store = store
        self._replace = replace
        self._prune = prune
        self._limits = limits or Limits()
        self._metered = partial(Meter, limits=self._limits, clock=clock)
        self._meter = self._metered(tools.reader, tools.writer)
        self._report = BuildReport()
        self._seen: set[str] = set()

    def run(self, documents: Iterable[Document | str], reporter: Reporter) -> BuildReport:
        """Build what is new or changed, one document after the other; raises as `HWDAGIndex.refresh`."""
        total = len(documents) if isinstance(documents, Sized) else None
        try:
            with ExitStack() as stack:
                stage = reporter.stage("documents", total or 0, "document")
                self._advance = stack.enter_context(stage)
                if self._executor is not None:
                    several = stack.enter_context(self._executor.models(self._tools))
                    self._meter = self._metered(several[0].reader, several[0].writer)
                    self._crew = stack.enter_context(Crew(several))
                for document in documents:
                    self._meter.check()
                    self._one(as_document(document), reporter)
                self._finish()
            for identity in (*self._store.ids(), *self._store.unfinished()) if self._prune else ():
                if self._is_gone(identity):
                    self._delete(identity)
        except LimitReached as reached:
            self._report.stopped = reached.limit
            self._report.pending = None if total is None else total - self._done
        writer: object = self._tools.writer
        uncounted = writer not in (None, self._tools.reader) and not isinstance(writer, Metered)
        if uncounted and self._limits.max_tokens is not None:
            self._report.notes.append("max_tokens does not count this writer: it has no `usage`")
        self._report.usage = self._meter.reading
        self._report.writing = self._meter.writing
        return self._report

    def _one(self, document: Document, reporter: Reporter) -> None:
        if any(document.id == begun.document.id for begun in self._begun):
            self._finish()
        text, replaced = without_surrogates(document.text)
        if replaced:
            document = replace(document, text=text)
            self._report.notes.append(f"{document.id}: {replaced} lone surrogates replaced")
        if not document.text.strip():
            self._report.skipped.append((document.id, EMPTY))
            if self._replace:  # what it said before is no longer so
                self._delete(document.id)
            self._count()
        elif self._is_known(document):
            self._store.abandon(document.id)
            self._report.unchanged.append(document.id)
            self._count()
        else:
            self._build(document, reporter)
        self._seen.add(document.id)

    def _count(self) -> None:
        self._done += 1
        self._advance()

    def _is_gone(self, identity: str) -> bool:
        if identity in self._seen:
            return False
        return self._prune(identity) if callable(self._prune) else True

    def _delete(self, document_id: str) -> None:
        known = self._store.number_of(document_id) is not None
        if self._store.delete(document_id) and known:
            self._report.deleted.append(document_id)

    def _build(self, document: Document, reporter: Reporter) -> None:
        cache = self._store.building(document)
        calls, known = Calls(cache, self._before_call), self._embedded(document.id)

        def work(tools: Tools, reporter: Reporter) -> Built:
            return build(document, tools, reporter, calls, known)

        if self._crew is None:
            begun = _Begun(document, cache, calls, lambda: work(self._tools, reporter))
        else:  # bars of several documents would be written over each other
            started = self._crew.start(lambda tools: work(tools, Silent()))
            begun = _Begun(document, cache, calls, started.result)
        self._begun.append(begun)
        self._finish(but=0 if self._crew is None else self._crew.ahead)

    def _before_call(self) -> None:
        if self._crew is not None:
            self._crew.check()
        self._meter.before_call()

    def _finish(self, but: int = 0) -> None:
        """Store the documents that were begun first, all `but` so many."""
        while len(self._begun) > but:
            self._store_one(self._begun.popleft())
            self._count()

    def _store_one(self, begun: _Begun) -> None:
        document, calls = begun.document, begun.calls
        try:
            built = begun.built()
            entry = Entry(document, built.graph, built.vectors)
            self._store.put(*entry, calls=calls.kept, building=begun.cache)
        except Withdrawn:
            self._report.notes.append(
                f"{document.id}: deleted while it was being built, and so not stored"
            )
            return
        finally:
            self._report.reused += calls.reused
        self._report.built.append(document.id)
        self._report.nodes += len(built.graph)
        self._report.retries += built.retries
        self._report.fallbacks += built.fallbacks
        self._report.notes += built.notes

    def _embedded(self, document_id: str) -> Mapping[str, Vectors]:
        with suppress(InputError, IndexCorrupt):  # it is not there, or damaged
            entry = self._store.load(document_id)
            texts = embedded_texts(entry.graph.nodes)
            return dict(zip(texts, entry.vectors, strict=True))
        return {}

    def _is_known(self, document: Document) -> bool:
        # why first: what cannot be stored must not cost a build
        content = content_hash(document)
        found = self._store.content_hash_of(document.id)
        if found is None or found == content:
            return found is not None
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


def as_document(document: Document | str) -> Document:
    """Give a bare text an id made from its content."""
    if isinstance(document, Document):
        return document
    if isinstance(document, str):
        # why surrogates pass: they are replaced later, and reported
        content = document.encode("utf-8", "surrogatepass")
        return Document(f"text-{hashlib.sha256(content).hexdigest()[:12]}", document)
    raise InputError(
        f"documents must be hwdag.Document or str, got {type(document).__name__}; framework "
        "documents go through llama_index_hwdag or langchain_hwdag"
    )

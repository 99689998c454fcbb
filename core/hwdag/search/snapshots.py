"""Search a store that changes: every search gets the documents of one moment, the latest one."""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from reprlib import repr as brief
from typing import Any

import numpy as np

from hwdag.arrays import Vectors
from hwdag.checks import listed
from hwdag.corpus.corpus import Corpus, Vanished
from hwdag.corpus.segments import Segment, packed
from hwdag.corpus.view import View
from hwdag.embedding.base import Embedder
from hwdag.embedding.checked import embedded_question
from hwdag.errors import EmptyIndex, IndexBusy, IndexMismatch, InputError, UnknownDocument
from hwdag.filters import predicate
from hwdag.scope import Scope
from hwdag.search.evidence import Evidence
from hwdag.search.find import find
from hwdag.search.question import History, Question
from hwdag.search.request import SearchRequest
from hwdag.store.database import corrupt
from hwdag.store.segment_files import SegmentFiles
from hwdag.store.sqlite import Store
from hwdag.text.anaphora import asking_part
from hwdag.types import Document, Node, Retrieval

MAX_RESTARTS = 5
"""Searches that are begun anew because a document was deleted under them, before giving up."""

KEPT_NODES = 4096
"""Nodes that stay decoded until something is written: the next question often needs the same ones."""


class Snapshots:
    """Searches a store, and brings its corpus up to date before: only changes are read.

    Threads may share it. A corpus that was handed out never changes. If a document of it is gone by the
    time that its text is wanted, `Vanished` is raised and the search begins anew.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._catching_up = threading.Lock()
        self._version = -1
        self._files = SegmentFiles(store)
        self._corpus = Corpus(self._nodes)
        self._kept: dict[tuple[int, int], Node] = {}
        self._metadata: dict[int, Mapping[str, Any]] = {}

    def question(
        self,
        text: str,
        embedder: Embedder,
        *,
        vector: Sequence[float] | None = None,
        history: History = (),
    ) -> Question:
        """Embed a question, unless its `vector` is given.

        Raises `EmptyIndex`, `IndexMismatch` for an embedder of another dimension, and `InputError` for a
        vector that is not comparable with those of the nodes.
        """
        if vector is not None:
            return Question.of(text, self._comparable(vector), history)
        if not self.current().numbers:
            raise EmptyIndex
        return Question.of(text, self._embedded(text, embedder), history)

    def find(self, question: Question, request: SearchRequest, scope: Scope) -> Evidence:
        """Search for a question; begin anew if a document is deleted that is about to be read.

        Errors as in `HWDAGIndex.search`, and `IndexBusy` if documents disappear faster than they
        are read.
        """
        for _ in range(MAX_RESTARTS):
            version = self._store.data_version()
            try:
                corpus = self.current()
                if not corpus.numbers:
                    raise EmptyIndex
                view = self._view(corpus, scope)
                found = find(view, question, replace(request, metadata=self._metadata_by_id))
                sources = self._sources(found.retrieval, corpus)
            except Vanished as error:
                self._check_changed(version, str(error))
                continue
            return replace(found, retrieval=replace(found.retrieval, sources=sources))
        raise IndexBusy(
            f"documents were deleted while they were read, {MAX_RESTARTS} times in a row; search "
            "again when fewer changes are made"
        )

    def _check_changed(self, version: int, what: str) -> None:
        """Raise `IndexCorrupt` if nobody has written since: a document that is gone is then damage."""
        if self._store.data_version() == version:
            raise corrupt(self._store.name, f"{what}, but nothing was written")

    def _embedded(self, question: str, embedder: Embedder) -> Vectors:
        dimension = self._store.header.dimension
        vector = embedded_question(embedder, asking_part(question))
        # why: a row of several embeddings can be read as more of shorter ones
        if vector.shape != (dimension,):
            raise IndexMismatch(
                f"{embedder.name!r} makes embeddings of shape {vector.shape}, but those of the nodes "
                f"have {dimension} numbers; pass the embedder that the index was built with, or "
                "build anew"
            )
        return vector

    def _comparable(self, query_vector: Sequence[float] | Vectors) -> Vectors:
        """Return an embedding that came with the question as an array, (dimension,)."""
        dimension, embedder = self._store.header.dimension, self._store.header.embedder
        try:
            vector = np.asarray(query_vector, np.float32)
        except (TypeError, ValueError):
            vector = np.empty(0, np.float32)
        if vector.shape != (dimension,) or not np.isfinite(vector).all():
            raise InputError(
                f"query_vector must be {dimension} finite numbers, as {embedder!r} makes them, which "
                f"embedded the nodes; got {brief(query_vector)} of shape {np.shape(vector)}; leave it "
                "out to have the question embedded"
            )
        return vector

    def _sources(self, retrieval: Retrieval, corpus: Corpus) -> Mapping[str, Document]:
        """Return the documents that nodes rest on, in the versions that were walked."""
        steps = (*retrieval.steps, *retrieval.unread)
        ids = {step.node.document_id for step in steps}
        found, known = self._store.versions(ids), set(corpus.numbers)
        if not all(key in found and found[key][0] in known for key in ids):
            raise Vanished("a document was deleted or replaced")
        return {key: document for key, (_, document) in found.items()}

    def current(self) -> Corpus:
        """Return all documents of this moment; the same object if nothing has changed."""
        self._store.data_version()  # why: after a fork it raises, while the lock might never open
        with self._catching_up:
            version = self._store.data_version()
            if version != self._version:
                known, present = set(self._corpus.numbers), self._store.numbers()
                added = [number for number in present if number not in known]
                if not known:
                    self._store.check_slots()
                segments = self._read(added) if known else self._first_read(added)
                left = self._corpus.without(known.difference(present))
                corpus = left.joined(segments, self._files.keep)
                if missing := set(present).difference(corpus.numbers):
                    self._check_changed(version, f"document number {min(missing)} was deleted")
                self._corpus, self._kept = corpus, {}
                self._metadata = {n: self._metadata[n] for n in present if n in self._metadata}
                self._version = version
            return self._corpus

    def _view(self, corpus: Corpus, scope: Scope) -> View:
        """View the nodes that are in scope. Raises `InputError` for a document that is not there."""
        if scope == Scope():
            return View.of(corpus)
        numbers = corpus.numbers
        if scope.document_ids is not None:
            numbers = self._numbers(corpus, scope.document_ids)
        if scope.filters is not None:
            matches, found = predicate(scope.filters), self._metadata_of(numbers)
            numbers = [n for n in numbers if matches(found[n])]
        return View.of(corpus, corpus.within(numbers))

    def _numbers(self, corpus: Corpus, document_ids: Collection[str]) -> list[int]:
        known, numbers = set(corpus.numbers), []
        for identity in document_ids:
            number = self._store.number_of(identity)
            if number is None:
                self._store.check_slots()
                raise UnknownDocument(
                    f"no document {identity!r}; there are {listed(self._store.ids())}"
                )
            if number not in known:
                raise Vanished(f"document {identity!r} was replaced")
            numbers.append(number)
        return sorted(numbers)

    def _metadata_by_id(self, identity: str) -> Mapping[str, Any]:
        if (number := self._store.number_of(identity)) is None:
            raise Vanished(f"document {identity!r} was deleted")
        return self._metadata_of([number])[number]

    def _metadata_of(self, numbers: Collection[int]) -> Mapping[int, Mapping[str, Any]]:
        if missing := [n for n in numbers if n not in self._metadata]:
            self._metadata |= self._store.metadata(missing)
        if any(n not in self._metadata for n in numbers):
            raise Vanished("a document was deleted")
        return self._metadata

    def _nodes(self, addresses: Sequence[tuple[int, int]]) -> list[Node | None]:
        """Read nodes as `Store.nodes`; those that were read since the last change are kept."""
        kept = self._kept
        if self._store.data_version() != self._version:
            return self._store.nodes(addresses)
        if missing := [address for address in addresses if address not in kept]:
            if len(kept) + len(missing) > KEPT_NODES:
                self._kept = kept = {}
                missing = list(addresses)
            found = zip(missing, self._store.nodes(missing), strict=True)
            kept.update((address, node) for address, node in found if node is not None)
        return [kept.get(address) for address in addresses]

    def _first_read(self, numbers: Sequence[int]) -> Iterator[Segment]:
        """Read the arrays from their folder, and the rest from the file."""
        done = 0
        for segment in self._files.segments():
            begin = bisect_left(numbers, segment.numbers[0])
            end = bisect_right(numbers, segment.numbers[-1])
            if list(numbers[begin:end]) == segment.numbers.tolist():  # else it changed just now
                yield from self._read(numbers[done:begin])
                yield segment
                done = end
        yield from self._read(numbers[done:])

    def _read(self, numbers: Sequence[int]) -> Iterator[Segment]:
        return packed(self._store.blocks(numbers))

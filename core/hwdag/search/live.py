"""Searching a store that changes: every walk sees the documents of one moment, the latest one."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from reprlib import repr as brief
from typing import Any

import numpy as np

from hwdag.arrays import Mask, Vectors
from hwdag.config import SearchConfig
from hwdag.embedding.base import Embedder
from hwdag.errors import EmptyIndex, IndexBusy, IndexMismatch, InputError
from hwdag.filters import Equals
from hwdag.lm.base import Reader
from hwdag.scope import Scope
from hwdag.search.corpus import Corpus, Vanished
from hwdag.search.interruption import Interruption
from hwdag.search.walk import OnStep, Walked, walk
from hwdag.store.sqlite import Store
from hwdag.text.prompts import SearchPrompts
from hwdag.types import Document, Retrieval

MAX_RESTARTS = 5
"""Walks that are begun anew because a document was deleted under them, before giving up."""


class Searcher:
    """Walks over whatever a store holds at the moment; threads may share it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._live = LiveCorpus(store)

    def walk(
        self,
        question: str,
        scope: Scope,
        tenant: Equals | None,
        *,
        reader: Reader,
        embedder: Embedder,
        config: SearchConfig,
        prompts: SearchPrompts,
        k: int | None = None,
        query_vector: Sequence[float] | None = None,
        on_step: OnStep | None = None,
        interruption: Interruption | None = None,
    ) -> Walked:
        """Walk for a question; begun anew where a document is deleted that is about to be read.

        Raises:
            InputError: there is no document, or not the one that is asked for, or `query_vector` is
                not comparable with the embeddings of the nodes.
            IndexMismatch: nor is what the embedder makes of the question.
            QuestionTooLong: the question leaves no room in the reader's context.
            IndexBusy: documents disappear faster than they can be read.
        """
        vector = None if query_vector is None else self._comparable(query_vector)
        for _ in range(MAX_RESTARTS):
            try:
                corpus = self._live.current()
                if not corpus.numbers:
                    raise EmptyIndex("the index holds no document; insert some first")
                if vector is None:
                    vector = self._embedded(question, embedder)
                walked = walk(
                    corpus,
                    question,
                    reader=reader,
                    embedder=embedder,
                    config=config,
                    prompts=prompts,
                    allowed=self._live.visible(corpus, scope, tenant),
                    k=k,
                    query_vector=vector,
                    on_step=on_step,
                    interruption=interruption,
                )
                sources = self._sources(walked.retrieval, corpus)
            except Vanished:
                continue
            return replace(walked, retrieval=replace(walked.retrieval, sources=sources))
        raise IndexBusy(
            f"documents were deleted while they were read, {MAX_RESTARTS} times in a row; search "
            "again when fewer changes are made"
        )

    def _embedded(self, question: str, embedder: Embedder) -> Vectors:
        """The embedding of a question, (dimension,)."""
        dimension = self._store.header.dimension
        vector = np.asarray(embedder.embed_query(question), np.float32)
        # why: a row of several embeddings can be read as more of shorter ones
        if vector.shape != (dimension,):
            raise IndexMismatch(
                f"{embedder.name!r} makes embeddings of shape {vector.shape}, but those of the nodes "
                f"have {dimension} numbers; pass the embedder that the index was built with, or "
                "build anew"
            )
        return vector

    def _comparable(self, query_vector: Sequence[float]) -> Vectors:
        """A given embedding of a question as an array, (dimension,)."""
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
        """The documents that nodes rest on, in the versions that were walked."""
        steps = (*retrieval.steps, *retrieval.beyond)
        ids = {step.node.document_id for step in steps}
        found, known = self._store.versions(ids), set(corpus.numbers)
        if not all(key in found and found[key][0] in known for key in ids):
            raise Vanished("a document was deleted or replaced")
        return {key: document for key, (_, document) in found.items()}


class LiveCorpus:
    """Brings a corpus up to date before every search: only what changed since is read.

    Threads may share it. A corpus that was handed out never changes; where a document of it is gone
    by the time that its text is wanted, `Vanished` is raised and the search begins anew.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._catching_up = threading.Lock()
        self._version = -1
        self._sequence = 0
        self._corpus = Corpus.empty(store.nodes)
        self._metadata: dict[int, Mapping[str, Any]] = {}

    def current(self) -> Corpus:
        """All documents of this moment."""
        self._store.data_version()  # why: after a fork it says so, where the lock might never open
        with self._catching_up:
            version = self._store.data_version()
            if version != self._version:
                self._catch_up()
                self._version = version
            return self._corpus

    def visible(self, corpus: Corpus, scope: Scope, tenant: Equals | None) -> Mask | None:
        """The nodes that are in scope, (n,); None for all.

        Raises:
            InputError: there is no such document.
            Vanished: the corpus is no longer what the store holds.
        """
        if scope == Scope():
            return None
        numbers = corpus.numbers
        if scope.document_ids is not None:
            numbers = self._numbers(corpus, scope.document_ids, tenant)
        if scope.filters is not None or tenant is not None:
            found = self._metadata_of(numbers)
            numbers = [
                n
                for n in numbers
                if scope.admits(found[n]) and (tenant is None or tenant.matches(found[n]))
            ]
        return corpus.within(numbers)

    def _catch_up(self) -> None:
        changes = self._store.changes(self._sequence)
        if not changes.complete:
            self._metadata.clear()
        corpus = self._corpus if changes.complete else Corpus.empty(self._store.nodes)
        corpus = corpus.without(changes.removed)
        self._corpus = corpus.extended(self._store.blocks(changes.added))
        self._sequence = changes.sequence
        for number in changes.removed:
            self._metadata.pop(number, None)

    def _numbers(
        self, corpus: Corpus, document_ids: Collection[str], tenant: Equals | None
    ) -> list[int]:
        known, numbers = set(corpus.numbers), []
        for identity in document_ids:
            number = self._store.number_of(identity)
            if number is not None and number not in known:
                raise Vanished(f"document {identity!r} was replaced")
            if tenant is not None:  # which ids others use is nobody's business
                theirs = number is None or not tenant.matches(self._metadata_of([number])[number])
                if theirs:
                    raise InputError(f"this tenant has no document {identity!r}")
            if number is None:
                raise InputError(f"no document {identity!r}; there are {some(self._store.ids())}")
            numbers.append(number)
        return sorted(numbers)

    def _metadata_of(self, numbers: Collection[int]) -> Mapping[int, Mapping[str, Any]]:
        if missing := [n for n in numbers if n not in self._metadata]:
            self._metadata |= self._store.metadata(missing)
        if any(n not in self._metadata for n in numbers):
            raise Vanished("a document was deleted")
        return self._metadata


def some(ids: Collection[str], limit: int = 5) -> str:
    """A few ids for a message."""
    listed = list(ids)
    more = f" and {len(listed) - limit} more" if len(listed) > limit else ""
    return ", ".join(map(repr, listed[:limit])) + more

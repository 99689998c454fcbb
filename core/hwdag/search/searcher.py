"""Searching a store that changes: a walk over the documents of one moment, begun anew if need be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from reprlib import repr as brief

import numpy as np

from hwdag.arrays import Mask, Vectors
from hwdag.embedding.base import Embedder
from hwdag.errors import EmptyIndex, IndexBusy, IndexMismatch, InputError
from hwdag.filters import Equals
from hwdag.scope import Scope
from hwdag.search.corpus import Corpus, Vanished
from hwdag.search.navigator import navigator_of
from hwdag.search.snapshots import Snapshots
from hwdag.search.walk import Query, Walked, walk
from hwdag.store.sqlite import Store
from hwdag.types import Document, Retrieval

MAX_RESTARTS = 5
"""Walks that are begun anew because a document was deleted under them, before giving up."""


class Searcher:
    """Walks over whatever a store holds at the moment; threads may share it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._snapshots = Snapshots(store)

    def walk(self, query: Query, scope: Scope, tenant: Equals | None) -> Walked:
        """Walk for a question; begun anew where a document is deleted that is about to be read.

        Errors as in `HWDAGIndex.search`, and `IndexBusy` where documents disappear faster than they
        are read.
        """
        embedder, config = query.embedder, query.config
        if query.query_vector is not None:
            query = replace(query, query_vector=self._comparable(query.query_vector))
        for _ in range(MAX_RESTARTS):
            try:
                corpus = self._snapshots.current()
                if not corpus.numbers:
                    raise EmptyIndex
                if query.query_vector is None:
                    query = replace(query, query_vector=self._embedded(query.question, embedder))
                allowed = self._snapshots.visible(corpus, scope, tenant)
                waits = config.scoring.attention > 0 and self._has_attention(corpus, allowed)
                navigator = navigator_of(config, embedder, waits=waits)
                walked = walk(corpus, query, allowed=allowed, navigator=navigator, waits=waits)
                sources = self._sources(walked.retrieval, corpus)
            except Vanished:
                continue
            return replace(walked, retrieval=replace(walked.retrieval, sources=sources))
        raise IndexBusy(
            f"documents were deleted while they were read, {MAX_RESTARTS} times in a row; search "
            "again when fewer changes are made"
        )

    def _has_attention(self, corpus: Corpus, allowed: Mask | None) -> bool:
        """Whether edges of allowed nodes come from attention (`BuildConfig.edges`)."""
        configs = [store.header.config for _, store in self._store.parts]
        if any(config.get("edges") == "attention" for config in configs):
            return True
        if allowed is None or not corpus.has_generated:
            return corpus.has_generated
        return corpus.any_generated(np.flatnonzero(allowed))

    def _embedded(self, question: str, embedder: Embedder) -> Vectors:
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

    def _comparable(self, query_vector: Sequence[float] | Vectors) -> Vectors:
        """An embedding that came with the question as an array, (dimension,)."""
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

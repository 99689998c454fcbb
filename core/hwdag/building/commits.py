"""Finished documents in groups of one transaction each, since a commit waits for the disk."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from hwdag.building.levels import BuiltGraph
from hwdag.store.calls import DocumentCalls
from hwdag.store.records import DocumentRows
from hwdag.store.sqlite import Store
from hwdag.text.draft import Draft

GROUP_SECONDS = 1.0
"""A document that is finished this long after the last commit is committed at once."""

GROUP_BYTES = 4 << 20
"""A group of this size is committed at once too: searches of this process wait for a commit."""


class _Finished(NamedTuple):
    rows: DocumentRows
    calls: DocumentCalls
    result: BuiltGraph


class Commits:
    """Documents that are finished and not yet committed.

    `stored` is called for every document that is on disk, with its graph, or with None if another process
    has deleted it while it was built.
    """

    def __init__(self, store: Store, stored: Callable[[str, BuiltGraph | None], None]) -> None:
        self._store, self._stored = store, stored
        self._finished: dict[str, _Finished] = {}  # by document id
        self._bytes = 0
        self._last = time.monotonic()

    def __contains__(self, document_id: str) -> bool:
        return document_id in self._finished

    def add(self, draft: Draft, calls: DocumentCalls, result: BuiltGraph) -> None:
        """Add a finished document, and commit the group if it is due."""
        rows = self._store.encode(draft, result.graph, result.vectors)
        self._finished[draft.document.id] = _Finished(rows, calls, result)
        self._bytes += rows.size
        if (
            self._store.config().rules.has_points  # a progress bar counts windows of one document
            or self._bytes >= GROUP_BYTES
            or time.monotonic() - self._last >= GROUP_SECONDS
        ):
            self.commit()

    def commit(self) -> None:
        """Store the finished documents in one transaction."""
        group, self._finished, self._bytes = self._finished, {}, 0
        if group:
            withdrawn = self._store.put_all([(one.rows, one.calls) for one in group.values()])
            for identity, one in group.items():
                self._stored(identity, None if identity in withdrawn else one.result)
        self._last = time.monotonic()

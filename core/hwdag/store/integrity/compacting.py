"""Gives the space of what was deleted back to the disk."""

from __future__ import annotations

import os
import sqlite3
from contextlib import nullcontext
from dataclasses import dataclass

from hwdag.store.lock import build_lock
from hwdag.store.sqlite import Store, opened

KEPT_CHANGES = 1000
"""Other processes that have missed more of the latest changes load their documents anew."""

_WAIT_SECONDS = 30.0
"""For a build to end whose calls are to be dropped."""


@dataclass(frozen=True, slots=True)
class Compacted:
    """Bytes of the file before and after."""

    before: int
    after: int


def compact(source: Store | str | os.PathLike[str], *, drop_calls: bool = False) -> Compacted:
    """Write an index file anew without gaps, and forget the log of earlier changes.

    Other processes may have the file open; they wait while pages are written. Twice the size of the
    file must be free on the disk meanwhile; the file stays as it was if it is not.

    Args:
        source: an open store, or the path of an index.
        drop_calls: also forget finished model calls, which an unfinished build or the next version
            of a document would not pay for again.

    Raises:
        IndexFileError: the file cannot be read or written, or another process keeps it locked.
    """
    with opened(source) as store:
        database = store.database
        # why: an unfinished build takes the loss of its calls for a deletion of its document
        alone = build_lock(store.path, _WAIT_SECONDS) if drop_calls else nullcontext()
        with alone, database.writing() as connection:
            before = _size(connection)
            connection.execute(
                "DELETE FROM changes WHERE sequence <= (SELECT max(sequence) FROM changes) - ?",
                [KEPT_CHANGES],
            )
            if drop_calls:
                connection.execute("DELETE FROM calls")
        database.vacuum()
        with database.reading() as connection:
            return Compacted(before, _size(connection))


def _size(connection: sqlite3.Connection) -> int:
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    (size,) = connection.execute("PRAGMA page_size").fetchone()
    return int(pages) * int(size)

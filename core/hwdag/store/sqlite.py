"""The index file: one SQLite database, one transaction per document.

    with Store.create("notes.hwdag", header) as store:
        store.put(document, graph, vectors)

The journal is SQLite's plain rollback journal with full synchronisation, not a write-ahead log:
after every commit the one file is complete and may be copied, a killed process leaves at most a
journal that the next opening rolls back, and it works on network file systems. Readers in other
processes wait only while a commit is being written, a few milliseconds of the busy timeout.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from hwdag.arrays import Vectors
from hwdag.errors import IndexFileError, NotAnIndex
from hwdag.graph.dag import HWDAG
from hwdag.graph.group import CorpusGroup
from hwdag.store.calls import CallCache, DocumentCalls, forget_calls
from hwdag.store.database import Database
from hwdag.store.groups import GroupCalls, check_unchanged, exchange
from hwdag.store.lock import BuildLock
from hwdag.store.opening import check_free, write_schema
from hwdag.store.placing import beside, explained, settle, sync
from hwdag.store.reading import Changes, StoredUnits
from hwdag.store.records import Entry, content_hash, encode, encode_header
from hwdag.store.schema import Header
from hwdag.store.units import find, remove_unit, write_unit
from hwdag.types import Document

__all__ = ["Changes", "Entry", "Header", "Store", "content_hash"]


class Store(StoredUnits):
    """An open index file; `create` or `open` one, and close it, best in a `with` block.

    Threads may share a store, a lock serialises them; processes each open their own. Everything
    that goes wrong with the file is an `IndexFileError`, never an error of sqlite3.

    Every version of a document has a number, larger than all numbers before; order is always that
    of the numbers. A group of a corpus layer has a number too, and nothing else of a document.

    Attributes:
        path: the file; None in memory.
        header: what the index was built with.
        readonly: whether `put` and `delete` are refused.
    """

    def __init__(self, database: Database) -> None:
        """Use `create` or `open`."""
        self._lock = BuildLock(database.path)
        super().__init__(database)

    @classmethod
    def create(cls, path: str | os.PathLike[str] | None, header: Header) -> Self:
        """A new file without documents; without a path a store that is kept in memory.

        Raises:
            InputError: something is there already, the folder is missing, or the config of the
                header is not JSON.
        """
        path = None if path is None else Path(path)
        if path is not None:
            check_free(path)
        rows = encode_header(header)
        database = Database(path, create=True, readonly=False)
        try:
            write_schema(database, rows)
        except BaseException:
            database.close()
            raise
        return cls(database)

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, readonly: bool = False) -> Self:
        """An existing file; one of an older format is brought to this one.

        A read-only store still completes the rollback that a killed writer left behind.

        Raises:
            IndexFileError: there is no such file, or it cannot be read.
            NotAnIndex: not SQLite, or SQLite of somebody else.
            IndexVersionError: written by a newer hwdag, or by an older one and `readonly`.
            IndexCorrupt: truncated or damaged.
        """
        path = Path(path)
        if not path.exists():
            raise IndexFileError(
                f"there is no file {path}; check the path, or build an index first"
            )
        if not path.is_file():
            raise NotAnIndex(f"{path} is a folder, an index is a single file; name the file")
        return cls(Database(path, create=False, readonly=readonly))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def is_in(self, path: Path) -> bool:
        """Whether this is the file of that name; another one may have taken the name meanwhile."""
        return self._database.is_in(path)

    def copy(self, path: str | os.PathLike[str]) -> None:
        """Write everything of one moment to a new file.

        Raises:
            InputError: something is there already, or the folder is missing.
            IndexFileError: the file cannot be written.
        """
        path = Path(path).resolve()
        check_free(path)
        with explained(), beside(path) as unfinished:
            if self.path is None or not self.is_in(self.path):
                self._database.copy(unfinished)
            else:  # on a connection of its own, so that searches need not wait
                with closing(Database(self.path, create=False, readonly=False)) as database:
                    database.copy(unfinished)
            sync(unfinished)
            path.unlink(missing_ok=True)  # an empty file, as a build killed at its start leaves
            settle(unfinished, path)

    # Writing

    def put(
        self,
        document: Document,
        graph: HWDAG,
        vectors: Vectors,
        *,
        calls: Collection[bytes] | None = None,
        building: DocumentCalls | None = None,
    ) -> int:
        """Store a document, in place of one with the same id; on disk when this returns.

        Groups that rested on the replaced one go with it. The new version comes last in order.

        Args:
            document: its metadata must be JSON.
            graph: its graph.
            vectors: the embeddings of the graph's nodes, (nodes, header.dimension).
            calls: keys of the cached calls that a later version may need; the others are dropped.
            building: the cache that it was built with.

        Returns:
            The number of this version.

        Raises:
            InputError: the three do not belong together, or cannot be stored.
            IndexFileError: the file cannot be written; it stays as it was.
            Withdrawn: it was deleted while it was built.
        """
        unit = encode(Entry(document, graph, vectors), dimension=self.header.dimension)
        with self._database.writing() as connection:
            if building is not None:
                building.check(connection)
            before = find(connection, document.id)
            if before is not None:
                remove_unit(connection, before)
            forget_calls(connection, document.id, calls or ())
            return write_unit(connection, unit)

    def delete(self, document_id: str) -> bool:
        """Remove a document and overwrite what it held; False if there was nothing of it.

        Groups that rest on it, and cached calls, also those of a build that was never finished, go
        with it. The space is used again by later documents, the file does not shrink.
        """
        with self._database.writing() as connection:
            number = find(connection, document_id)
            if number is not None:
                remove_unit(connection, number)
            calls = forget_calls(connection, document_id)
        return number is not None or calls > 0

    def calls(self, owner: str | None) -> CallCache:
        """The cache of finished calls for a document id, or (None) for all corpus layers.

        Those of corpus layers are dropped whenever a document is replaced or deleted, since they do
        not say which documents went into them.
        """
        return CallCache(self._database, owner)

    def building(self, document_id: str) -> DocumentCalls:
        """As `calls`; raises `Withdrawn` instead of keeping what may be of a deleted document."""
        return DocumentCalls(self._database, document_id)

    # Corpus layers

    def group_calls(self, since: int) -> GroupCalls:
        """As `calls(None)`; raises `Changed` instead of keeping what may be of a deleted document.

        `since` is the `sequence` from before anything was read.
        """
        return GroupCalls(self._database, since)

    def exchange_groups(
        self, removed: Collection[int], groups: Sequence[CorpusGroup], *, since: int
    ) -> list[int]:
        """Remove groups, with what is above them, and add others; on disk when this returns.

        Args:
            removed: numbers of groups.
            groups: a member of the number -i is the i-th of them, counted from 1.
            since: the `sequence` from before anything was read that went into the groups.

        Returns:
            The numbers of the new groups.

        Raises:
            Changed: something was removed since; nothing happened.
            InputError: the parts of a group do not belong together.
            IndexFileError: the file cannot be written; it stays as it was.
        """
        with self._database.writing() as connection:
            check_unchanged(connection, since)
            return exchange(connection, removed, groups, self.header.dimension)

    @contextmanager
    def exclusive(self, timeout: float = 30.0) -> Iterator[None]:
        """No other thread or process is in here for the same file; waits for them.

        For long work in many transactions, a build above all. A single `put` or `delete` needs it
        not. It cannot be entered twice by one thread.

        Raises:
            IndexBusy: it took longer than `timeout` seconds.
            IndexFileError: the lock file beside the index cannot be made.
        """
        with self._lock.held(timeout):
            yield

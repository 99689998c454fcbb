"""The index file: one SQLite database; a document is written in one transaction, short ones together.

The journal is SQLite's rollback journal with `EXTRA` synchronisation, not a write-ahead log. After
every commit the one file is complete and can be copied. A killed process leaves at most a journal,
which the next opening rolls back. It works on network file systems.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections import defaultdict
from collections.abc import (
    Callable,
    Collection,
    ItemsView,
    Iterator,
    KeysView,
    Mapping,
    Sequence,
    ValuesView,
)
from contextlib import AbstractContextManager, closing, nullcontext, suppress
from dataclasses import fields
from functools import cached_property
from pathlib import Path
from typing import Any, Self, TypeVar

from hwdag.arrays import Vectors
from hwdag.config import BuildConfig
from hwdag.corpus.block import Block
from hwdag.errors import (
    HWDAGError,
    IndexCorrupt,
    IndexFileError,
    IndexMismatch,
    InputError,
    NotAnIndex,
)
from hwdag.graph.dag import HWDAG
from hwdag.store import records
from hwdag.store.atomic_files import (
    file_errors,
    new_file,
    remove_leftovers,
    replace_file,
    unfinished_file,
)
from hwdag.store.calls import CallCache, DocumentCalls, Withdrawn, forget_calls, last_call
from hwdag.store.database import Database, corrupt, journal_of, on_error
from hwdag.store.erasure import drop_arrays
from hwdag.store.records import DocumentRows, Entry, Row, decode_header
from hwdag.store.schema import NODES_PER_ROW, PENDING, Header, check_format, define
from hwdag.text.draft import Draft
from hwdag.types import Document, Node

__all__ = ["Entry", "Header", "Store", "opened"]

BATCH_BYTES = 4 << 20
"""Bytes of arrays read in one transaction: a writer waits a few milliseconds at most."""

_BATCH_ROWS = 256  # short rows read in one transaction
_MOST_HEADER_ROWS = 20
_LONGEST_HEADER_VALUE = 1 << 20

T = TypeVar("T")


class Store:
    """An open index file; `create` or `open` one, and close it, best in a `with` block.

    Threads may share a store; every process opens its own. All trouble with the file raises an
    `IndexFileError`. Short read transactions never make a writer wait long. Every version of a document
    gets a number larger than all before it; documents are always in the order of their numbers.
    """

    def __init__(self, database: Database) -> None:
        """Use `create` or `open`."""
        self.path = database.path
        self.database = database
        with on_error(self.close):
            self.header = read_header(database)

    @property
    def name(self) -> str:
        """Name of the file in messages."""
        return self.database.name

    @classmethod
    def create(cls, path: str | os.PathLike[str] | None, header: Header) -> Self:
        """Create a file without documents, or a store in memory. Raises `InputError` if the file exists."""
        path = None if path is None else Path(path)
        if path is not None:
            check_free(path)
        encoded = records.encode_header(header)
        database = Database(path, create=True)
        with on_error(database.close):
            write_schema(database, encoded)
        return cls(database)

    @classmethod
    def open(cls, path: str | os.PathLike[str] | bytes, *, readonly: bool = False) -> Self:
        """Open an existing file, or the bytes of one in memory (`Database.image`).

        A read-only store still rolls back the journal of a killed writer.

        Raises:
            IndexFileError: the file is missing or cannot be read.
            NotAnIndex, IndexVersionError: it is no index, or has another format.
            IndexCorrupt: it is truncated or damaged, or holds tables that no index has.
        """
        if isinstance(path, bytes):
            return cls(Database(None, readonly=readonly, image=path))
        path = Path(path)
        if not path.exists():
            raise IndexFileError(
                f"there is no file {path}; check the path, or build an index first"
            )
        if not path.is_file():
            raise NotAnIndex(f"{path} is a folder, an index is a single file; name the file")
        store = cls(Database(path, readonly=readonly))
        if not readonly:
            remove_leftovers(path.resolve())
        return store

    def close(self) -> None:
        """Release the file; closing twice does no harm."""
        self.database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @cached_property
    def _config(self) -> BuildConfig:
        return BuildConfig.from_dict(self.header.config)

    def config(self, expected: BuildConfig | None = None) -> BuildConfig:
        """Return the build config of the file. Raises `IndexMismatch` if another is `expected`."""
        stored = self._config
        if expected is None or stored == (wanted := expected.resolved(stored.rules.method)):
            return stored
        differing = (
            f"{field.name}={getattr(stored, field.name)!r}, not {getattr(wanted, field.name)!r}"
            for field in fields(stored)
            if getattr(stored, field.name) != getattr(wanted, field.name)
        )
        raise IndexMismatch(
            f"{self.name} was built with {'; '.join(differing)}. Leave config out to use the file's "
            "own, or build into another file"
        )

    def copy(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write a snapshot to another file.

        Copying a store over its own file does nothing. Raises `InputError` if the file exists and
        `overwrite` is False.
        """
        path = Path(path).resolve()
        if not overwrite or not path.exists():
            check_free(path)
            with new_file(path) as unfinished:
                self._copy(unfinished)
        elif not self.database.is_in(path):
            with file_errors(), unfinished_file(path) as unfinished:
                self._copy(unfinished)
                replace_file(unfinished, path)

    def _copy(self, path: Path) -> None:
        if self.path is None or not self.database.is_in(self.path):
            self.database.copy(path)
        else:  # a connection of its own keeps searches from waiting
            with closing(Database(self.path)) as database:
                database.copy(path)

    # Writing

    def put(
        self,
        document: Document | Draft,
        graph: HWDAG,
        vectors: Vectors,
        *,
        calls: CallCache | None = None,
        is_pending: bool = False,
    ) -> int:
        """Store a document as the last one, in place of an older version; on disk when this returns.

        Args:
            document: its metadata must be JSON.
            graph: its graph.
            vectors: the embeddings of the graph's nodes, (nodes, header.dimension).
            calls: the cache that it was built with. Its `kept` calls stay for a later version, the
                others are dropped. Raises `Withdrawn` if the document was deleted since.
            is_pending: its points are still to be made; no call is dropped (`pending`).

        Returns:
            The number of this version.

        Raises:
            InputError: document, graph and vectors do not fit together.
            IndexFileError: the file cannot be written; it does not change.
        """
        draft = document if isinstance(document, Draft) else Draft(document)
        encoded = self.encode(draft, graph, vectors)
        with self.database.writing() as connection:
            return self._put(connection, encoded, calls, is_pending)

    def encode(self, draft: Draft, graph: HWDAG, vectors: Vectors) -> DocumentRows:
        """Encode a document for `put_all`. Raises `InputError` if its parts do not fit together."""
        return records.encode(draft, graph, vectors, dimension=self.header.dimension)

    def put_all(self, group: Sequence[tuple[DocumentRows, CallCache]]) -> list[str]:
        """Store documents in one transaction, as `put`; return ids of those deleted since they were begun."""
        withdrawn = []
        with self.database.writing() as connection:
            for encoded, calls in group:
                try:
                    self._put(connection, encoded, calls)
                except Withdrawn:  # raised before anything was written
                    withdrawn.append(encoded.id)
        return withdrawn

    def _put(
        self,
        connection: sqlite3.Connection,
        encoded: DocumentRows,
        calls: CallCache | None,
        is_pending: bool = False,
    ) -> int:
        if calls is not None:
            calls.check(connection)
        before = records.find(connection, encoded.id)
        if before is not None:
            self._remove(connection, before)
        if is_pending:
            return records.write_rows(connection, encoded, PENDING)
        forget_calls(connection, encoded.id, calls.kept if calls else ())
        return records.write_rows(connection, encoded, last_call(connection, encoded.id))

    def delete(self, document_id: str) -> bool:
        """Delete a document and its calls, and overwrite their bytes; returns whether there were any."""
        with self.database.writing() as connection:
            number = records.find(connection, document_id)
            if number is not None:
                self._remove(connection, number)
            else:
                records.check_slots(connection)
            calls = forget_calls(connection, document_id)
        return number is not None or calls > 0

    def _remove(self, connection: sqlite3.Connection, number: int) -> None:
        connection.execute("DELETE FROM documents WHERE number = ?", [number])
        if self.database.place is not None:
            with file_errors():
                drop_arrays(self.database.place, number)

    def calls(self, owner: str | None) -> CallCache:
        """Return the cache of finished calls for a document id."""
        return CallCache(self.database, owner)

    def building(self, document_id: str) -> DocumentCalls:
        """Return the cache for a build; it raises `Withdrawn` once another process deletes the document."""
        return DocumentCalls(self.database, document_id)

    def abandon(self, document_id: str) -> None:
        """Drop the calls of a newer version of a stored document whose build was given up."""
        with self.database.reading() as connection:
            last = self._last_needed_call(connection, document_id)
            wanted = last is None or last_call(connection, document_id) <= last
        if not wanted:
            with self.database.writing() as connection:
                last = self._last_needed_call(connection, document_id)
                if last is not None:
                    forget_calls(connection, document_id, after=last)

    def _last_needed_call(self, connection: sqlite3.Connection, document_id: str) -> int | None:
        """Return the last call of the stored version; None if there is no such document."""
        head = records.read_head(connection, records.find(connection, document_id))
        return None if head is None else head.last_call

    # One document

    def number_of(self, document_id: str) -> int | None:
        """Return the number of the stored version; None if there is none."""
        with self.database.reading() as connection:
            return records.find(connection, document_id)

    def has(self, document_id: str) -> bool:
        """Return whether a document is stored. Raises `IndexCorrupt` if a damaged slot may hide it."""
        found = self.number_of(document_id) is not None
        if not found:
            self.check_slots()
        return found

    def content_hash_of(self, document_id: str) -> str | None:
        """Return the `content_hash` of the stored version; None if there is none."""
        with self.database.reading() as connection:
            query = "SELECT content_hash FROM documents WHERE number = ?"
            row = connection.execute(query, [records.find(connection, document_id)]).fetchone()
        return None if row is None else str(row[0])

    def is_pending(self, document_id: str) -> bool:
        """Return whether a document is stored that has leaves alone, and whose points are to be made."""
        with self.database.reading() as connection:
            return self._last_needed_call(connection, document_id) == PENDING

    def document(self, document_id: str) -> Document:
        """Read a document without its graph. Raises `InputError` if it is missing, `IndexCorrupt` if damaged."""
        found = self.versions([document_id])
        if document_id not in found:
            raise self._missing(document_id)
        return found[document_id][1]

    def versions(self, document_ids: Collection[str]) -> dict[str, tuple[int, Document]]:
        """Read a snapshot of numbers and documents, by id, without missing ones."""
        with self.database.reading() as connection:
            read = {
                identity: records.find_document(connection, identity) for identity in document_ids
            }
        found = {}
        for identity, version in read.items():
            if version is not None:
                with records.naming(identity, self.database.name):
                    found[identity] = version[0], records.decode_document(version[1])
        return found

    def load(self, document_id: str) -> Entry:
        """Read a document with its graph and vectors, equal to the last bit; errors as in `document`."""
        with self.database.reading() as connection:
            number = records.find(connection, document_id)
            found = None if number is None else records.read_rows(connection, number)
        if found is None:
            raise self._missing(document_id)
        encoded, checksum = found
        with records.naming(document_id, self.database.name):
            return records.decode(encoded, checksum=checksum, dimension=self.header.dimension)

    # All documents

    def __len__(self) -> int:
        """Count the documents."""
        with self.database.reading() as connection:
            # why WHERE: without it SQLite counts in a single step, which no limit stops
            query = "SELECT count(*) FROM documents WHERE number > 0"
            (count,) = connection.execute(query).fetchone()
        return int(count)

    def node_count(self) -> int:
        """Count the nodes of all documents."""
        with self.database.reading() as connection:
            (count,) = connection.execute("SELECT sum(node_count) FROM documents").fetchone()
        return int(count or 0)

    def ids(self) -> list[str]:
        """Return the ids of all documents."""
        query = "SELECT number, slot, id FROM documents ORDER BY number"
        with self.database.reading() as connection:
            rows = records.ascending(connection.execute(query))
            return [records.checked_id(slot, name) for _, slot, name in rows]

    def same_texts(self, document_ids: Collection[str]) -> list[list[str]]:
        """Return groups of ids whose documents have the same text, each with one of the given ids.

        Documents of different numbers of nodes are not compared.
        """
        query = "SELECT number, node_count, id FROM documents ORDER BY number"
        groups = defaultdict[bytes, list[str]](list)
        with self.database.reading() as connection:
            rows = list(records.ascending(connection.execute(query)))
            counts = {count for _, count, name in rows if name in document_ids}
            for number, count, name in rows:
                if count in counts:
                    text = "SELECT text FROM documents WHERE number = ?"
                    (found,) = connection.execute(text, [number]).fetchone()
                    digest = hashlib.sha256(str(found).encode("utf-8", "surrogatepass")).digest()
                    groups[digest].append(str(name))
        return [
            names
            for names in groups.values()
            if len(names) > 1 and any(name in document_ids for name in names)
        ]

    def unfinished(self) -> list[str]:
        """Return ids of documents that have finished calls but are not stored."""
        query = (
            "SELECT DISTINCT owner_slot, owner FROM calls WHERE owner_slot IS NOT NULL "
            "AND owner_slot NOT IN (SELECT slot FROM documents) ORDER BY owner"
        )
        with self.database.reading() as connection:
            return [records.checked_id(*row) for row in connection.execute(query)]

    def check_slots(self) -> None:
        """Raise `IndexCorrupt` unless every document is found by its id."""
        with self.database.reading() as connection:
            records.check_slots(connection)

    # For a search

    def data_version(self) -> int:
        """Return a number that changes with every write, by any process."""
        return self.database.version()

    def numbers(self) -> list[int]:
        """Return the numbers of all documents, ascending."""
        query = "SELECT number FROM documents ORDER BY number"
        with self.database.reading() as connection:
            return [number for (number,) in records.ascending(connection.execute(query))]

    def checksums(self, first: int, last: int) -> tuple[list[int], bytes]:
        """Return the numbers of the documents in this range, and a hash of numbers and contents."""
        with self.database.reading() as connection:
            return records.checksums_of(connection, first, last)

    def blocks(self, numbers: Sequence[int]) -> Iterator[Block]:
        """Yield the arrays of documents in the order of `numbers`, without deleted ones."""
        rest = iter(numbers)
        while batch := self._arrays(rest):
            dimension = self.header.dimension
            for number, (identity, *arrays) in batch:
                with records.naming(identity, self.database.name):
                    block = records.decode_block(number, identity, tuple(arrays), dimension)
                yield block

    def nodes(self, addresses: Sequence[tuple[int, int]]) -> list[Node | None]:
        """Read nodes by (number of the document, position); None if the document was deleted."""
        wanted: dict[tuple[int, int], list[int]] = {}  # places in a row, by document and first node
        for number, position in addresses:
            place = int(position) % NODES_PER_ROW
            wanted.setdefault((int(number), int(position) - place), []).append(place)
        with self.database.reading() as connection:
            query = records.SELECT_NODE_ROW
            read = {at: connection.execute(query, at).fetchone() for at in sorted(wanted)}
        found: dict[tuple[int, int], Node] = {}
        for (number, first), row in read.items():
            if row is not None:
                places = wanted[number, first]
                with records.naming(row[0], self.database.name):
                    nodes = records.read_nodes(row, first, places)
                found.update(((number, first + p), n) for p, n in zip(places, nodes, strict=True))
        return [found.get((int(number), int(position))) for number, position in addresses]

    def metadata(self, numbers: Sequence[int]) -> dict[int, Mapping[str, Any]]:
        """Return the metadata of documents by number, without deleted ones."""
        found = {}
        for start in range(0, len(numbers), _BATCH_ROWS):
            batch = [int(number) for number in numbers[start : start + _BATCH_ROWS]]
            with self.database.reading() as connection:
                read = [records.read_head(connection, number) for number in batch]
            for number, head in zip(batch, read, strict=True):
                if head is not None:
                    with records.naming(head.id, self.database.name):
                        found[number] = records.decode_metadata(head.metadata)
        return found

    def _arrays(self, numbers: Iterator[int]) -> list[tuple[int, Row]]:
        batch, size = [], 0
        with self.database.reading() as connection:
            while size < BATCH_BYTES and (number := next(numbers, None)) is not None:
                found = records.read_arrays(connection, int(number))
                if found is not None:
                    batch.append((int(number), found))
                    size += sum(len(value) for value in found if isinstance(value, bytes))
        return batch

    def _missing(self, document_id: str) -> InputError:
        self.check_slots()  # why: a damaged slot looks like a missing document
        return InputError(
            f"there is no document {document_id!r} in {self.name}; ids() lists them all"
        )


def opened(source: Store | str | os.PathLike[str]) -> AbstractContextManager[Store]:
    """Return an open store as it is, or open a path, to be closed at the end."""
    return nullcontext(source) if isinstance(source, Store) else Store.open(source)


# Checks of a path, and the header


def check_folder(path: Path) -> None:
    """Raise `InputError` if the folder of a file is missing."""
    if not path.parent.is_dir():
        raise InputError(f"the folder of {path} does not exist; create {path.parent} first")


def holds_something(path: Path) -> bool:
    """Return whether a file exists and is not empty, as a build killed at its start leaves it.

    Rolls back the write of a killed process first: if it was the first write, the file is empty again.
    """
    if not path.is_file() or not path.stat().st_size:
        return path.is_dir()
    if journal_of(path).exists():
        with (
            suppress(HWDAGError),
            closing(Database(path)) as database,
            database.reading() as connection,
        ):
            connection.execute("SELECT 1 FROM sqlite_master").fetchone()
    return path.stat().st_size > 0


def check_free(path: Path) -> None:
    """Raise `InputError` unless a new index can be created there."""
    check_folder(path)
    if path.exists() and (not path.is_file() or path.stat().st_size):
        raise _occupied(str(path))


def write_schema(database: Database, header: list[tuple[str, str]]) -> None:
    """Create the tables in one transaction, so that an interruption leaves an empty file."""
    with database.writing() as connection:
        if connection.execute("SELECT 1 FROM sqlite_master").fetchone():
            raise _occupied(database.name)  # another process was faster
        define(connection)
        connection.executemany("INSERT INTO header (name, value) VALUES (?, ?)", header)


def read_header(database: Database) -> Header:
    """Check the format and read the header; errors as in `check_format`."""
    with database.reading() as connection:
        check_format(connection, database.name)
        try:
            return header_in(connection)
        except IndexCorrupt as error:
            raise corrupt(database.name, error) from error


def header_in(connection: sqlite3.Connection) -> Header:
    """Read the header of a file of this format; raises `IndexCorrupt`."""
    query = "SELECT name, value FROM header WHERE length(name) + length(value) < ? LIMIT ?"
    limits = (_LONGEST_HEADER_VALUE, _MOST_HEADER_ROWS)
    return decode_header(connection.execute(query, limits).fetchall())


def _occupied(name: str) -> InputError:
    return InputError(f"{name} exists; open it, or name a file that does not exist yet")


class StoreView(Mapping[str, T]):
    """A live mapping by document id: it shows the changes of every process.

    `items()` and `values()` read one document at a time and skip those deleted since. `keys()` reads
    all documents, so that `dict(...)` finds each of them. Iterating reads only the ids.
    """

    def __init__(self, store: Callable[[], Store | None], read: Callable[[Store, str], T]) -> None:
        self._store = store
        self._read = read
        self._named: dict[str, T] = {}  # read by `keys()`, in case they are deleted

    def __getitem__(self, key: str) -> T:
        store = self._store()
        if store is not None and isinstance(key, str):
            with suppress(InputError):  # missing or deleted
                return self._read(store, key)
            if key in self._named:
                return self._named.pop(key)
        raise KeyError(key)

    def keys(self) -> KeysView[str]:
        """Return the ids, and read all documents."""
        found = dict(self._present())
        self._named.update(found)
        return found.keys()

    def items(self) -> ItemsView[str, T]:
        """Return pairs of an id and the result of `read` for it."""
        return _Items(self)

    def values(self) -> ValuesView[T]:
        """Return the result of `read` for every document."""
        return _Values(self)

    def _present(self) -> Iterator[tuple[str, T]]:
        for key in self:
            with suppress(KeyError):  # deleted since
                yield key, self[key]

    def __contains__(self, key: object) -> bool:
        store = self._store()
        return isinstance(key, str) and store is not None and store.has(key)

    def __iter__(self) -> Iterator[str]:
        store = self._store()
        return iter(() if store is None else store.ids())

    def __len__(self) -> int:
        store = self._store()
        return 0 if store is None else len(store)


class _Items(ItemsView[str, T]):
    _mapping: StoreView[T]

    def __iter__(self) -> Iterator[tuple[str, T]]:
        return self._mapping._present()


class _Values(ValuesView[T]):
    _mapping: StoreView[T]

    def __iter__(self) -> Iterator[T]:
        return (found for _, found in self._mapping._present())

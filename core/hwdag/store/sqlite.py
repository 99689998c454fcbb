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
import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from hwdag.embedding.base import Vectors
from hwdag.errors import IndexCorrupt, IndexFileError, InputError, NotAnIndex
from hwdag.graph.block import Block
from hwdag.graph.dag import HWDAG
from hwdag.graph.group import CorpusGroup
from hwdag.store.calls import DocumentCalls, StoredCalls
from hwdag.store.database import Database
from hwdag.store.groups import (
    GroupCalls,
    Standing,
    check_unchanged,
    exchange,
    last_sequence,
    names_in,
    orphans,
    standing,
    top_nodes,
)
from hwdag.store.lock import BuildLock
from hwdag.store.opening import bring_up_to_date, check_free, read_header, write_schema
from hwdag.store.placing import beside, explained, settle, sync
from hwdag.store.records import (
    DOCUMENT_COLUMNS,
    Entry,
    Row,
    Unit,
    content_hash,
    decode,
    decode_block,
    decode_document,
    decode_metadata,
    decode_nodes,
    encode,
    encode_header,
)
from hwdag.store.schema import NODES_PER_ROW, Header
from hwdag.store.units import (
    find,
    read_arrays,
    read_node_row,
    read_unit,
    remove_calls,
    remove_unit,
    write_unit,
)
from hwdag.types import Document, Node, Span

__all__ = ["Changes", "Entry", "Header", "Store", "content_hash"]

_BATCH_BYTES = 4 << 20
"""Arrays that are read in one transaction: a few milliseconds that a writer may have to wait."""

_BATCH_ROWS = 256
"""Short rows that are read in one transaction."""


@dataclass(frozen=True, slots=True)
class Changes:
    """Which documents and groups came and went.

    Attributes:
        sequence: of the moment that this was true; the next question is what came after it.
        added: numbers that exist now and did not before, ascending.
        removed: numbers that existed before and do not now, ascending.
        complete: False if the log does not reach back far enough; `added` are then all numbers that
            exist, and `removed` is empty.
    """

    sequence: int
    added: list[int]
    removed: list[int]
    complete: bool = True


class Store:
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
        self.path = database.path
        self.readonly = database.readonly
        self._database = database
        self._lock = BuildLock(database.path)
        try:
            bring_up_to_date(database)
            self.header = read_header(database)
        except BaseException:
            self.close()
            raise

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

    def close(self) -> None:
        """Release the file; closing twice does no harm."""
        self._database.close()

    def copy(self, path: str | os.PathLike[str]) -> None:
        """Write everything of one moment to a new file.

        Raises:
            InputError: something is there already, or the folder is missing.
            IndexFileError: the file cannot be written.
        """
        path = Path(path).resolve()
        check_free(path)
        with explained(), beside(path) as unfinished:
            if self.path is None:
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
            remove_calls(connection, document.id, calls or ())
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
            calls = remove_calls(connection, document_id)
        return number is not None or calls > 0

    def calls(self, owner: str | None) -> StoredCalls:
        """The cache of finished calls for a document id, or (None) for all corpus layers.

        Those of corpus layers are dropped whenever a document is replaced or deleted, since they do
        not say which documents went into them.
        """
        return StoredCalls(self._database, owner)

    def building(self, document_id: str) -> DocumentCalls:
        """As `calls`; raises `Withdrawn` instead of keeping what may be of a deleted document."""
        return DocumentCalls(self._database, document_id)

    # Corpus layers

    def sequence(self) -> int:
        """Of the latest change; what is read after it may be newer, never older."""
        with self._database.reading() as connection:
            return last_sequence(connection)

    def orphans(self) -> list[int]:
        """Numbers of documents and groups that no group rests on, ascending."""
        with self._database.reading() as connection:
            return orphans(connection)

    def standing(self, number: int) -> Standing:
        """A document or group without its nodes.

        Raises:
            Changed: it is gone.
            IndexCorrupt: it is damaged.
        """
        with self._blaming_number(number), self._database.reading() as connection:
            return standing(connection, number)

    def top_nodes(self, number: int) -> tuple[int, list[Node]]:
        """The nodes of the highest level and the position of the first; errors as in `standing`."""
        with self._blaming_number(number), self._database.reading() as connection:
            return top_nodes(connection, number)

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

    # One document

    def number_of(self, document_id: str) -> int | None:
        """The number of the document's version that is stored; None if there is none."""
        with self._database.reading() as connection:
            return find(connection, document_id)

    def content_hash_of(self, document_id: str) -> str | None:
        """The `content_hash` that the document was stored with; None if it is not there."""
        with self._database.reading() as connection:
            number = find(connection, document_id)
            if number is None:
                return None
            query = "SELECT content_hash FROM documents WHERE number = ?"
            (found,) = connection.execute(query, [number]).fetchone()
        return str(found)

    def document(self, document_id: str) -> Document:
        """A document alone.

        Raises:
            InputError: no such document.
            IndexCorrupt: it is damaged.
        """
        with self._database.reading() as connection:
            number = find(connection, document_id)
            row = None if number is None else _document_row(connection, number)
        if row is None:
            raise self._missing(document_id)
        with self._blaming(document_id):
            return decode_document(row)

    def versions(self, document_ids: Collection[str]) -> dict[str, tuple[int, Document]]:
        """Numbers and documents of one moment, by id; those that are not there are left out."""
        rows: dict[str, tuple[int, Row]] = {}
        with self._database.reading() as connection:
            for identity in document_ids:
                number = find(connection, identity)
                row = None if number is None else _document_row(connection, number)
                if number is not None and row is not None:
                    rows[identity] = number, row
        found = {}
        for identity, (number, row) in rows.items():
            with self._blaming(identity):
                found[identity] = number, decode_document(row)
        return found

    def holds(self, document: Document) -> bool:
        """Whether this very content is stored under its id."""
        return self.content_hash_of(document.id) == content_hash(document)

    def text(self, document_id: str) -> str | None:
        """The text of a document; None if it is not there. Raises `IndexCorrupt` if damaged."""
        try:
            return self.document(document_id).text
        except InputError:
            return None

    def slice(self, document_id: str, span: Span) -> str | None:
        """A slice of a document's text, as in `text`."""
        text = self.text(document_id)
        return None if text is None else text[span.start : span.end]

    def load(self, document_id: str) -> Entry:
        """A document with its graph and vectors, as they were put, to the last bit.

        Raises:
            InputError: no such document.
            IndexCorrupt: it is damaged.
        """
        with self._database.reading() as connection:
            number = find(connection, document_id)
            found = None if number is None else read_unit(connection, number)
        if found is None:
            raise self._missing(document_id)
        return self._decode(*found)

    # All documents

    def __len__(self) -> int:
        """Number of documents; groups do not count."""
        with self._database.reading() as connection:
            query = "SELECT count(*) FROM documents WHERE slot IS NOT NULL"
            (count,) = connection.execute(query).fetchone()
        return int(count)

    def ids(self) -> list[str]:
        """The ids of all documents."""
        return list(self.content_hashes())

    def unfinished(self) -> list[str]:
        """Ids of documents that are not stored, but that there are finished calls for."""
        query = (
            "SELECT DISTINCT owner FROM calls WHERE owner_slot IS NOT NULL AND owner_slot NOT IN "
            "(SELECT slot FROM documents WHERE slot IS NOT NULL) ORDER BY owner"
        )
        with self._database.reading() as connection:
            return [str(owner) for (owner,) in connection.execute(query)]

    def content_hashes(self) -> dict[str, str]:
        """`content_hash` of every document by id, without reading the texts."""
        query = "SELECT id, content_hash FROM documents WHERE slot IS NOT NULL ORDER BY number"
        with self._database.reading() as connection:
            return dict(connection.execute(query).fetchall())

    def documents(self) -> Iterator[Document]:
        """The documents alone, one by one; raises `IndexCorrupt` at a damaged one."""
        with self._database.reading() as connection:
            numbers = _numbers(connection, documents_only=True)
        for number in numbers:
            with self._database.reading() as connection:
                row = _document_row(connection, number)
            if row is not None:  # else somebody deleted it meanwhile
                with self._blaming(row[_ID]):
                    document = decode_document(row)
                yield document

    def load_all(self) -> list[Entry]:
        """All documents of one moment; errors as in `load`."""
        with self._database.reading() as connection:
            units = [
                found
                for number in _numbers(connection, documents_only=True)
                if (found := read_unit(connection, number)) is not None
            ]
        return [self._decode(*found) for found in units]

    # What a search needs

    def data_version(self) -> int:
        """Equal to an earlier one if nothing was written since, by this or by another process."""
        return self._database.version()

    def changes(self, since: int) -> Changes:
        """Which documents and groups came and went after a sequence number; 0 is the beginning."""
        with self._database.reading() as connection:
            sequence = last_sequence(connection)
            if not _reaches_back(connection, since, sequence):
                return Changes(sequence, _numbers(connection), [], complete=since == 0)
            query = "SELECT document, removed FROM changes WHERE sequence > ?"
            rows = connection.execute(query, [since]).fetchall()
        added = {number for number, removed in rows if not removed}
        removed = {number for number, removed in rows if removed}
        return Changes(sequence, sorted(added - removed), sorted(removed - added))

    def blocks(self, numbers: Sequence[int]) -> Iterator[Block]:
        """The arrays of documents and groups, in the order given; those that are gone are left out.

        Read a few at a time, so that a writer never waits long.

        Raises:
            IndexCorrupt: a document is damaged.
        """
        rest = iter(numbers)
        while batch := self._arrays(rest):
            for number, arrays, members in batch:
                yield self._block(number, arrays, members)

    def nodes(self, addresses: Sequence[tuple[int, int]]) -> list[Node | None]:
        """The nodes with these numbers of documents and positions; None where it is gone.

        Raises:
            IndexCorrupt: a document is damaged.
        """
        wanted: dict[tuple[int, int], list[int]] = {}  # places in a row, by document and first node
        for number, position in addresses:
            place = int(position) % NODES_PER_ROW
            wanted.setdefault((int(number), int(position) - place), []).append(place)
        with self._database.reading() as connection:
            rows = {at: read_node_row(connection, *at) for at in sorted(wanted)}
            names = names_in(connection, (row for row in rows.values() if row is not None))
        found: dict[tuple[int, int], Node] = {}
        for (number, first), row in rows.items():
            if row is not None:
                places = wanted[number, first]
                with self._blaming(row[0]):
                    nodes = decode_nodes(row[1], row[0], names, places)
                found.update(((number, first + p), n) for p, n in zip(places, nodes, strict=True))
        return [found.get((int(number), int(position))) for number, position in addresses]

    def names(self, numbers: Sequence[int]) -> dict[int, str]:
        """The ids of documents by number; groups and what is gone are left out."""
        return {number: name for number, (name,) in self._columns(numbers, "id")}

    def metadata(self, numbers: Sequence[int]) -> dict[int, Mapping[str, Any]]:
        """The metadata of documents by number; groups and what is gone are left out.

        Raises:
            IndexCorrupt: a document is damaged.
        """
        found = {}
        for number, (name, metadata) in self._columns(numbers, "id, metadata"):
            with self._blaming(name):
                found[number] = decode_metadata(metadata)
        return found

    def _arrays(self, numbers: Iterator[int]) -> list[tuple[int, Row, tuple[int, ...]]]:
        """The next few that exist."""
        batch, size = [], 0
        with self._database.reading() as connection:
            while size < _BATCH_BYTES and (number := next(numbers, None)) is not None:
                found = read_arrays(connection, int(number))
                if found is not None:
                    batch.append((int(number), *found))
                    size += sum(len(value) for value in found[0] if isinstance(value, bytes))
        return batch

    def _block(self, number: int, arrays: Row, members: tuple[int, ...]) -> Block:
        with self._blaming_number(number):
            return decode_block(number, arrays, members, self.header.dimension)

    def _columns(self, numbers: Sequence[int], columns: str) -> Iterator[tuple[int, Row]]:
        query = f"SELECT {columns} FROM documents WHERE number = ? AND slot IS NOT NULL"
        for start in range(0, len(numbers), _BATCH_ROWS):
            batch = [int(number) for number in numbers[start : start + _BATCH_ROWS]]
            with self._database.reading() as connection:
                rows = [(n, connection.execute(query, [n]).fetchone()) for n in batch]
            yield from ((number, row) for number, row in rows if row is not None)

    # Errors

    def _decode(self, unit: Unit, checksum: object) -> Entry:
        with self._blaming(unit.document[_ID]):
            return decode(unit, checksum=checksum, dimension=self.header.dimension)

    @contextmanager
    def _blaming(self, document_id: object) -> Iterator[None]:
        """Name the document in an `IndexCorrupt`."""
        try:
            yield
        except IndexCorrupt as error:
            raise self._blamed(document_id, error) from error

    @contextmanager
    def _blaming_number(self, number: int) -> Iterator[None]:
        """As `_blaming`, where only the number is known."""
        try:
            yield
        except IndexCorrupt as error:
            raise self._blamed(self.names([number]).get(number), error) from error

    def _blamed(self, document_id: object, error: IndexCorrupt) -> IndexCorrupt:
        what = "a corpus layer" if document_id is None else f"document {document_id!r}"
        mend = "" if document_id is None else ", or delete this document and insert it again"
        return IndexCorrupt(
            f"{what} of {self._database.name} is damaged: {error}; restore a copy of the file, or "
            f"run `hwdag repair`{mend}"
        )

    def _missing(self, document_id: str) -> InputError:
        return InputError(
            f"there is no document {document_id!r} in {self._database.name}; ids() lists them all"
        )


_ID = DOCUMENT_COLUMNS.index("id")


def _document_row(connection: sqlite3.Connection, number: int) -> Row | None:
    query = f"SELECT {', '.join(DOCUMENT_COLUMNS)} FROM documents WHERE number = ?"
    row: Row | None = connection.execute(query, [number]).fetchone()
    return row


def _numbers(connection: sqlite3.Connection, *, documents_only: bool = False) -> list[int]:
    """What exists, ascending."""
    only = "WHERE slot IS NOT NULL" if documents_only else ""
    rows = connection.execute(f"SELECT number FROM documents {only} ORDER BY number")
    return [number for (number,) in rows]


def _reaches_back(connection: sqlite3.Connection, since: int, sequence: int) -> bool:
    """Whether the log holds all that came after `since`."""
    (oldest,) = connection.execute("SELECT min(sequence) FROM changes").fetchone()
    return (oldest or sequence + 1) - 1 <= since <= sequence

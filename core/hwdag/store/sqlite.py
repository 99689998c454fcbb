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
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from hwdag.embedding.base import Vectors
from hwdag.errors import (
    IndexCorrupt,
    IndexFileError,
    IndexVersionError,
    InputError,
    NotAnIndex,
)
from hwdag.graph.dag import HWDAG
from hwdag.store.database import Database, corrupt
from hwdag.store.records import (
    ARRAY_COLUMNS,
    NODE_COLUMNS,
    TEXT_COLUMNS,
    Entry,
    Record,
    Row,
    content_hash,
    decode,
    decode_document,
    decode_header,
    encode,
    encode_header,
)
from hwdag.store.schema import APPLICATION_ID, SCHEMA_VERSION, TABLES, Header
from hwdag.types import Document

__all__ = ["Entry", "Header", "Store", "content_hash"]

_DOCUMENT_COLUMNS = (*TEXT_COLUMNS, *ARRAY_COLUMNS, "checksum")
_SELECT_DOCUMENTS = f"SELECT number, {', '.join(_DOCUMENT_COLUMNS)} FROM documents"
_SELECT_NODES = f"SELECT {', '.join(NODE_COLUMNS)} FROM nodes WHERE document = ? ORDER BY position"
_INSERT_DOCUMENT = (
    f"INSERT INTO documents (number, {', '.join(_DOCUMENT_COLUMNS)}) "
    f"VALUES ({', '.join('?' * (len(_DOCUMENT_COLUMNS) + 1))})"
)
_INSERT_NODE = (
    f"INSERT INTO nodes (document, position, {', '.join(NODE_COLUMNS)}) "
    f"VALUES ({', '.join('?' * (len(NODE_COLUMNS) + 2))})"
)


class Store:
    """An open index file; `create` or `open` one, and close it, best in a `with` block.

    Threads may share a store, a lock serialises them; processes each open their own. Everything
    that goes wrong with the file is an `IndexFileError`, never an error of sqlite3.

    Attributes:
        path: the file.
        header: what the index was built with.
        readonly: whether `put` and `delete` are refused.
    """

    def __init__(self, database: Database) -> None:
        """Use `create` or `open`."""
        self.path = database.path
        self.readonly = database.readonly
        self._database = database
        try:
            self.header = self._read_header()
        except BaseException:
            self.close()
            raise

    @classmethod
    def create(cls, path: str | os.PathLike[str], header: Header) -> Self:
        """A new file without documents.

        Raises:
            InputError: something is there already, the folder is missing, or the config of the
                header is not JSON.
        """
        path = Path(path)
        if not path.parent.is_dir():
            raise InputError(f"the folder of {path} does not exist; make {path.parent} first")
        if path.exists() and (not path.is_file() or path.stat().st_size):
            raise _occupied(path)
        rows = encode_header(header)
        database = Database(path, create=True, readonly=False)
        try:
            _write_schema(database, rows)
        except BaseException:
            database.close()
            raise
        return cls(database)

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, readonly: bool = False) -> Self:
        """An existing file.

        A read-only store still completes the rollback that a killed writer left behind.

        Raises:
            IndexFileError: there is no such file, or it cannot be read.
            NotAnIndex: not SQLite, or SQLite of somebody else.
            IndexVersionError: written by another format version.
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

    def put(self, document: Document, graph: HWDAG, vectors: Vectors) -> None:
        """Store a document, in place of one with the same id; on disk when this returns.

        Args:
            document: its metadata must be JSON.
            graph: its graph.
            vectors: the embeddings of the graph's nodes, (nodes, header.dimension).

        Raises:
            InputError: the three do not belong together, or cannot be stored.
            IndexFileError: the file cannot be written; it stays as it was.
        """
        record = encode(Entry(document, graph, vectors), dimension=self.header.dimension)
        with self._database.writing() as connection:
            where = "FROM documents WHERE id = ?"
            before = connection.execute(f"SELECT number {where}", [document.id]).fetchone()
            connection.execute(f"DELETE {where}", [document.id])
            row = (*(before or [None]), *record.texts, *record.arrays, record.checksum)
            number = connection.execute(_INSERT_DOCUMENT, row).lastrowid
            nodes = ((number, position, *node) for position, node in enumerate(record.nodes))
            connection.executemany(_INSERT_NODE, nodes)

    def delete(self, document_id: str) -> bool:
        """Remove a document and overwrite what it held; False if it is not there.

        The space is used again by later documents, the file does not shrink.
        """
        with self._database.writing() as connection:
            deleted = connection.execute("DELETE FROM documents WHERE id = ?", [document_id])
            return deleted.rowcount > 0

    def documents(self) -> Iterator[Document]:
        """The documents alone, in order of insertion; raises `IndexCorrupt` at a damaged one."""
        query = f"SELECT {', '.join(TEXT_COLUMNS)} FROM documents ORDER BY number"
        with self._database.reading() as connection:
            rows = connection.execute(query).fetchall()
        for row in rows:
            with self._blaming(row[0]):
                document = decode_document(row)
            yield document

    def content_hashes(self) -> dict[str, str]:
        """`content_hash` of every document by id, without reading the texts."""
        with self._database.reading() as connection:
            rows = connection.execute("SELECT id, content_hash FROM documents ORDER BY number")
            return dict(rows.fetchall())

    def load(self, document_id: str) -> Entry:
        """A document with its graph and vectors, as they were put, to the last bit.

        Raises:
            InputError: no such document.
            IndexCorrupt: it is damaged.
        """
        with self._database.reading() as connection:
            found = connection.execute(f"{_SELECT_DOCUMENTS} WHERE id = ?", [document_id])
            records = [_record(connection, row) for row in found.fetchall()]
        if not records:
            raise InputError(
                f"there is no document {document_id!r} in {self.path}; documents() lists them all"
            )
        return self._decode(*records[0])

    def load_all(self) -> list[Entry]:
        """All documents of one moment, in order of insertion; errors as in `load`."""
        with self._database.reading() as connection:
            rows = connection.execute(f"{_SELECT_DOCUMENTS} ORDER BY number").fetchall()
            records = [_record(connection, row) for row in rows]
        return [self._decode(*record) for record in records]

    def verify(self) -> None:
        """Read and check every page and every document; raises `IndexCorrupt`."""
        with self._database.reading() as connection:
            (verdict,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
            orphan = connection.execute("PRAGMA foreign_key_check").fetchone()
        if verdict != "ok" or orphan is not None:
            reason = verdict if verdict != "ok" else "there are nodes of a missing document"
            raise corrupt(self.path, reason)
        self.load_all()

    def _read_header(self) -> Header:
        with self._database.reading() as connection:
            (application,) = connection.execute("PRAGMA application_id").fetchone()
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if application != APPLICATION_ID:
                raise NotAnIndex(
                    f"{self.path} is empty or a SQLite database of something else, not an hwdag "
                    "index; check the path"
                )
            if version != SCHEMA_VERSION:
                way_out = "upgrade hwdag" if version > SCHEMA_VERSION else "rebuild the index"
                raise IndexVersionError(
                    f"{self.path} has format version {version}, this hwdag reads version "
                    f"{SCHEMA_VERSION}; {way_out}"
                )
            rows = connection.execute("SELECT name, value FROM header").fetchall()
        try:
            return decode_header(rows)
        except IndexCorrupt as error:
            raise corrupt(self.path, error) from error

    def _decode(self, record: Record, checksum: str) -> Entry:
        with self._blaming(record.texts[0]):
            return decode(record, checksum=checksum, dimension=self.header.dimension)

    @contextmanager
    def _blaming(self, document_id: object) -> Iterator[None]:
        """Name the document in an `IndexCorrupt`."""
        try:
            yield
        except IndexCorrupt as error:
            raise IndexCorrupt(
                f"document {document_id!r} of {self.path} is damaged: {error}; restore a copy of "
                "the file, or delete this document and insert it again"
            ) from error


def _write_schema(database: Database, header: list[tuple[str, str]]) -> None:
    """In one transaction, so that an interrupted `create` leaves nothing that is in the way."""
    with database.writing() as connection:
        if connection.execute("SELECT 1 FROM sqlite_master").fetchone():
            raise _occupied(database.path)  # another process was faster
        for statement in TABLES.split(";"):
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        connection.executemany("INSERT INTO header (name, value) VALUES (?, ?)", header)


def _record(connection: sqlite3.Connection, row: Row) -> tuple[Record, Any]:
    """A row of documents with its nodes, and the recorded checksum."""
    number, *values, checksum = row
    texts, arrays = values[: len(TEXT_COLUMNS)], values[len(TEXT_COLUMNS) :]
    nodes = connection.execute(_SELECT_NODES, [number]).fetchall()
    return Record(tuple(texts), tuple(arrays), nodes), checksum


def _occupied(path: Path) -> InputError:
    return InputError(f"{path} exists; open it, or name a file that does not exist yet")

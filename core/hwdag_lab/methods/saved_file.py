"""The file of a retriever beside HWDAG: one SQLite database, readable with any SQLite tool.

`application_id` says that a file is one, and `user_version` which version of this schema it has.
Arrays are in numpy's own format; no table holds anything but text, numbers and such arrays. After a
deletion the file is written anew, so nothing of what was deleted is left in it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from numpy.typing import NDArray

from hwdag.errors import IndexCorrupt, IndexVersionError, InputError, NotAnIndex
from hwdag.store.database import Database
from hwdag.store.placing import take_place
from hwdag.types import Document
from hwdag.version import __version__
from hwdag_lab.methods.packing import MALFORMED, array_bytes, bytes_array, demand

APPLICATION_ID = 0x48574452
"""The letters HWDR."""

FORMAT_VERSION = 1

TABLES = """\
CREATE TABLE header (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL           -- JSON
) WITHOUT ROWID;
CREATE TABLE documents (
    number INTEGER PRIMARY KEY AUTOINCREMENT, -- the order of insertion; never used twice
    id TEXT NOT NULL UNIQUE,
    checksum BLOB NOT NULL,       -- SHA-256 of id, source, record and arrays
    source TEXT NOT NULL,         -- JSON: [title, text, metadata]
    record TEXT NOT NULL          -- JSON: what the method keeps of it, arrays apart
);
CREATE TABLE arrays (
    document INTEGER NOT NULL REFERENCES documents (number) ON DELETE CASCADE,
    name TEXT NOT NULL,
    data BLOB NOT NULL,           -- .npy
    PRIMARY KEY (document, name)
);
-- Finished model calls of documents that are not finished.
CREATE TABLE calls (
    key BLOB PRIMARY KEY,         -- SHA-256 of everything that the result depends on
    checksum BLOB NOT NULL,       -- SHA-256 of key and value
    value BLOB NOT NULL
);
"""

Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class SavedHeader:
    """What a file was built with.

    `method` and `settings` say how, the others are names; None where there was no such model.
    """

    method: str
    settings: Mapping[str, Any]
    reader: str
    writer: str | None
    embedder: str | None
    hwdag_version: str = __version__


class Saved(NamedTuple):
    """One document and what a method keeps of it."""

    document: Document
    record: dict[str, Any]
    arrays: dict[str, NDArray[Any]]


class SavedFile:
    """An open file. It belongs to one thread; every error is an `IndexFileError`.

    Attributes:
        header: what it was built with.
    """

    def __init__(self, path: Path, header: SavedHeader | None = None) -> None:
        """Open a file, or with a header make one that holds no document.

        Raises:
            NotAnIndex, IndexVersionError, IndexCorrupt: the file cannot be used.
        """
        self._path = path
        with self._explained():
            self._database = Database(path, create=header is not None, readonly=False)
        try:
            if header is not None:
                self._create(header)
            self.header = self._read_header()
        except BaseException:
            self._database.close()
            raise

    def close(self) -> None:
        """Release the file."""
        self._database.close()

    @property
    def numbers(self) -> dict[str, int]:
        """Number of every document by id, in the order of insertion."""
        with self._explained(), self._database.reading() as connection:
            rows = connection.execute("SELECT id, number FROM documents ORDER BY number").fetchall()
        return dict(rows)

    def document(self, number: int) -> Saved:
        """A document by number. Raises `IndexCorrupt` if it is damaged."""
        with self._explained(), self._database.reading() as connection:
            row = connection.execute(
                "SELECT id, checksum, source, record FROM documents WHERE number = ?", [number]
            ).fetchone()
            arrays = connection.execute(
                "SELECT name, data FROM arrays WHERE document = ? ORDER BY name", [number]
            ).fetchall()
            demand(row is not None and row[1] == _digest(row[0], row[2], row[3], *sum(arrays, ())))
            title, text, metadata = json.loads(row[2])
            record = json.loads(row[3])
            demand(all(isinstance(part, str) for part in (row[0], title, text)))
            demand(isinstance(metadata, dict) and isinstance(record, dict))
            found = {name: bytes_array(data) for name, data in arrays}
            return Saved(Document(row[0], text, title, metadata), record, found)

    def put(self, saved: Saved) -> int:
        """Write a document, all of it or nothing; its number. Raises `InputError` for no JSON."""
        document = saved.document
        source = _json([document.title, document.text, dict(document.metadata)])
        record = _json(saved.record)
        arrays = sorted((name, array_bytes(array)) for name, array in saved.arrays.items())
        checksum = _digest(document.id, source, record, *sum(arrays, ()))
        with self._explained(), self._database.writing() as connection:
            number = connection.execute(
                "INSERT INTO documents (id, checksum, source, record) VALUES (?, ?, ?, ?)",
                [document.id, checksum, source, record],
            ).lastrowid
            assert number is not None  # a row was inserted
            rows = [(number, name, data) for name, data in arrays]
            connection.executemany("INSERT INTO arrays VALUES (?, ?, ?)", rows)
        return number

    def delete(self, document_id: str) -> None:
        """Remove a document, all finished calls, and every trace of them."""
        with self._explained():
            with self._database.writing() as connection:
                connection.execute("DELETE FROM documents WHERE id = ?", [document_id])
                connection.execute("DELETE FROM calls")
            # why: secure_delete leaves copies in the gaps of pages that rows were moved between
            self._database.vacuum()

    def get(self, key: bytes) -> bytes | None:
        """The finished call under the key; None where there is none, or where it is damaged."""
        with self._explained(), self._database.reading() as connection:
            row = connection.execute(
                "SELECT checksum, value FROM calls WHERE key = ?", [key]
            ).fetchone()
        return bytes(row[1]) if row and row[0] == _digest(key, row[1]) else None

    def put_all(self, items: Mapping[bytes, bytes]) -> None:
        """Keep finished calls, all of them or none; on disk when it returns."""
        rows = [(key, _digest(key, value), value) for key, value in items.items()]
        with self._explained(), self._database.writing() as connection:
            connection.executemany("INSERT OR REPLACE INTO calls VALUES (?, ?, ?)", rows)

    def forget_calls(self) -> None:
        """Remove all finished calls."""
        with self._explained(), self._database.writing() as connection:
            if connection.execute("SELECT 1 FROM calls LIMIT 1").fetchone():
                connection.execute("DELETE FROM calls")

    def _create(self, header: SavedHeader) -> None:
        with self._database.writing() as connection:
            if connection.execute("SELECT 1 FROM sqlite_master").fetchone():
                raise InputError(
                    f"{self._path} exists; load() it, or name a file that does not exist yet"
                )
            for statement in TABLES.split(";\n"):
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {FORMAT_VERSION}")
            rows = [(name, _json(value)) for name, value in asdict(header).items()]
            connection.executemany("INSERT INTO header (name, value) VALUES (?, ?)", rows)

    def _read_header(self) -> SavedHeader:
        with self._explained(), self._database.reading() as connection:
            (application,) = connection.execute("PRAGMA application_id").fetchone()
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if application != APPLICATION_ID:
                raise NotAnIndex(
                    f"{self._path} is empty or a SQLite database of something else, not a saved "
                    "retriever; an HWDAG index is opened by HWDAGIndex.load()"
                )
            if version != FORMAT_VERSION:
                raise IndexVersionError(
                    f"{self._path} has format version {version}, this hwdag reads version "
                    f"{FORMAT_VERSION}; upgrade hwdag"
                )
            rows = connection.execute("SELECT name, value FROM header").fetchall()
            header = SavedHeader(**{name: json.loads(value) for name, value in rows})
            demand(isinstance(header.method, str) and isinstance(header.reader, str))
            demand(isinstance(header.settings, dict))
            models = (header.writer, header.embedder)
            demand(all(name is None or isinstance(name, str) for name in models))
        return header

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except (NotAnIndex, IndexVersionError, InputError):
            raise
        except (IndexCorrupt, *MALFORMED) as error:
            raise damaged(self._path, error) from error


def damaged(path: Path, reason: BaseException) -> IndexCorrupt:
    """The error for a file of which a part cannot be used."""
    told = reason.__cause__ if isinstance(reason, IndexCorrupt) else reason
    return IndexCorrupt(
        f"{path} is damaged ({told or reason}); restore a copy of the file, or delete it and build "
        "again"
    )


def write_file(path: Path, header: SavedHeader, documents: Iterator[Saved]) -> None:
    """Make a file of documents that is there as a whole, or not at all."""
    partial = path.with_name(f".{path.name}.partial")
    partial.unlink(missing_ok=True)
    try:
        with closing(SavedFile(partial, header)) as file:
            for saved in documents:
                file.put(saved)
        take_place(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def _json(value: object) -> str:
    try:
        return json.dumps(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"only what JSON can hold can be saved: {error}") from error


def _digest(*values: str | bytes) -> bytes:
    digest = hashlib.sha256()
    for value in values:
        data = value if isinstance(value, bytes) else value.encode("utf-8", "surrogatepass")
        digest.update(f"{len(data)} ".encode())
        digest.update(data)
    return digest.digest()

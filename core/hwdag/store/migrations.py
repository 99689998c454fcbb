"""Index files of earlier format versions, brought to the present one when they are opened.

Version 1 had the tables of version 2; its build config lacked what leaves are, how they are
embedded, and whether points form a tree. Version 2 kept the text of a document and its arrays in
one row. What was true of a version stays true, so the code below that reads them is never changed,
whatever becomes of the present format.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, get_args

import numpy as np

from hwdag.errors import IndexCorrupt, IndexVersionError, InputError
from hwdag.graph.dag import HWDAG, EdgeRow
from hwdag.store.records import Entry, encode, encode_header
from hwdag.store.schema import TABLES, Header
from hwdag.store.units import write_unit
from hwdag.types import Document, Node, Origin, Span

OLD_VERSIONS = (1, 2)

NEW_IN_2 = {"leaves": "chunks", "contextual": False, "tree": False}
"""Build options that version 1 did not know, with the values that it was written with."""

_MALFORMED = (ValueError, TypeError, AttributeError, ArithmeticError, RecursionError)
"""What values of a wrong type, length or range raise where they are used; InputError is among it."""

_COLUMNS = (
    "id, title, text, metadata, content_hash, node_count, indptr, indices, attention, vectors"
)
_NODE_COLUMNS = "id, level, origin, text, tokens, sources"

Row = tuple[Any, ...]


def migrate(connection: sqlite3.Connection, version: int) -> None:
    """Bring the tables of an earlier version to the present one, within the caller's transaction.

    Every checksum is verified on the way. What the old tables held is overwritten.

    Raises:
        IndexVersionError: there never was such a version.
        IndexCorrupt: a document or the header is damaged; the caller rolls back.
    """
    if version not in OLD_VERSIONS:
        raise IndexVersionError(
            f"{file_of(connection)} has the format version {version}, which never was; it is damaged, "
            "or not written by hwdag: restore a copy of the file, or build anew"
        )
    if {name for (name,) in connection.execute(_SELECT_TABLES)} != set(_TABLES):
        raise IndexCorrupt(
            f"{file_of(connection)} is damaged: it has other tables than format version {version}; "
            "restore a copy of the file, or build anew"
        )
    for table in _TABLES:
        connection.execute(f"ALTER TABLE {table} RENAME TO old_{table}")
    for statement in TABLES.split(";"):
        connection.execute(statement)
    _copy(OldIndex(connection, version, prefix="old_"))
    for table in _TABLES:
        connection.execute(f"DROP TABLE old_{table}")


_TABLES = ("header", "nodes", "documents")
"""Of versions 1 and 2; what refers to another table comes before it."""

_SELECT_TABLES = "SELECT name FROM sqlite_master WHERE name NOT LIKE 'sqlite_autoindex_%'"


def _copy(old: OldIndex) -> None:
    file = file_of(old.connection)
    try:
        header = old.header()
    except IndexCorrupt as error:
        raise IndexCorrupt(f"{file} is damaged: {error}; {_WAY_OUT}") from error
    old.connection.executemany(
        "INSERT INTO header (name, value) VALUES (?, ?)", encode_header(header)
    )
    for number in old.numbers():
        try:
            entry = old.entry(number, header.dimension)
            if entry is not None:
                write_unit(old.connection, encode(entry, dimension=header.dimension))
        except (IndexCorrupt, InputError) as error:
            raise IndexCorrupt(
                f"document {old.id_of(number)!r} of {file} is damaged: {error}; {_WAY_OUT}"
            ) from error


_WAY_OUT = (
    "the file stays as it was: restore a copy of it, or keep what is whole with `hwdag repair FILE`"
)


def file_of(connection: sqlite3.Connection) -> str:
    """The path of the file that is open."""
    return str(connection.execute("PRAGMA database_list").fetchone()[2])


@dataclass(frozen=True, slots=True)
class OldIndex:
    """A file of format version 1 or 2, for reading only.

    Attributes:
        connection: of the file.
        version: its format version.
        prefix: of the names of its tables.
    """

    connection: sqlite3.Connection
    version: int
    prefix: str = ""

    def header(self) -> Header:
        """What the index was built with, as version 3 has it; raises `IndexCorrupt`."""
        found = dict(self.connection.execute(f"SELECT name, value FROM {self.prefix}header"))
        checksum = found.pop("checksum", None)
        content = repr(sorted(map(repr, found.items())))
        if hashlib.sha256(content.encode()).hexdigest() != checksum:
            raise IndexCorrupt("the checksum of its header does not match")
        try:
            header = Header(**self.completed({name: json.loads(found[name]) for name in found}))
        except _MALFORMED as error:
            raise IndexCorrupt(f"its header is malformed: {error}") from error
        if ("leaves" in found["config"]) == (self.version == 1):
            raise IndexCorrupt(f"its header is not of format version {self.version}")
        return header

    def completed(self, header: dict[str, Any]) -> dict[str, Any]:
        """Header values with the build options that this version did not know."""
        if self.version == 1 and isinstance(header.get("config"), dict):
            return header | {"config": NEW_IN_2 | header["config"]}
        return header

    def numbers(self) -> list[int]:
        """Of the documents, in order of insertion."""
        rows = self.connection.execute(f"SELECT number FROM {self.prefix}documents ORDER BY number")
        return [number for (number,) in rows.fetchall()]

    def id_of(self, number: int) -> object:
        """What stands where the id of a document should be."""
        select = f"SELECT id FROM {self.prefix}documents WHERE number = ?"
        return self.connection.execute(select, [number]).fetchone()[0]

    def entry(self, number: int, dimension: int) -> Entry | None:
        """A document with its graph and vectors; None if it is not there.

        Raises:
            IndexCorrupt: it is damaged.
        """
        select = f"SELECT checksum, {_COLUMNS} FROM {self.prefix}documents WHERE number = ?"
        row = self.connection.execute(select, [number]).fetchone()
        if row is None:
            return None
        checksum, *values = row
        select = f"SELECT {_NODE_COLUMNS} FROM {self.prefix}nodes WHERE document = ?"
        nodes = self.connection.execute(f"{select} ORDER BY position", [number]).fetchall()
        if _checksum([tuple(values[:5]), tuple(values[5:]), *nodes]) != checksum:
            raise IndexCorrupt("its checksum does not match")
        try:
            return _entry(values, nodes, dimension)
        except (*_MALFORMED, IndexCorrupt) as error:
            raise IndexCorrupt(f"its rows are malformed: {error}") from error


def _checksum(rows: list[Row]) -> str:
    digest = hashlib.sha256()
    for row in rows:
        for value in row:
            data = value if isinstance(value, bytes) else str(value).encode()
            digest.update(f"{type(value).__name__} {len(data)} ".encode())
            digest.update(data)
    return digest.hexdigest()


def _entry(values: list[Any], rows: list[Row], dimension: int) -> Entry:
    identity, title, text, metadata, recorded, count, indptr, indices, attention, vectors = values
    content = json.dumps([title, text, metadata], ensure_ascii=False)
    if hashlib.sha256(content.encode()).hexdigest() != recorded:
        raise InputError("its content hash does not match")
    nodes = [_node(row, identity) for row in rows]
    begins = np.frombuffer(indptr, dtype="<i4")
    children = np.frombuffer(indices, dtype="<i4")
    raw = np.frombuffer(attention, dtype="<f8")
    if not len(nodes) == count == len(begins) - 1 or not len(children) == len(raw) == begins[-1]:
        raise InputError("numbers of nodes and edges differ between its columns")
    edges = [
        EdgeRow(parent, children[start:end], raw[start:end])
        for parent, (start, end) in enumerate(pairwise(begins.tolist()))
        if start != end
    ]
    graph = HWDAG.from_rows(nodes, edges)
    graph.check_integrity()
    embedded = np.frombuffer(vectors, dtype="<f4").reshape(count, dimension).astype(np.float32)
    return Entry(Document(identity, text, title, json.loads(metadata)), graph, embedded)


def _node(row: Row, document_id: str) -> Node:
    identity, level, origin, text, tokens, sources = row
    if origin not in get_args(Origin):
        raise InputError(f"node {identity} has the unknown origin {origin!r}")
    borders = np.frombuffer(sources, dtype="<i8").reshape(-1, 2).tolist()
    spans = tuple(Span(start, end) for start, end in borders)
    return Node(identity, document_id, level, text, origin, tokens, spans)

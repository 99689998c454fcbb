"""The rows of a document in the tables: found, read, written, removed."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator
from typing import Any

from hwdag.errors import IndexCorrupt
from hwdag.store.erasure import insert_guarded
from hwdag.store.records import (
    ARRAY_COLUMNS,
    DOCUMENT_COLUMNS,
    NODE_COLUMNS,
    DocumentRows,
    Row,
    slot_of,
)
from hwdag.store.schema import NODES_PER_ROW

_SELECT_DOCUMENT = f"SELECT checksum, {', '.join(DOCUMENT_COLUMNS)} FROM documents WHERE number = ?"
_SELECT_NODES = f"SELECT {', '.join(NODE_COLUMNS)} FROM nodes WHERE document = ? ORDER BY position"
# LEFT JOIN: what is lost of a document that is there must not look like a document that is gone
_SELECT_ARRAYS = (
    f"SELECT documents.id, {', '.join(ARRAY_COLUMNS)} FROM documents "
    "LEFT JOIN arrays ON arrays.document = documents.number WHERE documents.number = ?"
)
SELECT_NODE_ROW = (  # of a document's number and the position that it begins at
    "SELECT documents.id, nodes.data FROM documents LEFT JOIN nodes "
    "ON nodes.document = documents.number AND nodes.position = ?2 WHERE documents.number = ?1"
)


def ascending(rows: Iterator[Row]) -> Iterator[Row]:
    """Yield the rows of a table by number; raises `IndexCorrupt` where its pages lead in a circle."""
    last: Any = 0
    for row in rows:
        if not (isinstance(row[0], int) and row[0] > last):
            raise IndexCorrupt(
                "the file is damaged: the numbers of its documents are not in order; restore a copy of "
                "the file, or run `hwdag repair`"
            )
        last = row[0]
        yield row


def checksums_of(connection: sqlite3.Connection, first: int, last: int) -> tuple[list[int], bytes]:
    """Return the numbers of the documents in a range, and a SHA-256 of numbers and checksums."""
    query = "SELECT number, checksum FROM documents WHERE number BETWEEN ? AND ? ORDER BY number"
    rows = list(ascending(connection.execute(query, [first, last])))
    return [number for number, _ in rows], hashlib.sha256(repr(rows).encode()).digest()


def find(connection: sqlite3.Connection, document_id: str) -> int | None:
    """Return the number of a document; None if it is not there."""
    rows = connection.execute(
        "SELECT number, id FROM documents WHERE slot = ?", [slot_of(document_id)]
    )
    # compared here, since SQLite refuses strings that are not Unicode
    return next((number for number, found in rows if found == document_id), None)


def find_document(connection: sqlite3.Connection, document_id: str) -> tuple[int, Row] | None:
    """Read the number of a document, and the row of `DOCUMENT_COLUMNS`; None if it is not there."""
    number = find(connection, document_id)
    row = connection.execute(_SELECT_DOCUMENT, [number]).fetchone()
    return None if number is None or row is None else (number, row[1:])


def read_rows(connection: sqlite3.Connection, number: int) -> tuple[DocumentRows, object] | None:
    """Read a document with its recorded checksum; None if it is not there."""
    row = connection.execute(_SELECT_DOCUMENT, [number]).fetchone()
    if row is None:
        return None
    checksum, *document = row
    nodes = []
    for at, found in enumerate(connection.execute(_SELECT_NODES, [number])):
        nodes.append(found)
        if found[0] != at * NODES_PER_ROW:
            break  # which the checksum notices; pages may lead in a circle
    _, *arrays = read_arrays(connection, number) or ("",)
    return DocumentRows(tuple(document), nodes, tuple(arrays)), checksum


def read_arrays(connection: sqlite3.Connection, number: int) -> Row | None:
    """Read (id of the document, its arrays...); None if it is not there."""
    row: Row | None = connection.execute(_SELECT_ARRAYS, [number]).fetchone()
    return row


def write_rows(
    connection: sqlite3.Connection, rows: DocumentRows, last_call: int, number: int | None = None
) -> int:
    """Add a document; returns its number, the next by default."""
    number = insert_guarded(
        connection,
        "documents",
        ("number", "last_call", "checksum", *DOCUMENT_COLUMNS),
        [(number, last_call, rows.checksum, *rows.document)],
    )
    nodes = [(number, *row) for row in rows.nodes]
    insert_guarded(connection, "nodes", ("document", *NODE_COLUMNS), nodes)
    insert_guarded(connection, "arrays", ("document", *ARRAY_COLUMNS), [(number, *rows.arrays)])
    return number

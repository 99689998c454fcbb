"""The rows of documents and groups in the tables: found, read, written, removed."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection

from hwdag.store.arrays import ARRAY_COLUMNS, Row
from hwdag.store.erasure import insert_guarded
from hwdag.store.records import DOCUMENT_COLUMNS, NODE_COLUMNS, Unit, slot_of

_SELECT_DOCUMENT = f"SELECT checksum, {', '.join(DOCUMENT_COLUMNS)} FROM documents WHERE number = ?"
_SELECT_NODES = f"SELECT {', '.join(NODE_COLUMNS)} FROM nodes WHERE document = ? ORDER BY position"
# LEFT JOIN: what is lost of a document that is there must not look like a document that is gone
_SELECT_ARRAYS = (
    f"SELECT {', '.join(ARRAY_COLUMNS)} FROM documents "
    "LEFT JOIN arrays ON arrays.document = documents.number WHERE documents.number = ?"
)
_SELECT_NODE_ROW = (
    "SELECT documents.id, nodes.data FROM documents LEFT JOIN nodes "
    "ON nodes.document = documents.number AND nodes.position = ? WHERE documents.number = ?"
)
_SELECT_MEMBERS = "SELECT child FROM members WHERE parent = ? ORDER BY position"
_SELECT_ABOVE = """
WITH RECURSIVE above (number) AS (
    VALUES (?) UNION SELECT parent FROM members JOIN above ON child = above.number
)
SELECT number FROM above ORDER BY number DESC
"""


def find(connection: sqlite3.Connection, document_id: str) -> int | None:
    """The number of a document; None if it is not there."""
    rows = connection.execute(
        "SELECT number, id FROM documents WHERE slot = ?", [slot_of(document_id)]
    )
    # compared here, since SQLite refuses strings that are not Unicode
    return next((number for number, found in rows.fetchall() if found == document_id), None)


def read_unit(connection: sqlite3.Connection, number: int) -> tuple[Unit, object] | None:
    """A document or group with its recorded checksum; None if it is not there."""
    row = connection.execute(_SELECT_DOCUMENT, [number]).fetchone()
    if row is None:
        return None
    checksum, *document = row
    nodes = connection.execute(_SELECT_NODES, [number]).fetchall()
    arrays, members = read_arrays(connection, number) or ((), ())
    return Unit(tuple(document), nodes, arrays, members), checksum


def read_arrays(connection: sqlite3.Connection, number: int) -> tuple[Row, tuple[int, ...]] | None:
    """The arrays and the members of a document or group; None if it is not there."""
    arrays = connection.execute(_SELECT_ARRAYS, [number]).fetchone()
    if arrays is None:
        return None
    return arrays, tuple(child for (child,) in connection.execute(_SELECT_MEMBERS, [number]))


def read_node_row(connection: sqlite3.Connection, number: int, position: int) -> Row | None:
    """(id of the document, row of nodes that begins there); None if the document is not there."""
    row: Row | None = connection.execute(_SELECT_NODE_ROW, [position, number]).fetchone()
    return row


def write_unit(connection: sqlite3.Connection, unit: Unit, number: int | None = None) -> int:
    """Add a document or group, and say so in `changes`; returns its number, the next by default."""
    number = insert_guarded(
        connection,
        "documents",
        ("number", "checksum", *DOCUMENT_COLUMNS),
        [(number, unit.checksum, *unit.document)],
    )
    insert_guarded(
        connection, "nodes", ("document", *NODE_COLUMNS), [(number, *row) for row in unit.nodes]
    )
    insert_guarded(connection, "arrays", ("document", *ARRAY_COLUMNS), [(number, *unit.arrays)])
    connection.executemany(
        "INSERT INTO members (parent, position, child) VALUES (?, ?, ?)",
        [(number, position, child) for position, child in enumerate(unit.members)],
    )
    _note(connection, [number], removed=False)
    return number


def remove_unit(connection: sqlite3.Connection, number: int) -> None:
    """Take away a document or group with all groups above it, and all that was made of them."""
    above = [found for (found,) in connection.execute(_SELECT_ABOVE, [number])]
    # upper groups come first, since they rest on the lower ones
    connection.executemany("DELETE FROM documents WHERE number = ?", [(n,) for n in above])
    # calls of corpus layers do not say which documents went into them
    connection.execute("DELETE FROM calls WHERE owner_slot IS NULL")
    _note(connection, above, removed=True)


def _note(connection: sqlite3.Connection, numbers: Collection[int], *, removed: bool) -> None:
    connection.executemany(
        "INSERT INTO changes (document, removed) VALUES (?, ?)",
        [(number, int(removed)) for number in numbers],
    )

"""Reads as much as can be read of a file that may be damaged anywhere."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from hwdag.errors import IndexCorrupt, InputError
from hwdag.store.arrays import Row
from hwdag.store.database import Database
from hwdag.store.records import CALL_COLUMNS, encode_call, slot_of

UNREADABLE = (sqlite3.Error, UnicodeDecodeError, OverflowError, IndexCorrupt, InputError)
"""What reading a damaged file raises."""

_DOCUMENTS: Sequence[Sequence[str]] = (
    (
        "SELECT number FROM documents NOT INDEXED ORDER BY number",
        "SELECT number FROM documents NOT INDEXED ORDER BY number DESC",
    ),
    ("SELECT number FROM documents INDEXED BY documents_by_slot ORDER BY slot",),
    (
        "SELECT document FROM arrays ORDER BY document",
        "SELECT document FROM arrays ORDER BY document DESC",
    ),
    ("SELECT document FROM nodes INDEXED BY nodes_by_position ORDER BY document, position",),
    ("SELECT document FROM changes GROUP BY document HAVING max(removed) = 0",),
)
"""Places that know the numbers of documents. A bad page hides what is behind it from one side."""

_CALLS = (
    "SELECT number FROM calls NOT INDEXED ORDER BY number",
    "SELECT number FROM calls NOT INDEXED ORDER BY number DESC",
    "SELECT number FROM calls INDEXED BY calls_by_slot ORDER BY owner_slot, key_slot",
)

_SELECT_CALL = f"SELECT {', '.join(CALL_COLUMNS)} FROM calls WHERE number = ?"


def readable(connection: sqlite3.Connection, query: str, *values: Any) -> Iterator[Row]:
    """Yield the rows before the first that cannot be read."""
    try:
        yield from connection.execute(query, values)
    except UNREADABLE:
        return


def document_numbers(connection: sqlite3.Connection) -> Counter[int]:
    """Count how many places know of each number of a document; one place alone may err."""
    known = Counter[int]()
    for queries in _DOCUMENTS:
        known.update(numbers(connection, queries))
    return known


def numbers(connection: sqlite3.Connection, queries: Sequence[str]) -> set[int]:
    """Collect what can be read of the first column that queries select."""
    rows = (row for query in queries for row in readable(connection, query))
    return {number for number, *_ in rows if isinstance(number, int) and number > 0}


def calls(connection: sqlite3.Connection) -> Iterator[tuple[int, str | None, Row | None]]:
    """Yield number, owner and row of every cached call; the row is None where it is damaged."""
    for number in sorted(numbers(connection, _CALLS)):
        row = next(readable(connection, _SELECT_CALL, number), None)
        owner = None if row is None else row[CALL_COLUMNS.index("owner")]
        owner = owner if isinstance(owner, str) else None
        yield number, owner, row if row is not None and _is_sound(row) else None


def id_of(connection: sqlite3.Connection, number: int) -> str | None:
    """Return the id of a document, if that can be read."""
    for slot, found in readable(
        connection, "SELECT slot, id FROM documents WHERE number = ?", number
    ):
        if isinstance(found, str) and slot == slot_of(found):
            return found
    return None


def guessed_dimension(connection: sqlite3.Connection) -> int | None:
    """Guess the dimension that most embeddings have; None where no document can be read."""
    query = (
        "SELECT length(vectors) / 4 / node_count FROM arrays JOIN documents ON number = document"
    )
    rows = readable(connection, f"{query} WHERE node_count > 0 LIMIT 25")
    found = Counter(value for (value,) in rows if isinstance(value, int) and value > 0)
    return found.most_common(1)[0][0] if found else None


@contextmanager
def moment(database: Database) -> Iterator[sqlite3.Connection]:
    """Read all inside of one moment; nobody is waited for once it has begun.

    Raises:
        IndexFileError: another process keeps the file locked.
    """
    finished = False
    try:
        with database.reading() as connection:
            yield connection
            finished = True
    except IndexCorrupt:
        if not finished:  # else it is about pages that were met before
            raise


def _is_sound(row: Row) -> bool:
    _, _, owner, tenant, key, _, value = row
    texts = isinstance(owner, str | None) and isinstance(tenant, str | None)
    typed = texts and isinstance(key, bytes) and isinstance(value, bytes)
    return typed and encode_call(owner, tenant, key, value) == row

"""Finished model calls by what went into them, so that none is paid for twice.

    with CallCache.open("run/calls.sqlite") as calls:
        key = key_of("write", model.name, prompt, {"max_new_tokens": 64})
        reply = calls.get(key)
        if reply is None:
            reply = ...
            calls.put_all({key: reply})

There is one cache for all: a build keeps its calls in the index file, by document, and whoever else
asks models keeps them in a file of its own. The table is the same.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Self

from hwdag.errors import InputError
from hwdag.store.database import Database, on_error
from hwdag.store.erasure import insert_guarded
from hwdag.store.records import CALL_COLUMNS, digest_of, encode_call, find, owner_slot, slot_of
from hwdag.store.schema import CALLS, statements

VERSION = 1
"""Part of every key. To be raised when the same input begins to give another result: a change of
the extraction, or of how a reader lays out a window."""

APPLICATION_ID = 0x48574443  # of a file that holds calls alone: the letters HWDC


class Withdrawn(Exception):
    """A document was deleted while it was being built."""


def key_of(kind: str, *parts: object) -> bytes:
    """Hash everything that a result depends on: JSON-able values, such as model and prompt."""
    content = json.dumps([VERSION, kind, *parts], sort_keys=True)
    return hashlib.sha256(content.encode()).digest()


class CallCache:
    """Results of finished calls of one owner. Threads and processes may share a file.

    The owner is the id of a document, with which its calls go, or None.
    """

    def __init__(self, database: Database, owner: str | None = None) -> None:
        """Use `open`, or `Store.calls`."""
        self._database = database
        self._owner = owner
        self._written = False

    @classmethod
    def open(cls, path: str | os.PathLike[str] | None = None) -> Self:
        """Open a file of calls, made if it is missing; without a path one that ends with the process.

        Raises `InputError` if the file is something else, `IndexFileError` if it cannot be read or written.
        """
        database = Database(None if path is None else Path(path), create=True)
        with on_error(database.close), database.writing() as connection:
            (application,) = connection.execute("PRAGMA application_id").fetchone()
            if not connection.execute("SELECT 1 FROM sqlite_master").fetchone():
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                for statement in statements(CALLS):
                    connection.execute(statement)
            elif application != APPLICATION_ID:
                raise InputError(f"{database.name} is no file of model calls; name another file")
        return cls(database)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the file; closing twice does no harm. A store's cache is closed with the store."""
        self._database.close()

    def get(self, key: bytes) -> bytes | None:
        """Return what was put under the key; None where nothing was, or where it is damaged."""
        with self._database.reading() as connection:
            rows = connection.execute(
                "SELECT owner, key, checksum, value FROM calls "
                "WHERE owner_slot IS ? AND key_slot = ?",
                [owner_slot(self._owner), slot_of(key)],
            )
            for owner, found, checksum, value in rows:
                sound = checksum == digest_of((owner, found, value))
                if sound and (owner, found) == (self._owner, key) and isinstance(value, bytes):
                    return value
        return None

    def put_all(self, items: Mapping[bytes, bytes]) -> None:
        """Keep values by key, all of them or none; on disk when it returns."""
        if items:
            rows = [encode_call(self._owner, *item) for item in items.items()]
            with self._database.writing() as connection:
                self.check(connection)
                connection.executemany(
                    "DELETE FROM calls WHERE owner_slot IS ? AND key_slot = ?",
                    [row[:2] for row in rows],
                )
                insert_guarded(connection, "calls", CALL_COLUMNS, rows)
            self._written = True

    def forget(self) -> None:
        """Overwrite all calls of this owner."""
        with self._database.writing() as connection:
            forget_calls(connection, self._owner)

    def check(self, connection: sqlite3.Connection) -> None:
        """Raise where nothing may be kept any more; in the transaction that writes."""


class DocumentCalls(CallCache):
    """The cache of a document that is being built; raises `Withdrawn` once the document was deleted."""

    def __init__(self, database: Database, document_id: str) -> None:
        """Use `Store.building`."""
        super().__init__(database, document_id)
        self._document = document_id
        with database.reading() as connection:
            self._number = find(connection, document_id)

    def check(self, connection: sqlite3.Connection) -> None:
        """Raise `Withdrawn` if the document, or what was kept of it, is gone."""
        query = "SELECT 1 FROM calls WHERE owner_slot IS ? LIMIT 1"
        calls = connection.execute(query, [owner_slot(self._owner)]).fetchone()
        if find(connection, self._document) != self._number or (self._written and calls is None):
            raise Withdrawn(self._document)


def forget_calls(
    connection: sqlite3.Connection,
    owner: str | None,
    kept: Collection[bytes] = (),
    *,
    after: int = 0,
) -> int:
    """Drop the calls of an owner with numbers `after` one, but not the `kept` keys; returns how many."""
    slots = {slot_of(key) for key in kept}
    rows = connection.execute(
        "SELECT number, key_slot FROM calls WHERE owner_slot IS ? AND number > ?",
        [owner_slot(owner), after],
    )
    gone = {number for number, slot in rows if slot not in slots}
    connection.executemany("DELETE FROM calls WHERE number = ?", [(number,) for number in gone])
    return len(gone)


def last_call(connection: sqlite3.Connection, owner: str) -> int:
    """Return the highest number of a call of an owner; 0 where there is none."""
    query = "SELECT coalesce(max(number), 0) FROM calls WHERE owner_slot IS ?"
    (number,) = connection.execute(query, [owner_slot(owner)]).fetchone()
    return int(number)

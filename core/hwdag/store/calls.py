"""Finished model calls on disk, so that a build that was interrupted does not pay for them again."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping

from hwdag.store.database import Database
from hwdag.store.records import call_checksum, encode_call, owner_slot, slot_of
from hwdag.store.units import find, write_calls


class Withdrawn(Exception):
    """A document was deleted while it was being built."""


class StoredCalls:
    """The call cache of one document, or (owner None) of all corpus layers."""

    def __init__(self, database: Database, owner: str | None) -> None:
        """Use `Store.calls`."""
        self._database = database
        self._owner = owner

    def get(self, key: bytes) -> bytes | None:
        """What was put under the key; None where nothing was, or where it is damaged."""
        with self._database.reading() as connection:
            rows = connection.execute(
                "SELECT owner, key, checksum, value FROM calls "
                "WHERE owner_slot IS ? AND key_slot = ?",
                [owner_slot(self._owner), slot_of(key)],
            ).fetchall()
        for owner, found, checksum, value in rows:
            sound = checksum == call_checksum(owner, found, value)
            if sound and (owner, found) == (self._owner, key) and isinstance(value, bytes):
                return value
        return None

    def put_all(self, items: Mapping[bytes, bytes]) -> None:
        """Keep values by key, all of them or none; on disk when it returns.

        Raises:
            IndexFileError: the file cannot be written; it stays as it was.
        """
        if items:
            rows = [encode_call(self._owner, key, value) for key, value in items.items()]
            with self._database.writing() as connection:
                write_calls(connection, rows)


class DocumentCalls(StoredCalls):
    """The call cache of one document, that takes no result once the document was deleted.

    A result says what the document said, and it must not come to a file that the document has just
    been deleted from.
    """

    def __init__(self, database: Database, owner: str) -> None:
        """Use `Store.calls`."""
        super().__init__(database, owner)
        self._document = owner
        self._written = False
        with database.reading() as connection:
            self._number = find(connection, owner)

    def put_all(self, items: Mapping[bytes, bytes]) -> None:
        """Keep values by key, all of them or none; on disk when it returns.

        Raises:
            Withdrawn: the document was deleted since.
            IndexFileError: the file cannot be written; it stays as it was.
        """
        rows = [encode_call(self._owner, key, value) for key, value in items.items()]
        if rows:
            with self._database.writing() as connection:
                self.check(connection)
                write_calls(connection, rows)
            self._written = True

    def check(self, connection: sqlite3.Connection) -> None:
        """Raise `Withdrawn` if the document, or what was kept of it, is gone."""
        query = "SELECT 1 FROM calls WHERE owner_slot IS ? LIMIT 1"
        calls = connection.execute(query, [owner_slot(self._owner)]).fetchone()
        if find(connection, self._document) != self._number or (self._written and calls is None):
            raise Withdrawn(self._document)

"""Finished model calls on disk, so that a build that was interrupted does not pay for them again."""

from __future__ import annotations

from collections.abc import Mapping

from hwdag.store.database import Database
from hwdag.store.records import call_checksum, encode_call, owner_slot, slot_of
from hwdag.store.units import write_calls


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

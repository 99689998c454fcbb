"""Reading a file that may be damaged anywhere: what cannot be read does not hide the rest."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from hwdag.errors import IndexCorrupt, IndexFileError
from hwdag.store.arrays import ARRAY_COLUMNS, Row, decode_block
from hwdag.store.database import Database
from hwdag.store.integrity.signs import UNREADABLE, Signs, readable, signs_of
from hwdag.store.migrations import OLD_VERSIONS, OldIndex, file_of
from hwdag.store.records import (
    CALL_COLUMNS,
    DOCUMENT_COLUMNS,
    NODE_COLUMNS,
    Entry,
    Unit,
    decode,
    decode_facts,
    decode_header,
    encode,
    encode_call,
    slot_of,
)
from hwdag.store.schema import SCHEMA_VERSION, Header
from hwdag.store.units import read_unit

_SAMPLED = 25
"""Documents that are asked for the dimension of embeddings where the header does not know it."""


class Found(NamedTuple):
    """A document or group that is whole; a group has no entry."""

    unit: Unit
    entry: Entry | None


class Survey:
    """What can be read of a file of the present version."""

    _SIGNS: Sequence[Sequence[str]] = (
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
    _DIMENSION = (
        "SELECT length(vectors) / 4 / node_count FROM arrays JOIN documents ON number = document "
        "WHERE number = ? AND node_count > 0"
    )

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection

    def header(self) -> Header:
        """The header; raises one of `UNREADABLE` unless it is whole."""
        return decode_header(self.connection.execute("SELECT name, value FROM header").fetchall())

    def header_values(self) -> dict[str, Any]:
        """What stands in the header, without those values that cannot be read."""
        found = {}
        for name, value in readable(self.connection, "SELECT name, value FROM header")[0]:
            try:
                found[name] = json.loads(value)
            except (ValueError, TypeError, RecursionError):
                continue
        return found

    def dimension(self) -> int | None:
        """Of the embeddings, as most documents have it; None where no document can be read."""
        found = Counter[int]()
        for number in self.signs().tried:
            rows, _ = readable(self.connection, self._DIMENSION, number)
            found.update(value for (value,) in rows if isinstance(value, int) and value > 0)
            if found.total() == _SAMPLED:
                break
        return found.most_common(1)[0][0] if found else None

    def signs(self) -> Signs:
        """Which numbers documents and groups have."""
        # one place alone may err: a damaged number is a number too
        return signs_of(self.connection, self._SIGNS, "documents", witnesses=2)

    def id_of(self, number: int) -> str | None:
        """The id of a document, if that can be read; None for a group."""
        select = "SELECT slot, id FROM documents WHERE number = ?"
        for slot, found in readable(self.connection, select, number)[0]:
            if isinstance(found, str) and slot == slot_of(found):
                return found
        return None

    def find(self, number: int, dimension: int) -> Found | None:
        """A document or group; None if it is not there, one of `UNREADABLE` if it is damaged."""
        try:
            return _checked(number, read_unit(self.connection, number), dimension)
        except UNREADABLE:  # an index may be damaged, and not the rows that it leads to
            return _checked(number, self._read_around_indexes(number), dimension)

    def calls(self) -> Iterator[tuple[str | None, Row | None]]:
        """Owner and row of every cached call; the row is None where it is damaged."""
        signs = signs_of(self.connection, _SIGNS_OF_CALLS, "calls", witnesses=1)
        select = f"SELECT {', '.join(CALL_COLUMNS)} FROM calls WHERE number = ?"
        for number in signs.tried:
            rows, _ = readable(self.connection, select, number)
            for row in rows:
                owner = row[CALL_COLUMNS.index("owner")]
                yield owner if isinstance(owner, str) else None, row if _sound_call(row) else None
            if not rows and number in signs.known:
                yield None, None

    def _read_around_indexes(self, number: int) -> tuple[Unit, object] | None:
        """As `read_unit`, with what can be read of the nodes and members."""
        execute = self.connection.execute
        select = f"SELECT checksum, {', '.join(DOCUMENT_COLUMNS)} FROM documents WHERE number = ?"
        row = execute(select, [number]).fetchone()
        if row is None:
            return None
        checksum, *document = row
        select = f"SELECT {', '.join(NODE_COLUMNS)} FROM nodes WHERE number = ?"
        nodes = [execute(select, [place]).fetchone() for place in self._places_of_nodes[number]]
        select = f"SELECT {', '.join(ARRAY_COLUMNS)} FROM arrays WHERE document = ?"
        arrays = execute(select, [number]).fetchone()
        select = "SELECT child FROM members WHERE parent = ? ORDER BY position"
        members = tuple(child for (child,) in readable(self.connection, select, number)[0])
        return Unit(tuple(document), nodes, arrays or (), members), checksum

    @cached_property
    def _places_of_nodes(self) -> Mapping[int, list[int]]:
        """Numbers of the rows of nodes by document, in order."""
        places = defaultdict[int, list[int]](list)
        for place in signs_of(self.connection, _SIGNS_OF_NODES, "nodes", witnesses=1).tried:
            select = "SELECT document FROM nodes NOT INDEXED WHERE number = ?"
            for (number,) in readable(self.connection, select, place)[0]:
                places[number].append(place)
        return places


class OldSurvey(Survey):
    """What can be read of a file of version 1 or 2."""

    _SIGNS = (
        (
            "SELECT number FROM documents NOT INDEXED ORDER BY number",
            "SELECT number FROM documents NOT INDEXED ORDER BY number DESC",
        ),
        ("SELECT number FROM documents INDEXED BY sqlite_autoindex_documents_1 ORDER BY id",),
        ("SELECT document FROM nodes INDEXED BY sqlite_autoindex_nodes_1 ORDER BY document",),
    )
    _DIMENSION = (
        "SELECT length(vectors) / 4 / node_count FROM documents WHERE number = ? AND node_count > 0"
    )

    def __init__(self, connection: sqlite3.Connection, version: int) -> None:
        super().__init__(connection)
        self._old = OldIndex(connection, version)

    def header(self) -> Header:
        """As it is after a migration."""
        return self._old.header()

    def header_values(self) -> dict[str, Any]:
        """As they are after a migration."""
        return self._old.completed(super().header_values())

    def id_of(self, number: int) -> str | None:
        """What stands where the id should be, if it is text."""
        rows, _ = readable(self.connection, "SELECT id FROM documents WHERE number = ?", number)
        return rows[0][0] if rows and isinstance(rows[0][0], str) else None

    def find(self, number: int, dimension: int) -> Found | None:
        """As it is after a migration."""
        entry = self._old.entry(number, dimension)
        return None if entry is None else Found(encode(entry, dimension=dimension), entry)

    def calls(self) -> Iterator[tuple[str | None, Row | None]]:
        """None: there was no such table."""
        return iter(())


def opened(path: Path) -> Database:
    """The database of a file that may be damaged, for reading only.

    Raises:
        IndexFileError: there is no such file.
    """
    if not path.is_file():
        raise IndexFileError(f"there is no file {path}; check the path")
    return Database(path, create=False, readonly=True, damaged=True)


@contextmanager
def moment(database: Database) -> Iterator[sqlite3.Connection]:
    """All that is read inside is of one moment, and nobody is waited for once it has begun.

    Raises:
        IndexFileError: another process keeps the file locked.
    """
    finished = False
    try:
        with database.reading() as connection:
            connection.execute("PRAGMA user_version").fetchone()  # takes the lock
            yield connection
            finished = True
    except IndexCorrupt:
        if not finished:  # else it is about pages that were met before
            raise


def dimension_of(survey: Survey) -> int | None:
    """Of the embeddings: what a sound header says, else what most documents have."""
    try:
        return survey.header().dimension
    except UNREADABLE:
        return survey.dimension()


def survey_of(connection: sqlite3.Connection) -> Survey:
    """The survey for the version of the file; raises `IndexCorrupt` if it is not to be seen."""
    rows, _ = readable(connection, "SELECT name FROM pragma_table_info('documents')")
    columns = {name for (name,) in rows}
    if "slot" in columns:
        return Survey(connection)
    if "indptr" in columns:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        return OldSurvey(connection, version if version in OLD_VERSIONS else max(OLD_VERSIONS))
    raise IndexCorrupt(
        f"{file_of(connection)} is damaged: it has not the tables of format version "
        f"{SCHEMA_VERSION} or an older one; restore a copy of the file, or build anew"
    )


_SIGNS_OF_CALLS = (
    (
        "SELECT number FROM calls NOT INDEXED ORDER BY number",
        "SELECT number FROM calls NOT INDEXED ORDER BY number DESC",
        "SELECT number FROM calls INDEXED BY calls_by_slot ORDER BY owner_slot, key_slot",
    ),
)
_SIGNS_OF_NODES = (
    (
        "SELECT number FROM nodes NOT INDEXED ORDER BY number",
        "SELECT number FROM nodes NOT INDEXED ORDER BY number DESC",
        "SELECT number FROM nodes INDEXED BY nodes_by_position ORDER BY document, position",
    ),
)


def _sound_call(row: Row) -> bool:
    _, _, owner, key, _, value = row
    typed = isinstance(owner, str | None) and isinstance(key, bytes) and isinstance(value, bytes)
    return typed and encode_call(owner, key, value) == row


def _checked(number: int, found: tuple[Unit, object] | None, dimension: int) -> Found | None:
    """What was read, if it is whole; else `IndexCorrupt`."""
    if found is None:
        return None
    unit, checksum = found
    if unit.document[DOCUMENT_COLUMNS.index("slot")] is None:
        _check_group(number, unit, checksum, dimension)
        return Found(unit, None)
    return Found(unit, decode(unit, checksum=checksum, dimension=dimension))


def _check_group(number: int, unit: Unit, checksum: object, dimension: int) -> None:
    """Raise `IndexCorrupt` unless what can be said of a group without its members holds."""
    if unit.checksum != checksum:
        raise IndexCorrupt("its checksum does not match")
    if not unit.members or max(unit.members) >= number:
        raise IndexCorrupt("a group rests on itself, or on nothing")
    decode_facts(unit.document[DOCUMENT_COLUMNS.index("metadata")])
    decode_block(number, unit.arrays, unit.members, dimension)

"""How a file becomes an index: its tables are made, or found and brought to the present format."""

from __future__ import annotations

import sqlite3
from contextlib import closing, suppress
from pathlib import Path

from hwdag.errors import HWDAGError, IndexCorrupt, IndexVersionError, InputError, NotAnIndex
from hwdag.store.database import Database, corrupt, journal_of
from hwdag.store.records import decode_header
from hwdag.store.schema import APPLICATION_ID, SCHEMA_VERSION, TABLES, Header


def check_folder(path: Path) -> None:
    """Raise `InputError` if the folder that a file shall be in is missing."""
    if not path.parent.is_dir():
        raise InputError(f"the folder of {path} does not exist; make {path.parent} first")


def holds_something(path: Path) -> bool:
    """Whether there is a file to open; a build killed at its very start leaves an empty one.

    A write that was killed is rolled back first: where it was the first one, nothing is left then.
    """
    if not path.is_file() or not path.stat().st_size:
        return path.is_dir()
    if journal_of(path).exists():
        with (
            suppress(HWDAGError),
            closing(Database(path, create=False, readonly=False)) as database,
            database.reading() as connection,
        ):
            connection.execute("SELECT 1 FROM sqlite_master").fetchone()
    return path.stat().st_size > 0


def check_free(path: Path) -> None:
    """Raise `InputError` unless a new index can be made there."""
    check_folder(path)
    if path.exists() and (not path.is_file() or path.stat().st_size):
        raise _occupied(str(path))


def write_schema(database: Database, header: list[tuple[str, str]]) -> None:
    """In one transaction, so that an interrupted `create` leaves nothing that is in the way."""
    with database.writing() as connection:
        if connection.execute("SELECT 1 FROM sqlite_master").fetchone():
            raise _occupied(database.name)  # another process was faster
        for statement in TABLES.split(";"):
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        connection.executemany("INSERT INTO header (name, value) VALUES (?, ?)", header)


def read_header(database: Database) -> Header:
    """What the index was built with; raises `IndexCorrupt`."""
    with database.reading() as connection:
        rows = connection.execute("SELECT name, value FROM header").fetchall()
    try:
        return decode_header(rows)
    except IndexCorrupt as error:
        raise corrupt(database.name, error) from error


def bring_up_to_date(database: Database) -> None:
    """Migrate a file of an older format, in one transaction.

    Raises:
        NotAnIndex: a database of somebody else.
        IndexVersionError: written by a newer hwdag, or by an older one and opened for reading.
        IndexCorrupt: a document is damaged; the file stays as it was.
    """
    with database.reading() as connection:
        version = _version(connection, database.name)
    if version == SCHEMA_VERSION:
        return
    if database.readonly:
        raise IndexVersionError(
            f"{database.name} has the older format version {version}, which is brought to version "
            f"{SCHEMA_VERSION} when it is opened for writing; open it once without readonly=True"
        )
    from hwdag.store.migrations import migrate  # why here: it is hardly ever needed

    with database.writing() as connection:
        version = _version(connection, database.name)
        if version != SCHEMA_VERSION:  # else another process was faster
            migrate(connection, version)
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def _version(connection: sqlite3.Connection, name: str) -> int:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application != APPLICATION_ID:
        raise NotAnIndex(
            f"{name} is empty or a SQLite database of something else, not an hwdag index; check "
            "the path"
        )
    if version > SCHEMA_VERSION:
        raise IndexVersionError(
            f"{name} has format version {version}, this hwdag reads version {SCHEMA_VERSION}; "
            "upgrade hwdag"
        )
    return int(version)


def _occupied(name: str) -> InputError:
    return InputError(f"{name} exists; open it, or name a file that does not exist yet")

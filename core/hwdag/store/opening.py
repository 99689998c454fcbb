"""How a file becomes an index: its tables are made, or found to be those of an index."""

from __future__ import annotations

import sqlite3
from contextlib import closing, suppress
from pathlib import Path

from hwdag.errors import HWDAGError, IndexCorrupt, InputError
from hwdag.store.database import Database, corrupt, journal_of
from hwdag.store.records import decode_header
from hwdag.store.schema import Header, check_format, define

_MOST_HEADER_ROWS = 20
_LONGEST_HEADER_VALUE = 1 << 20


def check_folder(path: Path) -> None:
    """Raise `InputError` if the folder that a file shall be in is missing."""
    if not path.parent.is_dir():
        raise InputError(f"the folder of {path} does not exist; make {path.parent} first")


def holds_something(path: Path) -> bool:
    """Say whether there is a file to open; a build killed at its very start leaves an empty one.

    A write that was killed is rolled back first: where it was the first one, nothing is left then.
    """
    if not path.is_file() or not path.stat().st_size:
        return path.is_dir()
    if journal_of(path).exists():
        with (
            suppress(HWDAGError),
            closing(Database(path)) as database,
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
    """Make the tables in one transaction, so that an interruption leaves nothing in the way."""
    with database.writing() as connection:
        if connection.execute("SELECT 1 FROM sqlite_master").fetchone():
            raise _occupied(database.name)  # another process was faster
        define(connection)
        connection.executemany("INSERT INTO header (name, value) VALUES (?, ?)", header)


def read_header(database: Database) -> Header:
    """Check the format and read the header; errors as in `check_format`."""
    with database.reading() as connection:
        check_format(connection, database.name)
        try:
            return header_in(connection)
        except IndexCorrupt as error:
            raise corrupt(database.name, error) from error


def header_in(connection: sqlite3.Connection) -> Header:
    """Read the header of a file of this format; raises `IndexCorrupt`."""
    query = "SELECT name, value FROM header WHERE length(name) + length(value) < ? LIMIT ?"
    limits = (_LONGEST_HEADER_VALUE, _MOST_HEADER_ROWS)
    return decode_header(connection.execute(query, limits).fetchall())


def _occupied(name: str) -> InputError:
    return InputError(f"{name} exists; open it, or name a file that does not exist yet")

"""Checking an index file for damage, and compacting it."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hwdag.errors import IndexCorrupt, IndexFileError, InputError, NotAnIndex
from hwdag.store import records
from hwdag.store.database import Database, build_lock
from hwdag.store.records import CALL_COLUMNS, DocumentRows, Entry, Row, read_rows
from hwdag.store.schema import check_format
from hwdag.store.segment_files import damaged_in
from hwdag.store.sqlite import Store, header_in, opened
from hwdag.text.draft import Draft
from hwdag.trace.bars import Reporter, as_reporter

_MOST_MESSAGES = 100  # SQLite's, about pages
_LEAST_BYTES = 100  # the header of a SQLite database
_WAIT_SECONDS = 30.0  # for a running build to end, before its calls are dropped

UNREADABLE = (sqlite3.Error, UnicodeDecodeError, OverflowError, IndexCorrupt, InputError)
"""Exceptions of reading a damaged file."""


# Verify


@dataclass(frozen=True, slots=True)
class Problem:
    """A description of some damage, and the document it affects; None for the file as a whole."""

    what: str
    document_id: str | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """Result of a verification: ids of the intact documents, and all problems."""

    whole: tuple[str, ...]
    problems: tuple[Problem, ...]

    @property
    def sound(self) -> bool:
        """Whether the file has no problem."""
        return not self.problems

    @property
    def damaged(self) -> tuple[str, ...]:
        """Readable ids of the damaged documents."""
        found = dict.fromkeys(problem.document_id for problem in self.problems)
        return tuple(name for name in found if name is not None and name not in self.whole)


def verify(path: str | os.PathLike[str], *, show_progress: bool | Reporter = False) -> Verdict:
    """Check every page, every document and every cached call of an index file.

    Reads documents one by one, so that other processes can continue. If the tables are not those of an
    index, or the header is damaged, it reads nothing else. Raises `IndexFileError`, `NotAnIndex` or
    `IndexVersionError` if the file cannot be checked.
    """
    path = Path(path)
    if not path.is_file():
        raise IndexFileError(f"there is no file {path}; check the path")
    try:
        database = Database(path, readonly=True)
    except IndexCorrupt as error:
        if path.stat().st_size < _LEAST_BYTES:
            raise NotAnIndex(f"{path} is too short for an hwdag index; check the path") from error
        return Verdict((), (Problem(str(error)),))
    with closing(database):
        try:
            with moment(database) as connection:
                check_format(connection, str(path))
                dimension = header_in(connection).dimension
        except UNREADABLE as error:
            return Verdict((), (Problem(str(error)),))
        with moment(database) as connection:
            problems = list(_file_problems(connection, path))
        whole, damage = _documents(database, dimension, as_reporter(show_progress))
        damage += [
            Problem(
                f"the arrays in {folder} are damaged; delete the folder, a search makes it anew"
            )
            for folder in damaged_in(database.place or path)
        ]
    return Verdict(whole, tuple(dict.fromkeys((*problems, *damage))))


def _file_problems(connection: sqlite3.Connection, path: Path) -> Iterator[Problem]:
    """Yield the problems of pages and calls, and the error that ends the check, if any."""
    try:
        if path.stat().st_size < _size(connection):
            yield Problem("it is truncated: shorter than its number of pages")
        for (message,) in connection.execute(f"PRAGMA integrity_check({_MOST_MESSAGES})"):
            if message != "ok":
                yield Problem(f"SQLite says: {message}")
        for table, *_ in connection.execute("PRAGMA foreign_key_check"):
            yield Problem(f"a row of table {table} belongs to a document that does not exist")
        for _, owner, row in sound_calls(connection):
            if row is None:
                yield Problem("a cached call is damaged; a build will repeat it", owner)
    except UNREADABLE as error:
        yield Problem(str(error))


def _documents(
    database: Database, dimension: int, reporter: Reporter
) -> tuple[tuple[str, ...], list[Problem]]:
    with moment(database) as connection:
        tried = numbers_of(connection)
    ids, problems = dict[str, None](), list[tuple[int, Problem]]()
    with reporter.stage("verify", len(tried), "documents") as advance:
        for number in tried:
            with moment(database) as connection:
                try:
                    name = _whole(connection, number, dimension)
                    if name in ids:
                        raise IndexCorrupt("two documents have this id")
                    ids[name] = None
                except UNREADABLE as error:
                    named = id_of(connection, number)
                    what = str(error) if named is not None else f"number {number}: {error}"
                    problems.append((number, Problem(what, named)))
            advance()
    with moment(database) as connection:  # documents deleted since are no problem
        left = set(numbers_of(connection))
    return tuple(ids), [problem for number, problem in problems if number in left]


def _whole(connection: sqlite3.Connection, number: int, dimension: int) -> str:
    """Return the id of an intact document. Raises one of `UNREADABLE` for a damaged one."""
    entry, rows, _ = read_document(connection, number, dimension)
    if (
        records.encode(Draft(entry.document), entry.graph, entry.vectors, dimension=dimension)
        != rows
    ):
        raise IndexCorrupt("its search arrays do not match its text; insert it again")
    return entry.document.id


# Compact


@dataclass(frozen=True, slots=True)
class Compacted:
    """Bytes of the file before and after."""

    before: int
    after: int


def compact(source: Store | str | os.PathLike[str], *, drop_calls: bool = False) -> Compacted:
    """Rewrite an index file without gaps.

    Other processes may have the file open; they wait while pages are written. This needs free disk
    space of twice the file's size; without it, the file does not change. `drop_calls` deletes finished
    model calls too, so that unfinished builds pay for them again.
    """
    with opened(source) as store:
        database = store.database
        # why the lock: a running build would take the loss of its calls for a deletion
        alone = build_lock(store.path, _WAIT_SECONDS) if drop_calls else nullcontext()
        with alone, database.writing() as connection:
            before = _size(connection)
            if drop_calls:
                connection.execute("DELETE FROM calls")
        database.vacuum()
        with database.reading() as connection:
            return Compacted(before, _size(connection))


def _size(connection: sqlite3.Connection) -> int:
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    (size,) = connection.execute("PRAGMA page_size").fetchone()
    return int(pages) * int(size)


# Reading damaged files


def _readable(connection: sqlite3.Connection, query: str, *values: Any) -> Iterator[Row]:
    """Yield the rows up to the first unreadable one."""
    try:
        yield from connection.execute(query, values)
    except UNREADABLE:
        return


def numbers_of(connection: sqlite3.Connection, name: str = "documents") -> list[int]:
    """Return the numbers in a table, read from its index and from both ends: a bad page hides the rest."""
    found = {
        number
        for table in (
            f"{name} NOT INDEXED",
            f"{name} NOT INDEXED ORDER BY number DESC",
            f"{name} INDEXED BY {name}_by_slot",
        )
        for (number,) in _readable(connection, f"SELECT number FROM {table}")
    }
    return sorted(number for number in found if isinstance(number, int) and number > 0)


def sound_calls(connection: sqlite3.Connection) -> Iterator[tuple[int, str | None, Row | None]]:
    """Yield number, owner and row of every cached call; the row is None if damaged."""
    select = f"SELECT {', '.join(CALL_COLUMNS)} FROM calls WHERE number = ?"
    for number in numbers_of(connection, "calls"):
        row = next(_readable(connection, select, number), None)
        _, _, owner, key, _, value = row or CALL_COLUMNS
        typed = (
            isinstance(owner, str | None) and isinstance(key, bytes) and isinstance(value, bytes)
        )
        sound = typed and records.encode_call(owner, key, value) == row
        yield number, owner if row and isinstance(owner, str) else None, row if sound else None


def read_document(
    connection: sqlite3.Connection, number: int, dimension: int
) -> tuple[Entry, DocumentRows, int]:
    """Read a document, its rows and its `last_call`. Raises one of `UNREADABLE` if it is damaged."""
    found = read_rows(connection, number)
    if found is None:
        raise IndexCorrupt("parts of it are missing")
    rows, checksum = found
    entry = records.decode(rows, checksum=checksum, dimension=dimension)
    head = records.read_head(connection, number)
    assert head is not None  # its rows are there
    return entry, rows, head.last_call


def id_of(connection: sqlite3.Connection, number: int) -> str | None:
    """Return the id of a document; None if it is unreadable."""
    select = "SELECT slot, id FROM documents WHERE number = ?"
    for slot, found in _readable(connection, select, number):
        if isinstance(found, str) and slot == records.slot_of(found):
            return found
    return None


@contextmanager
def moment(database: Database) -> Iterator[sqlite3.Connection]:
    """Open a read transaction, and ignore damage that only its end reports."""
    finished = False
    try:
        with database.reading() as connection:
            yield connection
            finished = True
    except IndexCorrupt:
        if not finished:  # else the reads inside have reported it
            raise

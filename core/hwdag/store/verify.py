"""Whether an index file is whole, and making it small again."""

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
from hwdag.store.records import CALL_COLUMNS, Row, read_rows
from hwdag.store.schema import check_format
from hwdag.store.sqlite import Store, header_in, opened
from hwdag.trace.bars import Reporter, as_reporter

_MOST_MESSAGES = 100  # of SQLite, about pages
_LEAST_BYTES = 100  # of the header of every SQLite database
_WAIT_SECONDS = 30.0  # for a build to end whose calls are to be dropped

UNREADABLE = (sqlite3.Error, UnicodeDecodeError, OverflowError, IndexCorrupt, InputError)
"""What reading a damaged file raises."""


# Verify


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that is not as it was written, in words, and whose it is, None for the file as a whole."""

    what: str
    document_id: str | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a verification found: ids of the documents that nothing is wrong with, and all problems."""

    whole: tuple[str, ...]
    problems: tuple[Problem, ...]

    @property
    def sound(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    @property
    def damaged(self) -> tuple[str, ...]:
        """Ids of the documents that are not whole, as far as they can be read."""
        found = dict.fromkeys(problem.document_id for problem in self.problems)
        return tuple(name for name in found if name is not None and name not in self.whole)


def verify(path: str | os.PathLike[str], *, show_progress: bool | Reporter = False) -> Verdict:
    """Check every page, every document and every cached call of an index file.

    Documents are read one by one, so that other processes need not stop. Of a file that defines
    other tables than an index, or whose header is damaged, nothing else is read. Raises
    `IndexFileError`, `NotAnIndex` or `IndexVersionError` for a file that cannot be checked.
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
    return Verdict(whole, tuple(dict.fromkeys((*problems, *damage))))


def _file_problems(connection: sqlite3.Connection, path: Path) -> Iterator[Problem]:
    """Yield what is wrong with pages and calls; what ends the check is a problem too."""
    try:
        if path.stat().st_size < _size(connection):
            yield Problem("it is shorter than it should be; it was truncated")
        for (message,) in connection.execute(f"PRAGMA integrity_check({_MOST_MESSAGES})"):
            if message != "ok":
                yield Problem(f"SQLite says: {message}")
        for table, *_ in connection.execute("PRAGMA foreign_key_check"):
            yield Problem(f"a row of table {table} belongs to a document that does not exist")
        for _, owner, row in sound_calls(connection):
            if row is None:
                yield Problem("a cached call is damaged; it will be made again", owner)
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
                        raise IndexCorrupt("there are two documents with this id")
                    ids[name] = None
                except UNREADABLE as error:
                    named = id_of(connection, number)
                    what = str(error) if named is not None else f"number {number}: {error}"
                    problems.append((number, Problem(what, named)))
            advance()
    with moment(database) as connection:  # what was deleted meanwhile is not missing
        left = set(numbers_of(connection))
    return tuple(ids), [problem for number, problem in problems if number in left]


def _whole(connection: sqlite3.Connection, number: int, dimension: int) -> str:
    """Return the id of a document; raises one of `UNREADABLE` if something is wrong with it."""
    found = read_rows(connection, number)
    if found is None:
        raise IndexCorrupt("only parts of it are there")
    rows, checksum = found
    entry = records.decode(rows, checksum=checksum, dimension=dimension)
    if records.encode(entry, dimension=dimension) != rows:
        raise IndexCorrupt("its search arrays are not those of its text; insert it again")
    return entry.document.id


# Compact


@dataclass(frozen=True, slots=True)
class Compacted:
    """Bytes of the file before and after."""

    before: int
    after: int


def compact(source: Store | str | os.PathLike[str], *, drop_calls: bool = False) -> Compacted:
    """Write an index file anew without gaps.

    Other processes may have the file open; they wait while pages are written. Twice the size of the
    file must be free on the disk meanwhile; the file stays as it was if it is not. With `drop_calls`
    finished model calls are forgotten, which unfinished builds would not pay for again.
    """
    with opened(source) as store:
        database = store.database
        # why: an unfinished build takes the loss of its calls for a deletion of its document
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


# Reading what may be damaged anywhere


def _readable(connection: sqlite3.Connection, query: str, *values: Any) -> Iterator[Row]:
    """Yield the rows before the first that cannot be read."""
    try:
        yield from connection.execute(query, values)
    except UNREADABLE:
        return


def numbers_of(connection: sqlite3.Connection, name: str = "documents") -> list[int]:
    """Return the numbers in a table, from its index and from both ends: a bad page hides what follows."""
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
    """Yield number, owner and row of every cached call; the row is None where it is damaged."""
    select = f"SELECT {', '.join(CALL_COLUMNS)} FROM calls WHERE number = ?"
    for number in numbers_of(connection, "calls"):
        row = next(_readable(connection, select, number), None)
        _, _, owner, key, _, value = row or CALL_COLUMNS
        typed = (
            isinstance(owner, str | None) and isinstance(key, bytes) and isinstance(value, bytes)
        )
        sound = typed and records.encode_call(owner, key, value) == row
        yield number, owner if row and isinstance(owner, str) else None, row if sound else None


def id_of(connection: sqlite3.Connection, number: int) -> str | None:
    """Return the id of a document; None where it cannot be read."""
    select = "SELECT slot, id FROM documents WHERE number = ?"
    for slot, found in _readable(connection, select, number):
        if isinstance(found, str) and slot == records.slot_of(found):
            return found
    return None


@contextmanager
def moment(database: Database) -> Iterator[sqlite3.Connection]:
    """Read all inside of one moment; nobody is waited for once it has begun."""
    finished = False
    try:
        with database.reading() as connection:
            yield connection
            finished = True
    except IndexCorrupt:
        if not finished:  # else it is about pages that were met before
            raise

"""Reads and checks everything that a file holds."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path

from hwdag.errors import IndexCorrupt, IndexFileError, NotAnIndex
from hwdag.store.database import Database
from hwdag.store.integrity.damaged import (
    UNREADABLE,
    calls,
    document_numbers,
    guessed_dimension,
    id_of,
    moment,
)
from hwdag.store.opening import header_in
from hwdag.store.records import decode, encode
from hwdag.store.rows import read_rows
from hwdag.store.schema import check_format
from hwdag.trace.bars import Reporter, as_reporter

_MOST_MESSAGES = 100
"""Of SQLite, about pages."""

_LEAST_BYTES = 100
"""Of the header of every SQLite database."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that is not as it was written.

    Attributes:
        what: in words.
        document_id: whose it is; None where that is not known, or for the file as a whole.
    """

    what: str
    document_id: str | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a verification found.

    Attributes:
        whole: ids of the documents that nothing is wrong with, in order.
        problems: all of them; none if the file is sound.
    """

    whole: tuple[str, ...]
    problems: tuple[Problem, ...]

    @property
    def documents(self) -> int:
        """Number of documents that are whole."""
        return len(self.whole)

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
    """Check every page, every document, every cached call and the log of changes of an index file.

    Documents are read one by one, so that other processes need not stop. Of a file that defines
    other tables than an index, nothing else is read.

    Raises:
        IndexFileError: there is no such file, or it cannot be read.
        NotAnIndex: not SQLite, or SQLite of somebody else.
        IndexVersionError: of another format.
    """
    path = Path(path)
    if not path.is_file():
        raise IndexFileError(f"there is no file {path}; check the path")
    try:
        database = Database(path, create=False, readonly=True)
    except IndexCorrupt as error:
        if path.stat().st_size < _LEAST_BYTES:
            raise NotAnIndex(f"{path} is too short for an hwdag index; check the path") from error
        return Verdict((), (Problem(str(error)),))
    with closing(database):
        problems = _checked(database, partial(_format, path=path))
        if problems:
            return Verdict((), tuple(problems))
        for check in (partial(_pages, path=path), _header, _log, _calls):
            problems += _checked(database, check)
        whole, damage = _documents(database, as_reporter(show_progress))
    return Verdict(whole, tuple(dict.fromkeys((*problems, *damage))))


def _checked(
    database: Database, check: Callable[[sqlite3.Connection], Iterable[Problem]]
) -> list[Problem]:
    """Collect what a check finds before it can go no further, which is a problem too."""
    found = list[Problem]()
    try:
        with moment(database) as connection:
            for problem in check(connection):
                found.append(problem)  # one by one: what was found before an error counts
    except UNREADABLE as error:
        found.append(Problem(str(error)))
    return found


def _format(connection: sqlite3.Connection, path: Path) -> Iterator[Problem]:
    check_format(connection, str(path))
    yield from ()


def _pages(connection: sqlite3.Connection, path: Path) -> Iterator[Problem]:
    (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
    if mode != "delete":
        yield Problem(f"its journal mode is {mode!r}")
    (count,) = connection.execute("PRAGMA page_count").fetchone()
    (size,) = connection.execute("PRAGMA page_size").fetchone()
    if path.stat().st_size != count * size:
        yield Problem("it has not the length that it should have; it was truncated or added to")
    for (message,) in connection.execute(f"PRAGMA integrity_check({_MOST_MESSAGES})"):
        if message != "ok":
            yield Problem(f"SQLite says: {message}")
    for table, *_ in connection.execute("PRAGMA foreign_key_check"):
        yield Problem(f"a row of table {table} belongs to a document that does not exist")


def _header(connection: sqlite3.Connection) -> Iterator[Problem]:
    try:
        header_in(connection)
    except UNREADABLE as error:
        yield Problem(f"its header cannot be used: {error}")


def _calls(connection: sqlite3.Connection) -> Iterator[Problem]:
    for _, owner, row in calls(connection):
        if row is None:
            yield Problem("a cached call is damaged; it will be made again", owner)


def _log(connection: sqlite3.Connection) -> Iterator[Problem]:
    log = connection.execute("SELECT sequence, document, removed FROM changes ORDER BY sequence")
    rows = log.fetchall()
    used = dict(connection.execute("SELECT name, seq FROM sqlite_sequence").fetchall())
    last, highest = used.get("changes", 0), used.get("documents", 0)
    if not all(type(value) is int for value in (last, highest, *chain(*rows))):
        yield Problem("the log of changes holds something else than numbers")
        return
    first = rows[0][0] if rows else last + 1
    if [sequence for sequence, *_ in rows] != list(range(first, last + 1)):
        yield Problem("the log of changes has gaps")
    known = _known(connection)
    state = {document: removed for _, document, removed in rows}
    if max((*known, *state), default=0) > highest:
        yield Problem("there is a number that was never given to a document")
    if any(removed != (document not in known) for document, removed in state.items()):
        yield Problem("the log of changes does not fit the documents")
    if first == 1 and not known <= state.keys():
        yield Problem("the log of changes lacks documents")


def _known(connection: sqlite3.Connection) -> set[int]:
    return {number for number, places in document_numbers(connection).items() if places > 1}


def _documents(database: Database, reporter: Reporter) -> tuple[tuple[str, ...], list[Problem]]:
    with moment(database) as connection:
        tried = sorted(document_numbers(connection))
        try:
            dimension = header_in(connection).dimension
        except UNREADABLE:
            dimension = guessed_dimension(connection) or 1
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
        still_there = _known(connection)
    return tuple(ids), [problem for number, problem in problems if number in still_there]


def _whole(connection: sqlite3.Connection, number: int, dimension: int) -> str:
    """Return the id of a document that nothing is wrong with; raises one of `UNREADABLE` for another."""
    found = read_rows(connection, number)
    if found is None:
        raise IndexCorrupt("only parts of it are there")
    rows, checksum = found
    entry = decode(rows, checksum=checksum, dimension=dimension)
    if encode(entry, dimension=dimension) != rows:
        raise IndexCorrupt("its search arrays are not those of its text; insert it again")
    return entry.document.id

"""Whether an index file is whole, what to save of one that is not, and making it small again."""

from __future__ import annotations

import filecmp
import os
import shutil
import sqlite3
import struct
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

from hwdag.errors import IndexCorrupt, IndexFileError, InputError, NotAnIndex
from hwdag.store import records
from hwdag.store.database import Database
from hwdag.store.erasure import insert_guarded
from hwdag.store.lock import build_lock
from hwdag.store.opening import check_folder, header_in
from hwdag.store.records import ARRAY_COLUMNS, CALL_COLUMNS, DOCUMENT_COLUMNS, NODE_COLUMNS, Row
from hwdag.store.rows import read_rows, write_rows
from hwdag.store.schema import PAGE_SIZE, check_format, expected
from hwdag.store.sqlite import Store, opened
from hwdag.store.unfinished import beside, explained, settle, sync
from hwdag.trace.bars import Reporter, as_reporter

_MOST_MESSAGES = 100  # of SQLite, about pages
_LEAST_BYTES = 100  # of the header of every SQLite database
_WAIT_SECONDS = 30.0  # for a build to end whose calls are to be dropped

_UNREADABLE = (sqlite3.Error, UnicodeDecodeError, OverflowError, IndexCorrupt, InputError)
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
            with _moment(database) as connection:
                check_format(connection, str(path))
                dimension = header_in(connection).dimension
        except _UNREADABLE as error:
            return Verdict((), (Problem(str(error)),))
        with _moment(database) as connection:
            problems = list(_file_problems(connection, path))
        whole, damage = _documents(database, dimension, as_reporter(show_progress))
    return Verdict(whole, tuple(dict.fromkeys((*problems, *damage))))


def _file_problems(connection: sqlite3.Connection, path: Path) -> Iterator[Problem]:
    """Yield what is wrong with pages and calls; what ends the check is a problem too."""
    try:
        (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
        if mode != "delete":
            yield Problem(f"its journal mode is {mode!r}")
        if path.stat().st_size != _size(connection):
            yield Problem("it has not the length that it should have; it was truncated or added to")
        for (message,) in connection.execute(f"PRAGMA integrity_check({_MOST_MESSAGES})"):
            if message != "ok":
                yield Problem(f"SQLite says: {message}")
        for table, *_ in connection.execute("PRAGMA foreign_key_check"):
            yield Problem(f"a row of table {table} belongs to a document that does not exist")
        for _, owner, row in _calls(connection):
            if row is None:
                yield Problem("a cached call is damaged; it will be made again", owner)
    except _UNREADABLE as error:
        yield Problem(str(error))


def _documents(
    database: Database, dimension: int, reporter: Reporter
) -> tuple[tuple[str, ...], list[Problem]]:
    with _moment(database) as connection:
        tried = sorted(_document_numbers(connection))
    ids, problems = dict[str, None](), list[tuple[int, Problem]]()
    with reporter.stage("verify", len(tried), "documents") as advance:
        for number in tried:
            with _moment(database) as connection:
                try:
                    name = _whole(connection, number, dimension)
                    if name in ids:
                        raise IndexCorrupt("there are two documents with this id")
                    ids[name] = None
                except _UNREADABLE as error:
                    named = _id_of(connection, number)
                    what = str(error) if named is not None else f"number {number}: {error}"
                    problems.append((number, Problem(what, named)))
            advance()
    with _moment(database) as connection:  # what was deleted meanwhile is not missing
        places = _document_numbers(connection)
    return tuple(ids), [problem for number, problem in problems if places[number] > 1]


def _whole(connection: sqlite3.Connection, number: int, dimension: int) -> str:
    """Return the id of a document; raises one of `_UNREADABLE` if something is wrong with it."""
    found = read_rows(connection, number)
    if found is None:
        raise IndexCorrupt("only parts of it are there")
    rows, checksum = found
    entry = records.decode(rows, checksum=checksum, dimension=dimension)
    if records.encode(entry, dimension=dimension) != rows:
        raise IndexCorrupt("its search arrays are not those of its text; insert it again")
    return entry.document.id


# Repair


@dataclass(frozen=True, slots=True)
class Repaired:
    """What a repair did.

    Attributes:
        path: the file that is whole now.
        damaged: the file that is not; None if nothing had to be done.
        kept: ids of the documents in it, in order.
        lost: ids of the documents that are not; inserting them again makes it complete.
        unnamed: documents that were lost and whose ids cannot be read.
        calls: cached model calls in it; those that were damaged, `lost_calls`, will be made again.
    """

    path: Path
    damaged: Path | None
    kept: tuple[str, ...]
    lost: tuple[str, ...] = ()
    unnamed: int = 0
    calls: int = 0
    lost_calls: int = 0


def repair(
    path: str | os.PathLike[str],
    output: str | os.PathLike[str] | None = None,
    *,
    show_progress: bool | Reporter = False,
) -> Repaired:
    """Save every document that is whole, and every cached call, into a new file.

    The new file takes the place of the old one, which is kept as `FILE.damaged`; or it is written to
    `output`. Other programs should have closed the file. A file that is sound is left alone.

    The first page and the number of pages are the same in every file of that length, so they cost
    nothing. Of the rest a document is saved if all of it can be read and its checksums hold.

    Raises:
        InputError: `output` exists, or `FILE.damaged` and is another file.
        IndexFileError: there is no such file, or the new one cannot be written.
        IndexCorrupt: nothing can be saved, or the header is damaged.
    """
    path = Path(path).resolve()
    reporter = as_reporter(show_progress)
    sound = False
    with suppress(NotAnIndex):  # because of its first bytes, or indeed; what can be saved decides
        verdict = verify(path, show_progress=reporter)
        sound = verdict.sound
        if sound and output is None:
            return Repaired(path, None, verdict.whole)
    target = path.with_name(f"{path.name}.damaged") if output is None else Path(output).resolve()
    check_folder(target)
    # why compared: a repair that was killed has put the damaged file there already
    if target.exists() and (output is not None or not filecmp.cmp(path, target, shallow=False)):
        raise InputError(f"{target} exists; move it away, or name another output")
    with explained(), beside(path if output is None else target) as unfinished:
        repaired = _save(path, unfinished, reporter)
        if not (sound or repaired.kept or repaired.calls):
            raise _nothing_in(path)
        if not verify(unfinished).sound:
            raise IndexFileError(
                f"what was saved of {path} is damaged again; {path} stays as it was: check the disk"
            )
        if output is not None:
            settle(unfinished, target)
            return replace(repaired, path=target, damaged=None if sound else path)
        _exchange(unfinished, path, target)
    return replace(repaired, path=path, damaged=target)


def _save(path: Path, unfinished: Path, reporter: Reporter) -> Repaired:
    with beside(unfinished) as copy:
        shutil.copyfile(path, copy)
        _restore_first_page(copy)
        with (
            closing(Database(copy, readonly=True)) as database,
            _moment(database) as connection,
        ):
            try:
                header = header_in(connection)
            except _UNREADABLE as error:
                raise _nothing_in(path) from error
            with Store.create(unfinished, header) as store, store.database.writing() as target:
                return _Copying(connection, target, header.dimension).run(path, reporter)


def _restore_first_page(path: Path) -> None:
    definitions, page = expected()
    pages = max(-(-path.stat().st_size // PAGE_SIZE), len(definitions) + 1)
    first = bytearray(page)
    # see https://www.sqlite.org/fileformat.html#the_database_header
    # changes, pages, first free one, free ones
    struct.pack_into(">IIII", first, 24, 1, pages, 0, 0)
    struct.pack_into(">I", first, 92, 1)  # changes at which the number of pages was right
    os.truncate(path, pages * PAGE_SIZE)
    with path.open("rb+") as file:
        file.write(first)


class _Copying:
    """One-use: copies what is whole into a new file, and counts what is not."""

    def __init__(
        self, source: sqlite3.Connection, target: sqlite3.Connection, dimension: int
    ) -> None:
        self._source = source
        self._target = target
        self._dimension = dimension
        self._nodes = defaultdict[int, list[int]](list)  # numbers of rows by document, in order
        for number in sorted(_numbers(source, *_NODES)):
            select = "SELECT document FROM nodes NOT INDEXED WHERE number = ?"
            for (document,) in _readable(source, select, number):
                self._nodes[document].append(number)

    def run(self, path: Path, reporter: Reporter) -> Repaired:
        places = _document_numbers(self._source)
        kept, lost = dict[str, None](), list[str | None]()
        with reporter.stage("repair", len(places), "documents") as advance:
            for number in sorted(places):
                try:
                    kept[self._copy(number, kept)] = None
                except _UNREADABLE:
                    if places[number] > 1:  # one place alone may err
                        lost.append(_id_of(self._source, number))
                advance()
        calls = lost_calls = 0
        for number, _, row in _calls(self._source):
            if row is None:
                lost_calls += 1
            else:
                calls += 1
                insert_guarded(self._target, "calls", ("number", *CALL_COLUMNS), [(number, *row)])
        named = dict.fromkeys(name for name in lost if name is not None and name not in kept)
        return Repaired(path, None, tuple(kept), tuple(named), lost.count(None), calls, lost_calls)

    def _copy(self, number: int, kept: Mapping[str, None]) -> str:
        """Copy a document; raises one of `_UNREADABLE` if it is not whole, or is there already."""
        select = f"SELECT last_call, checksum, {', '.join(DOCUMENT_COLUMNS)} FROM documents"
        row = next(self._source.execute(f"{select} WHERE number = ?", [number]), None)
        if row is None:
            raise IndexCorrupt("only parts of it are there")
        last_call, checksum, *document = row
        select = f"SELECT {', '.join(NODE_COLUMNS)} FROM nodes WHERE number = ?"
        nodes = [self._source.execute(select, [n]).fetchone() for n in self._nodes[number]]
        select = f"SELECT {', '.join(ARRAY_COLUMNS)} FROM arrays WHERE document = ?"
        arrays = self._source.execute(select, [number]).fetchone()
        rows = records.DocumentRows(tuple(document), nodes, arrays or ())
        name = records.decode(rows, checksum=checksum, dimension=self._dimension).document.id
        if name in kept:
            raise IndexCorrupt("there are two documents with this id")
        last = last_call if isinstance(last_call, int) else 0
        write_rows(self._target, rows, last, number)
        return name


def _exchange(unfinished: Path, path: Path, damaged: Path) -> None:
    """Put the new file in the place of the old one, which gets another name first."""
    if not damaged.exists():
        try:
            os.link(path, damaged)
        except OSError:  # a file system without links
            with beside(damaged) as copy:
                shutil.copyfile(path, copy)
                settle(copy, damaged)
    sync(damaged)
    for ending in ("-journal", "-wal", "-shm"):
        leftover = path.with_name(path.name + ending)
        if leftover.exists():  # SQLite would apply it to the new file
            leftover.rename(damaged.with_name(damaged.name + ending))
    unfinished.replace(path)
    sync(path.parent)


def _nothing_in(path: Path) -> IndexCorrupt:
    return IndexCorrupt(
        f"nothing of {path} can be saved; check the path, restore a copy of the file, or build anew"
    )


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

_DOCUMENTS = (
    ("number", "documents NOT INDEXED"),
    ("number", "documents INDEXED BY documents_by_slot"),
    ("document", "arrays NOT INDEXED"),
    ("document", "nodes INDEXED BY nodes_by_position"),
)
"""Columns and places that know the numbers of documents."""

_NODES = (("number", "nodes NOT INDEXED"), ("number", "nodes INDEXED BY nodes_by_position"))
_CALLS = (("number", "calls NOT INDEXED"), ("number", "calls INDEXED BY calls_by_slot"))


def _readable(connection: sqlite3.Connection, query: str, *values: Any) -> Iterator[Row]:
    """Yield the rows before the first that cannot be read."""
    try:
        yield from connection.execute(query, values)
    except _UNREADABLE:
        return


def _numbers(connection: sqlite3.Connection, *places: tuple[str, str]) -> set[int]:
    """Read a column of numbers from both sides: a bad page hides what is behind it."""
    found: set[object] = set()
    for columns, table in places:
        for query in (
            f"SELECT {columns} FROM {table}",
            f"SELECT {columns} FROM {table} ORDER BY rowid DESC",
        ):
            found.update(number for (number,) in _readable(connection, query))
    return {number for number in found if isinstance(number, int) and number > 0}


def _document_numbers(connection: sqlite3.Connection) -> Counter[int]:
    """Count how many places know of each number of a document; one place alone may err."""
    return Counter(chain.from_iterable(_numbers(connection, place) for place in _DOCUMENTS))


def _calls(connection: sqlite3.Connection) -> Iterator[tuple[int, str | None, Row | None]]:
    """Yield number, owner and row of every cached call; the row is None where it is damaged."""
    select = f"SELECT {', '.join(CALL_COLUMNS)} FROM calls WHERE number = ?"
    for number in sorted(_numbers(connection, *_CALLS)):
        row = next(_readable(connection, select, number), None)
        _, _, owner, tenant, key, _, value = row or CALL_COLUMNS
        texts = isinstance(owner, str | None) and isinstance(tenant, str | None)
        typed = texts and isinstance(key, bytes) and isinstance(value, bytes)
        sound = typed and records.encode_call(owner, tenant, key, value) == row
        yield number, owner if row and isinstance(owner, str) else None, row if sound else None


def _id_of(connection: sqlite3.Connection, number: int) -> str | None:
    select = "SELECT slot, id FROM documents WHERE number = ?"
    for slot, found in _readable(connection, select, number):
        if isinstance(found, str) and slot == records.slot_of(found):
            return found
    return None


@contextmanager
def _moment(database: Database) -> Iterator[sqlite3.Connection]:
    """Read all inside of one moment; nobody is waited for once it has begun."""
    finished = False
    try:
        with database.reading() as connection:
            yield connection
            finished = True
    except IndexCorrupt:
        if not finished:  # else it is about pages that were met before
            raise

"""Copies documents from file to file: `merge` of several files, `repair` of a damaged one."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from hwdag.errors import IndexCorrupt, IndexFileError, IndexMismatch, InputError
from hwdag.store import records
from hwdag.store.database import Database
from hwdag.store.erasure import insert_guarded
from hwdag.store.records import read_rows, write_rows
from hwdag.store.schema import PENDING, Header, check_format
from hwdag.store.sqlite import Store, check_free, header_in
from hwdag.store.unfinished import new_file
from hwdag.store.verify import UNREADABLE, id_of, moment, numbers_of, sound_calls
from hwdag.trace.bars import Reporter, as_reporter


def merge(
    paths: Sequence[str | os.PathLike[str]],
    path: str | os.PathLike[str],
    *,
    show_progress: bool | Reporter = False,
) -> None:
    """Copy the documents of index files, in their order, into a new one; see `HWDAGIndex.merge`."""
    if isinstance(paths, str | os.PathLike) or not paths:
        raise InputError(f"paths must be a list of index files, got {paths!r}")
    with ExitStack() as stack:
        sources = [stack.enter_context(Store.open(one, readonly=True)) for one in paths]
        _check_alike(sources)
        total = sum(map(len, sources))
        advance = stack.enter_context(as_reporter(show_progress).stage("merge", total, "documents"))
        new = stack.enter_context(_new_file(path, sources[0].header))
        target = stack.enter_context(new.database.writing())
        found = dict[str, Store]()
        for source in sources:
            connection = stack.enter_context(source.database.reading())
            before = _copy_calls(connection, new, target)
            for number in numbers_of(connection):
                name = id_of(connection, number) or f"number {number}"
                if name in found:
                    raise InputError(
                        f"document {name!r} is in {found[name].name} and in {source.name}; delete it "
                        "from one of them"
                    )
                found[name] = source
                try:
                    _copy(connection, new, target, number, before)
                except UNREADABLE as error:
                    raise IndexCorrupt(
                        f"document {name!r} of {source.name} is damaged: {error}; run `hwdag repair`"
                    ) from error
                advance()


def _check_alike(sources: Sequence[Store]) -> None:
    """Raise `IndexMismatch` unless all were built with the same models and config."""
    first = sources[0]
    for other in sources[1:]:
        one, two = (
            {
                "reader": h.reader,
                "tokenizer": h.tokenizer,
                "embedder": h.embedder,
                "dimension": h.dimension,
                **h.config,
            }
            for h in (first.header, other.header)
        )
        if differing := [key for key in one | two if one.get(key) != two.get(key)]:
            key = differing[0]
            raise IndexMismatch(
                f"{other.name} was built with {key}={two.get(key)!r} and {first.name} with "
                f"{one.get(key)!r}; build files to be merged with the same models and options"
            )


@dataclass(frozen=True, slots=True)
class Repaired:
    """Result of a repair: the new file, the ids of its documents, and those of lost ones.

    A lost document whose id is unreadable is called "number N".
    """

    path: Path
    kept: tuple[str, ...]
    lost: tuple[str, ...] = ()


def repair(
    path: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    show_progress: bool | Reporter = False,
) -> Repaired:
    """Copy every document whose checksums hold, and every cached call, into a new file.

    The damaged file does not change, except that the journal of a killed writer is rolled back.
    Companion files that hwdag did not write are not used. Close the file in other programs first.

    Raises:
        InputError: `output` exists.
        IndexFileError: the file is missing, or the new one cannot be written.
        NotAnIndex, IndexVersionError: it is no index, or has another format.
        IndexCorrupt: nothing can be saved, since the header or the first page is damaged.
    """
    path, kept, lost = Path(path).resolve(), dict[str, None](), list[str]()
    if not path.is_file():
        raise IndexFileError(f"there is no file {path}; check the path")
    with suppress(IndexFileError):
        Database(path).close()
    with (
        _reading_alone(path) as (source, header),
        _new_file(output, header) as new,
        new.database.writing() as target,
    ):
        _copy_calls(source, new, target)
        numbers = numbers_of(source)
        reporter = as_reporter(show_progress)
        with reporter.stage("repair", len(numbers), "documents") as advance:
            for number in numbers:
                try:
                    kept[_copy(source, new, target, number)] = None
                except UNREADABLE:
                    lost.append(id_of(source, number) or f"number {number}")
                advance()
        if lost and not kept:
            raise _nothing_in(path)
    return Repaired(Path(output).resolve(), tuple(kept), tuple(lost))


@contextmanager
def _reading_alone(path: Path) -> Iterator[tuple[sqlite3.Connection, Header]]:
    try:
        database = Database(path, alone=True)
    except IndexCorrupt as error:
        raise _nothing_in(path) from error
    with closing(database), moment(database) as connection:
        try:
            check_format(connection, str(path), tables_only=True)
            header = header_in(connection)
        except UNREADABLE as error:
            raise _nothing_in(path) from error
        yield connection, header


def _nothing_in(path: Path) -> IndexCorrupt:
    return IndexCorrupt(
        f"nothing of {path} can be saved; check the path, restore a copy of the file, or build it again"
    )


@contextmanager
def _new_file(path: str | os.PathLike[str], header: Header) -> Iterator[Store]:
    """Create an index that gets its name when it is complete."""
    target = Path(path).resolve()
    check_free(target)
    with new_file(target) as unfinished, Store.create(unfinished, header) as store:
        yield store


def _copy(
    source: sqlite3.Connection, new: Store, target: sqlite3.Connection, number: int, before: int = 0
) -> str:
    """Copy a document and return its id. Raises one of `UNREADABLE` if its checksum does not match."""
    found = read_rows(source, number)
    if found is None:
        raise IndexCorrupt("parts of it are missing")
    rows, checksum = found
    name = records.decode(rows, checksum=checksum, dimension=new.header.dimension).document.id
    query = "SELECT last_call FROM documents WHERE number = ?"
    ((last,),) = source.execute(query, [number]).fetchall()
    new.database.bound(writing=True)
    last = last if isinstance(last, int) else 0
    write_rows(target, rows, last if last == PENDING else before + last)
    return name


def _copy_calls(source: sqlite3.Connection, new: Store, target: sqlite3.Connection) -> int:
    """Copy the intact calls; returns the offset of their new numbers."""
    (before,) = target.execute("SELECT coalesce(max(number), 0) FROM calls").fetchone()
    columns = ("number", *records.CALL_COLUMNS)
    for number, _, row in sound_calls(source):
        if row is not None:
            new.database.bound(writing=True)
            insert_guarded(target, "calls", columns, [(before + number, *row)])
    return int(before)

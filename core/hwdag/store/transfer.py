"""Copies documents from file to file: `merge` of several, `repair` of a damaged one, `reembed` of one."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from hwdag.arrays import Vectors
from hwdag.errors import IndexCorrupt, IndexFileError, IndexMismatch, InputError
from hwdag.store import records
from hwdag.store.atomic_files import file_errors, new_file, unfinished_file
from hwdag.store.database import Database
from hwdag.store.erasure import drop_arrays, insert_guarded, sync
from hwdag.store.records import DocumentRows, write_rows
from hwdag.store.schema import PENDING, Header, check_format
from hwdag.store.sqlite import Store, check_free, header_in
from hwdag.store.verify import UNREADABLE, id_of, moment, numbers_of, read_document, sound_calls
from hwdag.text.draft import Draft
from hwdag.trace.bars import Reporter, as_reporter
from hwdag.types import Node


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
                with records.naming(name, source.name, UNREADABLE):
                    _, rows, last_call = read_document(connection, number, source.header.dimension)
                _write(new, target, rows, last_call, before)
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
        _at_full_length(path, Path(output).resolve()) as whole,
        _reading_alone(whole, path) as (source, header),
        _new_file(output, header) as new,
        new.database.writing() as target,
    ):
        _copy_calls(source, new, target)
        numbers = numbers_of(source)
        reporter = as_reporter(show_progress)
        with reporter.stage("repair", len(numbers), "documents") as advance:
            for number in numbers:
                try:
                    entry, rows, last_call = read_document(source, number, header.dimension)
                except UNREADABLE:
                    lost.append(id_of(source, number) or f"number {number}")
                else:
                    _write(new, target, rows, last_call)
                    kept[entry.document.id] = None
                advance()
        if lost and not kept:
            raise _nothing_in(path)
    return Repaired(Path(output).resolve(), tuple(kept), tuple(lost))


def reembed(
    path: str | os.PathLike[str],
    embedder: str,
    dimension: int,
    embed: Callable[[Sequence[Node]], Vectors],
    *,
    show_progress: bool | Reporter = False,
) -> bool:
    """Replace an index file by one with other embeddings; see `HWDAGIndex.reembed`.

    The caller holds the build lock. `embed` returns (nodes, dimension). A document that another process
    deletes meanwhile is not in the new file.
    """
    with Store.open(path) as store:
        if store.header.embedder == embedder:
            return False
        place = Path(path).resolve()
        header = replace(store.header, embedder=embedder, dimension=dimension)
        with (
            file_errors(),
            unfinished_file(place) as unfinished,
            Store.create(unfinished, header) as new,
        ):
            shutil.copymode(place, unfinished)
            numbers = _copy_embedded(store, new, embed, as_reporter(show_progress))
            with store.database.writing() as source:  # nobody deletes a document before it ends
                _copy_what_is_left(source, new, numbers)
                new.close()
                if not store.database.is_in(place):
                    raise IndexFileError(f"{place} was replaced by another process; try again")
                unfinished.replace(place)
                drop_arrays(place)
                sync(place.parent)
    return True


def _copy_embedded(
    store: Store, new: Store, embed: Callable[[Sequence[Node]], Vectors], reporter: Reporter
) -> dict[int, int]:
    """Copy all documents with new embeddings; returns their new numbers by the old ones."""
    copied = dict[int, int]()
    numbers = store.numbers()
    with (
        reporter.stage("reembed", len(numbers), "documents") as advance,
        new.database.writing() as target,
    ):
        for number in numbers:
            with store.database.reading() as source:
                query = "SELECT 1 FROM documents WHERE number = ?"
                if source.execute(query, [number]).fetchone() is None:
                    continue  # deleted since
                name = id_of(source, number) or f"number {number}"
                with records.naming(name, store.name, UNREADABLE):
                    entry, _, last_call = read_document(source, number, store.header.dimension)
            vectors, dimension = embed(entry.graph.nodes), new.header.dimension
            rows = records.encode(Draft(entry.document), entry.graph, vectors, dimension=dimension)
            copied[number] = _write(new, target, rows, last_call)
            advance()
    return copied


def _copy_what_is_left(source: sqlite3.Connection, new: Store, copied: Mapping[int, int]) -> None:
    """Copy the calls, and drop the documents that were deleted since they were copied."""
    with new.database.writing() as target:
        for number in copied.keys() - set(numbers_of(source)):
            target.execute("DELETE FROM documents WHERE number = ?", [copied[number]])
        _copy_calls(source, new, target)


@contextmanager
def _at_full_length(path: Path, output: Path) -> Iterator[Path]:
    """Yield a file, or, if it was cut short (SQLite refuses it), a copy that ends in blank pages."""
    with path.open("rb") as file:
        head = file.read(32)
    # https://www.sqlite.org/fileformat.html#the_database_header
    page, pages = int.from_bytes(head[16:18]), int.from_bytes(head[28:32])
    size = (page if page > 1 else 1 << 16) * pages
    if path.stat().st_size >= size:
        yield path
        return
    check_free(output)
    with unfinished_file(output) as copy:
        with file_errors():
            shutil.copyfile(path, copy)
            os.truncate(copy, size)
        yield copy


@contextmanager
def _reading_alone(path: Path, named: Path) -> Iterator[tuple[sqlite3.Connection, Header]]:
    """Open a file of which nobody else writes; errors call it `named`."""
    try:
        database = Database(path, alone=True)
    except IndexCorrupt as error:
        raise _nothing_in(named) from error
    with closing(database), moment(database) as connection:
        try:
            check_format(connection, str(named), tables_only=True)
            header = header_in(connection)
        except UNREADABLE as error:
            raise _nothing_in(named) from error
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


def _write(
    new: Store,
    target: sqlite3.Connection,
    rows: DocumentRows,
    last_call: int,
    before: int = 0,
) -> int:
    """Write the result of `read_document` after `before` calls; return the new number."""
    new.database.bound(writing=True)
    with new.database.errors():
        return write_rows(target, rows, last_call if last_call == PENDING else before + last_call)


def _copy_calls(source: sqlite3.Connection, new: Store, target: sqlite3.Connection) -> int:
    """Copy the intact calls; returns the offset of their new numbers."""
    before = _last_number(target)
    columns = ("number", *records.CALL_COLUMNS)
    for number, _, row in sound_calls(source):
        if row is not None:
            new.database.bound(writing=True)
            with new.database.errors():
                insert_guarded(target, "calls", columns, [(before + number, *row)])
    # why: calls to come must have larger numbers than the `last_call` of every document
    target.execute("DELETE FROM sqlite_sequence WHERE name = 'calls'")
    last = before + _last_number(source)
    target.execute("INSERT INTO sqlite_sequence (name, seq) VALUES ('calls', ?)", [last])
    return before


def _last_number(connection: sqlite3.Connection) -> int:
    """Return the largest number that a call ever had; 0 if there was none."""
    try:
        row = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'calls'").fetchone()
    except UNREADABLE:
        row = None
    return row[0] if row and isinstance(row[0], int) else 0

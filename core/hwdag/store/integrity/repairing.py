"""Saves what is whole of a damaged file into a new one."""

from __future__ import annotations

import filecmp
import json
import os
import shutil
import sqlite3
import struct
from collections import defaultdict
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hwdag.config import BuildConfig
from hwdag.errors import IndexCorrupt, IndexFileError, InputError, NotAnIndex
from hwdag.store.arrays import ARRAY_COLUMNS, MALFORMED
from hwdag.store.database import Database
from hwdag.store.erasure import insert_guarded
from hwdag.store.integrity.damaged import (
    UNREADABLE,
    calls,
    document_numbers,
    guessed_dimension,
    id_of,
    moment,
    numbers,
    readable,
)
from hwdag.store.integrity.verifying import Verdict, verify
from hwdag.store.opening import header_in
from hwdag.store.records import (
    CALL_COLUMNS,
    DOCUMENT_COLUMNS,
    NODE_COLUMNS,
    DocumentRows,
    decode,
)
from hwdag.store.rows import write_rows
from hwdag.store.schema import PAGE_SIZE, Header, expected
from hwdag.store.sqlite import Store
from hwdag.store.unfinished import beside, explained, settle, sync
from hwdag.trace.bars import Reporter, as_reporter

_BESIDE = ("-journal", "-wal", "-shm")
"""Endings of files that SQLite may have left; they belong to the damaged file alone."""


@dataclass(frozen=True, slots=True)
class Repaired:
    """What a repair did.

    Attributes:
        path: the file that is whole now.
        damaged: the file that is not; None if nothing had to be done.
        kept: ids of the documents in it, in order.
        lost: ids of the documents that are not in it; inserting them again makes it complete.
        unnamed: documents that were lost and whose ids cannot be read.
        calls: cached model calls in it.
        notes: in words, what else is not as it was.
    """

    path: Path
    damaged: Path | None
    kept: tuple[str, ...]
    lost: tuple[str, ...] = ()
    unnamed: int = 0
    calls: int = 0
    notes: tuple[str, ...] = ()


def repair(
    path: str | os.PathLike[str],
    output: str | os.PathLike[str] | None = None,
    *,
    reader: str | None = None,
    embedder: str | None = None,
    show_progress: bool | Reporter = False,
) -> Repaired:
    """Save every document that is whole, and every cached call, into a new file.

    The new file takes the place of the old one, which is kept as `FILE.damaged`; or it is written to
    `output`, and the old one stays where it is. Other programs should have closed the file. A file
    that is sound is left alone.

    The first page and the number of pages are the same in every file of that length, so they cost
    nothing. Of the rest a document is saved if all of it can be read and its checksums hold.

    Args:
        path: an index file.
        output: a file that does not exist yet.
        reader: name of the reader, used where the file does not say it any more.
        embedder: name of the embedder, likewise.
        show_progress: `True` for a bar, or your own.

    Raises:
        InputError: `output` exists, or `FILE.damaged` and is another file.
        IndexFileError: there is no such file, or the new one cannot be written.
        IndexVersionError: of another format.
        IndexCorrupt: nothing can be saved, or nobody knows what it was built with.
    """
    path = Path(path).resolve()
    reporter = as_reporter(show_progress)
    sound = _if_sound(path, reporter)
    if sound and output is None:
        return Repaired(path, None, sound.whole)
    target = path.with_name(f"{path.name}.damaged") if output is None else Path(output).resolve()
    # why compared: a repair that was killed has put the damaged file there already
    if target.exists() and (output is not None or not filecmp.cmp(path, target, shallow=False)):
        raise InputError(f"{target} exists; move it away, or name another output")
    names = {"reader": reader, "embedder": embedder}
    with explained(), beside(path if output is None else target) as unfinished:
        repaired = _save(path, unfinished, names, reporter)
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


def _if_sound(path: Path, reporter: Reporter) -> Verdict | None:
    try:
        verdict = verify(path, show_progress=reporter)
    except NotAnIndex:  # because of its first bytes, or indeed; what can be saved decides
        return None
    return verdict if verdict.sound else None


def _save(
    path: Path, unfinished: Path, names: Mapping[str, str | None], reporter: Reporter
) -> Repaired:
    with beside(unfinished) as copy:
        shutil.copyfile(path, copy)
        _restore_first_page(copy)
        with (
            closing(Database(copy, create=False, readonly=True)) as database,
            moment(database) as connection,
        ):
            header, notes = _header(path, connection, names)
            with (
                Store.create(unfinished, header) as store,
                store.database.writing() as target,
            ):
                return _Copying(connection, target, header.dimension).run(path, notes, reporter)


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


def _header(
    path: Path, connection: sqlite3.Connection, names: Mapping[str, str | None]
) -> tuple[Header, tuple[str, ...]]:
    with suppress(*UNREADABLE):
        return header_in(connection), ()
    values: dict[str, Any] = {}
    for name, value in readable(connection, "SELECT name, value FROM header LIMIT 99"):
        with suppress(*MALFORMED):
            values[name] = json.loads(value)
    values |= {name: value for name, value in names.items() if value is not None}
    dimension = guessed_dimension(connection) or values.get("dimension")
    if type(dimension) is not int or dimension < 1:
        raise _nothing_in(path)
    missing = [name for name in names if not isinstance(values.get(name), str)]
    if missing:
        raise IndexCorrupt(
            f"{path} does not say any more which {' and '.join(missing)} it was built with; say it "
            f"with {' and '.join(f'{name}=NAME' for name in missing)}, on the command line "
            f"{' '.join(f'--{name} NAME' for name in missing)}"
        )
    try:
        BuildConfig.from_dict(config := values["config"])
    except MALFORMED:
        config = {}  # the defaults
    header = Header(values["reader"], values["embedder"], dimension, config)
    return header, (f"the header was damaged and is a guess, check it: {header}",)


_NODES = (
    "SELECT number FROM nodes NOT INDEXED ORDER BY number",
    "SELECT number FROM nodes NOT INDEXED ORDER BY number DESC",
    "SELECT number FROM nodes INDEXED BY nodes_by_position ORDER BY document, position",
)


class _Copying:
    """One-use: copies what is whole into a new file, and counts what is not."""

    def __init__(
        self, source: sqlite3.Connection, target: sqlite3.Connection, dimension: int
    ) -> None:
        self._source = source
        self._target = target
        self._dimension = dimension
        self._nodes = defaultdict[int, list[int]](list)  # numbers of rows by document, in order
        for number in sorted(numbers(source, _NODES)):
            select = "SELECT document FROM nodes NOT INDEXED WHERE number = ?"
            for (document,) in readable(source, select, number):
                self._nodes[document].append(number)

    def run(self, path: Path, notes: tuple[str, ...], reporter: Reporter) -> Repaired:
        places = document_numbers(self._source)
        kept, lost = dict[str, None](), list[str | None]()
        with reporter.stage("repair", len(places), "documents") as advance:
            for number in sorted(places):
                try:
                    kept[self._copy(number, kept)] = None
                except UNREADABLE:
                    if places[number] > 1:  # one place alone may err
                        lost.append(id_of(self._source, number))
                advance()
        saved, damaged = self._copy_calls()
        if damaged:
            notes += (f"cached calls that were damaged: {damaged}; they will be made again",)
        named = dict.fromkeys(name for name in lost if name is not None and name not in kept)
        return Repaired(path, None, tuple(kept), tuple(named), lost.count(None), saved, notes)

    def _copy(self, number: int, kept: Mapping[str, None]) -> str:
        """Copy a document; raises one of `UNREADABLE` if it is not whole, or is there already."""
        select = f"SELECT last_call, checksum, {', '.join(DOCUMENT_COLUMNS)} FROM documents"
        row = next(self._source.execute(f"{select} WHERE number = ?", [number]), None)
        if row is None:
            raise IndexCorrupt("only parts of it are there")
        last_call, checksum, *document = row
        select = f"SELECT {', '.join(NODE_COLUMNS)} FROM nodes WHERE number = ?"
        nodes = [self._source.execute(select, [n]).fetchone() for n in self._nodes[number]]
        select = f"SELECT {', '.join(ARRAY_COLUMNS)} FROM arrays WHERE document = ?"
        arrays = self._source.execute(select, [number]).fetchone()
        rows = DocumentRows(tuple(document), nodes, arrays or ())
        name = decode(rows, checksum=checksum, dimension=self._dimension).document.id
        if name in kept:
            raise IndexCorrupt("there are two documents with this id")
        last = last_call if isinstance(last_call, int) else 0
        write_rows(self._target, rows, last, number)
        return name

    def _copy_calls(self) -> tuple[int, int]:
        """Copy whole calls; returns how many were whole, and how many were not."""
        saved = damaged = 0
        for number, _, row in calls(self._source):
            if row is None:
                damaged += 1
            else:
                saved += 1
                insert_guarded(self._target, "calls", ("number", *CALL_COLUMNS), [(number, *row)])
        return saved, damaged


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
    for ending in _BESIDE:
        leftover = path.with_name(path.name + ending)
        if leftover.exists():  # SQLite would apply it to the new file
            leftover.rename(damaged.with_name(damaged.name + ending))
    unfinished.replace(path)
    sync(path.parent)


def _nothing_in(path: Path) -> IndexCorrupt:
    return IndexCorrupt(
        f"nothing of {path} can be saved; check the path, restore a copy of the file, or build anew"
    )

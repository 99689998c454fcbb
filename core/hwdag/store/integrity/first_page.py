"""The first pages of a file, which say where every table begins and which columns it has.

A single wrong byte there hides all documents, though every one of them may be whole. But little of
them differs between files: new ones, and compacted ones, have their tables at known places.
"""

from __future__ import annotations

import re
import shutil
import sqlite3
import struct
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from functools import cache
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

from hwdag.errors import IndexCorrupt, NotAnIndex
from hwdag.store.database import PAGE_SIZE
from hwdag.store.integrity.signs import UNREADABLE, readable
from hwdag.store.integrity.survey import dimension_of, moment, opened, survey_of
from hwdag.store.migrations import OLD_VERSIONS
from hwdag.store.placing import beside
from hwdag.store.schema import APPLICATION_ID, SCHEMA_VERSION, TABLES

_BLANK = re.compile(r"(?:[ \t\n\f\r]|--.*)+")
"""What is no more than a blank to SQLite, comments included."""

_INTERIOR = 5
"""Type of a page that refers to others."""

_HEADER = 100
"""Bytes before the definitions, see https://www.sqlite.org/fileformat.html#the_database_header."""


class Definition(NamedTuple):
    """Of a table or an index, without comments, which may change within a version."""

    type: object
    name: object
    table: object
    sql: str


def definitions(connection: sqlite3.Connection) -> dict[Definition, object]:
    """The page where everything begins, as far as that can be read."""
    select = "SELECT type, name, tbl_name, sql, rootpage FROM sqlite_master"
    return {
        Definition(kind, name, table, _BLANK.sub(" ", str(sql)).strip()): page
        for kind, name, table, sql, page in readable(connection, select)[0]
    }


def expected() -> Mapping[Definition, object]:
    """The definitions of a new file."""
    return _layouts()[0].pages


def in_order(connection: sqlite3.Connection) -> bool:
    """Whether everything is defined as it should be, and begins where it may."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version in OLD_VERSIONS:
        return True
    found = definitions(connection)
    if found.keys() != expected().keys():
        return False
    known = max(sum(found[d] == page for d, page in one.pages.items()) for one in _layouts())
    return known == len(found) or known <= len(found) / 2  # the latter: it was migrated once


@contextmanager
def readable_file(path: Path) -> Iterator[Path]:
    """The file, or a copy with the first pages from which most can be saved.

    Raises:
        IndexCorrupt: nothing can be saved, whatever the first pages are.
    """
    if _is_in_order(path):
        yield path
        return
    with beside(path) as copy:
        shutil.copyfile(path, copy)
        pages = -(-path.stat().st_size // PAGE_SIZE)
        found = [(_wealth(copy, one), one) for one in _candidates(_read_page(copy, 1), pages)]
        wealth, best = max(found, key=itemgetter(0))
        if not wealth:
            raise nothing_in(path)
        _write_pages(copy, best)
        yield copy


def _is_in_order(path: Path) -> bool:
    with (
        suppress(IndexCorrupt, NotAnIndex),
        closing(opened(path)) as database,
        moment(database) as connection,
    ):
        return in_order(connection)
    return False


def _wealth(copy: Path, pages: Mapping[int, bytes]) -> int:
    """How much could be read with these pages: documents, groups and the header."""
    before = {number: _read_page(copy, number) for number in pages}
    _write_pages(copy, pages)
    count = 0
    with (
        suppress(*UNREADABLE, NotAnIndex),
        closing(opened(copy)) as database,
        moment(database) as connection,
    ):
        survey = survey_of(connection)
        dimension = dimension_of(survey) or 1
        for number in survey.signs().tried:
            with suppress(*UNREADABLE):
                count += survey.find(number, dimension) is not None
        survey.header()
        count += 1
    _write_pages(copy, before)
    return count


def _read_page(path: Path, number: int) -> bytes:
    with path.open("rb") as file:
        file.seek((number - 1) * PAGE_SIZE)
        return file.read(PAGE_SIZE)


def _write_pages(path: Path, pages: Mapping[int, bytes]) -> None:
    with path.open("rb+") as file:
        for number, page in pages.items():
            file.seek((number - 1) * PAGE_SIZE)
            file.write(page)


def nothing_in(path: Path) -> IndexCorrupt:
    """The error for a file that nothing can be saved of."""
    return IndexCorrupt(
        f"nothing of {path} can be saved; check the path, restore a copy of the file, or build anew"
    )


def _candidates(first_page: bytes, pages: int) -> Iterator[dict[int, bytes]]:
    """Pages by number that a file of so many pages, which begins with this one, may have had."""
    for layout in _layouts():
        yield layout.written | {1: _header(pages) + layout.written[1][_HEADER:]}
    yield {1: _header(pages) + first_page[_HEADER:]}
    yield {}


class _Layout(NamedTuple):
    """Where everything begins, and the pages that say so."""

    pages: Mapping[Definition, object]
    written: dict[int, bytes]


@cache
def _layouts() -> tuple[_Layout, _Layout]:
    """Of a new file, and of a compacted one."""
    with closing(sqlite3.connect(":memory:")) as fresh:
        fresh.execute(f"PRAGMA page_size = {PAGE_SIZE}")
        fresh.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        fresh.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        fresh.executescript(TABLES)
        new = _Layout(definitions(fresh), _written(fresh.serialize()))
        fresh.execute("VACUUM")
        return new, _Layout(definitions(fresh), _written(fresh.serialize()))


def _written(file: bytes) -> dict[int, bytes]:
    """The pages of the table of definitions: the first, and those that it refers to, if any.

    See https://www.sqlite.org/fileformat.html#b_tree_pages.
    """
    first = file[:PAGE_SIZE]
    numbers = [1]
    if first[_HEADER] == _INTERIOR:
        cells, last = struct.unpack_from(">3xH3xI", first, _HEADER)
        places = struct.unpack_from(f">{cells}H", first, _HEADER + 12)
        numbers += [last, *(struct.unpack_from(">I", first, place)[0] for place in places)]
    return {n: file[(n - 1) * PAGE_SIZE : n * PAGE_SIZE] for n in numbers}


def _header(pages: int) -> bytes:
    """Of a file with so many pages, none of them free: no harm where nothing is written."""
    header = bytearray(_layouts()[0].written[1][:_HEADER])
    struct.pack_into(
        ">IIII", header, 24, 1, pages, 0, 0
    )  # changes, pages, first free one, free ones
    struct.pack_into(">I", header, 92, 1)  # changes at which the number of pages was right
    return bytes(header)

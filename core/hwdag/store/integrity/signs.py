"""Which rows a damaged table has.

A table is a tree of pages, so a bad page hides the rows below it. What rows there are is learnt from
both ends of the table and from its indexes; then one number is tried after the other.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from hwdag.errors import IndexCorrupt, InputError
from hwdag.store.arrays import Row

UNREADABLE = (sqlite3.Error, UnicodeDecodeError, OverflowError, IndexCorrupt, InputError)
"""What reading a damaged file raises."""

MOST_NUMBERS = 10_000_000
"""Numbers that are tried one by one; a damaged file may claim to have used any number."""


class Signs(NamedTuple):
    """Numbers of rows: those that are or were in use, and those worth trying."""

    known: frozenset[int]
    tried: list[int]


def signs_of(
    connection: sqlite3.Connection,
    sources: Sequence[Sequence[str]],
    table: str,
    *,
    witnesses: int,
) -> Signs:
    """What queries find; known is what so many sources, each of one or more queries, agree on."""
    found, complete = Counter[int](), True
    for queries in sources:
        seen = set[int]()
        for query in queries:
            rows, finished = readable(connection, query)
            seen.update(number for (number,) in rows if isinstance(number, int) and number > 0)
            complete &= finished
        found.update(seen)
    known = frozenset(number for number, count in found.items() if count >= witnesses)
    if complete:
        return Signs(known, sorted(found))
    rows, _ = readable(connection, "SELECT seq FROM sqlite_sequence WHERE name = ?", table)
    used = (number for (number,) in rows if isinstance(number, int))
    end = min(max((*found, *used), default=0), MOST_NUMBERS)
    return Signs(known, sorted({*found, *range(1, end + 1)}))


def readable(connection: sqlite3.Connection, query: str, *values: Any) -> tuple[list[Row], bool]:
    """Answer a query as far as possible: the rows before the first that cannot be read, and whether there was no such row."""
    rows = list[Row]()
    try:
        for row in connection.execute(query, values):
            rows.append(row)  # one by one: a comprehension would lose them all
    except UNREADABLE:
        return rows, False
    return rows, True

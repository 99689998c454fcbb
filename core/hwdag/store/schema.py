"""The one file format: a SQLite database, readable with any SQLite tool.

`application_id` marks a file as an index, `user_version` is its format. Tables hold only text, numbers
and little-endian arrays. Rows derived from a document reference its row in `documents` and are deleted
with it. The columns after a `guard` can be erased (`hwdag.store.erasure`). The columns before it hold
only numbers, and 64-bit hashes (`slot`) of ids and keys to find rows by.

All files have the same definitions and the same first pages of tables: first all tables, then all
indexes, short enough for the first page. A file with other definitions is not ours.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from typing import Any

from hwdag.errors import IndexCorrupt, IndexVersionError, NotAnIndex
from hwdag.version import __version__

APPLICATION_ID = 0x48574447  # the letters HWDG
SCHEMA_VERSION = 11  # raise it with every change of the format; other formats are refused

PAGE_SIZE = 4096
"""Bytes of a page. Larger ones (8 and 16 KiB) read long arrays no faster, and guards cost more."""

PENDING = -1
"""The `last_call` of a document whose points are still to be made."""

NODES_PER_ROW = 32
"""Nodes per row: reading one node reads few others, and guards stay cheap."""

CALLS = """\
-- A cache of model calls by a hash of their inputs, for interrupted builds and edited documents.
CREATE TABLE calls (
    number INTEGER PRIMARY KEY AUTOINCREMENT, -- never used twice
    owner_slot INTEGER,           -- hash of the owner, NULL for none
    key_slot INTEGER NOT NULL,    -- hash of the key
    guard BLOB NOT NULL,
    owner TEXT,                   -- id of the document, NULL for none
    key BLOB NOT NULL,            -- SHA-256 of everything that the result depends on
    checksum BLOB NOT NULL,       -- SHA-256 of owner, key and value
    value BLOB NOT NULL
);
CREATE INDEX calls_by_slot ON calls (owner_slot, key_slot);
"""

TABLES = f"""\
CREATE TABLE header (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL           -- JSON
) WITHOUT ROWID;

-- A version of a document.
CREATE TABLE documents (
    number INTEGER PRIMARY KEY AUTOINCREMENT, -- never used twice
    slot INTEGER NOT NULL,        -- hash of the id
    last_call INTEGER NOT NULL,   -- later calls of it belong to a version that is not finished;
                                  -- -1: it has leaves alone, and its points are still to be made
    node_count INTEGER NOT NULL,
    guard BLOB NOT NULL,
    checksum TEXT NOT NULL,       -- SHA-256 of all columns, here and below, but numbers and guards
    head_checksum INTEGER NOT NULL, -- CRC-32 of the other columns but number, guard and text
    id TEXT NOT NULL,             -- unique
    title TEXT NOT NULL,
    metadata TEXT NOT NULL,       -- JSON object
    content_hash TEXT NOT NULL,   -- SHA-256 of title, text and metadata
    text TEXT NOT NULL
);
CREATE INDEX documents_by_slot ON documents (slot);

CREATE TABLE nodes (
    number INTEGER PRIMARY KEY,
    document INTEGER NOT NULL REFERENCES documents (number) ON DELETE CASCADE,
    position INTEGER NOT NULL,    -- of the first node here: 0, 32, ... within the document
    guard BLOB NOT NULL,
    checksum INTEGER NOT NULL,    -- CRC-32 of the id of the document, position and data
    data TEXT NOT NULL            -- JSON: [[id, level, origin, text, tokens, sources, heading, line_tokens],
                                  -- ...] by level; sources [[start, end], ...] in the text of the document
);
CREATE UNIQUE INDEX nodes_by_position ON nodes (document, position);

-- What a search needs without reading texts. n nodes, e edges. The first eight arrays are derived
-- from the text and the nodes.
CREATE TABLE arrays (
    document INTEGER PRIMARY KEY REFERENCES documents (number) ON DELETE CASCADE,
    guard BLOB NOT NULL,
    checksum INTEGER NOT NULL,    -- CRC-32 of the id of the document and all columns below
    levels BLOB NOT NULL,         -- int32, (n,)
    generated BLOB NOT NULL,      -- bool, (n,)
    starts BLOB NOT NULL,         -- int64, (n,)
    ends BLOB NOT NULL,           -- int64, (n,)
    paragraphs BLOB NOT NULL,     -- int32, (n,)
    lengths BLOB NOT NULL,        -- int32, (n,): words
    words BLOB NOT NULL,          -- postings of k keys: k int64, keys int64 (k,), indptr int64 (k + 1,),
                                  -- rows int32, counts int32
    names BLOB NOT NULL,          -- postings
    indptr BLOB NOT NULL,         -- int32, (n + 1,): where the edges of each node begin
    children BLOB NOT NULL,       -- int32, (e,): position of the child within its document
    attention BLOB NOT NULL,      -- float64, (e,): before normalisation
    vectors BLOB NOT NULL         -- float32, (n, dimension)
);

{CALLS}"""

_BLANK = re.compile(r"(?:\s|--.*)+")  # white space to SQLite, comments included


def statements(tables: str) -> list[str]:
    """Split definitions into statements, without comments, tables first."""
    found = [part.strip() for part in _BLANK.sub(" ", tables).split(";")]
    return sorted(filter(None, found), key=lambda statement: "INDEX" in statement)


def define(connection: sqlite3.Connection) -> None:
    """Create the tables of an index."""
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    for statement in statements(TABLES):
        connection.execute(statement)


Definition = tuple[object, ...]
"""A table or index in `sqlite_master`: type, name, table, first page, SQL."""


@cache
def expected() -> frozenset[Definition]:
    """Return the definitions that every index file has."""
    with closing(sqlite3.connect(":memory:")) as fresh:
        fresh.execute(f"PRAGMA page_size = {PAGE_SIZE}")
        define(fresh)
        return definitions(fresh)


def definitions(connection: sqlite3.Connection) -> frozenset[Definition]:
    """Read the definitions of a file, up to the most that an index can have."""
    # why limits: a foreign file may define a lot
    query = (
        "SELECT type, name, tbl_name, rootpage, substr(sql, 1, 2000) FROM sqlite_master LIMIT 99"
    )
    return frozenset(connection.execute(query).fetchall())


def check_format(connection: sqlite3.Connection, name: str, *, tables_only: bool = False) -> None:
    """Refuse a file that is not an index of this format, before anything else is read.

    With `tables_only`, indexes may be missing, and other definitions be present.
    """
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application != APPLICATION_ID:
        raise NotAnIndex(
            f"{name} is empty or a SQLite database of something else, not an hwdag index; check "
            "the path"
        )
    if version != SCHEMA_VERSION:
        raise IndexVersionError(
            f"{name} has format version {version}, this hwdag reads version {SCHEMA_VERSION}; "
            + ("upgrade hwdag" if version > SCHEMA_VERSION else "build it again from its documents")
        )
    found = definitions(connection)
    if tables_only:
        wrong = {one for one in expected() - found if one[0] == "table"}
    else:
        wrong = set(found ^ expected())
    if wrong:
        names = sorted({f"{kind} {name}"[:60] for kind, name, *_ in wrong})
        raise IndexCorrupt(
            f"{name} is damaged or was not written by hwdag: {', '.join(names[:5])} are not defined as "
            "in an index; restore a copy of the file, or run `hwdag repair`"
        )


@dataclass(frozen=True, slots=True)
class Header:
    """The models and options that an index was built with.

    `reader` and `embedder` are names, `dimension` is the length of an embedding, `config` the build
    config as JSON values, `dtype` the type in which the first reader computed, if known. `tokenizer` is
    the fingerprint of the tokenizer that counted the tokens of the nodes.
    """

    reader: str
    embedder: str
    dimension: int
    config: Mapping[str, Any]
    hwdag_version: str = __version__
    dtype: str | None = None
    tokenizer: str | None = None

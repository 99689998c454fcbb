"""The file format, version 3: one SQLite database, readable with any SQLite tool.

`application_id` says that a file is an index and `user_version` which version of this schema it
has. Arrays are little-endian; no table holds anything but text, numbers and such arrays. Everything
that was derived from a document hangs on its row in `documents` and goes with it.

Deleting leaves nothing behind. SQLite overwrites what is deleted (secure_delete), but when it moves
rows between pages that several rows share, it leaves copies in the gaps of these pages, which no
later deletion finds. So every row that holds more than numbers begins with a `guard`: as many zeros
as a page has bytes. What follows it then lies on pages of that row alone, which are overwritten
whole. On shared pages there are only numbers, and 64-bit hashes (`slot`) of ids and keys to find
rows by.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hwdag.version import __version__

APPLICATION_ID = 0x48574447
"""The letters HWDG."""

SCHEMA_VERSION = 3

NODES_PER_ROW = 32
"""Nodes that are stored together: one is read by reading few others, and guards stay cheap."""

CALLS = """\
-- Finished model calls by what went into them: a build that was interrupted, or a document that was
-- edited, does not pay for them again.
CREATE TABLE calls (
    number INTEGER PRIMARY KEY,
    owner_slot INTEGER,           -- hash of the owner, NULL for corpus layers
    key_slot INTEGER NOT NULL,    -- hash of the key
    guard BLOB NOT NULL,
    owner TEXT,                   -- id of the document, NULL for corpus layers
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

-- A version of a document, or a group of a corpus layer: slot and id are NULL, the text is empty, the
-- title is the name that the ids of its nodes begin with, metadata has its layer, tokens and tenant.
CREATE TABLE documents (
    number INTEGER PRIMARY KEY AUTOINCREMENT, -- never used twice
    slot INTEGER,                 -- hash of the id
    node_count INTEGER NOT NULL,
    guard BLOB NOT NULL,
    checksum TEXT NOT NULL,       -- SHA-256 of all columns, here and below, but numbers and guards
    id TEXT,                      -- unique
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
    data TEXT NOT NULL            -- JSON: [[id, level, origin, text, tokens, sources], ...] by level
                                  -- with sources [[start, end], ...] in the text of the document,
                                  -- of a group [[number of the document, start, end], ...]
);
CREATE UNIQUE INDEX nodes_by_position ON nodes (document, position);

-- What a search needs without reading texts. n nodes, e edges. The first seven columns are derived
-- from the text and the nodes.
CREATE TABLE arrays (
    document INTEGER PRIMARY KEY REFERENCES documents (number) ON DELETE CASCADE,
    guard BLOB NOT NULL,
    levels BLOB NOT NULL,         -- int32, (n,)
    generated BLOB NOT NULL,      -- bool, (n,)
    starts BLOB NOT NULL,         -- int64, (n,)
    ends BLOB NOT NULL,           -- int64, (n,)
    lengths BLOB NOT NULL,        -- int32, (n,): words
    words BLOB NOT NULL,          -- postings of k keys: k int64, keys int64 (k,), indptr int64 (k + 1,),
                                  -- rows int32, counts int32
    names BLOB NOT NULL,          -- postings
    indptr BLOB NOT NULL,         -- int32, (n + 1,): where the edges of each node begin
    children BLOB NOT NULL,       -- int32, (e,): position of the child within its document
    attention BLOB NOT NULL,      -- float64, (e,): before normalisation
    owners BLOB,                  -- int64, (e,): number of the child's document, of groups alone
    homes BLOB,                   -- int64, (n,): number of the document that starts and ends are of,
                                  -- 0 for none, of groups alone
    vectors BLOB NOT NULL         -- float32, (n, dimension)
);

-- What a group of a corpus layer rests on, in order.
CREATE TABLE members (
    parent INTEGER NOT NULL REFERENCES documents (number) ON DELETE CASCADE,
    position INTEGER NOT NULL,
    child INTEGER NOT NULL REFERENCES documents (number),
    PRIMARY KEY (parent, position)
) WITHOUT ROWID;
CREATE INDEX members_by_child ON members (child);

{CALLS}
-- Which documents came and went, for processes that have the file open.
CREATE TABLE changes (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT,
    document INTEGER NOT NULL,
    removed INTEGER NOT NULL      -- 0 or 1
);
"""


def statements(tables: str) -> list[str]:
    """The definitions one by one."""
    return [part for part in tables.split(";") if part.strip()]


@dataclass(frozen=True, slots=True)
class Header:
    """What an index was built with.

    `reader` and `embedder` are names, `dimension` the length of an embedding, `config` the
    build config as JSON-able values.
    """

    reader: str
    embedder: str
    dimension: int
    config: Mapping[str, Any]
    hwdag_version: str = __version__

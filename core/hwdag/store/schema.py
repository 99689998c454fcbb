"""The file format, version 1: one SQLite database, readable with any SQLite tool.

`application_id` says that a file is an index and `user_version` which version of this schema it
has. Arrays are little-endian; no table holds anything but text, numbers and such arrays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hwdag.version import __version__

APPLICATION_ID = 0x48574447
"""The letters HWDG."""

SCHEMA_VERSION = 2

TABLES = """\
CREATE TABLE header (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL           -- JSON
) WITHOUT ROWID;

CREATE TABLE documents (
    number INTEGER PRIMARY KEY,   -- order of insertion, kept by a replacement
    id TEXT NOT NULL UNIQUE,
    title TEXT NOT NULL,
    text TEXT NOT NULL,
    metadata TEXT NOT NULL,       -- JSON object
    content_hash TEXT NOT NULL,   -- SHA-256 of title, text and metadata
    node_count INTEGER NOT NULL,
    indptr BLOB NOT NULL,         -- int32, (node_count + 1,): where the edges of each node begin
    indices BLOB NOT NULL,        -- int32, (edges,): position of the child
    attention BLOB NOT NULL,      -- float64, (edges,): before normalisation
    vectors BLOB NOT NULL,        -- float32, (node_count, dimension)
    checksum TEXT NOT NULL        -- SHA-256 of the columns above and of all nodes
);

CREATE TABLE nodes (
    document INTEGER NOT NULL REFERENCES documents (number) ON DELETE CASCADE,
    position INTEGER NOT NULL,    -- 0, 1, ... within the document, by level
    id TEXT NOT NULL,
    level INTEGER NOT NULL,
    origin TEXT NOT NULL,
    text TEXT NOT NULL,
    tokens INTEGER NOT NULL,
    sources BLOB NOT NULL,        -- int64, (spans, 2): start and end in the document's text
    UNIQUE (document, position)
);
"""


@dataclass(frozen=True, slots=True)
class Header:
    """What an index was built with.

    `reader` and `embedder` are names, `dimension` the length of an embedding, `config` the build
    config as JSON-able values.
    """

    reader: str
    embedder: str
    dimension: int
    config: Mapping[str, Any]
    hwdag_version: str = __version__

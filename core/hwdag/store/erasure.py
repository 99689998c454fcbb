"""Erasure: every place in which deleted text could survive, and its remedy.

**Free pages.** `secure_delete` is on, so SQLite overwrites deleted content.

**Gaps in shared pages.** When SQLite moves rows between pages that several rows share, it leaves copies
that no later deletion finds. So every row that holds more than numbers begins with a guard: a page of
zeros. The content after it lies on pages of that row alone, and deletion overwrites them whole. Shared
pages hold only numbers, and 64-bit hashes to find rows by.

**Beyond the end of the file.** Rewriting makes a file shorter, and SQLite truncates it only after it has
deleted the journal. A kill in between leaves old pages beyond the end, which no deletion reaches. So
the file is cut to its number of pages before every write.

**The cache of model calls.** Replies repeat the text of a document, so every call has an owner and is
deleted with it (`hwdag.store.calls`). The calls of a version whose build was given up are deleted when
the stored version turns out to be unchanged, or when the document is deleted or pruned.

**Arrays next to the file.** The folder `NAME.arrays` holds copies of arrays for searching
(`hwdag.store.segment_files`). The transaction that deletes a document deletes its segment too. A segment
gets its name in a transaction that sees all its documents.

**Unfinished copies.** A killed `save`, repair or export leaves its copy under a recognisable name, until
the file is opened for writing or replaced (`hwdag.store.atomic_files`).
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

PRAGMAS = (
    "secure_delete = ON",  # overwrite deleted text in free pages
    "temp_store = MEMORY",  # keep documents out of temporary files
)


def insert_guarded(
    connection: sqlite3.Connection,
    table: str,
    columns: tuple[str, ...],
    rows: Collection[Sequence[Any]],
) -> int:
    """Insert rows that begin with a guard; returns the last `number`."""
    (page,) = connection.execute("PRAGMA page_size").fetchone()
    connection.executemany(
        f"INSERT INTO {table} (guard, {', '.join(columns)}) "
        f"VALUES (zeroblob({int(page)}), {', '.join('?' * len(columns))})",
        rows,
    )
    (number,) = connection.execute("SELECT last_insert_rowid()").fetchone()
    return int(number)


def cut_behind_the_end(connection: sqlite3.Connection, path: Path) -> bool:
    """Cut a file to its number of pages, in a write transaction; returns whether it was longer.

    If so, end the transaction: SQLite remembers the length at its beginning.
    """
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    (size,) = connection.execute("PRAGMA page_size").fetchone()
    (journal,) = connection.execute("PRAGMA journal_mode").fetchone()
    # why not with a write-ahead log: others may still read old pages
    if path.stat().st_size <= pages * size or journal == "wal":
        return False
    # why by name: closing a second descriptor would release SQLite's locks
    os.truncate(path, pages * size)
    return True


def arrays_of(path: Path) -> Iterator[tuple[int, int, Path]]:
    """Yield the segments next to an index file: numbers of first and last document, and folder.

    Ignores links and everything that is not a folder.
    """
    folder = folder_of_arrays(path)
    if folder.is_symlink():
        return
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
        for entry in entries:
            found = re.fullmatch(r"([0-9]{1,19})-([0-9]{1,19})", entry.name)
            if found and entry.is_dir(follow_symlinks=False):
                yield int(found[1]), int(found[2]), folder / entry.name


def folder_of_arrays(path: Path) -> Path:
    """Return the folder that holds copies of the arrays of an index file."""
    return path.with_name(f"{path.name}.arrays")


def drop_arrays(path: Path, number: int | None = None) -> None:
    """Remove the segments that cover this document, or all; on disk when this returns."""
    gone = [f for first, last, f in arrays_of(path) if number is None or first <= number <= last]
    for folder in gone:
        remove_segment(folder)
    if gone:
        sync(folder_of_arrays(path))


def remove_segment(folder: Path) -> None:
    """Remove the arrays in a folder, and the folder if it is empty then."""
    with suppress(FileNotFoundError):  # another process may remove it too
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.endswith(".npy") and not entry.is_dir(follow_symlinks=False):
                    (folder / entry.name).unlink(missing_ok=True)
        sync(folder)
        with suppress(OSError):
            folder.rmdir()


def sync(path: Path) -> None:
    """Flush a file, or the names in a folder, to disk."""
    if os.name == "nt" and path.is_dir():
        return  # Windows cannot sync folders
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def open_plain(path: Path) -> IO[bytes]:
    """Open a file for reading, without following links or waiting for pipes."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    return open(path, "rb", opener=lambda name, _: os.open(name, flags))

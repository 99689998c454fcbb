"""How deleted text leaves a file: every way in which it could stay, and what is done about it.

**In pages that became free.** SQLite overwrites what is deleted, since `secure_delete` is on.

**In the gaps of pages that several rows share.** When SQLite moves rows between such pages it leaves
copies there, which no later deletion finds. So every row that holds more than numbers begins with a
guard: as many zeros as a page has bytes. What follows lies on pages of that row alone, which are
overwritten whole. On shared pages there are only numbers, and 64-bit hashes to find rows by.

**Behind the end of the file.** A file that is written anew becomes shorter, and SQLite cuts it when
the journal is gone already. A kill at that moment leaves old pages behind the end, which no deletion
reaches. So the file is cut to its number of pages before anything is written.

**In the cache of model calls.** A reply says what a document said, so calls have an owner and go with
it, see `hwdag.store.calls`. Those of a version that was begun and is not wanted any more go when the
stored version is found unchanged, or when the document is deleted, or is pruned before it was finished.

**In arrays beside the file.** What a search reads of many documents lies in a folder `NAME.arrays` once
more, see `hwdag.search.segment_files`. A segment there goes in the transaction that deletes one of its
documents, and takes its name in one in which all of them are there.

**In unfinished copies.** A `save`, a repair or an export that was killed leaves its copy under a name
that everybody sees, until it is opened or written again; see `hwdag.store.unfinished`.
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
    "secure_delete = ON",  # a deleted document's text must not stay in free pages
    "temp_store = MEMORY",  # nothing of a document gets into other files
)


def insert_guarded(
    connection: sqlite3.Connection,
    table: str,
    columns: tuple[str, ...],
    rows: Collection[Sequence[Any]],
) -> int:
    """Add rows behind guards as long as a page; returns the last `number`."""
    (page,) = connection.execute("PRAGMA page_size").fetchone()
    connection.executemany(
        f"INSERT INTO {table} (guard, {', '.join(columns)}) "
        f"VALUES (zeroblob({int(page)}), {', '.join('?' * len(columns))})",
        rows,
    )
    (number,) = connection.execute("SELECT last_insert_rowid()").fetchone()
    return int(number)


def cut_behind_the_end(connection: sqlite3.Connection, path: Path) -> bool:
    """Cut a file to its number of pages, in a write transaction; returns whether anything was cut.

    The transaction has to end then: SQLite remembers how long the file was when it began.
    """
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    (size,) = connection.execute("PRAGMA page_size").fetchone()
    (journal,) = connection.execute("PRAGMA journal_mode").fetchone()
    # why not with a write-ahead log: others may read pages there that are no more
    if path.stat().st_size <= pages * size or journal == "wal":
        return False
    # why by name: to close a second descriptor would release SQLite's locks
    os.truncate(path, pages * size)
    return True


def arrays_of(path: Path) -> Iterator[tuple[int, int, Path]]:
    """Yield the segments beside an index file: numbers of first and last document, and folder.

    Links are neither followed nor yielded, nor is anything else that is no folder.
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
    """Return where the arrays of an index file are kept once more."""
    return path.with_name(f"{path.name}.arrays")


def drop_arrays(path: Path, number: int | None = None) -> None:
    """Remove the segments that have this document in them; None for all. On disk when it returns."""
    gone = [f for first, last, f in arrays_of(path) if number is None or first <= number <= last]
    for folder in gone:
        remove_segment(folder)
    if gone:
        sync(folder_of_arrays(path))


def remove_segment(folder: Path) -> None:
    """Remove the arrays in a folder, and the folder unless something else is in it."""
    with suppress(FileNotFoundError):  # others may remove the same
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.endswith(".npy") and not entry.is_dir(follow_symlinks=False):
                    (folder / entry.name).unlink(missing_ok=True)
        sync(folder)
        with suppress(OSError):
            folder.rmdir()


def sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on disk."""
    if os.name == "nt" and path.is_dir():
        return  # Windows syncs no folders
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def open_plain(path: Path) -> IO[bytes]:
    """Open a file to be read; no link is followed, and no pipe is waited for."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    return open(path, "rb", opener=lambda name, _: os.open(name, flags))

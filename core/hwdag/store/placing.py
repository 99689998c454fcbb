"""Files and folders that appear under their name when they are finished, or not at all."""

from __future__ import annotations

import os
import secrets
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from hwdag.errors import IndexFileError, InputError
from hwdag.store.database import BUSY_SECONDS, explain, journal_of


@contextmanager
def beside(path: Path) -> Iterator[Path]:
    """A new name in the folder of `path`; what stands there at the end is removed.

    Raises:
        InputError: the folder of `path` does not exist.
    """
    if not path.parent.is_dir():
        raise InputError(f"the folder of {path} does not exist; make {path.parent} first")
    other = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        yield other
    finally:
        if other.is_dir():
            shutil.rmtree(other)
        for ending in ("", "-journal"):
            other.with_name(other.name + ending).unlink(missing_ok=True)


def settle(unfinished: Path, path: Path) -> None:
    """Give a finished file its name, which must be free; raises `InputError` if it is not."""
    if not path.exists():
        journal_of(path).unlink(missing_ok=True)  # of a file that is gone; SQLite would apply it
    try:
        os.link(unfinished, path)  # unlike a renaming it never replaces a file
        unfinished.unlink()
    except FileExistsError:
        raise InputError(f"{path} exists; name a file that does not exist yet") from None
    except OSError:  # a file system without links
        unfinished.rename(path)
    sync(path.parent)


def take_place(unfinished: Path, path: Path) -> None:
    """Give a finished file of SQLite the name of another one, which is gone then.

    Whoever has the other one open reads on in it, and is told at the next write that it is gone.

    Raises:
        IndexFileError: somebody writes to the other one, and does not end.
    """
    try:
        with closing(sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)) as other:
            _claim(other, path)
            if os.name == "nt":
                other.close()  # Windows replaces no file that is open
            unfinished.replace(path)
    except sqlite3.Error as error:
        raise explain(error, path) from error
    sync(path.parent)


def _claim(other: sqlite3.Connection, path: Path) -> None:
    """Wait until nobody writes to a file, and keep it so.

    A write that was killed is rolled back: SQLite would apply its journal to whatever gets the name.
    """
    try:
        other.execute("BEGIN EXCLUSIVE")
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
            raise
        journal_of(path).unlink(missing_ok=True)  # of no use either


def sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on disk."""
    if os.name == "nt" and path.is_dir():
        return  # Windows syncs no folders
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def explained() -> Iterator[None]:
    """An `OSError` inside as an `IndexFileError`."""
    try:
        yield
    except OSError as error:
        raise IndexFileError(
            f"{error}; check permissions, and the free space of the disk"
        ) from error

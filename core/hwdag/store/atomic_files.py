"""Files that get their name only when they are complete.

Until then they are called `NAME.unfinished-HOST-PROCESS-START-...`. A killed process leaves such a
file; the next process that opens `NAME` for writing, or replaces it, removes the leftover.
"""

from __future__ import annotations

import os
import re
import secrets
import socket
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from functools import cache
from hashlib import blake2b
from pathlib import Path

from hwdag.errors import IndexFileError, InputError
from hwdag.store.database import BUSY_SECONDS, as_index_error, journal_of, refuse_foreign_files
from hwdag.store.erasure import drop_arrays, remove_segment, sync

_MARK = ".unfinished-"
_UNKNOWN = "0" * 8
_NO_DATABASE = (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT)


@contextmanager
def unfinished_file(path: Path) -> Iterator[Path]:
    """Yield a new name in the folder of `path`, and remove the file of that name at the end."""
    remove_leftovers(path)
    process = os.getpid()
    name = f"{path.name}{_MARK}{_host()}-{process}-{_start_of(process)}-{secrets.token_hex(4)}"
    other = path.with_name(name)
    try:
        yield other
    finally:
        _remove(other)


def remove_leftovers(path: Path) -> None:
    """Remove unfinished files for `path` whose processes, of this machine, have ended."""
    # why a star: an unfinished file may itself be the target of a copy
    own = re.compile(
        re.escape(f"{path.name}{_MARK}{_host()}-")
        + rf"(\d{{1,9}})-([0-9a-f]{{8}})-[0-9a-f]{{8}}({re.escape(_MARK)}[0-9a-f-]+)*"
    )
    with suppress(OSError):
        for name in os.listdir(path.parent):  # noqa: PTH208 - names alone, without a Path for each
            found = own.fullmatch(name.removesuffix("-journal"))
            if found and not _is_alive(int(found[1]), found[2]):
                with suppress(OSError):
                    _remove(path.with_name(name.removesuffix("-journal")))


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        remove_segment(path)
    else:
        for ending in ("", "-journal"):
            path.with_name(path.name + ending).unlink(missing_ok=True)


def _is_alive(process: int, start: str) -> bool:
    if os.name == "nt":
        return True  # a signal cannot test it there; the name of the file shows the process
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass  # another user's process
    return _start_of(process) in (start, _UNKNOWN)


def _start_of(process: int) -> str:
    """Return a hash of the start of a process, since a restarted container reuses host name and numbers.

    Systems that do not report the start give all processes the same hash.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii")
        # why after the bracket: the name of a program may hold blanks and brackets
        fields = Path(f"/proc/{process}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return _UNKNOWN
    return blake2b(boot.encode() + fields[19], digest_size=4).hexdigest()  # its start, proc(5)


@cache
def _host() -> str:
    """Return a hash of this machine or container, within which process numbers are unique."""
    return blake2b(socket.gethostname().encode(), digest_size=4).hexdigest()


@contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """Yield an unfinished file that gets the name `path` at the end, in place of an empty file.

    Raises `InputError` if another file has that name by then, `IndexFileError` if it cannot be written.
    """
    with file_errors(), unfinished_file(path) as unfinished:
        yield unfinished
        sync(unfinished)
        if path.is_file() and not path.stat().st_size:
            path.unlink()  # left by a build that was killed at its start
        publish(unfinished, path)


def publish(unfinished: Path, path: Path) -> None:
    """Give a finished file its name. Raises `InputError` if the name is taken."""
    if not path.exists():
        journal_of(path).unlink(missing_ok=True)  # of a deleted file; SQLite would apply it
    try:
        os.link(unfinished, path)  # unlike a rename, it never replaces a file
        unfinished.unlink()
    except FileExistsError:
        raise InputError(f"{path} exists; name a file that does not exist yet") from None
    except OSError:  # a file system without links
        unfinished.rename(path)
    sync(path.parent)


def replace_file(unfinished: Path, path: Path) -> None:
    """Replace a SQLite file by a finished one, after its writers are done.

    Processes that have the old file open keep reading it; their next write raises an error.
    """
    refuse_foreign_files(path, bounded=False)
    try:
        with closing(sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)) as other:
            try:  # roll back a killed write: SQLite would apply its journal to the new file
                other.execute("BEGIN EXCLUSIVE")
            except sqlite3.DatabaseError as error:
                if error.sqlite_errorcode & 0xFF not in _NO_DATABASE:
                    raise
                journal_of(path).unlink(missing_ok=True)  # belongs to no database
            if os.name == "nt":
                other.close()  # Windows cannot replace an open file
            unfinished.replace(path)
            drop_arrays(path)
    except sqlite3.Error as error:
        raise as_index_error(error, path) from error
    sync(path.parent)


@contextmanager
def file_errors() -> Iterator[None]:
    """Turn an `OSError` in the block into an `IndexFileError`."""
    try:
        yield
    except OSError as error:
        raise IndexFileError(f"{error}; check permissions and free disk space") from error

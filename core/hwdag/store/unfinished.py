"""Files that appear under their name when they are finished, or not at all.

Until then they are called `NAME.unfinished-HOST-PROCESS-START-...`, which everybody sees. A process that
was killed leaves such a file; whoever opens `NAME` for writing, or writes it anew, removes it.
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
    """Find a new name in the folder of `path`; what stands there at the end is removed."""
    remove_leftovers(path)
    process = os.getpid()
    name = f"{path.name}{_MARK}{_host()}-{process}-{_start_of(process)}-{secrets.token_hex(4)}"
    other = path.with_name(name)
    try:
        yield other
    finally:
        _remove(other)


def remove_leftovers(path: Path) -> None:
    """Remove unfinished files for `path` of processes of this machine that are no more."""
    # why a star: a file may be copied to an unfinished one
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
        return True  # there a signal cannot ask; the file is visible, and its name says whose it is
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass  # it is somebody else's
    return _start_of(process) in (start, _UNKNOWN)


def _start_of(process: int) -> str:
    """Return a word for when a process began: a restarted container has the same host name and numbers.

    Where the system does not say it, all processes have the same word.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii")
        # why behind the bracket: the name of a program may hold blanks and brackets
        fields = Path(f"/proc/{process}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return _UNKNOWN
    return blake2b(boot.encode() + fields[19], digest_size=4).hexdigest()  # its start, proc(5)


@cache
def _host() -> str:
    """Return a word for this machine or container, where numbers of processes are unique."""
    return blake2b(socket.gethostname().encode(), digest_size=4).hexdigest()


@contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """Find an unfinished file, which gets this name at the end; an empty file there is replaced.

    Raises `InputError` if something else is there by then, `IndexFileError` if it cannot be written.
    """
    with file_errors(), unfinished_file(path) as unfinished:
        yield unfinished
        sync(unfinished)
        if path.is_file() and not path.stat().st_size:
            path.unlink()  # as a build leaves it that was killed at its start
        publish(unfinished, path)


def publish(unfinished: Path, path: Path) -> None:
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


def replace_file(unfinished: Path, path: Path) -> None:
    """Give a finished file of SQLite the name of another one, which is gone then; waits for its writers.

    Whoever has the other one open reads on in it, and is told at the next write that it is gone.
    """
    refuse_foreign_files(path, bounded=False)
    try:
        with closing(sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)) as other:
            try:  # a killed write is rolled back: SQLite would apply its journal to the new file
                other.execute("BEGIN EXCLUSIVE")
            except sqlite3.DatabaseError as error:
                if error.sqlite_errorcode & 0xFF not in _NO_DATABASE:
                    raise
                journal_of(path).unlink(missing_ok=True)  # of no use either
            if os.name == "nt":
                other.close()  # Windows replaces no file that is open
            unfinished.replace(path)
            drop_arrays(path)
    except sqlite3.Error as error:
        raise as_index_error(error, path) from error
    sync(path.parent)


@contextmanager
def file_errors() -> Iterator[None]:
    """Raise an `OSError` inside as an `IndexFileError`."""
    try:
        yield
    except OSError as error:
        raise IndexFileError(
            f"{error}; check permissions, and the free space of the disk"
        ) from error

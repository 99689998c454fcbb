"""One connection to a SQLite file: transactions, threads, and readable errors."""

from __future__ import annotations

import ctypes
import os
import sqlite3
import stat
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from threading import RLock
from weakref import WeakSet

from hwdag.errors import HWDAGError, IndexBusy, IndexCorrupt, IndexFileError, NotAnIndex
from hwdag.store import erasure
from hwdag.store.schema import PAGE_SIZE

BUSY_SECONDS = 30  # how long to wait for another process's commit
STEPS = 100_000  # instructions of SQLite's virtual machine between two checks of the limit

MOST_STEPS_PER_PAGE = 50_000
"""Far more than any query needs. Forged pages can form a cycle, which would never end."""

PRAGMAS = (
    f"page_size = {PAGE_SIZE}",  # without effect on files that exist
    "foreign_keys = ON",
    *erasure.PRAGMAS,
    # why not FULL: it does not sync the folder after deleting the journal, so a power loss could bring
    # the journal back, and undo a committed write
    "synchronous = EXTRA",
    "trusted_schema = OFF",  # a foreign file must not add functions to our queries
    "cell_size_check = ON",
)


_LONGEST = 1_000_000_000  # bytes of a value, SQLite's default


@contextmanager
def on_error(close: Callable[[], None]) -> Iterator[None]:
    """Call `close` if the block raises."""
    try:
        yield
    except BaseException:
        close()
        raise


class ThreadLock:
    """A reentrant lock that raises in a forked process, in which locks and connections do not work.

    `name` appears in messages.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._process = os.getpid()
        self._lock = RLock()

    @property
    def is_forked(self) -> bool:
        """Whether this is the copy in a forked process."""
        return os.getpid() != self._process

    def check(self) -> None:
        """Raise `IndexFileError` in a forked process."""
        if self.is_forked:
            raise IndexFileError(
                f"{self._name} was opened before this process was forked; load it again here"
            )

    def __enter__(self) -> None:
        self.check()
        self._lock.acquire()

    def __exit__(self, *exception: object) -> None:
        self._lock.release()


@contextmanager
def build_lock(path: Path | None, timeout: float) -> Iterator[None]:
    """Keep other threads and processes from building into a file; None is an index in memory.

    The operating system releases the lock when the process ends; the file `NAME.lock` stays. The lock
    is not reentrant. Raises `IndexBusy` after `timeout` seconds.
    """
    if path is None:
        yield
        return
    from filelock import FileLock, Timeout  # why here: a slow import that readers do not need

    whole = path.resolve()  # all names of a file share one lock
    file = whole.with_name(f"{whole.name}.lock")
    lock = FileLock(file, timeout=timeout)  # a new one each time excludes threads too
    try:
        # why: locking opens and truncates the file
        if os.path.lexists(file) and not _is_plain(file):
            raise IndexFileError(
                f"the lock file {file} is a link or no plain file, so hwdag did not create it; move it away"
            )
        file.open("a").close()  # FileLock would retry an impossible open
        lock.acquire()
    except Timeout as error:
        raise IndexBusy(
            f"another process or thread has been writing to {path} for more than {timeout:g} "
            "seconds; wait for it, or end it: its finished calls and documents are kept"
        ) from error
    except OSError as error:
        raise IndexFileError(
            f"the lock file {file} cannot be used: {error}; make the file and its folder writable"
        ) from error
    process = os.getpid()
    try:
        yield
    finally:
        if os.getpid() == process:
            lock.release()
        else:
            _keep_for_ever(lock)


def _keep_for_ever(thing: object) -> None:
    """Leak an object of the parent: freeing it in a forked process would end the parent's work."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


_OPEN: WeakSet[Database] = WeakSet()


def _keep_connections() -> None:
    for database in _OPEN:
        _keep_for_ever(database._connection)


if hasattr(os, "register_at_fork"):
    # why: freeing a connection rolls its transaction back, in the parent's file
    os.register_at_fork(after_in_child=_keep_connections)


class Database:
    """A connection that threads may share; it turns every sqlite3 error into an `IndexFileError`.

    Attributes:
        place: absolute path of the file, without links; None in memory.
        name: name of the file in messages.
    """

    def __init__(
        self,
        path: Path | None,
        *,
        create: bool = False,
        readonly: bool = False,
        alone: bool = False,
        image: bytes | None = None,
    ) -> None:
        """Connect to a file, or in memory to an `image`; only with `create` may the file be missing.

        With `alone`, read the file as it is, without locks or journal.
        """
        self.path = path
        self.name = "the index in memory" if path is None else str(path)
        self.readonly = readonly or alone
        self._alone = alone
        self._lock = ThreadLock(self.name)
        self._connection: sqlite3.Connection | None = None
        self._steps, self._most_steps = 0, MOST_STEPS_PER_PAGE
        _OPEN.add(self)
        with on_error(self.close):
            self._connect(create, image)
            self.place = None if path is None else path.resolve()
            self._file = None if path is None else path.stat()

    def is_in(self, path: Path) -> bool:
        """Return whether `path` still names this file: another file may have replaced it."""
        try:
            return self._file is not None and os.path.samestat(self._file, path.stat())
        except OSError:
            return False

    def _connect(self, create: bool, image: bytes | None) -> None:
        # "rw" for readers too, since rolling back the journal of a killed writer is a write
        mode = "rwc" if create else "rw"
        uri = "file::memory:"
        if self.path:
            whole = self.path.resolve()
            if not self._alone:
                refuse_foreign_files(whole)
            uri = whole.as_uri() + ("?mode=ro&immutable=1" if self._alone else f"?mode={mode}")
        with self.errors():
            # isolation_level=None: `_transaction` alone begins transactions
            self._connection = sqlite3.connect(
                uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
            if image:  # empty bytes are an empty database
                self._connection.deserialize(image)
            # why replace: the checksum detects damaged text, and the error can name its document
            self._connection.text_factory = lambda data: data.decode(errors="replace")
            for pragma in PRAGMAS:
                self._connection.execute(f"PRAGMA {pragma}").fetchall()
            if self.readonly:
                self._connection.execute("PRAGMA query_only = ON")
            (journal,) = self._connection.execute("PRAGMA journal_mode").fetchone()
            if journal not in ("delete", "memory") and not self._alone:
                raise _foreign(self.name, f"its journal mode is {journal!r}", _NO_WAL)
            self._connection.set_progress_handler(self._is_endless, STEPS)

    def close(self) -> None:
        """Release the file; closing twice does no harm."""
        if self._lock.is_forked:
            return  # the file belongs to the parent process
        with self._lock:
            if self._connection is not None:
                self._connection.close()
            self._connection = None

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Open a read transaction: all reads inside see one snapshot."""
        with self._transaction("BEGIN") as connection:
            self.bound()
            yield connection

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Open a write transaction: commit to disk at the end, or roll back if the block raises."""
        if self.readonly:
            raise IndexFileError(
                f"{self.name} was opened with readonly=True; open it without that to write"
            )
        while True:
            with self._transaction("BEGIN IMMEDIATE") as connection:
                path = self.path
                if path and self.is_in(path) and erasure.cut_behind_the_end(connection, path):
                    continue  # a new transaction sees the new length
                self.bound(writing=True)
                yield connection
                return

    def version(self) -> int:
        """Return a number equal to an earlier one if nobody, in any process, has written since."""
        with self._lock, self.errors():
            connection = self._open()
            (others,) = connection.execute("PRAGMA data_version").fetchone()
            return connection.total_changes << 32 | int(others)

    def vacuum(self) -> None:
        """Rewrite the file without gaps. It stays intact throughout, and others can read it."""
        with self._lock, self.errors():
            connection = self._open()
            self.bound(writing=True)
            # why a file: SQLite copies everything first, which may not fit into memory
            connection.execute("PRAGMA temp_store = FILE")
            try:
                connection.execute("VACUUM")
            finally:
                connection.execute("PRAGMA temp_store = MEMORY")

    def copy(self, target: Path) -> None:
        """Write a snapshot to a new file."""
        with self._lock, self.errors():
            connection = self._open()
            self.bound(writing=True)
            # why a URI: file names need not be UTF-8
            try:
                connection.execute("VACUUM INTO ?", [target.resolve().as_uri()])
            except sqlite3.OperationalError as error:
                if error.sqlite_errorname in _OF_A_COPY:
                    raise as_index_error(error, target) from error
                raise

    def image(self) -> bytes:
        """Return a snapshot as the bytes of a file."""
        with self._lock, self.errors():
            return self._open().serialize()

    def bound(self, *, writing: bool = False) -> None:
        """Limit steps and value sizes of the transaction to the needs of a file of this size."""
        connection = self._open()
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        self._steps, self._most_steps = 0, 10 * STEPS + pages * MOST_STEPS_PER_PAGE
        length = _LONGEST if writing else min(_LONGEST, (pages + 1) * PAGE_SIZE)
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, length)

    def _is_endless(self) -> bool:
        self._steps += STEPS
        return self._steps > self._most_steps

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            again = "its content is lost" if self.path is None else "open it again"
            raise IndexFileError(f"the store of {self.name} is closed; {again}")
        place = self.place
        if place is not None and not self._alone:
            refuse_foreign_files(place)
            if journal_of(place).exists() and not self.is_in(place):
                # why: SQLite would apply and delete the journal of the new file
                raise _moved(self.name)
        return self._connection

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[sqlite3.Connection]:
        with self._lock, self.errors():
            connection = self._open()
            try:
                connection.execute(begin)
                yield connection
                self._lock.check()
                connection.execute("COMMIT")
            finally:
                if not self._lock.is_forked and connection.in_transaction:
                    connection.execute("ROLLBACK")

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Turn an error of sqlite3 in the block into one that names this file."""
        try:
            yield
        except sqlite3.Error as error:
            raise as_index_error(error, self.name) from error
        except UnicodeDecodeError as error:  # in a message that quotes a damaged name
            raise corrupt(self.name, error) from error


_OF_A_COPY = (
    *("SQLITE_FULL", "SQLITE_CANTOPEN", "SQLITE_IOERR_WRITE", "SQLITE_IOERR_FSYNC"),
    *("SQLITE_IOERR_TRUNCATE", "SQLITE_IOERR_DIR_FSYNC"),
)
"""Errors of a snapshot that are of the new file; it writes to no other one."""

_DAMAGE = (
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_ERROR,  # our statements are correct, so the tables have changed
    sqlite3.SQLITE_CONSTRAINT,
    sqlite3.SQLITE_INTERRUPT,  # its pages form a cycle
    sqlite3.SQLITE_TOOBIG,  # likewise
)


def as_index_error(error: sqlite3.Error, path: Path | str) -> HWDAGError:
    """Convert an error of sqlite3."""
    # why a default: Python itself reports text that is not UTF-8, without a code
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
    if code == sqlite3.SQLITE_NOTADB:
        return NotAnIndex(f"{path} is not an hwdag index: {error}; check the path")
    if code in _DAMAGE:
        return corrupt(path, error)
    if code == sqlite3.SQLITE_BUSY:
        return IndexFileError(
            f"another process kept {path} locked for {BUSY_SECONDS} seconds; try again"
        )
    if getattr(error, "sqlite_errorname", "") == "SQLITE_READONLY_DBMOVED":
        return _moved(path)
    if code == sqlite3.SQLITE_READONLY:
        return IndexFileError(
            f"{path} cannot be written ({error}); make the file and its folder writable. Reading needs "
            "that too, to roll back the journal of a killed writer"
        )
    if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
        return IndexFileError(
            f"{path} could not be read or written: {error}; if the disk is full, free some space, and "
            "run it again, since finished work is kept; else look for damage with `hwdag verify`"
        )
    return IndexFileError(
        f"{path} cannot be used: {error}; check permissions and free space of its folder"
    )


def _moved(path: Path | str) -> IndexFileError:
    return IndexFileError(f"{path} was moved or deleted since it was opened; load it again")


@lru_cache(maxsize=16)  # asked for with every transaction
def journal_of(path: Path) -> Path:
    """Return the path of the rollback journal of a file."""
    return path.with_name(f"{path.name}-journal")


_MAGIC = bytes.fromhex("d9d505f920a163d7")  # starts a journal, and ends a super-journal's name
_HEADER = ">8x8xI4xI"  # starts with the magic, then: old number of pages, bytes of a page
_NO_WAL = (
    "hwdag keeps no write-ahead log; if you turned one on with another program, turn it off there "
    "(PRAGMA journal_mode = DELETE)"
)


def refuse_foreign_files(path: Path, *, bounded: bool = True) -> None:
    """Raise `IndexCorrupt` for companion files that SQLite would use and that hwdag never writes.

    Call it before SQLite opens the file. SQLite waits for pipes, writes its journal into any file of
    that name, and rolls back any journal. If a journal names a super-journal, as a commit to several
    attached databases does, SQLite deletes the file of that name. hwdag attaches no databases and
    keeps no write-ahead log. The journal of an active or killed writer is accepted.

    Args:
        path: without links, since SQLite resolves them too.
        bounded: refuse a journal that would make the file longer.

    Source: https://www.sqlite.org/fileformat2.html#the_rollback_journal
    """
    for ending in ("-wal", "-shm"):
        log = f"{path}{ending}"
        if os.path.lexists(log):
            raise _foreign(log, "it belongs to a write-ahead log", _NO_WAL)
    journal = journal_of(path)
    try:
        if not _is_plain(journal):
            raise _foreign(journal, "it is a link or no plain file", _MOVE)
        _check_journal(path, journal, bounded)
    except FileNotFoundError:
        pass  # there is none, or its writer has just finished
    except OSError as error:
        raise IndexFileError(f"{journal} cannot be read: {error}; make it readable") from error


def _is_plain(path: Path) -> bool:
    """Return whether a file is a plain file with one name; raises `FileNotFoundError`."""
    found = path.lstat()
    return stat.S_ISREG(found.st_mode) and found.st_nlink <= 1  # some file systems report 0


def _check_journal(path: Path, journal: Path, bounded: bool) -> None:
    with erasure.open_plain(journal) as file:
        head = file.read(struct.calcsize(_HEADER))
        end = file.seek(0, os.SEEK_END)
        file.seek(max(end - len(_MAGIC), 0))
        if end >= 2 * len(_MAGIC) and file.read() == _MAGIC:
            raise _foreign(journal, "it names another file, which SQLite would delete", _MOVE)
        if head[:1] in (b"", b"\0"):
            return  # not active
        if not head.startswith(_MAGIC):
            raise _foreign(journal, "it is not a journal of SQLite", _MOVE)
        if len(head) < struct.calcsize(_HEADER):
            return  # too short for SQLite to apply
        pages, page = struct.unpack(_HEADER, head)
        if page != PAGE_SIZE:
            raise _foreign(journal, f"its pages have {page} bytes, not {PAGE_SIZE}", _MOVE)
        size = path.stat().st_size if path.exists() else 0
        # why st_nlink: a journal deleted since then does not count for the file now
        if bounded and 0 < size < pages * page and os.fstat(file.fileno()).st_nlink:
            raise _foreign(journal, f"it would make {path} longer than it was", _MOVE)


_MOVE = "move it away"


def _foreign(path: Path | str, seen: str, remedy: str) -> IndexCorrupt:
    return IndexCorrupt(
        f"{path} was not written by hwdag: {seen}. Nothing was read or changed. If you trust the "
        f"source of the index, {remedy}, or run `hwdag repair`"
    )


def corrupt(path: Path | str, reason: object) -> IndexCorrupt:
    """Return the error for a damaged file."""
    return IndexCorrupt(
        f"{path} is damaged: {reason}; restore a copy of the file, or run `hwdag repair`"
    )

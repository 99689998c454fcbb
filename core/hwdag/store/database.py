"""One connection to a SQLite file: transactions, threads, and errors in our own words."""

from __future__ import annotations

import ctypes
import os
import sqlite3
import stat
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import RLock
from weakref import WeakSet

from hwdag.errors import HWDAGError, IndexBusy, IndexCorrupt, IndexFileError, NotAnIndex
from hwdag.store import erasure
from hwdag.store.schema import PAGE_SIZE

BUSY_SECONDS = 30  # how long to wait for another process's commit
STEPS = 100_000  # instructions of SQLite's machine between two looks at how many there were

MOST_STEPS_PER_PAGE = 50_000
"""Far more than anything takes that ends; pages of a stranger may lead in a circle."""

PRAGMAS = (
    f"page_size = {PAGE_SIZE}",  # without effect on files that exist
    "foreign_keys = ON",
    *erasure.PRAGMAS,
    # FULL does not sync the folder when the journal is gone: a power loss would bring it back, and undo
    # what had returned
    "synchronous = EXTRA",
    "trusted_schema = OFF",  # a file from elsewhere must not bring functions into our queries
    "cell_size_check = ON",
)


_LONGEST = 1_000_000_000  # bytes of a value, by default of SQLite


@contextmanager
def on_error(close: Callable[[], None]) -> Iterator[None]:
    """Call a function if something is raised inside: what was opened is closed again."""
    try:
        yield
    except BaseException:
        close()
        raise


class ThreadLock:
    """A lock that one thread may take again, and that a forked process refuses.

    A fork copies neither a lock nor a connection in a usable way. `name` is what messages call it.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._process = os.getpid()
        self._lock = RLock()

    @property
    def is_forked(self) -> bool:
        """Whether this is a copy that a fork has made."""
        return os.getpid() != self._process

    def check(self) -> None:
        """Raise `IndexFileError` in a copy that a fork has made."""
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
    """Keep other threads and processes from building into a file, if it is one, for as long as this is held.

    The operating system releases it when its process ends; the file `NAME.lock` stays. It cannot be taken
    twice by one thread. Raises `IndexBusy` if it took longer than `timeout` seconds.
    """
    if path is None:
        yield
        return
    from filelock import FileLock, Timeout  # why here: its import is slow, and readers need none

    whole = path.resolve()  # every name of a file must lead to the same lock
    file = whole.with_name(f"{whole.name}.lock")
    lock = FileLock(file, timeout=timeout)  # a new one each time keeps out other threads too
    try:
        # why: whoever locks a file opens it, and empties it
        if os.path.lexists(file) and not _is_plain(file):
            raise IndexFileError(
                f"the lock file {file} is a link or no plain file, so hwdag did not make it; move it away"
            )
        file.open("a").close()  # FileLock would try again and again what cannot be
        lock.acquire()
    except Timeout as error:
        raise IndexBusy(
            f"another process or thread has been writing to {path} for more than {timeout:g} "
            "seconds; wait until it is finished, or end it: what it finished is kept"
        ) from error
    except OSError as error:
        raise IndexFileError(
            f"the lock file {file} cannot be used: {error}; make it and its folder writable"
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
    """Let nothing free what a forked process has a copy of: to free it ends what the parent is doing."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


_OPEN: WeakSet[Database] = WeakSet()


def _keep_connections() -> None:
    for database in _OPEN:
        _keep_for_ever(database._connection)


if hasattr(os, "register_at_fork"):
    # why: SQLite rolls back what a connection has begun when it is freed, in the file of the parent
    os.register_at_fork(after_in_child=_keep_connections)


class Database:
    """A connection that threads may share; every sqlite3 error leaves it as an `IndexFileError`.

    Attributes:
        place: the file without links, whatever folder the process changes to; None in memory.
        name: what messages call it.
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
        """Connect; only with `create` may the file be missing. In memory, begin with an `image`.

        With `alone` the file is read as it is, without locks; what lies beside it is not used.
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
        """Say whether this is the file of that name; another one may have taken the name meanwhile."""
        try:
            return self._file is not None and os.path.samestat(self._file, path.stat())
        except OSError:
            return False

    def _connect(self, create: bool, image: bytes | None) -> None:
        # "rw" for readers too: rolling a killed writer's journal back is a write
        mode = "rwc" if create else "rw"
        uri = "file::memory:"
        if self.path:
            whole = self.path.resolve()
            if not self._alone:
                refuse_foreign_files(whole)
            uri = whole.as_uri() + ("?mode=ro&immutable=1" if self._alone else f"?mode={mode}")
        with self._sqlite_errors():
            # isolation_level=None: transactions begin where we say so, see _transaction
            self._connection = sqlite3.connect(
                uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
            if image:  # nothing is an empty database
                self._connection.deserialize(image)
            # damaged text becomes other text, which a checksum notices and blames on its document
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
            return  # the file is that of another process
        with self._lock:
            if self._connection is not None:
                self._connection.close()
            self._connection = None

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Let all reads inside see the same moment."""
        with self._transaction("BEGIN") as connection:
            self.bound()
            yield connection

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Write all or nothing, whatever is raised inside; committed to disk at the end."""
        if self.readonly:
            raise IndexFileError(f"{self.name} was opened with readonly=True; open it without")
        while True:
            with self._transaction("BEGIN IMMEDIATE") as connection:
                path = self.path
                if path and self.is_in(path) and erasure.cut_behind_the_end(connection, path):
                    continue  # in a transaction that knows the new length
                self.bound(writing=True)
                yield connection
                return

    def version(self) -> int:
        """Return a number equal to an earlier one if nobody, in any process, has written since."""
        with self._lock, self._sqlite_errors():
            connection = self._open()
            (others,) = connection.execute("PRAGMA data_version").fetchone()
            return connection.total_changes << 32 | int(others)

    def vacuum(self) -> None:
        """Write the file anew without gaps; others may read meanwhile. It stays whole throughout."""
        with self._lock, self._sqlite_errors():
            connection = self._open()
            self.bound(writing=True)
            # SQLite makes a copy first, which memory could not hold; it is a file without a name
            connection.execute("PRAGMA temp_store = FILE")
            try:
                connection.execute("VACUUM")
            finally:
                connection.execute("PRAGMA temp_store = MEMORY")

    def copy(self, target: Path) -> None:
        """Write all of one moment to a file that does not exist."""
        with self._lock, self._sqlite_errors():
            connection = self._open()
            self.bound(writing=True)
            # why a URI: a name need not be UTF-8
            connection.execute("VACUUM INTO ?", [target.resolve().as_uri()])

    def image(self) -> bytes:
        """Return all of one moment as the bytes of a file."""
        with self._lock, self._sqlite_errors():
            return self._open().serialize()

    def bound(self, *, writing: bool = False) -> None:
        """Limit what the transaction reads from now on to what a file of this size can hold."""
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
            again = "it is gone" if self.path is None else "open it again"
            raise IndexFileError(f"the store of {self.name} is closed; {again}")
        place = self.place
        if place is not None and not self._alone:
            refuse_foreign_files(place)
            if journal_of(place).exists() and not self.is_in(place):
                # why: SQLite would apply the journal of what is there now, and delete it
                raise _moved(self.name)
        return self._connection

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[sqlite3.Connection]:
        with self._lock, self._sqlite_errors():
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
    def _sqlite_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise as_index_error(error, self.name) from error
        except UnicodeDecodeError as error:  # SQLite quotes damaged names in its messages
            raise corrupt(self.name, error) from error


_DAMAGE = (
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_ERROR,  # our statements are right, so the tables are not what they were
    sqlite3.SQLITE_CONSTRAINT,
    sqlite3.SQLITE_INTERRUPT,  # pages lead in a circle
    sqlite3.SQLITE_TOOBIG,  # so they do
)


def as_index_error(error: sqlite3.Error, path: Path | str) -> HWDAGError:
    """Say what an error of sqlite3 means for somebody who has an index."""
    # values that are not UTF-8 are noticed by Python, without a code
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
            f"{path} cannot be written ({error}); make the file and its folder writable. That also "
            "holds for reading where a killed writer left a journal to be rolled back"
        )
    if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
        return IndexFileError(
            f"{path} could not be read or written: {error}; if the disk is full, free some space. "
            "What was finished is kept, so run it again"
        )
    return IndexFileError(
        f"{path} cannot be used: {error}; check permissions and free space of its folder"
    )


def _moved(path: Path | str) -> IndexFileError:
    return IndexFileError(f"{path} was moved or deleted since it was opened; load it again")


def journal_of(path: Path) -> Path:
    """Return where SQLite keeps what a write to a file changes, until it is finished."""
    return path.with_name(f"{path.name}-journal")


_MAGIC = bytes.fromhex(
    "d9d505f920a163d7"
)  # at the start of a journal, and behind a super-journal's name
_HEADER = ">8x8xI4xI"  # of what begins with the magic: pages of the file before, bytes of a page
_NO_WAL = (
    "hwdag keeps no write-ahead log; if you turned one on with another program, turn it off there "
    "(PRAGMA journal_mode = DELETE)"
)


def refuse_foreign_files(path: Path, *, bounded: bool = True) -> None:
    """Raise `IndexCorrupt` for files beside `path` that SQLite would use and that hwdag never writes.

    To be called before SQLite looks at the file. SQLite waits for pipes, writes its journal into
    whatever has that name, and rolls back any journal. If that names a super-journal, as commits to
    several attached databases do, SQLite then deletes the file of that name. hwdag attaches no
    databases and keeps no write-ahead log. The journal of a writer that was killed is accepted, and
    that of one at work.

    Args:
        path: without links, since SQLite resolves them too.
        bounded: whether a journal must not make the file longer than it is.

    Source: https://www.sqlite.org/fileformat2.html#the_rollback_journal
    """
    for ending in ("-wal", "-shm"):
        log = path.with_name(path.name + ending)
        if os.path.lexists(log):
            raise _foreign(log, "it belongs to a write-ahead log", _NO_WAL)
    journal = journal_of(path)
    try:
        if not _is_plain(journal):
            raise _foreign(journal, "it is a link or no plain file", _MOVE)
        _check_journal(path, journal, bounded)
    except FileNotFoundError:
        pass  # there is none, or its writer has finished meanwhile
    except OSError as error:
        raise IndexFileError(f"{journal} cannot be read: {error}; make it readable") from error


def _is_plain(path: Path) -> bool:
    """Whether a file has one name and is no link, pipe, folder or device; raises `FileNotFoundError`."""
    found = path.lstat()
    return stat.S_ISREG(found.st_mode) and found.st_nlink <= 1  # some file systems count none


def _check_journal(path: Path, journal: Path, bounded: bool) -> None:
    with erasure.open_plain(journal) as file:
        head = file.read(struct.calcsize(_HEADER))
        end = file.seek(0, os.SEEK_END)
        file.seek(max(end - len(_MAGIC), 0))
        if end >= 2 * len(_MAGIC) and file.read() == _MAGIC:
            raise _foreign(journal, "it names another file, which SQLite would delete", _MOVE)
        if head[:1] in (b"", b"\0"):
            return  # not in force
        if not head.startswith(_MAGIC):
            raise _foreign(journal, "it is no journal of SQLite", _MOVE)
        if len(head) < struct.calcsize(_HEADER):
            return  # SQLite applies nothing of it
        pages, page = struct.unpack(_HEADER, head)
        if page != PAGE_SIZE:
            raise _foreign(journal, f"its pages have {page} bytes, not {PAGE_SIZE}", _MOVE)
        size = path.stat().st_size if path.exists() else 0
        # why links: what was deleted meanwhile says nothing about the file as it is now
        if bounded and 0 < size < pages * page and os.fstat(file.fileno()).st_nlink:
            raise _foreign(journal, f"it makes {path} longer than it can have been", _MOVE)


_MOVE = "move it away"


def _foreign(path: Path | str, seen: str, remedy: str) -> IndexCorrupt:
    return IndexCorrupt(
        f"{path} was not written by hwdag: {seen}. Nothing was read or changed. Use the index only if "
        f"you trust where it comes from; then {remedy}, or run `hwdag repair`"
    )


def corrupt(path: Path | str, reason: object) -> IndexCorrupt:
    """Make the error for a file that is damaged as a whole."""
    return IndexCorrupt(
        f"{path} is damaged: {reason}; restore a copy of the file, or run `hwdag repair`"
    )

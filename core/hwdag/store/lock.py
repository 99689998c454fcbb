"""Locks of threads that a forked process does not wait for, and the right to build."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import RLock

from hwdag.errors import IndexBusy, IndexFileError


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

    def __enter__(self) -> None:
        if self.is_forked:
            raise IndexFileError(
                f"{self._name} was opened before this process was forked; load it again here"
            )
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
    try:
        yield
    finally:
        lock.release()

"""The store that an index is bound to: a SQLite file, or memory; made with the first change."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, fields
from pathlib import Path

from hwdag.config import BuildConfig
from hwdag.errors import EmptyIndex, IndexMismatch
from hwdag.models import Models
from hwdag.search.searcher import Searcher
from hwdag.store.lock import build_lock
from hwdag.store.opening import check_folder, holds_something
from hwdag.store.sqlite import Header, Store
from hwdag.store.unfinished import beside, explained, take_place
from hwdag.version import __version__


class Binding:
    """A store that may not be there yet, since its header names the models.

    Attributes:
        path: of the file; None for memory.
        config: what the index is built with.
        store: None before the first change.
    """

    def __init__(self, path: Path | None, config: BuildConfig) -> None:
        self.path = path
        self.config = config
        self._opened: tuple[Store, Searcher] | None = None

    @property
    def store(self) -> Store | None:
        """The store, if there is one."""
        return None if self._opened is None else self._opened[0]

    @property
    def filled(self) -> Store:
        """The store; raises `EmptyIndex` while there is none."""
        return self._both[0]

    @property
    def searcher(self) -> Searcher:
        """What walks over it; raises `EmptyIndex` while there is none."""
        return self._both[1]

    @property
    def _both(self) -> tuple[Store, Searcher]:
        if self._opened is None:
            raise EmptyIndex("the index holds no document; insert some first")
        return self._opened

    def bind(self, store: Store) -> None:
        """Take a store for the one."""
        self._opened = (store, Searcher(store))

    def bind_existing(self) -> None:
        """Open the file that somebody else has made meanwhile, if it is like this index.

        Raises:
            IndexMismatch: it was built with another config.
        """
        if self._opened is None and self.path is not None and holds_something(self.path):
            store = Store.open(self.path)
            try:
                config_of(store, self.config)
            except BaseException:
                store.close()
                raise
            self.bind(store)

    @contextmanager
    def building(self, models: Models, timeout: float) -> Iterator[Store]:
        """The store, which nobody else builds into meanwhile; raises `IndexBusy`."""
        if self.path is not None:
            check_folder(self.path)
        with build_lock(self.path, timeout):
            self.bind_existing()
            if self._opened is None:
                self.bind(Store.create(self.path, self._header_of(models)))
            yield self.filled

    def save(self, target: Path, models: Models, *, overwrite: bool) -> None:
        """Write everything to another file; see `HWDAGIndex.save`."""
        if not overwrite or not target.exists():
            self._write(target, models)
        elif self.store is None or not self.store.database.is_in(target):
            with explained(), beside(target) as unfinished:
                self._write(unfinished, models)
                take_place(unfinished, target)

    def header(
        self, reader: str, embedder: str, dimension: int, dtype: str | None = None
    ) -> Header:
        """What a store of this index begins with."""
        return Header(reader, embedder, dimension, asdict(self.config), __version__, dtype)

    def _header_of(self, models: Models) -> Header:
        reader, embedder = models.reader, models.embedder
        # why optional: a reader of one's own may have no weights
        dtype = getattr(reader, "dtype", None)
        return self.header(reader.name, embedder.name, embedder.dimension, dtype)

    def _write(self, path: Path, models: Models) -> None:
        if self.store is None:
            Store.create(path, self._header_of(models)).close()
        else:
            self.store.copy(path)


def config_of(store: Store, expected: BuildConfig | None) -> BuildConfig:
    """What a store was built with; raises `IndexMismatch` if something else is expected."""
    stored = BuildConfig.from_dict(store.header.config)
    if expected is not None and expected != stored:
        differing = (
            f"{field.name}={getattr(stored, field.name)!r}, not {getattr(expected, field.name)!r}"
            for field in fields(stored)
            if getattr(stored, field.name) != getattr(expected, field.name)
        )
        raise IndexMismatch(
            f"{store.path} was built with {'; '.join(differing)}. Leave config out to use the file's "
            "own, or build into another file"
        )
    return stored

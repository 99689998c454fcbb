"""The store that an index is bound to: a SQLite file, or memory; made with the first change."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, fields
from pathlib import Path

from hwdag.config import BuildConfig
from hwdag.errors import EmptyIndex, IndexMismatch
from hwdag.models import Models
from hwdag.search.snapshots import Snapshots
from hwdag.store.database import build_lock, on_error
from hwdag.store.sqlite import Header, Store, check_folder, holds_something
from hwdag.store.unfinished import file_errors, replace_file, unfinished_file


class Binding:
    """A store that may not be there yet, since its header names the models; in memory without a `path`."""

    def __init__(self, path: Path | None, config: BuildConfig, models: Models) -> None:
        self.path = path
        self.store: Store | None = None
        self._snapshots: Snapshots | None = None
        self._config = config
        self._models = models

    @property
    def filled(self) -> Store:
        """The store; raises `EmptyIndex` while there is none."""
        if self.store is None:
            raise EmptyIndex
        return self.store

    @property
    def snapshots(self) -> Snapshots:
        """What walks over the store; raises `EmptyIndex` while there is none."""
        if self._snapshots is None:
            raise EmptyIndex
        return self._snapshots

    def bind(self, store: Store) -> None:
        """Take a store for the one."""
        self.path, self.store, self._snapshots = store.path, store, Snapshots(store)

    def bind_existing(self) -> None:
        """Open the file that somebody else has made meanwhile; `IndexMismatch` if it is another index."""
        if self.store is None and self.path is not None and holds_something(self.path):
            store = Store.open(self.path)
            with on_error(store.close):
                config_of(store, self._config)
            self.bind(store)

    @contextmanager
    def building(self, timeout: float) -> Iterator[Store]:
        """The store, which nobody else builds into meanwhile; raises `IndexBusy`."""
        if self.path is not None:
            check_folder(self.path)
        with build_lock(self.path, timeout):
            self.bind_existing()
            if self.store is None:
                self.bind(Store.create(self.path, self._header()))
            yield self.filled

    def save(self, target: Path, *, overwrite: bool) -> None:
        """Write everything to another file; see `HWDAGIndex.save`."""
        if not overwrite or not target.exists():
            self._write(target)
        elif self.store is None or not self.store.database.is_in(target):
            with file_errors(), unfinished_file(target) as unfinished:
                self._write(unfinished)
                replace_file(unfinished, target)

    def _write(self, path: Path) -> None:
        if self.store is None:
            Store.create(path, self._header()).close()
        else:
            self.store.copy(path)

    def _header(self) -> Header:
        reader, embedder = self._models.reader, self._models.embedder
        # why optional: a reader of one's own may have no weights
        dtype = getattr(reader, "dtype", None)
        config = asdict(self._config.resolved(self._models.method(self._config)))
        return Header(reader.name, embedder.name, embedder.dimension, config, dtype=dtype)


def config_of(store: Store, expected: BuildConfig | None) -> BuildConfig:
    """What a store was built with; raises `IndexMismatch` if something else is expected."""
    stored = BuildConfig.from_dict(store.header.config)
    if expected is not None and stored != (expected := expected.resolved(stored.rules.method)):
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

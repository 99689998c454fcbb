"""Where an index lives: one SQLite file or memory, its models, and what is in it.

What is seldom asked for is imported where it is needed: a tenth of the time of `import hwdag.index`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Self

from hwdag.building.report import BuildReport
from hwdag.config import BuildConfig
from hwdag.embedding.base import Embedder
from hwdag.errors import EmptyIndex, HWDAGError, IndexMismatch, InputError
from hwdag.graph.dag import HWDAG
from hwdag.lm.base import Reader, Writer
from hwdag.models import Models
from hwdag.search.live import Searcher
from hwdag.store.lock import BuildLock, ThreadLock
from hwdag.store.opening import check_folder, holds_something
from hwdag.store.sqlite import Entry, Header, Store
from hwdag.store.unfinished import beside, explained, take_place
from hwdag.store.views import Stored
from hwdag.text.prompts import Prompts
from hwdag.trace.bars import Reporter
from hwdag.types import Document
from hwdag.version import __version__

if TYPE_CHECKING:
    from hwdag.store.integrity import Compacted, Verdict


class StoredIndex:
    """The half of `hwdag.HWDAGIndex` that opens, keeps and shows; nothing here asks a model."""

    def __init__(
        self,
        *,
        reader: Reader | str | None = None,
        writer: Writer | Callable[[str], str] | None = None,
        embedder: Embedder | str | None = None,
        config: BuildConfig | None = None,
        prompts: Prompts | None = None,
        path: str | Path | None = None,
    ) -> None:
        """An empty index; `from_documents` and `load` are what you want.

        Args:
            reader: the local model, its hub name or path, or None for the embedded default.
            writer: who writes Information Points; a Writer, a function from prompt to text, or None
                for the reader itself (or extraction, see `BuildConfig.points`).
            embedder: an Embedder, a sentence-transformers name, or None for the embedded default.
            config: how documents become graphs.
            prompts: replacements for the papers' prompts.
            path: file to create; None keeps the index in memory.

        Raises:
            InputError: there is an index at `path` already.
        """
        if path is not None and holds_something(Path(path)):
            raise InputError(
                f"{path} exists; open it with load(), or add to it with from_documents()"
            )
        self.config = config or BuildConfig()
        self.prompts = prompts or Prompts()
        self._models = Models(reader, writer, embedder)
        self._models.check(self.config)
        self._path = Path(path) if path is not None else None
        self._opened: tuple[Store, Searcher] | None = None
        self._changes = ThreadLock("the index" if path is None else str(path))
        self.report: BuildReport | None = None
        """What `from_documents` did."""

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        reader: Reader | str | None = None,
        writer: Writer | Callable[[str], str] | None = None,
        embedder: Embedder | str | None = None,
        config: BuildConfig | None = None,
        prompts: Prompts | None = None,
    ) -> Self:
        """Open an index file; changes to the index are written to it.

        Nothing but its header is read before it is needed. The reader and the embedder are those
        that the file names, unless given. Another reader may walk a graph (PECAN Table 2 searches
        with a smaller model), but not extend it.

        Raises:
            NotAnIndex, IndexVersionError, IndexCorrupt: the file cannot be used.
            IndexMismatch: the embedder is not the one that the nodes were embedded with, or the
                config differs from the one that the index was built with.
        """
        options = {"reader": reader, "writer": writer, "embedder": embedder, "prompts": prompts}
        return cls._from_store(Store.open(path), config, **options)  # type: ignore[arg-type]

    @classmethod
    def _from_store(
        cls,
        store: Store,
        config: BuildConfig | None,
        *,
        reader: Reader | str | None,
        writer: Writer | Callable[[str], str] | None,
        embedder: Embedder | str | None,
        prompts: Prompts | None,
    ) -> Self:
        """An index over a store, which is closed if that cannot be."""
        try:
            header = store.header
            stored = _config_of(store, config)
            index = cls(
                reader=reader or header.reader,
                writer=writer,
                embedder=embedder or header.embedder,
                config=stored,
                prompts=prompts,
            )
            index._path = store.path
        except BaseException:
            store.close()
            raise
        index._bind(store)
        return index

    @classmethod
    def from_entries(
        cls,
        entries: Iterable[Entry],
        *,
        built_by: str,
        reader: Reader | str | None = None,
        writer: Writer | Callable[[str], str] | None = None,
        embedder: Embedder | str | None = None,
        config: BuildConfig | None = None,
        prompts: Prompts | None = None,
    ) -> Self:
        """An index in memory from finished graphs, for stores other than the single file.

        `built_by` is the name of the reader that built them.
        """
        index = cls(
            reader=reader or built_by,
            writer=writer,
            embedder=embedder,
            config=config,
            prompts=prompts,
        )
        found = list(entries)
        if found:
            dimension = found[0].vectors.shape[1]
            name = index._models.embedder_name or index._models.embedder.name
            index._bind(Store.create(None, index._header(built_by, name, dimension)))
        for entry in found:
            index._store.put(entry.document, entry.graph, entry.vectors)
        return index

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write all documents to a new file; the index itself stays bound to what it was.

        Args:
            path: the file.
            overwrite: replace a file that is there. Whoever has it open reads on in the old one,
                and must load it again to change it. The file that the index is bound to holds all
                of it at any time, and is left alone.

        Raises:
            InputError: the file exists.
            IndexFileError: it cannot be written, or somebody else is writing to it.
        """
        target = Path(path).resolve()
        if not overwrite or not target.exists():
            self._write(target)
        elif self._opened is None or not self._store.is_in(target):
            with explained(), beside(target) as unfinished:
                self._write(unfinished)
                take_place(unfinished, target)

    def _write(self, path: Path) -> None:
        if self._opened is None:
            Store.create(path, self._header_of_models()).close()
        else:
            self._store.copy(path)

    def export(self, path: str | Path, *, show_progress: bool | Reporter = False) -> None:
        """Write all documents and graphs for other programs; the ending of the path says how.

        `.jsonl` is a JSON value per line, `.graphml` one graph; see `hwdag.store.exporting`.

        Raises:
            InputError: the file exists, or the index holds no document.
        """
        from hwdag.store.exporting import export_index

        export_index(self._filled(), path, show_progress=show_progress)

    def verify(self, *, show_progress: bool | Reporter = False) -> Verdict:
        """Check every page, document and cached call of the file that the index is bound to.

        Raises:
            InputError: it is not bound to a file.
        """
        from hwdag.store.integrity import verify

        if self._path is None:
            raise InputError("an index in memory has no file to verify; save() it first")
        return verify(self._path, show_progress=show_progress)

    def compact(self, *, drop_calls: bool = False) -> Compacted:
        """Give back the space of what was deleted.

        Args:
            drop_calls: forget finished model calls too; unfinished builds and later versions of a
                document then pay for them again.
        """
        from hwdag.store.integrity import compact

        store = self._filled()
        # why: on a connection of its own searches here wait no longer than those of others
        return compact(self._path or store, drop_calls=drop_calls)

    def close(self) -> None:
        """Release the file; an index in memory is gone then. Closing twice does no harm."""
        if self._changes.is_forked:
            return  # what it has open is that of another process
        with self._changes:
            if self._opened is not None:
                self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def documents(self) -> Mapping[str, Document]:
        """Documents by id; each is read when it is asked for."""
        return Stored(self._maybe_store, Store.document)

    @property
    def graphs(self) -> Mapping[str, HWDAG]:
        """Graphs by document id; each is read when it is asked for."""
        return Stored(self._maybe_store, lambda store, key: store.load(key).graph)

    @property
    def entries(self) -> Mapping[str, Entry]:
        """Documents with graphs and embeddings, by document id, read when asked for."""
        return Stored(self._maybe_store, Store.load)

    def __len__(self) -> int:
        return len(self.documents)

    def __repr__(self) -> str:
        where = self._path or "in memory"
        try:
            nodes = 0 if self._opened is None else self._store.node_count()
            return f"{type(self).__name__}({len(self):,} documents, {nodes:,} nodes, {where})"
        except HWDAGError:
            return f"{type(self).__name__}(closed, {where})"

    @property
    def built_by(self) -> str | None:
        """Name of the reader that built the graphs; None while there are none."""
        return self._store.header.reader if self._opened is not None else None

    @property
    def reader(self) -> Reader:
        """The local model; loaded on first use."""
        return self._models.reader

    @property
    def embedder(self) -> Embedder:
        """The embedding model; loaded on first use. Raises `IndexMismatch` if it is another one."""
        embedder = self._models.embedder
        recorded = self._store.header.embedder if self._opened is not None else embedder.name
        if recorded != embedder.name:
            raise IndexMismatch(
                f"the nodes were embedded with {recorded!r}, which similarity needs too; got "
                f"{embedder.name!r}. Leave the embedder out, or build anew"
            )
        return embedder

    @property
    def _store(self) -> Store:
        assert self._opened is not None  # callers have checked
        return self._opened[0]

    @property
    def _searcher(self) -> Searcher:
        assert self._opened is not None  # callers have checked
        return self._opened[1]

    def _filled(self) -> Store:
        """The store; raises `InputError` while there is none."""
        if self._opened is None:
            raise EmptyIndex("the index holds no document; insert some first")
        return self._store

    def _maybe_store(self) -> Store | None:
        return self._opened[0] if self._opened is not None else None

    def _bind(self, store: Store) -> None:
        self._opened = (store, Searcher(store))

    def _bind_existing(self) -> None:
        """Open the file that somebody else has made meanwhile, if it is like this index.

        Raises:
            IndexMismatch: it was built with another config.
        """
        if self._opened is None and self._path is not None and holds_something(self._path):
            store = Store.open(self._path)
            try:
                _config_of(store, self.config)
            except BaseException:
                store.close()
                raise
            self._bind(store)

    @contextmanager
    def _building(self, timeout: float) -> Iterator[Store]:
        """The store, which nobody else builds into meanwhile; raises `IndexBusy`.

        It is made with the first change, since its header names the models.
        """
        if self._path is not None:
            check_folder(self._path)
        with BuildLock(self._path).held(timeout):
            self._bind_existing()
            if self._opened is None:
                self._bind(Store.create(self._path, self._header_of_models()))
            yield self._store

    def _header_of_models(self) -> Header:
        embedder = self.embedder
        return self._header(self.reader.name, embedder.name, embedder.dimension)

    def _header(self, reader: str, embedder: str, dimension: int) -> Header:
        return Header(reader, embedder, dimension, asdict(self.config), __version__)


def _config_of(store: Store, expected: BuildConfig | None) -> BuildConfig:
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

"""Retrievers that can be saved: what they keep of a document is a JSON record and some arrays.

    retriever = DenseRetriever.from_documents(documents, path="notes.dense")  # on disk one by one
    retriever = DenseRetriever.load("notes.dense")

Searching needs no file: a retriever holds its documents in memory, and reads what other processes
have put into its file when it is changed itself.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, ClassVar, Self

from hwdag.building.calls import CallCache, Calls, MemoryCalls
from hwdag.building.report import BuildReport
from hwdag.config import SearchConfig
from hwdag.embedding.base import Embedder
from hwdag.errors import IndexFileError, IndexMismatch, InputError, ReaderRequired
from hwdag.lm.base import Reader, Session, Writer
from hwdag.models import Models
from hwdag.scope import Scope
from hwdag.search.walk import OnStep
from hwdag.store.lock import BuildLock
from hwdag.store.opening import check_folder, check_free, holds_something
from hwdag.store.records import content_hash
from hwdag.text.prompts import SearchPrompts
from hwdag.trace.bars import Reporter
from hwdag.types import Document, Retrieval
from hwdag_lab.methods.base import DocumentRetriever, T
from hwdag_lab.methods.packing import MALFORMED
from hwdag_lab.methods.saved_file import (
    Arrays,
    Saved,
    SavedFile,
    SavedHeader,
    damaged,
    write_file,
)

WAIT_SECONDS = 30.0
"""How long a change waits for another process's change of the same file."""


class SavedRetriever(DocumentRetriever[T]):
    """Base of the retrievers that can be saved.

    A subclass has `method`, `settings`, `_options`, `_pack` and `_unpack`, and calls this `__init__`
    last in its own, since a file is read there. Calls of a writer that go through `self._calls()`
    are on disk as soon as they are finished: an interrupted build does not repeat them.

    Args:
        reader: a local model, or the name of one; None for that of the file, or the default.
        prompts: the two turns in which the answer is asked for.
        writer: a Writer, or a function from prompt to text; None for the method's own choice.
        embedder: an Embedder, or the name of one; None for that of the file, or the default.
        path: a file that holds such a retriever, or that is made with the first document; every
            finished document is written to it at once. None keeps all in memory.

    Raises:
        InputError: the folder of the path does not exist.
        NotAnIndex, IndexVersionError, IndexCorrupt: the file cannot be used.
        IndexMismatch: the file was built by another method, or with other settings.
    """

    method: ClassVar[str]
    """What a file is marked with."""
    keeps_vectors: ClassVar[bool] = True
    """Whether what is kept holds embeddings, so that it can be searched with one embedder alone."""
    keeps_attention: ClassVar[bool] = False
    """Whether what is kept is of the reader, so that no other reader can search it."""

    def __init__(
        self,
        *,
        reader: Reader | str | None = None,
        prompts: SearchPrompts | None = None,
        writer: Writer | Callable[[str], str] | None = None,
        embedder: Embedder | str | None = None,
        path: str | Path | None = None,
    ) -> None:
        super().__init__(reader=reader, prompts=prompts)
        self._models = Models(reader, writer, embedder)
        self._path = Path(path) if path is not None else None
        self._header: SavedHeader | None = None
        self._file: SavedFile | None = None
        self._numbers: dict[str, int] = {}
        self._finished_calls = MemoryCalls()
        self._made_calls: list[Calls] = []
        if self._path is None:
            return
        check_folder(self._path)
        if holds_something(self._path):
            with closing(SavedFile(self._path)) as file:
                self._check(file.header)
                self._models = Models(
                    reader or file.header.reader, writer, embedder or file.header.embedder
                )
                self._synchronise(file)

    def _replying(self, what: str) -> Writer:
        """The writer that was given, or the reader; `what` it is needed for begins the error.

        Raises:
            ReaderRequired: no writer was given, and the reader cannot write.
        """
        writer = self._models.given_writer or self.reader
        if not isinstance(writer, Writer):
            raise ReaderRequired(
                f"{what} by written replies, and the reader {writer.name} cannot write; pass "
                "writer=: any Writer, or a function from prompt to text"
            )
        return writer

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """All that decides what is kept of a document, models apart, as JSON-able values."""

    @classmethod
    def _options(cls, settings: Mapping[str, Any]) -> dict[str, Any]:
        """The options of the constructor that give these settings."""
        return dict(settings)

    @abstractmethod
    def _pack(self, built: T) -> tuple[dict[str, Any], Arrays]:
        """What is kept of a document as a JSON-able record and arrays; see `packing`."""

    @abstractmethod
    def _unpack(self, document: Document, record: dict[str, Any], arrays: Arrays) -> T:
        """What was packed; raises one of `packing.MALFORMED` for what cannot have been."""

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        reader: Reader | str | None = None,
        writer: Writer | Callable[[str], str] | None = None,
        embedder: Embedder | str | None = None,
        **options: Any,
    ) -> Self:
        """Open a file; changes are written to it.

        Args:
            path: what `save`, or `path=` of the constructor, has written.
            reader: see the constructor; another reader may search, unless the method keeps what the
                reader did, but not insert.
            writer: see the constructor.
            embedder: see the constructor; it must be the one that the file was built with.
            options: of the constructor, for what is not fixed by the file.

        Raises:
            InputError: there is no file.
            NotAnIndex, IndexVersionError, IndexCorrupt: the file cannot be used.
            IndexMismatch: it was built by another method, or with other settings.
        """
        path = Path(path)
        if not holds_something(path):
            raise InputError(f"there is no file {path}; from_documents(..., path=) makes one")
        with closing(SavedFile(path)) as file:
            _check_method(path, file.header, cls.method)
            try:
                found = cls._options(file.header.settings)
            except MALFORMED as error:
                raise damaged(path, error) from error
        models = {"reader": reader, "writer": writer, "embedder": embedder}
        given = {role: model for role, model in models.items() if model is not None}
        return cls(path=path, **found | options | given)

    def save(self, path: str | Path) -> None:
        """Write all documents to a new file, which is there as a whole or not at all.

        The retriever itself stays bound to the file that it had, if any.

        Raises:
            InputError: the file exists, its folder does not, or metadata is not JSON.
        """
        path = Path(path)
        check_free(path)
        with self._changes:
            header = self._header or self._header_of_models()
            write_file(path, header, (self._saved(*held) for held in self._held.values()))

    def insert(
        self, documents: Iterable[Document | str], *, show_progress: bool | Reporter = False
    ) -> BuildReport:
        """Add documents; those that are there with the same content cost nothing.

        With a file each is on disk once it is finished, as are the writer's replies for the others.

        Raises:
            InputError: an id is taken by a document with other content, or metadata is not JSON.
            IndexMismatch: reader or embedder are not those that the file was built with.
            IndexBusy: another process is changing the file.
        """
        with self._changing():
            self._check_reader()
            self._made_calls = []
            report = super().insert(documents, show_progress=show_progress)
            report.reused += sum(calls.reused for calls in self._made_calls)
            self._finished_calls = MemoryCalls()
            if self._file is not None:
                self._file.forget_calls()
        return report

    def delete(self, document_id: str) -> None:
        """Remove a document with all that was derived from it, from the file too.

        Raises:
            InputError: it is not there.
            IndexBusy: another process is changing the file.
        """
        with self._changing(creates=False):
            if self._file is not None and document_id in self._held:
                self._file.delete(document_id)
                del self._numbers[document_id]
            super().delete(document_id)

    @property
    def embedder(self) -> Embedder:
        """The embedding model; loaded on first use. Raises `IndexMismatch` if it is another one."""
        embedder = self._models.embedder
        recorded = self._header.embedder if self._header is not None else None
        if recorded not in (None, embedder.name):
            raise IndexMismatch(
                f"{self._path} was embedded with {recorded!r}, which questions need too; got "
                f"{embedder.name!r}. Leave the embedder out, or build another file"
            )
        return embedder

    def _calls(self) -> Calls:
        """The writer's finished calls; to be asked for once per document."""
        cache: CallCache = self._finished_calls if self._file is None else self._file
        calls = Calls(cache)
        self._made_calls.append(calls)
        return calls

    def _insert(self, document: Document, report: BuildReport) -> None:
        content_hash(document)  # why: what cannot be saved must not cost a build
        super()._insert(document, report)

    def _is_same(self, known: Document, document: Document) -> bool:
        # why: JSON turns tuples into lists, and that is what comes back from a file
        return content_hash(known) == content_hash(document)

    def _keep(self, document: Document, built: T) -> None:
        if self._file is not None:
            self._numbers[document.id] = self._file.put(self._saved(document, built))
        super()._keep(document, built)

    def _search(
        self,
        question: str,
        config: SearchConfig,
        scope: Scope | None,
        on_step: OnStep | None,
        k: int | None = None,
    ) -> tuple[Retrieval, Session, object]:
        if self.keeps_attention:
            self._check_reader()
        return super()._search(question, config, scope, on_step, k)

    @contextmanager
    def _changing(self, *, creates: bool = True) -> Iterator[None]:
        """The right to change what is held, with the file, if any, open and all of it read."""
        with self._changes:
            if self._path is None or not (creates or self._numbers or holds_something(self._path)):
                yield
                return
            check_folder(self._path)
            with BuildLock(self._path).held(WAIT_SECONDS), closing(self._opened()) as file:
                self._synchronise(file)
                self._file = file
                try:
                    yield
                finally:
                    self._file = None

    def _opened(self) -> SavedFile:
        assert self._path is not None  # asked for files alone
        if holds_something(self._path):
            file = SavedFile(self._path)
            try:
                self._check(file.header)
            except BaseException:
                file.close()
                raise
            return file
        if self._numbers:
            raise IndexFileError(
                f"{self._path} was moved or deleted since it was read; load it again"
            )
        return SavedFile(self._path, self._header_of_models())

    def _synchronise(self, file: SavedFile) -> None:
        """Hold what the file holds; what is known already is not read again."""
        numbers = file.numbers
        held = {}
        for key, number in numbers.items():
            known = self._held.get(key)
            if known is None or self._numbers.get(key) != number:
                known = self._read(file, number)
            held[key] = known
        self._header, self._numbers, self._held = file.header, numbers, held

    def _read(self, file: SavedFile, number: int) -> tuple[Document, T]:
        document, record, arrays = file.document(number)
        try:
            return document, self._unpack(document, record, arrays)
        except MALFORMED as error:
            assert self._path is not None  # it was just read
            raise damaged(self._path, error) from error

    def _saved(self, document: Document, built: T) -> Saved:
        record, arrays = self._pack(built)
        return Saved(document, record, dict(arrays))

    def _header_of_models(self) -> SavedHeader:
        writer = self._models.given_writer
        return SavedHeader(
            self.method,
            self.settings(),
            self.reader.name,
            writer.name if writer is not None else None,
            self.embedder.name if self.keeps_vectors else None,
        )

    def _check(self, header: SavedHeader) -> None:
        assert self._path is not None  # it was just opened
        _check_method(self._path, header, self.method)
        settings = json.loads(json.dumps(self.settings()))  # as the file has it
        if header.settings != settings:
            raise IndexMismatch(
                f"{self._path} was built with {header.settings}, not with {settings}; load() takes "
                "those of the file, or build another file"
            )

    def _check_reader(self) -> None:
        recorded = self._header.reader if self._header is not None else None
        if recorded not in (None, self.reader.name):
            raise IndexMismatch(
                f"{self._path} was built by the reader {recorded!r}, got {self.reader.name!r}, whose "
                "tokens and attention are others; leave the reader out, or build another file"
            )


def _check_method(path: Path, header: SavedHeader, method: str) -> None:
    if header.method != method:
        raise IndexMismatch(
            f"{path} was saved by the method {header.method!r}, not by {method!r}; load it with the "
            "class of that method"
        )

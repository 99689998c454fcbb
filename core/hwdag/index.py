"""What a user calls: documents in, answered questions out.

    index = HWDAGIndex.from_documents([Document("a", text)], path="notes.hwdag")
    answer = index.answer("Who wrote it?")

An index may live in memory or be bound to one SQLite file; a bound one writes every finished
document through at once, so an interrupted build loses nothing that was finished.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Self

from hwdag.build.builder import Tools
from hwdag.build.insertion import Insertion, as_document
from hwdag.build.report import BuildReport
from hwdag.config import BuildConfig, SearchConfig, checked_k
from hwdag.embedding.base import Embedder
from hwdag.embedding.default import default_embedder, load_embedder
from hwdag.errors import IndexMismatch, InputError
from hwdag.graph.dag import HWDAG
from hwdag.lm.base import Reader, Writer
from hwdag.lm.writers import as_writer
from hwdag.search.answering import AnswerStream
from hwdag.search.corpus import Corpus
from hwdag.search.walk import OnStep, Walked, walk
from hwdag.store.sqlite import Entry, Header, Store
from hwdag.text.characters import without_surrogates
from hwdag.text.prompts import Prompts
from hwdag.trace.progress import Progress, as_progress
from hwdag.types import Answer, Document, Retrieval
from hwdag.version import __version__


@dataclass(frozen=True)
class _Snapshot:
    """All documents at one moment; replaced, never changed, so searches need no lock."""

    entries: Mapping[str, Entry]

    @cached_property
    def corpus(self) -> Corpus:
        entries = self.entries.values()
        return Corpus.of(
            [e.graph for e in entries],
            [e.vectors for e in entries],
            [e.document.text for e in entries],
        )


class HWDAGIndex:
    """HWDAGs of many documents, and the walk over them.

    Searching is safe from many threads; changes are serialised. Models are loaded when first
    needed: loading an index and looking at its graphs needs no language model.

    Relations: `llama_index_hwdag.HWDAGIndex` and `langchain_hwdag.HWDAGIndex` are thin faces on it.
    """

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
        """
        self._given_reader = reader
        self._given_embedder = embedder
        self._writer = as_writer(writer)
        self.config = config or BuildConfig()
        self.prompts = prompts or Prompts()
        self._path = Path(path) if path is not None else None
        self._snapshot = _Snapshot({})
        self._changes = threading.Lock()
        self._models = threading.RLock()
        self._built_by: str | None = None
        self._embedder_name: str | None = None
        self.report: BuildReport | None = None
        """What `from_documents` did."""
        if self.config.points == "extractive" and writer is not None:
            raise InputError('a writer was given, but points="extractive" never asks one')

    @classmethod
    def from_documents(
        cls,
        documents: Iterable[Document | str],
        *,
        reader: Reader | str | None = None,
        writer: Writer | Callable[[str], str] | None = None,
        embedder: Embedder | str | None = None,
        config: BuildConfig | None = None,
        prompts: Prompts | None = None,
        path: str | Path | None = None,
        progress: bool | Progress = False,
    ) -> Self:
        """Build an index; see `__init__` for the arguments and `report` for what happened.

        With a `path` that holds an index already, documents that are in it with the same content
        cost nothing: an interrupted build goes on where it was.
        """
        options = {"reader": reader, "writer": writer, "embedder": embedder, "prompts": prompts}
        if path is not None and _holds_something(Path(path)):
            index = cls.load(path, config=config, **options)  # type: ignore[arg-type]
        else:
            index = cls(config=config, path=path, **options)  # type: ignore[arg-type]
        index.report = index.refresh(documents, progress=progress)
        return index

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

        The reader and the embedder are those that the file names, unless given. Another reader may
        walk a graph (PECAN Table 2 searches with a smaller model), but not extend it.

        Raises:
            NotAnIndex, IndexVersionError, IndexCorrupt: the file cannot be used.
            IndexMismatch: the embedder is not the one that the nodes were embedded with, or the
                config differs from the one that the index was built with.
        """
        with Store.open(Path(path), readonly=True) as store:
            header = store.header
            entries = {entry.document.id: entry for entry in store.load_all()}
        stored = BuildConfig.from_dict(header.config)
        if config is not None and config != stored:
            raise IndexMismatch(
                f"{path} was built with {stored}, not with {config}; leave config out to use the "
                "file's own, or build into another file"
            )
        index = cls(
            reader=reader or header.reader,
            writer=writer,
            embedder=embedder or header.embedder,
            config=stored,
            prompts=prompts,
        )
        index._path = Path(path)
        index._snapshot = _Snapshot(entries)
        index._built_by = header.reader
        index._embedder_name = header.embedder
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
        index._snapshot = _Snapshot({entry.document.id: entry for entry in entries})
        index._built_by = built_by
        return index

    def save(self, path: str | Path) -> None:
        """Write all documents to a new file; the index itself stays bound to what it was.

        Raises `InputError` if the file exists.
        """
        with Store.create(Path(path), self._header()) as store:
            for entry in self._snapshot.entries.values():
                store.put(entry.document, entry.graph, entry.vectors)

    @property
    def name(self) -> str:
        """Names the method in tables and traces, as with every retriever."""
        return "hwdag"

    @property
    def documents(self) -> Mapping[str, Document]:
        """Documents by id."""
        entries = self._snapshot.entries
        return MappingProxyType({key: entry.document for key, entry in entries.items()})

    @property
    def graphs(self) -> Mapping[str, HWDAG]:
        """Graphs by document id."""
        entries = self._snapshot.entries
        return MappingProxyType({key: entry.graph for key, entry in entries.items()})

    @property
    def entries(self) -> Mapping[str, Entry]:
        """Documents with graphs and embeddings, by document id."""
        return MappingProxyType(dict(self._snapshot.entries))

    def __len__(self) -> int:
        return len(self._snapshot.entries)

    @property
    def built_by(self) -> str | None:
        """Name of the reader that built the graphs; None while there are none."""
        return self._built_by

    @property
    def reader(self) -> Reader:
        """The local model; loaded on first use."""
        with self._models:
            if not isinstance(self._given_reader, Reader):
                from hwdag.lm.default import as_reader

                self._given_reader = as_reader(self._given_reader)
            return self._given_reader

    @property
    def embedder(self) -> Embedder:
        """The embedding model; loaded on first use. Raises `IndexMismatch` if it is another one."""
        with self._models:
            if self._given_embedder is None:
                self._given_embedder = default_embedder()
            elif isinstance(self._given_embedder, str):
                self._given_embedder = load_embedder(self._given_embedder)
            if self._embedder_name not in (None, self._given_embedder.name):
                raise IndexMismatch(
                    f"the nodes were embedded with {self._embedder_name!r}, which similarity needs "
                    f"too; got {self._given_embedder.name!r}. Leave the embedder out, or build anew"
                )
            return self._given_embedder

    def insert(
        self, documents: Iterable[Document | str], *, progress: bool | Progress = False
    ) -> BuildReport:
        """Add documents. Those that are there with the same content cost nothing.

        Raises:
            InputError: an id is taken by a document with other content (`refresh` replaces it).
        """
        return self._change(documents, progress, replace=False)

    def refresh(
        self, documents: Iterable[Document | str], *, progress: bool | Progress = False
    ) -> BuildReport:
        """Add new documents, rebuild changed ones, leave unchanged ones alone."""
        return self._change(documents, progress, replace=True)

    def delete(self, document_id: str) -> None:
        """Remove a document with its graph. Raises `InputError` if it is not there."""
        with self._changes:
            entries = dict(self._snapshot.entries)
            if document_id not in entries:
                raise InputError(f"no document {document_id!r}; there are {_some(entries)}")
            with self._file() as store:
                if store is not None:
                    store.delete(document_id)
            del entries[document_id]
            self._snapshot = _Snapshot(entries)

    def search(
        self,
        question: str,
        *,
        config: SearchConfig | None = None,
        document_ids: Collection[str] | None = None,
        k: int | None = None,
        on_step: OnStep | None = None,
    ) -> Retrieval:
        """Walk the graphs for a question.

        Args:
            question: any text.
            config: budget, progress control, heads.
            document_ids: only these documents are scored and shown; None for all.
            k: number of nodes wanted, for `Retrieval.best`; the walk itself does not change.
            on_step: called with every visited node as it happens.

        Raises:
            InputError: the question is blank, the index holds no document, or k is not a number.
            QuestionTooLong: the question leaves no room in the reader's context.
        """
        config = config or SearchConfig()
        return self._walk(question, config, document_ids, on_step, checked_k(k)).retrieval

    def answer(
        self,
        question: str,
        *,
        config: SearchConfig | None = None,
        document_ids: Collection[str] | None = None,
        on_step: OnStep | None = None,
    ) -> Answer:
        """Walk, then answer from the same KV cache; arguments and errors as in `search`."""
        return self.stream(
            question, config=config, document_ids=document_ids, on_step=on_step
        ).answer

    def stream(
        self,
        question: str,
        *,
        config: SearchConfig | None = None,
        document_ids: Collection[str] | None = None,
        on_step: OnStep | None = None,
    ) -> AnswerStream:
        """Walk, then return the answer as a stream of text pieces; see `search`."""
        config = config or SearchConfig()
        entries = self._snapshot.entries
        walked = self._walk(question, config, document_ids, on_step)
        return AnswerStream(
            walked, config.max_new_tokens, lambda document: entries[document].document.text
        )

    def _walk(
        self,
        question: str,
        config: SearchConfig,
        document_ids: Collection[str] | None,
        on_step: OnStep | None,
        k: int | None = None,
    ) -> Walked:
        if not question.strip():
            raise InputError("the question is empty or only white space")
        snapshot = self._snapshot
        if not snapshot.entries:
            raise InputError("the index holds no document; insert some first")
        if document_ids is not None and not set(document_ids) <= snapshot.entries.keys():
            missing = sorted(set(document_ids) - snapshot.entries.keys())
            raise InputError(f"no document {missing[0]!r}; there are {_some(snapshot.entries)}")
        return walk(
            snapshot.corpus,
            without_surrogates(question)[0],
            reader=self.reader,
            embedder=self.embedder,
            config=config,
            prompts=self.prompts.search,
            allowed=None if document_ids is None else snapshot.corpus.within(document_ids),
            k=k,
            on_step=on_step,
        )

    def _change(
        self, documents: Iterable[Document | str], progress: bool | Progress, *, replace: bool
    ) -> BuildReport:
        found = [as_document(document) for document in documents]
        with self._changes:
            tools = self._tools()
            with self._file() as store:
                insertion = Insertion(tools, dict(self._snapshot.entries), store, replace=replace)
                try:
                    return insertion.run(found, as_progress(progress))
                finally:  # what was finished stays, whatever interrupted the rest
                    self._built_by, self._embedder_name = tools.reader.name, tools.embedder.name
                    self._snapshot = _Snapshot(insertion.entries)

    def _file(self) -> AbstractContextManager[Store | None]:
        """The file that the index is bound to, created on first use; None for one in memory."""
        if self._path is None:
            return nullcontext()
        if _holds_something(self._path):
            return Store.open(self._path)
        return Store.create(self._path, self._header())

    def _tools(self) -> Tools:
        reader = self.reader
        if self._built_by not in (None, reader.name):
            raise IndexMismatch(
                f"the index was built by {self._built_by!r}; {reader.name!r} may search it but not "
                "extend it, since token counts and attention would not compare"
            )
        return Tools(reader, self._points_writer(reader), self.embedder, self.config, self.prompts)

    def _points_writer(self, reader: Reader) -> Writer | None:
        """Who writes the points; None for extraction."""
        points = self.config.points
        extract = points == "extractive" or (points == "auto" and reader.prefers_extraction)
        if self._writer is not None:
            return self._writer
        if extract:
            return None
        if not isinstance(reader, Writer):
            raise InputError(
                f"the reader {reader.name} cannot write Information Points; pass a writer, or "
                'BuildConfig(points="extractive")'
            )
        return reader

    def _header(self) -> Header:
        embedder = self.embedder
        return Header(
            reader=self._built_by or self.reader.name,
            embedder=embedder.name,
            dimension=embedder.dimension,
            config=asdict(self.config),
            hwdag_version=__version__,
        )


def _holds_something(path: Path) -> bool:
    """Whether there is a file to open; a build killed at its very start leaves an empty one."""
    return path.exists() and (path.is_dir() or path.stat().st_size > 0)


def _some(ids: Iterable[str], limit: int = 5) -> str:
    """A few ids for a message."""
    listed = list(ids)
    more = f" and {len(listed) - limit} more" if len(listed) > limit else ""
    return ", ".join(map(repr, listed[:limit])) + more

"""What a user calls: documents in, answered questions out.

    index = HWDAGIndex.from_documents([Document("a", text)], path="notes.hwdag")
    answer = index.answer("Who wrote it?")

What is seldom asked for is imported where it is needed: a tenth of the time of `import hwdag.index`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, Unpack

from hwdag.building.insertion import Executor, Insertion, as_document
from hwdag.building.levels import GraphBuilder, method_of
from hwdag.building.points import points_writer
from hwdag.building.report import BuildReport, Limits
from hwdag.checks import listed, whole
from hwdag.config import (
    MAX_NEW_TOKENS,
    BuildConfig,
    Method,
    SearchConfig,
    SearchPlan,
    checked_config,
    checked_k,
    config_with,
)
from hwdag.embedding.base import Embedder
from hwdag.embedding.default import as_embedder
from hwdag.errors import EmptyIndex, HWDAGError, IndexMismatch, InputError
from hwdag.graph.dag import HWDAG
from hwdag.lm.base import Reader, Writer
from hwdag.lm.writers import as_writer, loaded_reader
from hwdag.page import framed
from hwdag.retriever import SearchOptions
from hwdag.scope import Scope
from hwdag.search.answering import AnswerStream
from hwdag.search.context import Evidence
from hwdag.search.conversation import History, rewriter, standalone
from hwdag.search.find import Query
from hwdag.search.passages import Returns, checked_returns, returned
from hwdag.search.progress import Interruption, StopFlag
from hwdag.search.snapshots import Snapshots
from hwdag.store.database import ThreadLock, build_lock, on_error
from hwdag.store.sqlite import Entry, Header, Store, StoreView, check_folder, holds_something
from hwdag.text.characters import without_surrogates
from hwdag.text.prompts import Prompts, SearchPrompts
from hwdag.threads import Lazy, asynchronous, asynchronous_pieces
from hwdag.trace import drawing
from hwdag.trace.bars import Reporter, as_reporter
from hwdag.trace.spans import add_retrieval, span, telling
from hwdag.types import Answer, Document, OnStep, Retrieval

if TYPE_CHECKING:
    from hwdag.page.widget import PageWidget
    from hwdag.store.verify import Compacted, Verdict


MOST_FRAMED = 20_000  # nodes that a notebook shows as a page
WAIT_SECONDS = 30.0  # how long a change waits for the build of another process to end


class AskOptions(SearchOptions, total=False):
    """How `HWDAGIndex.answer` works; `HWDAGIndex.search` and `answer` explain the arguments."""

    query_vector: Sequence[float] | None
    history: History
    stop: StopFlag | None
    max_seconds: float | None
    max_new_tokens: int | None
    answerer: Writer | Callable[[str], str] | None


class HWDAGIndex:
    """HWDAGs of many documents, and the walk over them.

    Searching is safe from many threads, and from many processes that have the same file open: each
    search sees the documents of the moment at which it begins. Changes are serialised. Models are
    loaded when first needed: opening an index and looking at its graphs needs no language model.
    Searching and changing have asynchronous twins (`asearch`, `ainsert`, ...).

    Relations: `llama_index_hwdag.HWDAGIndex` and `langchain_hwdag.HWDAGIndex` are the same for their frameworks.
    """

    def __init__(
        self,
        *,
        reader: Reader | str | None = None,
        writer: Writer | Callable[[str], str] | None = None,
        answerer: Writer | Callable[[str], str] | None = None,
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
            answerer: who answers from what was found: a Writer, a function from prompt to text, or None
                for the reader. Such an answer is more than a small reader can write.
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
        self._config: BuildConfig = checked_config(config, BuildConfig)
        self.prompts = prompts or Prompts()
        self._reader = Lazy(lambda: loaded_reader(reader))
        self._embedder = Lazy(lambda: as_embedder(embedder))
        self._writer = as_writer(writer)
        self.answerer: Writer | None = as_writer(answerer, "answerer")
        """Who answers; None for the reader."""
        if self._config.points == "extractive" and self._writer is not None:
            raise InputError('a writer was passed, but points="extractive" never asks one')
        if self._config.method == "evidence" and self._writer is not None:
            raise InputError('a writer was passed, but method="evidence" never asks one')
        self._path = None if path is None else Path(path)
        self._store: Store | None = None  # made with the first change: its header names the models
        self._snapshots: Snapshots | None = None
        self._changes = ThreadLock("the index" if path is None else str(path))
        self.report: BuildReport | None = None
        """What `from_documents` did."""

    @classmethod
    def from_documents(
        cls,
        documents: Iterable[Document | str],
        *,
        method: Method | Literal["auto"] | None = None,
        reader: Reader | str | None = None,
        writer: Writer | Callable[[str], str] | None = None,
        answerer: Writer | Callable[[str], str] | None = None,
        embedder: Embedder | str | None = None,
        config: BuildConfig | None = None,
        prompts: Prompts | None = None,
        path: str | Path | None = None,
        show_progress: bool | Reporter = False,
        max_tokens: int | None = None,
        max_seconds: float | None = None,
        executor: Executor | None = None,
    ) -> Self:
        """Build an index; see `__init__` and `refresh` for the arguments, `report` for what happened.

        The `method` is that of the config (`BuildConfig.method`), named here for short. With a `path` that holds an index already, documents that are in it with the same content
        cost nothing, and finished calls of others are not repeated: an interrupted build goes on
        where it was.
        """
        config = config_with(config, method)
        options = {"reader": reader, "writer": writer, "embedder": embedder, "prompts": prompts}
        options["answerer"] = answerer
        if path is not None and holds_something(Path(path)):
            index = cls.load(path, config=config, **options)  # type: ignore[arg-type]
        else:
            index = cls(config=config, **options)  # type: ignore[arg-type]
            # why not passed above: somebody else may make the file this very moment
            index._path = None if path is None else Path(path)
        with on_error(index.close):
            index.report = index.refresh(
                documents,
                show_progress=show_progress,
                max_tokens=max_tokens,
                max_seconds=max_seconds,
                executor=executor,
            )
        return index

    @classmethod
    def load(
        cls,
        path: str | Path | bytes,
        *,
        reader: Reader | str | None = None,
        writer: Writer | Callable[[str], str] | None = None,
        answerer: Writer | Callable[[str], str] | None = None,
        embedder: Embedder | str | None = None,
        config: BuildConfig | None = None,
        prompts: Prompts | None = None,
    ) -> Self:
        """Open an index file; changes to the index are written to it.

        What `to_bytes` returned is opened in memory.

        Nothing but its header is read before it is needed. The reader and the embedder are those
        that the file names, unless others are passed. Another reader may walk a graph (PECAN Table 2 searches
        with a smaller model), but not extend it.

        Raises:
            NotAnIndex, IndexVersionError, IndexCorrupt: the file cannot be used.
            IndexMismatch: the embedder is not the one that the nodes were embedded with, or the
                config differs from the one that the index was built with.
        """
        store = Store.open(path)
        others = {"writer": writer, "answerer": answerer, "config": config}
        return cls._over(store, reader, embedder, prompts, **others)  # type: ignore[arg-type]

    @classmethod
    def merge(cls, paths: Sequence[str | Path], *, path: str | Path) -> Self:
        """Copy the finished documents of several index files into a new one, and open it.

        The result is that of one build of all documents in this order, and no model is asked. So
        several processes may build a file each. The files stay as they are; cached calls are copied too.

        Raises:
            NotAnIndex, IndexVersionError, IndexCorrupt: a file cannot be used.
            IndexMismatch: the files were built with different models or options.
            InputError: there is something at `path`, no file is named, or a document is in two files.
        """
        from hwdag.store.copying import merge

        merge(paths, path)
        return cls.load(path)

    @classmethod
    def _over(
        cls,
        store: Store,
        reader: Reader | str | None,
        embedder: Embedder | str | None,
        prompts: Prompts | None,
        *,
        writer: Writer | Callable[[str], str] | None = None,
        answerer: Writer | Callable[[str], str] | None = None,
        config: BuildConfig | None = None,
    ) -> Self:
        """Return an index over an open store, which is closed if that fails."""
        with on_error(store.close):
            index = cls(
                reader=reader or store.header.reader,
                writer=writer,
                answerer=answerer,
                embedder=embedder or store.header.embedder,
                config=store.config(config),
                prompts=prompts,
            )
        index._bind(store)
        return index

    def insert(
        self,
        documents: Iterable[Document | str],
        *,
        show_progress: bool | Reporter = False,
        max_tokens: int | None = None,
        max_seconds: float | None = None,
        executor: Executor | None = None,
    ) -> BuildReport:
        """Add documents. Those that are there with the same content cost nothing.

        Arguments and errors as in `refresh`.

        Raises:
            InputError: an id is taken by a document with other content (`refresh` replaces it).
        """
        limits = Limits(max_tokens, max_seconds)
        return self._change(documents, show_progress, limits, executor, replaces=False)

    def refresh(
        self,
        documents: Iterable[Document | str],
        *,
        show_progress: bool | Reporter = False,
        max_tokens: int | None = None,
        max_seconds: float | None = None,
        prune: bool | Callable[[str], bool] = False,
        executor: Executor | None = None,
    ) -> BuildReport:
        """Bring the index up to date: add new documents, rebuild changed ones; others cost nothing.

        Of a document that was edited only the windows whose text changed are summarised again.

        Args:
            documents: documents, or bare texts.
            show_progress: True for bars on standard error, or your own.
            max_tokens: make no further call once the models have taken this many tokens; the last
                call (of a writer on a server: the last few rounds of prompts) may exceed it.
            max_seconds: make no further call after this time. Either way `report.stopped` says so,
                what was finished is kept, and the same call goes on from there.
            prune: delete the documents that are not among these; a function says of an id whether
                it may be deleted.
            executor: has models for several documents at a time, such as `RayExecutor`; None builds
                one after the other with those of the index. The graphs are the same.

        Raises:
            InputError: a document cannot be used.
            WriterFailed: the writer gave up; what it had written is kept.
            IndexMismatch: reader or embedder are not those that the index was built with.
            IndexBusy: another process is changing the file.
        """
        limits = Limits(max_tokens, max_seconds)
        return self._change(documents, show_progress, limits, executor, replaces=True, prune=prune)

    def delete(self, document_id: str) -> None:
        """Remove a document with all that was derived from it.

        When this returns, nothing of it is left in the file, and no search that begins finds it.

        Raises:
            InputError: it is not there.
        """
        self._bind_existing()
        store = self._store
        if store is None or not store.delete(document_id):
            raise InputError(f"no document {document_id!r}; there are {listed(self.documents)}")

    def search(
        self,
        question: str,
        *,
        config: SearchConfig | None = None,
        scope: Scope | None = None,
        k: int | None = None,
        returns: Returns = "nodes",
        query_vector: Sequence[float] | None = None,
        history: History = (),
        on_step: OnStep | None = None,
        stop: StopFlag | None = None,
        max_seconds: float | None = None,
    ) -> Retrieval:
        """Walk the graphs for a question.

        Args:
            question: any text.
            config: budget, progress control, heads; None is all of the index's method.
            scope: which documents are scored and shown; None for all.
            k: number of nodes wanted, for `Retrieval.best`; the walk itself does not change.
            returns: "nodes" as they were read; "sources", with the text of the document that a node
                rests on; or "passages", the whole paragraphs that these are in, each once.
            query_vector: the question's embedding where it is there already; None asks the embedder.
            history: earlier (question, answer) pairs that the question may refer to, as in "When was she
                born?". The answerer, or a reader that writes, makes it a question of its own
                (`Retrieval.searched_for`); without either, what shares words with the last turns counts
                more.
            on_step: called with every visited node as it happens. Where another process deletes a
                document that the walk wants to read, the walk begins anew, and so do the steps.
            stop: such as a `threading.Event`: once it is set, the walk ends before the next node
                (`Retrieval.stop` is "stopped"), and an answer before the next piece. The task of an
                asynchronous twin sets one of its own when it is cancelled.
            max_seconds: read no more nodes after this time, and answer from what was read.

        Raises:
            InputError: the question is blank, the index holds no document, k is not a number, or
                query_vector is not comparable with the nodes.
            IndexMismatch: the method of the config needs edges, and the index has leaves alone.
            QuestionTooLong: the question leaves no room in the reader's context.
        """
        checked_returns(returns)
        found = self._find(
            question,
            config,
            scope,
            self.answerer,
            query_vector=query_vector,
            history=history,
            on_step=on_step,
            interruption=Interruption(stop, max_seconds),
            k=checked_k(k),
            for_answer=False,
        )
        return returned(found.retrieval, returns)

    def answer(self, question: str, **options: Unpack[AskOptions]) -> Answer:
        """Search, then answer from what was found; other arguments and errors as in `search`.

        The answer has `max_new_tokens` at most: 64 by default, 1,024 for an answerer. The `answerer`
        is as in `__init__`; None is that of the index, else the reader, which decodes from the KV cache
        that the search has filled.

        Raises:
            AnswererFailed: the answerer gave no answer; the error has the `retrieval`.
        """
        return self.stream(question, **options).answer

    def stream(
        self,
        question: str,
        *,
        config: SearchConfig | None = None,
        scope: Scope | None = None,
        query_vector: Sequence[float] | None = None,
        history: History = (),
        on_step: OnStep | None = None,
        stop: StopFlag | None = None,
        max_seconds: float | None = None,
        max_new_tokens: int | None = None,
        answerer: Writer | Callable[[str], str] | None = None,
    ) -> AnswerStream:
        """Search, then return the answer as a stream of text pieces; see `answer`."""
        interruption = Interruption(stop, max_seconds)
        answers = as_writer(answerer, "answerer") or self.answerer
        if max_new_tokens is not None:
            whole("max_new_tokens", max_new_tokens, 1)
        # why: the reader's context has to hold its own answer alone
        room = MAX_NEW_TOKENS if answers or max_new_tokens is None else max_new_tokens
        found = self._find(
            question,
            config,
            scope,
            answers,
            query_vector=query_vector,
            history=history,
            on_step=on_step,
            interruption=interruption,
            max_new_tokens=room,
            for_answer=answers is None,
        )
        return AnswerStream(found, max_new_tokens, interruption, answerer=answers)

    ainsert = asynchronous(insert, builds=True)
    arefresh = asynchronous(refresh, builds=True)
    adelete = asynchronous(delete)
    asearch = asynchronous(search, stops=True)
    aanswer = asynchronous(answer, stops=True)
    astream = asynchronous_pieces(stream, stops=True)

    @property
    def documents(self) -> Mapping[str, Document]:
        """Documents by id; each is read when it is asked for."""
        return StoreView(lambda: self._store, lambda store, key: store.document(key))

    @property
    def graphs(self) -> Mapping[str, HWDAG]:
        """Graphs by document id; each is read when it is asked for."""
        return StoreView(lambda: self._store, lambda store, key: store.load(key).graph)

    @property
    def entries(self) -> Mapping[str, Entry]:
        """Documents with graphs and embeddings, by document id, read when asked for."""
        return StoreView(lambda: self._store, lambda store, key: store.load(key))

    def __len__(self) -> int:
        return len(self.documents)

    def __repr__(self) -> str:
        store = self._store
        named = "in memory" if store is None else store.name
        where = self.path or named.removeprefix("the index ")
        try:
            nodes = 0 if store is None else store.node_count()
            return f"{type(self).__name__}({len(self):,} documents, {nodes:,} nodes, {where})"
        except HWDAGError:
            return f"{type(self).__name__}(closed, {where})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the path of the file, which is opened where it is unpickled, with its own models."""
        if self.path is None:
            raise TypeError(
                "an index in memory cannot be pickled; save() it to a file, and pickle load(file)"
            )
        return type(self).load, (self.path,)

    @property
    def config(self) -> BuildConfig:
        """How documents become graphs; the method is "auto" until there are some."""
        store = self._store
        return self._config if store is None else store.config()

    @property
    def path(self) -> Path | None:
        """The file; None in memory."""
        return self._path

    @property
    def built_by(self) -> str | None:
        """Name of the reader that built the graphs; None while there are none."""
        store = self._store
        return None if store is None else store.header.reader

    @property
    def built_dtype(self) -> str | None:
        """What that reader computed in when the index was begun, "bfloat16" say; None if unknown."""
        store = self._store
        return None if store is None else store.header.dtype

    @property
    def reader(self) -> Reader:
        """The local model; loaded on first use."""
        return self._reader.value

    @property
    def embedder(self) -> Embedder:
        """The embedding model; loaded on first use. Raises `IndexMismatch` if it is another one."""
        embedder, store = self._embedder.value, self._store
        recorded = embedder.name if store is None else store.header.embedder
        if recorded != embedder.name:
            raise IndexMismatch(
                f"the nodes were embedded with {recorded!r}, which similarity needs too; got "
                f"{embedder.name!r}. Leave the embedder out, or build anew"
            )
        return embedder

    @property
    def name(self) -> str:
        """Names the method in tables and traces, as with every retriever."""
        return "hwdag"

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
        if self._store is not None:
            self._store.copy(path, overwrite=overwrite)
            return
        with Store.create(None, self._header()) as empty:
            empty.copy(path, overwrite=overwrite)

    def to_bytes(self) -> bytes:
        """Return the file that `save` would write, for `load`. Raises `EmptyIndex` before a build."""
        return self._filled.database.image()

    def export(self, path: str | Path, *, show_progress: bool | Reporter = False) -> None:
        """Write all documents and graphs for other programs; the ending of the path says how.

        `.jsonl` is a JSON value per line, `.graphml` one graph; see `hwdag.store.exporting`.

        Raises:
            InputError: the file exists, or the index holds no document.
        """
        from hwdag.store.exporting import export_index

        export_index(self._filled, path, show_progress=show_progress)

    def verify(self, *, show_progress: bool | Reporter = False) -> Verdict:
        """Check every page, document and cached call of the file that the index is bound to.

        Raises:
            InputError: it is not bound to a file.
        """
        from hwdag.store.verify import verify

        if self._path is None:
            raise InputError("an index in memory has no file to verify; save() it first")
        return verify(self._path, show_progress=show_progress)

    def compact(self, *, drop_calls: bool = False) -> Compacted:
        """Give back the space of what was deleted.

        Args:
            drop_calls: forget finished model calls too; unfinished builds and later versions of a
                document then pay for them again.
        """
        from hwdag.store.verify import compact

        store = self._filled
        # why: on a connection of its own searches here wait no longer than those of others
        return compact(self._path or store, drop_calls=drop_calls)

    def close(self) -> None:
        """Release the file; an index in memory is gone then. Closing twice does no harm."""
        if self._changes.is_forked:
            return  # what it has open is that of another process
        with self._changes:
            if self._store is not None:
                self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def to_html(
        self,
        document_ids: Collection[str] | None = None,
        *,
        walk: Answer | Retrieval | None = None,
    ) -> str:
        """Return a page that shows the graphs, of all documents or of some; it needs no network.

        With `walk` the page has the answer too, or the walk alone, and replays it on the graphs: by
        default those of the documents that it read, as far as they are still as they were then.
        Edges below 1 % are left out. Raises `InputError` for a document that is not there.
        """
        return drawing.html_of(self.entries, document_ids, walk)

    def widget(self, document_ids: Collection[str] | None = None) -> PageWidget:
        """Return the page as a Jupyter widget (extra `notebook`), whose `selected` is a `Node` or None."""
        return drawing.widget_of(self.entries, document_ids)

    def to_dict(self, document_ids: Collection[str] | None = None) -> dict[str, Any]:
        """Return documents and graphs as JSON-able values, as the page takes them; see `to_html`."""
        return drawing.data_of(self.entries, document_ids)

    def _repr_html_(self) -> str | None:
        """Show the graphs in a notebook; nothing but the `repr` where there are too many nodes."""
        store = self._store
        few = store is not None and 0 < store.node_count() <= MOST_FRAMED
        return framed(self.to_html()) if few else None

    @property
    def _filled(self) -> Store:
        if self._store is None:
            raise EmptyIndex
        return self._store

    def _bind(self, store: Store) -> None:
        self._path, self._store, self._snapshots = store.path, store, Snapshots(store)

    def _bind_existing(self) -> None:
        """Open a file that another process has made; `IndexMismatch` if it is another index."""
        if self._store is None and self._path is not None and holds_something(self._path):
            store = Store.open(self._path)
            with on_error(store.close):
                store.config(self._config)
            self._bind(store)

    @contextmanager
    def _building(self) -> Iterator[Store]:
        """Lock the store against other builds, and make it where there is none; raises `IndexBusy`."""
        if self._path is not None:
            check_folder(self._path)
        with build_lock(self._path, WAIT_SECONDS):
            self._bind_existing()
            if self._store is None:
                self._bind(Store.create(self._path, self._header()))
            yield self._filled

    def _header(self) -> Header:
        reader, embedder = self.reader, self.embedder
        # why optional: a reader of one's own may have no weights
        dtype = getattr(reader, "dtype", None)
        config = asdict(self._resolved())
        return Header(
            reader.name,
            embedder.name,
            embedder.dimension,
            config,
            dtype=dtype,
            tokenizer=reader.tokenizer,
        )

    def _resolved(self) -> BuildConfig:
        config = self.config
        return config.resolved(method_of(config, self._writer, self.reader))

    def _find(
        self,
        question: str,
        config: SearchConfig | None,
        scope: Scope | None,
        answerer: Writer | None,
        **options: Any,
    ) -> Evidence:
        """Search with the models of the index; `options` are those of a `Query`."""
        if not question.strip():
            raise InputError("the question is empty or only white space")
        question = without_surrogates(question)[0]
        if (snapshots := self._snapshots) is None:
            raise EmptyIndex
        plan = self._plan(config)
        papers = SearchPrompts() if plan.rules.is_paper else self.reader.search_prompts
        with span("hwdag.walk", "RETRIEVER", **{"input.value": question}) as opened:
            options["on_step"] = telling(opened, options["on_step"])
            asked = standalone(question, options.pop("history"), rewriter(answerer, self.reader))
            if asked.is_rewritten:
                options["query_vector"] = None  # that of the other question
            query = Query(
                question=asked.question,
                history=asked.history,
                reader=self.reader,
                embedder=self.embedder,
                plan=plan,
                prompts=self.prompts.search or papers,
                **options,
            )
            found = asked.told(snapshots.find(query, scope or Scope()), question)
            add_retrieval(opened, found.retrieval)
        return found

    def _plan(self, config: SearchConfig | None) -> SearchPlan:
        """What is done; raises `IndexMismatch` where that needs edges which the index does not have."""
        rules = self.config.rules
        wanted: SearchConfig = checked_config(config, SearchConfig)
        plan = wanted.plan(rules.method, self.reader.confidence)
        if plan.rules.has_points and not rules.has_points:
            raise IndexMismatch(
                f'method="{plan.rules.method}" walks along edges of attention, but this index was built '
                f'with method="{rules.method}", which makes leaves alone; leave the method out, or '
                f'build another index with method="{plan.rules.method}"'
            )
        return plan

    def _change(
        self,
        documents: Iterable[Document | str],
        show_progress: bool | Reporter,
        limits: Limits,
        executor: Executor | None,
        *,
        replaces: bool,
        prune: bool | Callable[[str], bool] = False,
    ) -> BuildReport:
        with self._changes:
            self._bind_existing()
            builder = self._builder()
            if builder.config.rules.has_points:
                _ = builder.plan  # what cannot be built must not make a file
            checked: Iterable[Document] = map(as_document, documents)
            if isinstance(documents, Collection):  # what is wrong is told before anything is built
                checked = list(checked)
            with self._building() as store:
                insertion = Insertion(
                    builder,
                    store,
                    replace=replaces,
                    prune=prune,
                    limits=limits,
                    executor=executor,
                )
                with span("hwdag.build", "CHAIN") as opened:
                    report = insertion.run(checked, as_reporter(show_progress))
                    if report.built:
                        report.notes.append(builder.method_note)
                    if opened is not None:
                        opened.set_attribute("hwdag.built", len(report.built))
                return report

    def _builder(self) -> GraphBuilder:
        reader = self.reader
        if self.built_by not in (None, reader.name):
            raise IndexMismatch(
                f"the index was built by {self.built_by!r}; {reader.name!r} may search it but not "
                "extend it, since token counts and attention would not compare"
            )
        if self._store is not None and self._store.header.tokenizer != reader.tokenizer:
            raise IndexMismatch(
                f"{reader.name!r} has another tokenizer than when it built the index, so token counts "
                "would not compare; search with it, or build anew"
            )
        config = self._resolved()
        writer = points_writer(config, self._writer, reader)
        return GraphBuilder(reader, writer, self.embedder, config, self.prompts)

"""The class that users call: documents in, answered questions out.

    index = HWDAGIndex.from_documents([Document("a", text)], path="notes.hwdag")
    answer = index.answer("Who wrote it?")

Rarely needed modules are imported on use, which saves a tenth of the time of `import hwdag.index`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from reprlib import repr as brief
from typing import TYPE_CHECKING, Any, Literal, Self, Unpack

from hwdag.answers.passages import Returns, checked_returns, returned
from hwdag.answers.stream import AnswerStream
from hwdag.building.drafts import as_drafts
from hwdag.building.executors import Executor
from hwdag.building.levels import GraphBuilder, method_of
from hwdag.building.points import points_writer
from hwdag.building.refresh import Refresh, is_built
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
from hwdag.errors import EmptyIndex, HWDAGError, IndexMismatch, InputError, UnknownDocument
from hwdag.graph.dag import HWDAG
from hwdag.lm.base import Reader, StopFlag, Timed, Writer
from hwdag.lm.writers import as_writer, loaded_reader, searching_reader
from hwdag.page import framed
from hwdag.retriever import SearchOptions
from hwdag.scope import Scope
from hwdag.search.evidence import Evidence
from hwdag.search.follow_ups import rewriter, standalone
from hwdag.search.navigator import navigator_of
from hwdag.search.question import History
from hwdag.search.request import SearchRequest
from hwdag.search.snapshots import Snapshots
from hwdag.search.stopping import Deadline
from hwdag.store.database import ThreadLock, build_lock, on_error
from hwdag.store.sqlite import Entry, Header, Store, StoreView, check_folder, holds_something
from hwdag.text.characters import without_surrogates
from hwdag.text.draft import Draft
from hwdag.text.prompts import Prompts, SearchPrompts
from hwdag.threads import Lazy, asynchronous, asynchronous_pieces, one_blas_thread
from hwdag.trace import drawing
from hwdag.trace.bars import Reporter, as_reporter
from hwdag.trace.spans import add_retrieval, span, telling
from hwdag.types import Answer, Document, OnStep, Retrieval

if TYPE_CHECKING:
    from hwdag.building.estimate import Estimate
    from hwdag.store.verify import Compacted, Verdict

_LOGGER = logging.getLogger("hwdag")

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
    """An index of many documents: build, change, search and answer.

    Many threads and processes may search one index: each search sees a snapshot of the documents.
    Changes are serialised. Models are loaded on first use; opening an index and looking at its graphs
    needs none. Searches and changes have asynchronous twins (`asearch`, `ainsert`, ...).

    Relations: `llama_index_hwdag.HWDAGIndex` and `langchain_hwdag.HWDAGIndex` wrap it for frameworks.
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
        """Make an empty index; usually call `from_documents` or `load` instead.

        Args:
            reader: the local model, its hub name or path, or None for the embedded default.
            writer: writes Information Points: a Writer, a function from prompt to text, or None for
                the reader itself (or extraction, see `BuildConfig.points`).
            answerer: answers from the search results: a Writer, a function from prompt to text, or None
                for the reader. Pass one if the reader is small.
            embedder: an Embedder, a sentence-transformers name, or None for the embedded default.
            config: how documents become graphs.
            prompts: replacements for the papers' prompts.
            path: file to create; None keeps the index in memory.

        Raises:
            InputError: `path` holds an index.
        """
        if path is not None and holds_something(Path(path)):
            raise InputError(
                f"{path} exists; open it with load(), or add to it with from_documents()"
            )
        self._config: BuildConfig = checked_config(config, BuildConfig)
        self.prompts = prompts or Prompts()
        self._reader = Lazy(lambda: loaded_reader(reader))
        # why apart: a search that asks no model needs the facts of the default reader alone
        self._searching = Lazy(lambda: searching_reader(reader) or self.reader)
        self._embedder = Lazy(lambda: as_embedder(embedder))
        self._writer = as_writer(writer)
        self.answerer: Writer | None = as_writer(answerer, "answerer")
        """Answers in place of the reader; None for the reader."""
        if self._config.points == "extractive" and self._writer is not None:
            raise InputError('a writer was passed, but points="extractive" never asks one')
        if self._config.method == "evidence" and self._writer is not None:
            raise InputError('a writer was passed, but method="evidence" never asks one')
        self._path = None if path is None else Path(path)
        self._store: Store | None = None  # created by the first change: its header names the models
        self._snapshots: Snapshots | None = None
        self._changes = ThreadLock("the index" if path is None else str(path))
        self.report: BuildReport | None = None
        """Report of `from_documents`."""

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
        """Build an index; see `__init__` and `refresh` for the arguments. `report` has the counts.

        `method` is short for `BuildConfig.method`. If `path` holds an index, unchanged documents cost
        nothing, and finished calls are not repeated: an interrupted build continues.
        """
        config = config_with(config, method)
        options = {"reader": reader, "writer": writer, "embedder": embedder, "prompts": prompts}
        options["answerer"] = answerer
        if path is not None and holds_something(Path(path)):
            index = cls.load(path, config=config, **options)  # type: ignore[arg-type]
        else:
            index = cls(config=config, **options)  # type: ignore[arg-type]
            # why not passed above: another process may create the file right now
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
        """Open an index file, or in memory the result of `to_bytes`; changes are written to the file.

        Reads only the header at first. Uses the reader and the embedder that the file names, unless
        others are passed. Another reader may search the index (PECAN Table 2 searches with a smaller
        model), but not extend it.

        Raises:
            NotAnIndex, IndexVersionError, IndexCorrupt: the file cannot be used.
            IndexMismatch: the index was built with another embedder or config.
        """
        store = Store.open(path)
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

    @classmethod
    def merge(cls, paths: Sequence[str | Path], *, path: str | Path) -> Self:
        """Copy the finished documents of several index files into a new one, and open it.

        Asks no model; the result equals one build of all documents in this order. So several
        processes can each build a file. The files do not change; cached calls are copied too.

        Raises:
            NotAnIndex, IndexVersionError, IndexCorrupt: a file cannot be used.
            IndexMismatch: the files were built with different models or options.
            InputError: `path` exists, `paths` is empty, or a document is in two files.
        """
        from hwdag.store.transfer import merge

        merge(paths, path)
        return cls.load(path)

    def insert(
        self,
        documents: Iterable[Document | str],
        *,
        show_progress: bool | Reporter = False,
        max_tokens: int | None = None,
        max_seconds: float | None = None,
        executor: Executor | None = None,
    ) -> BuildReport:
        """Add documents; unchanged ones cost nothing. Arguments and errors are those of `refresh`.

        Raises:
            InputError: another document has the same id (`refresh` replaces it).
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
        """Add new documents and rebuild changed ones; unchanged ones cost nothing.

        An edited document repeats only the model calls of windows whose text changed.

        Args:
            documents: documents, or bare texts.
            show_progress: True for bars on standard error, or a reporter.
            max_tokens: make no further call once the models have used this many tokens; the last call
                (for a writer on a server, the last few rounds of prompts) may exceed it.
            max_seconds: make no further call after this time. At either limit `report.stopped` names
                it, finished work is kept, and the same call continues. With a limit the leaves of all
                documents of a list come first, so that they are found at once.
            prune: delete all other documents; a function of an id decides which may be deleted.
            executor: builds several documents at a time, such as `RayExecutor`; None builds one after
                the other. The graphs are the same.

        Raises:
            InputError: a document or an option cannot be used.
            WriterFailed: the writer failed; finished replies are kept.
            IndexMismatch: the index was built with another reader or embedder.
            IndexBusy: another process is changing the file.
        """
        limits = Limits(max_tokens, max_seconds)
        return self._change(documents, show_progress, limits, executor, replaces=True, prune=prune)

    def estimate(self, documents: Iterable[Document | str]) -> Estimate:
        """Estimate the cost of a `refresh` with these documents; nothing is built.

        A reader that is loaded from a checkpoint is timed for a few seconds. Raises as `refresh` does.
        """
        from hwdag.building.estimate import estimate

        builder, store = self._builder(), self._store
        found = [one for one in as_drafts(documents) if one.document.text.strip()]
        if store is not None:
            found = [one for one in found if not is_built(store, one)]
        return estimate(builder, found)

    def delete(self, document_id: str) -> None:
        """Delete a document and everything derived from it.

        When this returns, nothing of it is left in the file, and no search that begins finds it.

        Raises:
            UnknownDocument: there is no such document.
        """
        store = self._bound()
        if store is None or not isinstance(document_id, str) or not store.delete(document_id):
            known = listed(self.documents) or "none"
            raise UnknownDocument(f"no document {brief(document_id)}; there are {known}")

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
            returns: "nodes" as they were read; "sources", the text of the document that supports a
                node; or "passages", the whole paragraphs around these, each once.
            query_vector: the embedding of the question, if known; None asks the embedder.
            history: earlier (question, answer) pairs that the question may refer to, as in "When was she
                born?". The answerer, or a reader that writes, rewrites it as a question of its own
                (`Retrieval.searched_for`); without either, words of the last turns add to the scores.
            on_step: called with every visited node at once. If another process deletes a document
                that the walk is about to read, the walk starts again, and so do the steps.
            stop: such as a `threading.Event`: once it is set, the walk ends before the next node
                (`Retrieval.stop` is "stopped"), and an answer before the next piece. Cancelling an
                asynchronous twin does the same.
            max_seconds: after this time, read no more nodes and answer from those read.

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
            deadline=Deadline(stop, max_seconds),
            k=checked_k(k),
            will_decode=False,
        )
        return returned(found.retrieval, returns)

    def answer(self, question: str, **options: Unpack[AskOptions]) -> Answer:
        """Search, then answer from the results; other arguments and errors as in `search`.

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
        deadline = Deadline(stop, max_seconds)
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
            deadline=deadline,
            max_new_tokens=room,
            will_decode=answers is None,
            external_generator=answers is not None,
        )
        return AnswerStream(found, max_new_tokens, deadline, answerer=answers)

    ainsert = asynchronous(insert, builds=True)
    arefresh = asynchronous(refresh, builds=True)
    adelete = asynchronous(delete)
    asearch = asynchronous(search, stops=True)
    aanswer = asynchronous(answer, stops=True)
    astream = asynchronous_pieces(stream, stops=True)

    @property
    def documents(self) -> Mapping[str, Document]:
        """Documents by id; each is read when it is asked for."""
        return StoreView(self._bound, lambda store, key: store.document(key))

    @property
    def graphs(self) -> Mapping[str, HWDAG]:
        """Graphs by document id; each is read when it is asked for."""
        return StoreView(self._bound, lambda store, key: store.load(key).graph)

    @property
    def entries(self) -> Mapping[str, Entry]:
        """Documents with graphs and embeddings, by document id; each is read on access."""
        return StoreView(self._bound, lambda store, key: store.load(key))

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
        """Pickle the path of the file; unpickling opens it, with the models that it names."""
        if self.path is None:
            raise TypeError(
                "an index in memory cannot be pickled; save() it to a file, and pickle load(file)"
            )
        return type(self).load, (self.path,)

    @property
    def config(self) -> BuildConfig:
        """How documents become graphs; the method may be "auto" before the first build."""
        store = self._store
        return self._config if store is None else store.config()

    @property
    def path(self) -> Path | None:
        """The file; None in memory."""
        return self._path

    @property
    def built_by(self) -> str | None:
        """Name of the reader that built the index; None before the first build."""
        store = self._store
        return None if store is None else store.header.reader

    @property
    def built_dtype(self) -> str | None:
        """Data type of the first build, such as "bfloat16"; None if unknown."""
        store = self._store
        return None if store is None else store.header.dtype

    @property
    def reader(self) -> Reader:
        """The local model; loaded on first use."""
        return self._reader.value

    @property
    def embedder(self) -> Embedder:
        """The embedding model; loaded on first use. Raises `IndexMismatch` if the index has another."""
        embedder, store = self._embedder.value, self._store
        recorded = embedder.name if store is None else store.header.embedder
        if recorded != embedder.name:
            raise IndexMismatch(
                f"the nodes were embedded with {recorded!r}, got {embedder.name!r}; leave the embedder "
                "out, or embed them anew (reembed)"
            )
        return embedder

    @property
    def name(self) -> str:
        """Name of the method in tables and traces."""
        return "hwdag"

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write all documents to a new file; the index stays bound to its own file.

        Args:
            path: the file.
            overwrite: replace an existing file. A process that has the old file open continues to read
                it, and must load the new one to change it. Saving an index to its own file does
                nothing, since that is always up to date.

        Raises:
            InputError: the file exists.
            IndexFileError: it cannot be written, or another process is writing to it.
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
        """Write all documents and graphs for other programs, as a `.jsonl` file.

        See `hwdag.store.exporting` for the formats.

        Raises:
            InputError: the file exists, or the index holds no document.
        """
        from hwdag.store.exporting import export_index

        export_index(self._filled, path, show_progress=show_progress)

    def verify(self, *, show_progress: bool | Reporter = False) -> Verdict:
        """Check every page, document and cached call of the index file.

        Raises:
            InputError: the index is in memory.
        """
        from hwdag.store.verify import verify

        if self._path is None:
            raise InputError("an index in memory has no file to verify; save() it first")
        return verify(self._path, show_progress=show_progress)

    def compact(self, *, drop_calls: bool = False) -> Compacted:
        """Shrink the file by the space of deleted documents.

        Args:
            drop_calls: delete finished model calls too; unfinished builds and edits then repeat them.
        """
        from hwdag.store.verify import compact

        store = self._filled
        # why the path: with a connection of its own, it does not block searches of this process
        return compact(self._path or store, drop_calls=drop_calls)

    def reembed(self, embedder: Embedder | str, *, show_progress: bool | Reporter = False) -> bool:
        """Embed all nodes with another model; texts, edges and ids stay. Asks no language model.

        Writes a copy, which then takes the place of the file. A kill before that changes nothing, and
        another process reads on in the old file until it loads the new one.

        Returns:
            False if the nodes are embedded with that model already: nothing was done.

        Raises:
            InputError: the index is in memory.
            ModelNotFound: there is no such embedder.
            IndexBusy: another process is changing the file.
        """
        from hwdag.building.levels import embeddings_of
        from hwdag.store.transfer import reembed

        if self._path is None:
            raise InputError("an index in memory has no file to embed anew; save() it first")
        new, reporter = as_embedder(embedder), as_reporter(show_progress)
        with self._changes, build_lock(self._path, WAIT_SECONDS):
            done = reembed(
                self._path,
                new.name,
                new.dimension,
                lambda nodes: embeddings_of(nodes, new, reporter),
                show_progress=reporter,
            )
            # why in this order: a search begun in between raises, and never mixes two embedders
            self.close()
            self._embedder = Lazy(lambda: new)
            self._bind(Store.open(self._path))
        return done

    def close(self) -> None:
        """Release the file; the content of an index in memory is lost. Closing twice does no harm."""
        if self._changes.is_forked:
            return  # the file belongs to the parent process
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
        """Return a page that shows the graphs of all or some documents; it needs no network.

        With `walk` the page also shows the answer or the walk, and replays it on the graphs, by
        default those of the documents that it read and that have not changed since. Omits edges
        below 1 %. Raises `InputError` for an unknown document.
        """
        return drawing.html_of(self.entries, document_ids, walk)

    def to_dict(self, document_ids: Collection[str] | None = None) -> dict[str, Any]:
        """Return documents and graphs as JSON values, the input of the page; see `to_html`."""
        return drawing.data_of(self.entries, document_ids)

    def _repr_html_(self) -> str | None:
        """Show the graphs in a notebook; None for an index that is closed, or has too many nodes."""
        store = self._store
        with suppress(HWDAGError):  # of a closed index
            if store is not None and 0 < store.node_count() <= MOST_FRAMED:
                return framed(self.to_html())
        return None

    def _find(
        self,
        question: str,
        config: SearchConfig | None,
        scope: Scope | None,
        answerer: Writer | None,
        *,
        external_generator: bool = False,
        **options: Any,
    ) -> Evidence:
        """Search with the models of the index; other `options` are those of a `SearchRequest`."""
        if not isinstance(question, str):
            raise InputError(f"the question must be a text, got {brief(question)}")
        if not question.strip():
            raise InputError("the question is empty or only white space")
        if not isinstance(scope, Scope | None):
            raise InputError(f"scope must be a hwdag.Scope, got {brief(scope)}")
        question = without_surrogates(question)[0]
        if (store := self._bound()) is None or (snapshots := self._snapshots) is None:
            raise EmptyIndex
        plan = self._plan(config, external_generator)
        reader = self._searching.value
        papers = SearchPrompts() if plan.rules.follows_papers else reader.card.prompts
        walk = span("hwdag.walk", "RETRIEVER", **{"input.value": question})
        with one_blas_thread(), walk as opened:
            options["on_step"] = telling(opened, options["on_step"])
            asked = standalone(question, options.pop("history"), rewriter(answerer, reader))
            vector = options.pop("query_vector")
            if asked.is_rewritten:
                vector = None  # it is that of the other question
            searched = snapshots.question(
                asked.question, self.embedder, vector=vector, history=asked.history
            )
            request = SearchRequest(
                reader=reader,
                embedder=self.embedder,
                plan=plan,
                prompts=self.prompts.search or papers,
                navigator=navigator_of(plan, self.embedder),
                has_token_counts=store.header.tokenizer == reader.tokenizer_fingerprint,
                **options,
            )
            found = asked.with_original_question(
                snapshots.find(searched, request, scope or Scope()), question
            )
            add_retrieval(opened, found.retrieval)
        return found

    def _plan(self, config: SearchConfig | None, external_generator: bool) -> SearchPlan:
        """Resolve the search options. Raises `IndexMismatch` if they need edges and there are none."""
        rules = self.config.rules
        wanted: SearchConfig = checked_config(config, SearchConfig)
        threshold = self._searching.value.card.threshold
        plan = wanted.plan(rules.method, threshold, external_generator=external_generator)
        if plan.rules.has_points and not rules.has_points:
            raise IndexMismatch(
                f'method="{plan.rules.method}" walks along edges of attention, but this index has none: '
                f'it was built with method="{rules.method}"; leave the method out, or build another '
                f'index with method="{plan.rules.method}"'
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
        reporter = as_reporter(show_progress)
        if not isinstance(executor, Executor | None):
            raise InputError(f"executor must be an object such as RayExecutor(4), got {executor!r}")
        with self._changes:
            checked: Iterable[Draft] = as_drafts(documents)
            if isinstance(documents, Collection):  # why: check all documents before building any
                checked = list(checked)
            # why lazy: a run that finds no change needs no model
            builder = Lazy(self._builder)
            if self._bound() is None and builder.value.config.rules.has_points:
                _ = builder.value.plan  # raises before a file is created
            with self._building() as store:
                run = Refresh(
                    builder,
                    store,
                    reporter,
                    replace=replaces,
                    prune=prune,
                    limits=limits,
                    executor=executor,
                )
                if isinstance(checked, list):
                    self._log_estimate(builder, checked, store)
                with span("hwdag.build", "CHAIN") as opened:
                    report = run.run(checked)
                    if report.built:
                        report.notes.append(builder.value.method_note)
                    if opened is not None:
                        opened.set_attribute("hwdag.built", len(report.built))
                return report

    def _log_estimate(self, builder: Lazy[GraphBuilder], drafts: list[Draft], store: Store) -> None:
        """Log the cost of a build if a model of this machine writes: it may take hours."""
        from hwdag.building.estimate import estimate

        if not store.config().rules.has_points:
            return
        new = [one for one in drafts if one.document.text.strip() and not is_built(store, one)]
        if new and builder.value.writer is not None and isinstance(builder.value.reader, Timed):
            _LOGGER.warning("%s", estimate(builder.value, new))

    def _builder(self) -> GraphBuilder:
        config = self._resolved()
        reader = self._reader_of(config)
        if self.built_by not in (None, reader.name):
            raise IndexMismatch(
                f"the index was built by {self.built_by!r}; {reader.name!r} may search it but not "
                "extend it, since token counts and attention are not comparable"
            )
        if self._store is not None and self._store.header.tokenizer != reader.tokenizer_fingerprint:
            raise IndexMismatch(
                f"{reader.name!r} has another tokenizer than when it built the index, so token counts "
                "are not comparable; search with it, or build the index again"
            )
        writer = points_writer(config, self._writer, reader)
        return GraphBuilder(reader, writer, self.embedder, config, self.prompts)

    def _resolved(self) -> BuildConfig:
        config = self.config
        return config.resolved(method_of(config, self._writer, self._searching.value))

    def _reader_of(self, config: BuildConfig) -> Reader:
        """Return the reader of a build; without points it counts tokens alone, and is not loaded."""
        return self.reader if config.rules.has_points else self._searching.value

    @contextmanager
    def _building(self) -> Iterator[Store]:
        """Lock the store against other builds, and create it if needed. Raises `IndexBusy`."""
        if self._path is not None:
            check_folder(self._path)
        with build_lock(self._path, WAIT_SECONDS):
            if self._bound() is None:
                self._bind(Store.create(self._path, self._header()))
            self._filled.check_slots()  # why: a version that is not found would not be replaced
            yield self._filled

    def _header(self) -> Header:
        from hwdag.lm.deferred import DeferredReader

        config, embedder = self._resolved(), self.embedder
        reader = self._reader_of(config)
        # why optional: a user's reader may have no weights, and others are not loaded
        dtype = None if isinstance(reader, DeferredReader) else getattr(reader, "dtype", None)
        return Header(
            reader.name,
            embedder.name,
            embedder.dimension,
            asdict(config),
            dtype=dtype,
            tokenizer=reader.tokenizer_fingerprint,
        )

    @property
    def _filled(self) -> Store:
        if (store := self._bound()) is None:
            raise EmptyIndex
        return store

    def _bound(self) -> Store | None:
        """Open the store, also of a file created elsewhere since; raises `IndexMismatch` for another config."""
        if self._store is None and self._path is not None and holds_something(self._path):
            store = Store.open(self._path)
            with on_error(store.close):
                store.config(self._config)
            self._bind(store)
        return self._store

    def _bind(self, store: Store) -> None:
        # why the store last: another thread takes it as a sign that all is there
        self._path, self._snapshots, self._store = store.path, Snapshots(store), store

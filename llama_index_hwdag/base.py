"""The index as LlamaIndex's `BaseIndex`."""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict
from types import MappingProxyType
from typing import Any, Literal, Self, get_args

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.callbacks.base import CallbackManager
from llama_index.core.chat_engine import (
    CondensePlusContextChatEngine,
    CondenseQuestionChatEngine,
    ContextChatEngine,
    SimpleChatEngine,
)
from llama_index.core.chat_engine.types import BaseChatEngine, ChatMode
from llama_index.core.indices.base import BaseIndex
from llama_index.core.ingestion import run_transformations
from llama_index.core.llms.utils import LLMType, resolve_llm
from llama_index.core.query_engine.retriever_query_engine import RetrieverQueryEngine
from llama_index.core.schema import BaseNode, Document, TransformComponent
from llama_index.core.storage.docstore.types import RefDocInfo
from llama_index.core.storage.storage_context import StorageContext

from hwdag.build.report import BuildReport
from hwdag.config import BuildConfig, SearchConfig, refuse
from hwdag.embedding.base import Embedder
from hwdag.errors import IndexMismatch, InputError, UnknownOption
from hwdag.index import HWDAGIndex as CoreIndex
from hwdag.text.prompts import Prompts
from llama_index_hwdag.adapters import FOREIGN, as_embedder, as_reader, as_writer
from llama_index_hwdag.llm import DEFAULT_NEW_TOKENS, HWDAGLLM
from llama_index_hwdag.query_engine import HWDAGQueryEngine
from llama_index_hwdag.retriever import HWDAGRetriever
from llama_index_hwdag.storage import (
    HWDAGIndexStruct,
    Source,
    by_ref_doc,
    restored,
    stored_nodes,
)

logger = logging.getLogger(__name__)

AnswerMode = Literal["synthesize", "walk"]
"""Who answers: a response synthesizer with any LLM, or the reader from the walk's KV cache."""

RETRIEVAL_OPTIONS = ("search", "k", "document_ids", "return_sources")


class WholeDocument(TransformComponent):
    """Leaves documents whole: the core does the chunking, in tokens of the reader."""

    def __call__(self, nodes: Sequence[BaseNode], **kwargs: Any) -> Sequence[BaseNode]:
        """The nodes as they are."""
        return nodes


class HWDAGIndex(BaseIndex[HWDAGIndexStruct]):
    """One graph per ref doc, kept in the framework's own stores.

    The unit is the ref doc: all nodes that share one (and a node without any is its own) are joined
    into one document, with a blank line between them, and a graph is built of the whole. Inserting
    more nodes of a ref doc builds its graph anew; inserting a `Document` replaces what was there.
    Nodes from a splitter should not overlap, or the overlap is there twice.

    `storage_context.persist(...)` and `load_index_from_storage(..., reader=, embedder=, ...)` work
    after `import llama_index_hwdag`; loading needs no model. One docstore may serve other indices,
    but a document can be in one HWDAG index of it only.

    Relations: a thin face on `hwdag.HWDAGIndex`, which is the property `core`.
    """

    index_struct_cls = HWDAGIndexStruct

    def __init__(
        self,
        nodes: Sequence[BaseNode] | None = None,
        *,
        index_struct: HWDAGIndexStruct | None = None,
        storage_context: StorageContext | None = None,
        callback_manager: CallbackManager | None = None,
        transformations: list[TransformComponent] | None = None,
        show_progress: bool = False,
        reader: object = None,
        writer: object = None,
        embedder: object = None,
        config: BuildConfig | None = None,
        prompts: Prompts | None = None,
    ) -> None:
        """Build from nodes or documents, or restore what a storage context holds.

        Args:
            nodes: joined by ref doc; see the class.
            index_struct: what `load_index_from_storage` found, instead of nodes.
            storage_context: stores; in memory by default.
            callback_manager: see LlamaIndex.
            transformations: applied to whatever `insert` is given; by default documents stay whole.
            show_progress: bars on standard error.
            reader: the local model: a `HuggingFaceLLM` (its loaded weights are used), an hwdag
                `Reader`, a model name, or None for the embedded default (or the one that built the
                index).
            writer: who writes Information Points: any LlamaIndex `LLM`, an hwdag `Writer`, a
                function, or None for the reader itself.
            embedder: a `BaseEmbedding`, an hwdag `Embedder`, a sentence-transformers name, or None
                for the embedded default (or the one that the nodes were embedded with).
            config: how documents become graphs.
            prompts: replacements for the papers' prompts.

        Raises:
            IndexCorrupt: the docstore does not hold what the struct names.
            IndexMismatch: config or embedder are not those that the index was built with.
        """
        self._changes = threading.RLock()
        self._sources: Mapping[str, Source] = {}
        self.report: BuildReport | None = None
        """What the latest insertion did: documents skipped, windows that fell back, cost."""
        # why: the base class builds from within its __init__
        models = {"reader": as_reader(reader), "writer": as_writer(writer), "prompts": prompts}
        given = as_embedder(embedder)
        self._core = CoreIndex(**models, embedder=given, config=config)  # type: ignore[arg-type]
        super().__init__(
            nodes=None if nodes is None else list(nodes),
            index_struct=index_struct,
            storage_context=storage_context,
            callback_manager=callback_manager,
            transformations=transformations or [WholeDocument()],
            show_progress=show_progress,
        )
        if index_struct is not None:
            self._restore(models, given, config)

    @classmethod
    def from_documents(  # type: ignore[override]  # why: no **kwargs, which would be swallowed
        cls,
        documents: Sequence[Document],
        storage_context: StorageContext | None = None,
        show_progress: bool = False,
        callback_manager: CallbackManager | None = None,
        transformations: list[TransformComponent] | None = None,
        *,
        reader: object = None,
        writer: object = None,
        embedder: object = None,
        config: BuildConfig | None = None,
        prompts: Prompts | None = None,
    ) -> Self:
        """Build the graphs of whole documents; see `__init__` for the arguments.

        Blank documents are skipped with a warning, and listed in `report.skipped`.
        """
        nodes: Sequence[BaseNode] = list(documents)
        if transformations:
            nodes = run_transformations(nodes, transformations, show_progress=show_progress)
        index = cls(
            nodes,
            storage_context=storage_context,
            callback_manager=callback_manager,
            transformations=transformations,
            show_progress=show_progress,
            reader=reader,
            writer=writer,
            embedder=embedder,
            config=config,
            prompts=prompts,
        )
        index.docstore.set_document_hashes({doc.id_: doc.hash for doc in documents})
        return index

    @property
    def core(self) -> CoreIndex:
        """The index without a framework: graphs, `search`, `answer`, `save` to one file."""
        return self._core

    @property
    def sources(self) -> Mapping[str, Source]:
        """Indexed documents by ref doc id, at this moment; a later change makes a new mapping."""
        return MappingProxyType(self._sources)

    @property
    def ref_doc_info(self) -> dict[str, RefDocInfo]:
        """Metadata and node ids (given ones, chunks and points) by ref doc id."""
        found = {key: self.docstore.get_ref_doc_info(key) for key in self._index_struct.nodes}
        return {key: info for key, info in found.items() if info is not None}

    def build_index_from_nodes(
        self, nodes: Sequence[BaseNode], **build_kwargs: Any
    ) -> HWDAGIndexStruct:
        """Build, then store: of a document whose build fails nothing is left in the docstore."""
        return self._build_index_from_nodes(nodes, **build_kwargs)

    def _build_index_from_nodes(
        self, nodes: Sequence[BaseNode], **build_kwargs: Any
    ) -> HWDAGIndexStruct:
        refuse(build_kwargs, "HWDAGIndex", "none while building")
        struct = HWDAGIndexStruct(config=asdict(self._core.config))
        self._add(nodes, struct)
        return struct

    def insert_nodes(self, nodes: Sequence[BaseNode], **insert_kwargs: Any) -> None:
        """Build the graphs of the nodes' ref docs; those of unchanged content cost nothing.

        Raises:
            InputError: a document is in another HWDAG index of the same storage context.
        """
        with self._callback_manager.as_trace("insert_nodes"), self._changes:
            try:
                self._insert(nodes, **insert_kwargs)
            finally:  # what was finished stays, whatever interrupted the rest
                self._storage_context.index_store.add_index_struct(self._index_struct)

    async def ainsert_nodes(self, nodes: Sequence[BaseNode], **insert_kwargs: Any) -> None:
        """`insert_nodes` in a thread; the loop goes on."""
        await asyncio.to_thread(self.insert_nodes, nodes, **insert_kwargs)

    def _insert(self, nodes: Sequence[BaseNode], **insert_kwargs: Any) -> None:
        refuse(insert_kwargs, "insert", "none")
        self._add(nodes, self._index_struct)

    def delete_ref_doc(
        self, ref_doc_id: str, delete_from_docstore: bool = False, **delete_kwargs: Any
    ) -> None:
        """Remove a document with its graph; with a warning if it is not there.

        The stored nodes stay in the docstore unless `delete_from_docstore`.
        """
        refuse(delete_kwargs, "delete_ref_doc", "delete_from_docstore")
        with self._changes:
            if ref_doc_id not in self._index_struct.nodes:
                logger.warning("ref_doc_id %s not found, nothing deleted.", ref_doc_id)
                return
            if ref_doc_id in self._core.documents:  # a document that became blank is gone already
                self._core.delete(ref_doc_id)
            self._sources = {k: v for k, v in self._sources.items() if k != ref_doc_id}
            del self._index_struct.nodes[ref_doc_id], self._index_struct.sources[ref_doc_id]
            if delete_from_docstore:
                self._docstore.delete_ref_doc(ref_doc_id, raise_error=False)
            self._storage_context.index_store.add_index_struct(self._index_struct)

    async def adelete_ref_doc(
        self, ref_doc_id: str, delete_from_docstore: bool = False, **delete_kwargs: Any
    ) -> None:
        """`delete_ref_doc` in a thread; the loop goes on."""
        await asyncio.to_thread(
            self.delete_ref_doc, ref_doc_id, delete_from_docstore, **delete_kwargs
        )

    def _delete_node(self, node_id: str, **delete_kwargs: Any) -> None:
        raise InputError(
            f"node {node_id} is part of a document's graph and cannot be deleted alone; use "
            "delete_ref_doc, or update_ref_doc with a changed document"
        )

    def as_retriever(
        self,
        *,
        search: SearchConfig | None = None,
        k: int | None = None,
        document_ids: Collection[str] | None = None,
        return_sources: bool = False,
        **kwargs: Any,
    ) -> HWDAGRetriever:
        """A retriever over this index; see `HWDAGRetriever` for the arguments.

        Raises:
            UnknownOption: any other argument.
        """
        refuse(kwargs, "as_retriever", ", ".join(RETRIEVAL_OPTIONS))
        return HWDAGRetriever(
            self,
            search=search,
            k=k,
            document_ids=document_ids,
            return_sources=return_sources,
            callback_manager=self._callback_manager,
            object_map=self._object_map,
        )

    def as_llm(self, *, max_new_tokens: int = DEFAULT_NEW_TOKENS) -> HWDAGLLM:
        """The reader as a LlamaIndex LLM. Raises `InputError` if it only reads."""
        return HWDAGLLM(self._core.reader, max_new_tokens=max_new_tokens)

    def as_query_engine(
        self,
        llm: LLMType | None = None,
        *,
        answer_mode: AnswerMode = "synthesize",
        **kwargs: Any,
    ) -> BaseQueryEngine:
        """A query engine over `as_retriever`.

        Args:
            llm: answers with the retrieved nodes; None for the reader itself (`as_llm`).
            answer_mode: "synthesize" is LlamaIndex's `RetrieverQueryEngine`; "walk" answers from
                the walk's own KV cache (`HWDAGQueryEngine`) and takes no other LLM.
            kwargs: options of `as_retriever` and of the engine (`streaming`, `response_mode`,
                `node_postprocessors`, ...; `streaming` alone for "walk").

        Raises:
            UnknownOption: any other argument.
        """
        if answer_mode == "walk":
            if llm is not None:
                raise UnknownOption(
                    'answer_mode="walk" answers with the reader and takes no llm; leave it out, or '
                    'use answer_mode="synthesize"'
                )
            ours, rest = _split(kwargs, HWDAGQueryEngine, 'as_query_engine(answer_mode="walk")')
            return HWDAGQueryEngine(self.as_retriever(**ours), **rest)
        if answer_mode != "synthesize":
            raise UnknownOption(
                f"answer_mode must be one of {', '.join(get_args(AnswerMode))}, got {answer_mode!r}"
            )
        ours, rest = _split(kwargs, RetrieverQueryEngine.from_args, "as_query_engine")
        return RetrieverQueryEngine.from_args(
            self.as_retriever(**ours), llm=self._resolved(llm), **rest
        )

    def as_chat_engine(
        self,
        chat_mode: ChatMode = ChatMode.BEST,
        llm: LLMType | None = None,
        **kwargs: Any,
    ) -> BaseChatEngine:
        """A chat engine of LlamaIndex; `llm` None is the reader itself (`as_llm`).

        `kwargs` are options of `as_retriever` and of the engine (`memory`, `system_prompt`, ...).

        Raises:
            UnknownOption: any other argument, or a mode that LlamaIndex no longer has.
        """
        if chat_mode not in CHAT_ENGINES:
            raise UnknownOption(
                f"chat_mode must be one of {', '.join(mode.value for mode in CHAT_ENGINES)}, got "
                f"{chat_mode!r}; agents take the query engine as a tool"
            )
        make, source = CHAT_ENGINES[chat_mode]
        ours, rest = _split(kwargs, make, f"as_chat_engine({chat_mode.value!r})")
        model = self._resolved(llm)
        if source == "retriever":
            rest["retriever"] = self.as_retriever(**ours)
        elif source == "query_engine":
            rest["query_engine"] = self.as_query_engine(model, **ours)
        return make(llm=model, **rest)

    def _resolved(self, llm: LLMType | None) -> Any:
        if llm is None:
            return self.as_llm()
        return resolve_llm(llm, callback_manager=self._callback_manager)

    def _add(self, nodes: Sequence[BaseNode], struct: HWDAGIndexStruct) -> None:
        """Build and store what the nodes' ref docs are now."""
        joined = {key: self._all_of(key, new, struct) for key, new in by_ref_doc(nodes).items()}
        self._refuse_shared(joined, struct)
        sources = {key: Source.of(key, parts) for key, parts in joined.items()}
        documents = [source.document for source in sources.values()]
        try:
            self.report = self._core.refresh(documents, progress=self._show_progress)
        finally:
            entries = self._core.entries
            done = {
                key: source
                for key, source in sources.items()
                if key in entries and entries[key].document == source.document
            }
            for key, source in done.items():
                made = stored_nodes(entries[key], source)
                self._store(key, joined[key], made, struct)
            self._sources = {**self._sources, **done}
        self._skip(self.report, struct)

    def _all_of(
        self, ref_doc_id: str, new: Mapping[str, BaseNode], struct: HWDAGIndexStruct
    ) -> list[BaseNode]:
        """A ref doc's nodes, known and new; a whole document and parts of it exclude each other."""
        if ref_doc_id in new:
            return list(new.values())
        known = [key for key in struct.sources.get(ref_doc_id, ()) if key != ref_doc_id]
        wanted = dict.fromkeys([*known, *new])
        return [new[key] if key in new else self._docstore.get_node(key) for key in wanted]

    def _store(
        self,
        ref_doc_id: str,
        parts: Sequence[BaseNode],
        made: Sequence[BaseNode],
        struct: HWDAGIndexStruct,
    ) -> None:
        self._docstore.add_documents([*parts, *made], allow_update=True)
        ids = [node.node_id for node in made]
        # why: after the new ones, since a docstore forgets a document with its last node
        for stale in set(struct.nodes.get(ref_doc_id, ())) - set(ids):
            self._docstore.delete_document(stale, raise_error=False)
        struct.nodes[ref_doc_id] = ids
        struct.sources[ref_doc_id] = [part.node_id for part in parts]
        struct.reader, struct.embedder = self._core.built_by or "", self._core.embedder.name

    def _skip(self, report: BuildReport, struct: HWDAGIndexStruct) -> None:
        """Say what was skipped; a document that has become blank is no longer in the index."""
        for ref_doc_id, reason in report.skipped:
            logger.warning("document %s was skipped: %s", ref_doc_id, reason)
            if ref_doc_id in struct.nodes:
                self.delete_ref_doc(ref_doc_id, delete_from_docstore=True)

    def _refuse_shared(self, ref_doc_ids: Collection[str], struct: HWDAGIndexStruct) -> None:
        for other in self._storage_context.index_store.index_structs():
            if isinstance(other, HWDAGIndexStruct) and other.index_id != struct.index_id:
                for key in other.nodes.keys() & set(ref_doc_ids):
                    raise InputError(
                        f"document {key!r} is in the HWDAG index {other.index_id} of the same "
                        "storage context, and their nodes would overwrite each other; load that "
                        "index and use refresh_ref_docs, or give this one its own StorageContext"
                    )

    def _restore(
        self,
        models: Mapping[str, Any],
        embedder: Embedder | str | None,
        config: BuildConfig | None,
    ) -> None:
        """Replace the empty core by what the stores hold."""
        struct = self._index_struct
        stored = BuildConfig.from_dict(struct.config)
        if config not in (None, stored):
            raise IndexMismatch(
                f"the index was built with {stored}, not with {config}; leave config out to use "
                "the index's own, or build another index"
            )
        if not struct.reader:
            self._core = CoreIndex(**models, embedder=embedder, config=stored)
            return
        found = list(restored(struct, self._docstore))
        self._sources = {source.document.id: source for source, _ in found}
        self._core = CoreIndex.from_entries(
            [entry for _, entry in found],
            **models,
            built_by=struct.reader,
            embedder=_same_embedder(embedder, struct.embedder),
            config=stored,
        )


CHAT_ENGINES: dict[ChatMode, tuple[Callable[..., BaseChatEngine], str]] = {
    ChatMode.BEST: (CondensePlusContextChatEngine.from_defaults, "retriever"),
    ChatMode.CONDENSE_PLUS_CONTEXT: (CondensePlusContextChatEngine.from_defaults, "retriever"),
    ChatMode.CONTEXT: (ContextChatEngine.from_defaults, "retriever"),
    ChatMode.CONDENSE_QUESTION: (CondenseQuestionChatEngine.from_defaults, "query_engine"),
    ChatMode.SIMPLE: (SimpleChatEngine.from_defaults, ""),
}
"""How each mode is made, and what it is given besides an LLM."""


def _split(
    options: Mapping[str, Any], make: Callable[..., object], where: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Options of the retriever and those of `make`. Raises `UnknownOption` for all others."""
    taken = {"self", "retriever", "query_engine", "llm", "kwargs"}
    theirs = [name for name in inspect.signature(make).parameters if name not in taken]
    known = [*RETRIEVAL_OPTIONS, *theirs]
    refuse({k: v for k, v in options.items() if k not in known}, where, ", ".join(known))
    ours = {k: v for k, v in options.items() if k in RETRIEVAL_OPTIONS}
    return ours, {k: v for k, v in options.items() if k not in ours}


def _same_embedder(given: Embedder | str | None, recorded: str) -> Embedder | str:
    """The embedder that the nodes were embedded with. Raises `IndexMismatch` for another one."""
    if given is None and not recorded.startswith(FOREIGN):
        return recorded
    name = given if given is None or isinstance(given, str) else given.name
    if given is None or name != recorded:
        raise IndexMismatch(
            f"the nodes were embedded with {recorded!r}, which similarity needs too; got {name!r}. "
            "Pass that model as embedder, or build anew"
        )
    return given

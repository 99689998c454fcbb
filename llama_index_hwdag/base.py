"""The index as LlamaIndex's `BaseIndex`."""

from __future__ import annotations

import json
import threading
from collections.abc import Collection, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, Self

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.callbacks.base import CallbackManager
from llama_index.core.chat_engine.types import BaseChatEngine, ChatMode
from llama_index.core.ingestion import run_transformations
from llama_index.core.llms.utils import LLMType
from llama_index.core.schema import BaseNode, Document, TextNode, TransformComponent
from llama_index.core.storage.docstore.types import RefDocInfo
from llama_index.core.storage.storage_context import StorageContext

from hwdag.checks import refuse, under_one_name
from hwdag.config import BuildConfig, SearchConfig
from hwdag.errors import IndexMismatch
from hwdag.index import HWDAGIndex as CoreIndex
from hwdag.search.passages import Returns
from hwdag.text.prompts import Prompts
from hwdag.threads import in_builder_thread
from hwdag.types import Document as CoreDocument
from llama_index_hwdag.adapters import as_embedder, as_reader, as_writer
from llama_index_hwdag.changing import ChangingIndex
from llama_index_hwdag.engines import RETRIEVAL_OPTIONS, AnswerMode, chat_engine, query_engine
from llama_index_hwdag.in_file import InFile
from llama_index_hwdag.in_stores import InStores
from llama_index_hwdag.index_struct import HWDAGIndexStruct
from llama_index_hwdag.llm import DEFAULT_NEW_TOKENS, HWDAGLLM
from llama_index_hwdag.metadata_filters import Filters
from llama_index_hwdag.nodes import Source, checked_nodes, text_node
from llama_index_hwdag.retriever import HWDAGRetriever
from llama_index_hwdag.storage import Options, Storage, check


class WholeDocument(TransformComponent):
    """Leaves documents whole: the core does the chunking, in tokens of the reader."""

    def __call__(self, nodes: Sequence[BaseNode], **kwargs: Any) -> Sequence[BaseNode]:
        """The nodes as they are."""
        return nodes


class HWDAGIndex(ChangingIndex):
    """One graph per ref doc, kept in the framework's own stores, or in one file.

    The unit is the ref doc: all nodes that share one (and a node without any is its own) are joined
    into one document, with a blank line between them, and a graph is built of the whole. Inserting
    more nodes of a ref doc builds its graph anew; inserting a `Document` replaces what was there.
    Nodes from a splitter should not overlap, or the overlap is there twice.

    Graphs are in the docstore, embeddings in the vector store (under the namespace "hwdag" where the
    default one is the simple one). `storage_context.persist(...)` and
    `load_index_from_storage(..., reader=, embedder=, ...)` work after `import llama_index_hwdag`;
    loading needs no model. With `path` everything is in the core's own single file instead: every
    finished model call is on disk at once, an interrupted build goes on where it was, and corpus
    layers are kept too. The docstore then has the input documents, and the index store the path.

    One docstore may serve other indices, but a document can be in one HWDAG index of it only; and
    an index of another kind that has the same document should not delete it, since LlamaIndex then
    removes all nodes of the ref doc, whoever's they are. Every method that builds, changes or
    searches has a twin that does not block the event loop.

    Relations: a thin layer over `hwdag.HWDAGIndex`, which is the property `core`.
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
        embed_model: object = None,
        config: BuildConfig | None = None,
        prompts: Prompts | None = None,
        path: str | Path | None = None,
    ) -> None:
        """Build from nodes or documents, or restore what a storage context holds.

        Args:
            nodes: joined by ref doc; see the class.
            index_struct: what `load_index_from_storage` found, instead of nodes.
            storage_context: stores; in memory by default.
            callback_manager: see LlamaIndex.
            transformations: applied to whatever `insert` is given; by default documents stay whole.
            show_progress: bars on standard error, for later changes too.
            reader: the local model: a `HuggingFaceLLM` (its loaded weights are used), an hwdag
                `Reader`, a model name, or None for the embedded default (or the one that built the
                index).
            writer: who writes Information Points: any LlamaIndex `LLM`, an hwdag `Writer`, a
                function, or None for the reader itself.
            embedder: a `BaseEmbedding`, an hwdag `Embedder`, a sentence-transformers name, or None
                for the one that the nodes were embedded with; of a new index for
                `Settings.embed_model` where it was set, else for the embedded default.
            embed_model: LlamaIndex's name of `embedder`.
            config: how documents become graphs.
            prompts: replacements for the papers' prompts.
            path: a file to keep the graphs in, which is opened if it is there; None keeps them in
                the stores. For a stored index only needed if the file was moved.

        Raises:
            IndexFileError: the file is not where the index remembers it, or cannot be used.
            IndexCorrupt: the docstore holds no document as it was indexed; single ones that it no
                longer holds so are left out with a warning.
            IndexMismatch: config or embedder are not those that the index was built with.
        """
        self._changes = threading.RLock()
        self.report = None
        # why: the base class builds from within its __init__
        self._options = Options(
            as_reader(reader),
            as_writer(writer),
            as_embedder(under_one_name(embedder=embedder, embed_model=embed_model)),
            config,
            prompts,
        )
        self._path = path
        super().__init__(
            nodes=None if nodes is None else checked_nodes(nodes),
            index_struct=index_struct,
            storage_context=storage_context,
            callback_manager=callback_manager,
            transformations=transformations or [WholeDocument()],
            show_progress=show_progress,
        )
        if index_struct is not None:
            known_path = index_struct.path
            self._storage = self._storage_of(index_struct)
            if index_struct.path != known_path:
                self._storage.commit()

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
        embed_model: object = None,
        config: BuildConfig | None = None,
        prompts: Prompts | None = None,
        path: str | Path | None = None,
    ) -> Self:
        """Build the graphs of whole documents; see `__init__` for the arguments.

        Blank documents are skipped with a warning, and listed in `report.skipped`. If the build
        fails, the documents that were finished stay: in the file, or in the stores, from where
        `load_index_from_storage` and `refresh_ref_docs` go on.
        """
        documents = list(documents)
        nodes: Sequence[BaseNode] = documents
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
            embed_model=embed_model,
            config=config,
            prompts=prompts,
            path=path,
        )
        index._storage.built_of(documents)
        return index

    @classmethod
    async def afrom_documents(cls, documents: Sequence[Document], **options: Any) -> Self:
        """`from_documents` in a thread, with the same options; the loop goes on."""
        return await in_builder_thread(partial(cls.from_documents, documents, **options))

    @property
    def core(self) -> CoreIndex:
        """The index without a framework: graphs, `search`, `answer`, `save` to one file."""
        return self._storage.core

    @property
    def ref_doc_info(self) -> dict[str, RefDocInfo]:
        """Metadata and node ids (given ones, chunks and points) by ref doc id."""
        found = {key: self._storage.info(key) for key in list(self._storage.ref_doc_ids())}
        return {key: info for key, info in found.items() if info is not None}

    @property
    def callback_manager(self) -> CallbackManager:
        """Who is told of what happens, in LlamaIndex's older way."""
        return self._callback_manager

    def leaf_nodes(self) -> list[TextNode]:
        """All leaves, equal to those that a retriever returns: for BM25 and others beside it."""
        return [
            text_node(node, self.source_of(document))
            for document, graph, _ in self.core.entries.values()
            for node in graph.nodes
            if node.level == 1
        ]

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the path of the file, which is opened where it is unpickled, with its own models."""
        if self.core.path is None:
            raise TypeError(
                "an index in stores cannot be pickled; persist its storage context and use "
                "load_index_from_storage, or build it with path=..."
            )
        return partial(type(self), (), path=self.core.path), ()

    def source_of(self, document: CoreDocument) -> Source:
        """What a document of the core was read from: its metadata, and who may see which of it."""
        return self._storage.source(document)

    def build_index_from_nodes(
        self, nodes: Sequence[BaseNode], **build_kwargs: Any
    ) -> HWDAGIndexStruct:
        """Build, then store: of a document whose build fails nothing is left in the docstore."""
        return self._build_index_from_nodes(nodes, **build_kwargs)

    def _build_index_from_nodes(
        self, nodes: Sequence[BaseNode], **build_kwargs: Any
    ) -> HWDAGIndexStruct:
        refuse(build_kwargs, "HWDAGIndex", "none while building")
        struct = HWDAGIndexStruct()
        self._storage = self._storage_of(struct)
        # why: as it will be read back, so that a struct equals its stored self
        struct.config = json.loads(json.dumps(asdict(self.core.config)))
        if nodes:
            self._build(nodes, replaces=False)
        return struct

    def as_retriever(
        self,
        *,
        search: SearchConfig | None = None,
        k: int | None = None,
        similarity_top_k: int | None = None,
        document_ids: Collection[str] | None = None,
        filters: Filters | None = None,
        returns: Returns = "nodes",
        **kwargs: Any,
    ) -> HWDAGRetriever:
        """Return a retriever over this index; see `HWDAGRetriever` for the arguments.

        `similarity_top_k` is LlamaIndex's name of `k`.

        Raises:
            UnknownOption: any other argument, or both names of `k` with different numbers.
        """
        refuse(kwargs, "as_retriever", ", ".join(RETRIEVAL_OPTIONS))
        return HWDAGRetriever(
            self,
            search=search,
            k=k,
            similarity_top_k=similarity_top_k,
            document_ids=document_ids,
            filters=filters,
            returns=returns,
            callback_manager=self._callback_manager,
            object_map=self._object_map,
        )

    def as_llm(self, *, max_new_tokens: int = DEFAULT_NEW_TOKENS) -> HWDAGLLM:
        """The reader as a LlamaIndex LLM. Raises `InputError` if it only reads."""
        return HWDAGLLM(self.core.reader, max_new_tokens=max_new_tokens)

    def as_query_engine(
        self, llm: LLMType | None = None, *, answer_mode: AnswerMode = "synthesize", **kwargs: Any
    ) -> BaseQueryEngine:
        """A query engine over `as_retriever`.

        Args:
            llm: answers with the retrieved nodes; None for `Settings.llm` where it was set, else for
                the reader itself (`as_llm`).
            answer_mode: "synthesize" is LlamaIndex's `RetrieverQueryEngine`; "walk" answers from
                the walk's own KV cache (`HWDAGQueryEngine`) and takes no other LLM.
            kwargs: options of `as_retriever` and of the engine (`streaming`, `response_mode`,
                `node_postprocessors`, ...; `streaming` alone for "walk").

        Raises:
            UnknownOption: any other argument.
        """
        return query_engine(self, llm, answer_mode, kwargs)

    def as_chat_engine(
        self, chat_mode: ChatMode | str = ChatMode.BEST, llm: LLMType | None = None, **kwargs: Any
    ) -> BaseChatEngine:
        """Return a chat engine of LlamaIndex; `llm` None as in `as_query_engine`.

        `kwargs` are options of `as_retriever` and of the engine (`memory`, `system_prompt`, ...).

        Raises:
            UnknownOption: any other argument, or a mode that LlamaIndex no longer has.
        """
        return chat_engine(self, chat_mode, llm, kwargs)

    def _storage_of(self, struct: HWDAGIndexStruct) -> Storage:
        """Where the struct says, or where a new index is to be."""
        check(struct)
        options = self._options.with_settings(struct)
        if struct.config:
            stored = BuildConfig.from_dict(struct.config)
            if options.config not in (None, stored):
                raise IndexMismatch(
                    f"the index was built with {stored}, not with {options.config}; leave config "
                    "out to use the index's own, or build another index"
                )
            options = replace(options, config=stored)
        path = self._path or struct.path
        if path and struct.nodes:
            raise IndexMismatch(
                f"the index lives in the stores of its storage context, not in a file; leave "
                f"path={str(path)!r} out, or write such a file with index.core.save(path)"
            )
        if path:
            return InFile.opened(self._storage_context, struct, options, Path(path))
        return InStores.restored(self._storage_context, struct, options)

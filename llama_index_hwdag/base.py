"""The index as LlamaIndex's `BaseIndex`."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self, TypedDict, Unpack, get_args

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.callbacks.base import CallbackManager
from llama_index.core.chat_engine.types import BaseChatEngine, ChatMode
from llama_index.core.llms.utils import LLMType, resolve_llm
from llama_index.core.query_engine.retriever_query_engine import RetrieverQueryEngine
from llama_index.core.schema import BaseNode, Document, TextNode, TransformComponent
from llama_index.core.storage.storage_context import StorageContext

from hwdag.checks import one_of, refuse, under_one_name
from hwdag.config import REPLY_TOKENS, BuildConfig, config_with
from hwdag.text.prompts import Prompts
from hwdag.threads import in_builder_thread
from llama_index_hwdag.adapters import as_embedder, as_reader, as_writer
from llama_index_hwdag.changing import ChangingIndex
from llama_index_hwdag.chat_engine import HWDAGChatEngine
from llama_index_hwdag.engines import (
    AnswerMode,
    chat_engine_of,
    is_llm_set,
    resolved_llm,
    split_options,
    takes,
    with_silent_synthesizer,
)
from llama_index_hwdag.index_struct import HWDAGIndexStruct
from llama_index_hwdag.llm import HWDAGLLM
from llama_index_hwdag.nodes import checked_nodes, text_node
from llama_index_hwdag.query_engine import HWDAGQueryEngine
from llama_index_hwdag.retriever import HWDAGRetriever, SearchOptions
from llama_index_hwdag.storing import checked, note, opened


class BuildOptions(TypedDict, total=False):
    """How an index is built, and where it is kept.

    Attributes:
        reader: the local model: a `HuggingFaceLLM` (its loaded weights are used), an hwdag `Reader`, a
            model name, or None for the one that built the index, at first the embedded default.
        writer: writes Information Points: a LlamaIndex `LLM`, an hwdag `Writer`, a function, or None for
            the reader itself.
        answerer: answers in `as_query_engine(answer_mode="walk")` and in `core.answer`: the same kinds;
            None for the reader.
        embedder: a `BaseEmbedding`, an hwdag `Embedder`, a sentence-transformers name, or None for the
            one that embedded the nodes; a new index takes `Settings.embed_model` if it is set, else
            the embedded default.
        embed_model: LlamaIndex's name of `embedder`.
        method: short for the `method` of a `hwdag.BuildConfig`.
        config: how documents become graphs.
        prompts: replacements for the papers' prompts.
        path: the index file, which is opened if it exists; None keeps the index in memory. To load an
            index, pass it only if the file was moved.
    """

    reader: object
    writer: object
    answerer: object
    embedder: object
    embed_model: object
    method: str | None
    config: BuildConfig | None
    prompts: Prompts | None
    path: str | Path | None


class WholeDocument(TransformComponent):
    """Leaves documents whole: the core cuts them into chunks, in tokens of the reader."""

    def __call__(self, nodes: Sequence[BaseNode], **kwargs: Any) -> Sequence[BaseNode]:
        """Return the nodes unchanged."""
        return nodes


class HWDAGIndex(ChangingIndex):
    """One graph per ref doc, all in the core's one file, or in memory.

    All nodes of a ref doc are joined into one document, with a blank line between them, and become one
    graph; a node without a ref doc is a document of its own. Inserting more nodes of a ref doc builds
    its graph again; inserting a `Document` replaces it. Nodes from a splitter should not overlap, or
    the document holds the overlap twice; a warning says so.

    `storage_context.persist(...)` and `load_index_from_storage(..., reader=, embedder=, ...)` work
    after `import llama_index_hwdag`; loading needs no model. The index store holds the path of the
    file. For an index in memory it holds the bytes of a file, and every change writes them again, so
    insert many documents at once. With `path`, finished model calls are on disk within a second, and an
    interrupted build continues. The index leaves docstore and vector stores to others.

    Every method that builds, changes or searches has an asynchronous twin.

    Relations: a thin layer over the attribute `core`, an `hwdag.HWDAGIndex`.
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
        **options: Unpack[BuildOptions],
    ) -> None:
        """Build from nodes or documents, or restore what a storage context holds.

        Args:
            nodes: joined by ref doc; see the class.
            index_struct: the result of `load_index_from_storage`, instead of nodes.
            storage_context: has the index store; in memory by default.
            callback_manager: see LlamaIndex.
            transformations: applied to everything that `insert` gets; by default documents stay whole.
            show_progress: bars on standard error, for later changes too.
            options: how to build, and where to keep the index.

        Raises:
            IndexFileError: the file is not where the index remembers it, or cannot be used.
            IndexCorrupt: the index store holds something else.
            IndexMismatch: the index was built with another config or embedder.
            UnknownOption: an unknown option.
        """
        unknown = {k: v for k, v in options.items() if k not in BuildOptions.__annotations__}
        refuse(unknown, type(self).__name__, ", ".join(BuildOptions.__annotations__))
        self._changes = threading.RLock()
        self.report = None
        # why: the base class builds from within its __init__
        self._show_progress = show_progress
        self._index_struct = checked(index_struct) if index_struct else HWDAGIndexStruct()
        embedder = under_one_name(
            embedder=options.get("embedder"), embed_model=options.get("embed_model")
        )
        models = {
            "reader": as_reader(options.get("reader")),
            "writer": as_writer(options.get("writer")),
            "answerer": as_writer(options.get("answerer")),
            "embedder": as_embedder(embedder),
            "prompts": options.get("prompts"),
        }
        config = config_with(options.get("config"), options.get("method"))
        self.core = opened(self._index_struct, options.get("path"), models, config)
        super().__init__(
            nodes=None if nodes is None else checked_nodes(nodes),
            index_struct=index_struct,
            storage_context=storage_context,
            callback_manager=callback_manager,
            transformations=transformations or [WholeDocument()],
            show_progress=show_progress,
        )

    @classmethod
    def from_documents(  # type: ignore[override]  # the options by name
        cls,
        documents: Sequence[Document],
        storage_context: StorageContext | None = None,
        show_progress: bool = False,
        callback_manager: CallbackManager | None = None,
        transformations: list[TransformComponent] | None = None,
        **options: Unpack[BuildOptions],
    ) -> Self:
        """Build the graphs of whole documents; the arguments are those of the class.

        Blank documents are skipped with a warning and listed in `report.skipped`. If the build fails,
        finished documents stay; `load_index_from_storage` and `refresh_ref_docs` continue.
        """
        documents = list(documents)
        checked_nodes(documents)
        index = cls(
            [],
            storage_context=storage_context,
            callback_manager=callback_manager,
            transformations=transformations,
            show_progress=show_progress,
            **options,
        )
        with index._changing("index_construction"):
            index._insert_documents(documents)
        return index

    @classmethod
    async def afrom_documents(cls, documents: Sequence[Document], **options: Any) -> Self:
        """Run `from_documents` in a thread, with the same options."""
        return await in_builder_thread(partial(cls.from_documents, documents, **options))

    def nodes(self) -> list[TextNode]:
        """Return all leaves, equal to those that a retriever returns, for `BM25Retriever` and others."""
        return [
            text_node(node, document)
            for document, graph, _ in self.core.entries.values()
            for node in graph.nodes
            if node.level == 1
        ]

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the path of the file; unpickling opens it, with the models that it names."""
        if self.core.path is None:
            raise TypeError(
                "an index in memory cannot be pickled; build it with path=..., or persist its storage "
                "context and use load_index_from_storage"
            )
        return partial(type(self), (), path=self.core.path), ()

    def build_index_from_nodes(
        self, nodes: Sequence[BaseNode], **build_kwargs: Any
    ) -> HWDAGIndexStruct:
        """Build; the index file keeps the nodes, not the docstore."""
        return self._build_index_from_nodes(nodes, **build_kwargs)

    def _build_index_from_nodes(
        self, nodes: Sequence[BaseNode], **build_kwargs: Any
    ) -> HWDAGIndexStruct:
        refuse(build_kwargs, "HWDAGIndex", "none while building")
        note(self._index_struct, self.core)
        if nodes:
            self._insert(nodes)
        return self._index_struct

    def as_retriever(  # type: ignore[override]  # the options by name
        self, **options: Unpack[SearchOptions]
    ) -> HWDAGRetriever:
        """Return a retriever over this index; errors are those of `CoreRetriever`."""
        return HWDAGRetriever(
            self.core,
            callback_manager=self._callback_manager,
            object_map=self._object_map,
            **options,
        )

    def as_llm(self, *, max_new_tokens: int = REPLY_TOKENS) -> HWDAGLLM:
        """Return the reader as a LlamaIndex LLM. Raises `InputError` if it cannot write."""
        return HWDAGLLM(self.core.reader, max_new_tokens=max_new_tokens)

    def as_query_engine(
        self, llm: LLMType | None = None, *, answer_mode: AnswerMode | None = None, **kwargs: Any
    ) -> BaseQueryEngine:
        """Return a query engine over `as_retriever`.

        Args:
            llm: answers from the retrieved nodes; None for `Settings.llm` if it is set, else the
                reader (`as_llm`). In the mode "walk" it is the answerer; None is the answerer of the
                index, else the reader.
            answer_mode: "synthesize" is LlamaIndex's `RetrieverQueryEngine`; "walk" answers with exact
                citations (`HWDAGQueryEngine`). None is "walk" if no LLM is set or the index has an
                answerer, unless an option belongs to "synthesize" alone.
            kwargs: options of `as_retriever` and of the engine (`streaming`; for "synthesize" also
                `response_mode`, `node_postprocessors`, ...).

        Raises:
            UnknownOption: any other argument.
        """
        if answer_mode is None:
            walks = self._walks(llm) and takes(HWDAGQueryEngine, kwargs)
            answer_mode = "walk" if walks else "synthesize"
        if answer_mode == "walk":
            ours, theirs = split_options(kwargs, HWDAGQueryEngine, "as_query_engine")
            answerer = resolve_llm(llm) if isinstance(llm, str) else llm
            return HWDAGQueryEngine(self.as_retriever(**ours), answerer=answerer, **theirs)
        one_of("answer_mode", answer_mode, get_args(AnswerMode))
        ours, theirs = split_options(kwargs, RetrieverQueryEngine.from_args, "as_query_engine")
        model = resolved_llm(llm, self._callback_manager, self.as_llm)
        theirs = with_silent_synthesizer(theirs, model)
        return RetrieverQueryEngine.from_args(self.as_retriever(**ours), llm=model, **theirs)

    def as_chat_engine(
        self, chat_mode: ChatMode | str = ChatMode.BEST, llm: LLMType | None = None, **kwargs: Any
    ) -> BaseChatEngine:
        """Return a chat engine of LlamaIndex, or `HWDAGChatEngine`; `llm` is as in `as_query_engine`.

        The mode "walk" is `HWDAGChatEngine`, with `llm` as its answerer. It is the default if no LLM is
        set or the index has an answerer, unless an option belongs to LlamaIndex's engines alone. `kwargs`
        are options of `as_retriever` and of the engine (`memory`, `system_prompt`, ...).

        Raises:
            UnknownOption: any other argument, or a mode that LlamaIndex no longer has.
        """
        walks = chat_mode == ChatMode.BEST and self._walks(llm) and takes(HWDAGChatEngine, kwargs)
        if chat_mode == "walk" or walks:
            ours, theirs = split_options(kwargs, HWDAGChatEngine, "as_chat_engine")
            answerer = resolve_llm(llm) if isinstance(llm, str) else llm
            return HWDAGChatEngine(self.as_retriever(**ours), answerer=answerer, **theirs)
        make, source = chat_engine_of(chat_mode)
        ours, theirs = split_options(kwargs, make, "as_chat_engine")
        model = resolved_llm(llm, self._callback_manager, self.as_llm)
        if source == "retriever":
            theirs["retriever"] = self.as_retriever(**ours)
        elif source == "query_engine":
            theirs["query_engine"] = self.as_query_engine(model, **ours)
        return make(llm=model, **theirs)

    def _walks(self, llm: LLMType | None) -> bool:
        """Return whether the core answers by default: no LLM of LlamaIndex was chosen."""
        return llm is None and (self.core.answerer is not None or not is_llm_set())

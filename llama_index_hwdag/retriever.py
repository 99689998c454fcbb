"""A search of the core as a LlamaIndex retriever."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from functools import partial
from typing import Any, Self, TypedDict

import numpy as np
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.callbacks.base import CallbackManager
from llama_index.core.callbacks.schema import CBEventType, EventPayload
from llama_index.core.instrumentation.events.retrieval import (
    RetrievalEndEvent,
    RetrievalStartEvent,
)
from llama_index.core.schema import BaseNode, NodeWithScore, QueryBundle

from hwdag.building.report import BuildReport
from hwdag.checks import under_one_name
from hwdag.config import SearchConfig, checked_k
from hwdag.embedding.base import Embedder
from hwdag.errors import EmptyIndex
from hwdag.index import HWDAGIndex as CoreIndex
from hwdag.retriever import Retriever, finished, make_retriever
from hwdag.scope import Scope
from hwdag.search.answering import AnswerStream
from hwdag.search.passages import Returns, checked_returns, returned
from hwdag.trace.provenance import provenance
from hwdag.types import Retrieval, Step
from llama_index_hwdag.adapters import MODELS
from llama_index_hwdag.events import dispatcher, in_thread, walked_in_steps
from llama_index_hwdag.metadata_filters import Filters, as_core_filter
from llama_index_hwdag.nodes import by_ref_doc, core_document, retrieved_node

logger = logging.getLogger(__name__)


class SearchOptions(TypedDict, total=False):
    """How a retriever searches; `CoreRetriever` explains them."""

    search: SearchConfig | None
    k: int | None
    similarity_top_k: int | None
    document_ids: Collection[str] | None
    filters: Filters | None
    returns: Returns


class CoreRetriever(BaseRetriever):
    """Searches with any retriever of the core: BM25, dense, RAPTOR, HWDAG itself.

    Without `k` come the nodes that fit into the token budget, in the order in which the reader reads
    them. With `k` exactly min(k, available) come, best first. Where a node is from and why it is there is
    `metadata["hwdag"]`, which neither LLMs nor embedding models see. Every node that is read is an
    `HWDAGStepEvent` as it happens, within a span of its own.

    `HWDAGQueryEngine` answers with the retriever's own reader, `RetrieverQueryEngine` with any LLM.
    """

    def __init__(
        self,
        retriever: Retriever | CoreRetriever,
        *,
        search: SearchConfig | None = None,
        k: int | None = None,
        similarity_top_k: int | None = None,
        document_ids: Collection[str] | None = None,
        filters: Filters | None = None,
        returns: Returns = "nodes",
        callback_manager: CallbackManager | None = None,
        object_map: dict[str, Any] | None = None,
        verbose: bool = False,
    ) -> None:
        """Wrap a retriever that holds its documents; `from_documents` also puts them in.

        Args:
            retriever: anything that satisfies `hwdag.retriever.Retriever`, or another of this class.
                Later changes to it are seen.
            search: token budget, progress control, heads.
            k: number of nodes.
            similarity_top_k: LlamaIndex's name of `k`.
            document_ids: ref doc ids; only these documents are searched. None for all.
            filters: only documents whose metadata match: `MetadataFilters`, or the JSON form of a
                core filter.
            returns: "nodes" as they were read; "sources", with what a node rests on in the original
                document as its text, one per line; or "passages", the whole paragraphs that these are
                in, each once.
            callback_manager: see LlamaIndex, as the following.
            object_map: see LlamaIndex.
            verbose: see LlamaIndex.

        Raises:
            UnknownOption: `MetadataFilters` with an operator that the core has no equal of.
            InputError: not a retriever of the core, or another value that cannot be used.
        """
        self._retriever = finished(_unwrapped(retriever))
        self._report: BuildReport | None = None
        self._search = search
        self._k = checked_k(under_one_name(k=k, similarity_top_k=similarity_top_k))
        self._filters = as_core_filter(filters)
        self._scope = Scope(document_ids, self._filters)
        self._returns = checked_returns(returns)
        super().__init__(callback_manager, object_map, verbose=verbose)

    @classmethod
    def from_documents(
        cls,
        documents: Sequence[BaseNode],
        retriever: str | type[Retriever] | Retriever | CoreRetriever,
        *,
        callback_manager: CallbackManager | None = None,
        show_progress: bool = False,
        **options: Any,
    ) -> Self:
        """Insert documents into a retriever of the core.

        Args:
            documents: documents, or the nodes of a pipeline, which are joined by ref doc as in
                `HWDAGIndex`. What is blank is skipped with a warning, and listed in `report.skipped`.
            retriever: the name of a method of `hwdag_lab` ("raptor") or a class, which is made with
                `options`, or a finished one, which keeps the documents that it holds.
            callback_manager: see LlamaIndex.
            show_progress: bars on standard error.
            options: how to search, as in `__init__`, and arguments of the class; as `reader`, `writer`
                and `embedder` also LlamaIndex's models, as in `HWDAGIndex`.

        Raises:
            InputError: an id is taken by a document with other content.
            UnknownOption: a finished retriever and arguments of a class.
            TypeError: the class has no such option.
        """
        ours = {k: v for k, v in options.items() if k in SearchOptions.__annotations__}
        theirs = {k: v for k, v in options.items() if k not in ours}
        if isinstance(retriever, str):
            # why here: nothing else needs the lab
            from hwdag_lab.methods.registry import retriever_class

            retriever = retriever_class(retriever)
        made = make_retriever(_unwrapped(retriever), theirs, MODELS)
        wrapped = cls(made, callback_manager=callback_manager, **ours)
        wrapped._insert(documents, show_progress)
        return wrapped

    @property
    def core(self) -> Retriever:
        """The retriever without a framework: `search`, `answer`, `insert`, `delete`."""
        return self._retriever

    @property
    def report(self) -> BuildReport | None:
        """What `from_documents` did: documents skipped, cost."""
        return self._report

    def _insert(self, nodes: Sequence[BaseNode], show_progress: bool) -> None:
        documents = [core_document(key, parts) for key, parts in by_ref_doc(nodes).items()]
        self._report = self._retriever.insert(documents, show_progress=show_progress)
        for document_id, reason in self._report.skipped:
            logger.warning("document %s was skipped: %s", document_id, reason)

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        options = self._options(query_bundle)
        try:
            with walked_in_steps(type(self).__name__) as (on_step, on_end):
                retrieval = self.core.search(
                    query_bundle.query_str, k=self._k, on_step=on_step, **options
                )
                on_end(retrieval)
        except EmptyIndex:  # why: as every retriever of LlamaIndex over nothing
            return []
        return self._nodes(retrieval)

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await in_thread(partial(self._retrieve, query_bundle))

    @dispatcher.span
    def walk(
        self, query_bundle: QueryBundle, **asked: Any
    ) -> tuple[AnswerStream | None, list[NodeWithScore]]:
        """An answer that is yet to be decoded, and the nodes; where `k` is set, at most `k`.

        None and no nodes where there is no document. `asked` are further arguments of `core.stream`.
        """
        options = {**self._options(query_bundle), **asked}
        dispatcher.event(RetrievalStartEvent(str_or_query_bundle=query_bundle))
        payload: dict[str, Any] = {EventPayload.QUERY_STR: query_bundle.query_str}
        with self.callback_manager.event(CBEventType.RETRIEVE, payload=payload) as event:
            stream = self._stream(query_bundle.query_str, options)
            nodes = [] if stream is None else self._nodes(stream.retrieval)
            event.on_end(payload={EventPayload.NODES: nodes})
        dispatcher.event(RetrievalEndEvent(str_or_query_bundle=query_bundle, nodes=nodes))
        return stream, nodes

    def _stream(self, question: str, options: dict[str, Any]) -> AnswerStream | None:
        try:
            with walked_in_steps(type(self).__name__) as (on_step, on_end):
                stream = self.core.stream(question, on_step=on_step, **options)
                on_end(stream.retrieval)
        except EmptyIndex:
            return None
        return stream

    def _options(self, query_bundle: QueryBundle) -> dict[str, Any]:
        """What both ways of searching take."""
        core, vector = self.core, None
        if isinstance(core, CoreIndex):  # others embed the question in their own way
            vector = _query_vector(core.embedder, query_bundle)
        return {
            "config": self._search,
            "scope": self._scope,
            **({} if vector is None else {"query_vector": vector}),
        }

    def _nodes(self, retrieval: Retrieval) -> list[NodeWithScore]:
        retrieval = returned(retrieval, self._returns)
        steps = retrieval.steps if self._k is None else retrieval.best(self._k)
        return [self._scored(step, retrieval) for step in steps]

    def _scored(self, step: Step, retrieval: Retrieval) -> NodeWithScore:
        document = retrieval.sources[step.node.document_id]
        node = retrieved_node(step.node, document, provenance(step, retrieval))
        return NodeWithScore(node=node, score=float(step.score))


class HWDAGRetriever(CoreRetriever):
    """Walks the graphs of an `hwdag.HWDAGIndex` for a question; the visited nodes are the result.

    Without `k` the walk decides how much is enough, and nodes come in visiting order. A node's score is
    the score that it was chosen by. Where a `QueryBundle` comes with an embedding, or with texts to be
    embedded in its place, similarity is to these.

    Relations: usually made by `llama_index_hwdag.HWDAGIndex.as_retriever`.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the index, which must be in a file, and how it is searched."""
        options: SearchOptions = {
            "search": self._search,
            "k": self._k,
            "document_ids": self._scope.document_ids,
            "filters": self._filters,
            "returns": self._returns,
        }
        return partial(type(self), self._retriever, **options), ()


def _unwrapped(value: object) -> object:
    """The core's retriever of a `CoreRetriever`; anything else as it is."""
    return value.core if isinstance(value, CoreRetriever) else value


def _query_vector(embedder: Embedder, query: QueryBundle) -> list[float] | None:
    """The embedding that a query comes with, or the mean of those of the texts it names."""
    if query.embedding is not None:
        if len(query.embedding) == embedder.dimension:
            return query.embedding
        # why not refused: retrievers that share a query leave their own embedding in it
        logger.warning(
            "the embedding of the query has %d numbers, the nodes were embedded with %d by %s; the "
            "question is embedded again",
            len(query.embedding),
            embedder.dimension,
            embedder.name,
        )
    if texts := query.custom_embedding_strs:
        mean: list[float] = np.mean([embedder.embed_query(text) for text in texts], axis=0).tolist()
        return mean
    return None

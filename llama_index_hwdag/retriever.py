"""A search of the core as a LlamaIndex retriever."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from functools import partial
from typing import Any, Self, TypedDict, Unpack

import numpy as np
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.callbacks.base import CallbackManager
from llama_index.core.callbacks.schema import CBEventType, EventPayload
from llama_index.core.instrumentation.events.retrieval import (
    RetrievalEndEvent,
    RetrievalStartEvent,
)
from llama_index.core.schema import BaseNode, NodeWithScore, QueryBundle

from hwdag.answers.passages import Returns, checked_returns, returned
from hwdag.answers.stream import AnswerStream
from hwdag.building.report import BuildReport
from hwdag.checks import refuse, under_one_name
from hwdag.config import SearchConfig, checked_k
from hwdag.embedding.base import Embedder
from hwdag.embedding.checked import embedded_question
from hwdag.errors import EmptyIndex
from hwdag.index import HWDAGIndex as CoreIndex
from hwdag.methods import retriever_class
from hwdag.retriever import Retriever, finished, make_retriever
from hwdag.scope import Scope
from hwdag.trace.provenance import provenance
from hwdag.types import Retrieval, Step
from llama_index_hwdag.adapters import MODELS
from llama_index_hwdag.events import dispatcher, in_thread, walked_in_steps
from llama_index_hwdag.metadata_filters import Filters, as_core_filter
from llama_index_hwdag.nodes import by_ref_doc, core_document, retrieved_node

logger = logging.getLogger(__name__)


class SearchOptions(TypedDict, total=False):
    """How a retriever searches.

    Attributes:
        search: token budget, progress control, heads.
        k: number of nodes.
        similarity_top_k: LlamaIndex's name of `k`.
        document_ids: ref doc ids of the documents to search; None for all.
        filters: searches only documents with matching metadata: `MetadataFilters`, or the JSON form of
            a core filter.
        returns: "nodes" as they were read; "sources", the sentences of the document that a node is
            made from, one per line; or "passages", the whole paragraphs around these, each once.
    """

    search: SearchConfig | None
    k: int | None
    similarity_top_k: int | None
    document_ids: Collection[str] | None
    filters: Filters | None
    returns: Returns


class CoreRetriever(BaseRetriever):
    """Searches with any retriever of the core: BM25, dense, RAPTOR, HWDAG itself.

    Without `k` it returns the nodes that fit into the token budget, in reading order; with `k` the
    min(k, available) best ones, best first. `metadata["hwdag"]` holds the provenance of a node; neither
    LLMs nor embedding models see it. Every node that is read fires an `HWDAGStepEvent` at once, within a
    span of its own.

    Relations: `HWDAGQueryEngine` answers with the retriever's own reader, `RetrieverQueryEngine` with
    any LLM.
    """

    def __init__(
        self,
        retriever: Retriever | CoreRetriever,
        *,
        callback_manager: CallbackManager | None = None,
        object_map: dict[str, Any] | None = None,
        verbose: bool = False,
        **options: Unpack[SearchOptions],
    ) -> None:
        """Wrap a retriever that holds its documents; `from_documents` inserts them too.

        Args:
            retriever: anything that satisfies `hwdag.retriever.Retriever`, or another of this class.
                Later changes to it are seen.
            callback_manager: see LlamaIndex, as for the next two.
            object_map: see LlamaIndex.
            verbose: see LlamaIndex.
            options: how to search.

        Raises:
            UnknownOption: an unknown option, both names of `k` with different numbers, or
                `MetadataFilters` with an operator that the core lacks.
            InputError: not a retriever of the core, or an invalid value.
        """
        unknown = {k: v for k, v in options.items() if k not in SearchOptions.__annotations__}
        refuse(unknown, type(self).__name__, ", ".join(SearchOptions.__annotations__))
        self._retriever = finished(_unwrapped(retriever))
        self._report: BuildReport | None = None
        self._search = options.get("search")
        self._k = checked_k(
            under_one_name(k=options.get("k"), similarity_top_k=options.get("similarity_top_k"))
        )
        self._filters = as_core_filter(options.get("filters"))
        self._scope = Scope(options.get("document_ids"), self._filters)
        self._returns = checked_returns(options.get("returns", "nodes"))
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
                `HWDAGIndex`. Blank ones are skipped with a warning and listed in `report.skipped`.
            retriever: the name of a method of `hwdag_lab` ("raptor"), a class, or a finished
                retriever, which keeps the documents that it holds.
            callback_manager: see LlamaIndex.
            show_progress: bars on standard error.
            options: `SearchOptions`, and arguments of the retriever's class. `reader`, `writer` and
                `embedder` may be LlamaIndex's models, as in `HWDAGIndex`.

        Raises:
            InputError: another document has the same id.
            UnknownOption: arguments of a class with a finished retriever.
            TypeError: the class has no such option.
        """
        ours = {k: v for k, v in options.items() if k in SearchOptions.__annotations__}
        theirs = {k: v for k, v in options.items() if k not in ours}
        if isinstance(retriever, str):
            retriever = retriever_class(retriever)
        made = make_retriever(_unwrapped(retriever), theirs, MODELS)
        wrapped = cls(made, callback_manager=callback_manager, **ours)
        wrapped._insert(documents, show_progress)
        return wrapped

    @property
    def core(self) -> Retriever:
        """The retriever of the core: `search`, `answer`, `insert`, `delete`."""
        return self._retriever

    @property
    def report(self) -> BuildReport | None:
        """Report of `from_documents`: documents skipped, cost."""
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
        except EmptyIndex:  # like every retriever of LlamaIndex over nothing
            return []
        return self._nodes(retrieval)

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await in_thread(partial(self._retrieve, query_bundle))

    @dispatcher.span
    def walk(
        self, query_bundle: QueryBundle, **asked: Any
    ) -> tuple[AnswerStream | None, list[NodeWithScore]]:
        """Return an answer to decode, and the nodes, at most `k`; None and no nodes if empty.

        `asked` are further arguments of `core.stream`.
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
        """Return the arguments that `search` and `stream` both take."""
        core, vector = self.core, None
        if isinstance(core, CoreIndex):  # other retrievers embed the question themselves
            vector = _query_vector(core.embedder, query_bundle)
        return {
            "config": self._search,
            "scope": self._scope,
            **({} if vector is None else {"query_vector": vector}),
        }

    def _nodes(self, retrieval: Retrieval) -> list[NodeWithScore]:
        retrieval = returned(retrieval, self._returns)
        steps = retrieval.context if self._k is None else retrieval.best(self._k)
        return [self._scored(step, retrieval) for step in steps]

    def _scored(self, step: Step, retrieval: Retrieval) -> NodeWithScore:
        document = retrieval.sources[step.node.document_id]
        node = retrieved_node(step.node, document, provenance(step, retrieval))
        return NodeWithScore(node=node, score=float(step.score))


class HWDAGRetriever(CoreRetriever):
    """Walks the graphs of an `hwdag.HWDAGIndex` for a question; the visited nodes are the result.

    Without `k` the walk decides how much is enough, and nodes come in visiting order. The score of a
    node is the one that it was chosen by. An embedding in the `QueryBundle`, or texts to embed in its
    place, replace the question for similarity.

    Relations: `llama_index_hwdag.HWDAGIndex.as_retriever` makes it.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the index, which must be in a file, and the options."""
        options: SearchOptions = {
            "search": self._search,
            "k": self._k,
            "document_ids": self._scope.document_ids,
            "filters": self._filters,
            "returns": self._returns,
        }
        return partial(type(self), self._retriever, **options), ()


def _unwrapped(value: object) -> object:
    """Return the core retriever inside a `CoreRetriever`; anything else as it is."""
    return value.core if isinstance(value, CoreRetriever) else value


def _query_vector(embedder: Embedder, query: QueryBundle) -> list[float] | None:
    """Return the embedding of a query, or the mean of those of its texts; None if it has neither."""
    if query.embedding is not None:
        if len(query.embedding) == embedder.dimension:
            return query.embedding
        # why no error: a retriever that shares the query may have put its own embedding into it
        logger.warning(
            "the embedding of the query has %d numbers, the nodes were embedded with %d by %s; the "
            "question is embedded again",
            len(query.embedding),
            embedder.dimension,
            embedder.name,
        )
    if texts := query.custom_embedding_strs:
        mean: list[float] = np.mean(
            [embedded_question(embedder, text) for text in texts], axis=0
        ).tolist()
        return mean
    return None

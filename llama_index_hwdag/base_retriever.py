"""A search of the core as a LlamaIndex retriever: what all retrievers of this package share."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Collection
from functools import partial
from typing import Any

import numpy as np
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.callbacks.base import CallbackManager
from llama_index.core.callbacks.schema import CBEventType, EventPayload
from llama_index.core.instrumentation.events.retrieval import (
    RetrievalEndEvent,
    RetrievalStartEvent,
)
from llama_index.core.schema import NodeWithScore, QueryBundle

from hwdag.config import SearchConfig, checked_k
from hwdag.errors import EmptyIndex
from hwdag.index import HWDAGIndex as CoreIndex
from hwdag.retriever import Retriever
from hwdag.scope import Scope
from hwdag.search.answering import AnswerStream
from hwdag.search.passages import Returns, checked_returns, returned
from hwdag.trace.provenance import METADATA_KEY, provenance
from hwdag.types import Document, Retrieval, Step
from llama_index_hwdag.events import dispatcher, in_thread, walked_in_steps
from llama_index_hwdag.metadata_filters import Filters, as_core_filter
from llama_index_hwdag.nodes import RetrievedNode, Source, text_node

logger = logging.getLogger(__name__)


class CoreSearchRetriever(BaseRetriever):
    """Searches with a retriever of the core; the nodes that it reads are the result.

    Relations: `HWDAGRetriever` walks graphs, `CoreRetriever` takes any retriever of the core; both
    explain the options. `HWDAGQueryEngine` answers with either.
    """

    def __init__(
        self,
        *,
        search: SearchConfig | None,
        k: int | None,
        document_ids: Collection[str] | None,
        filters: Filters | None,
        returns: Returns,
        callback_manager: CallbackManager | None,
        object_map: dict[str, Any] | None,
        verbose: bool,
    ) -> None:
        """See the subclasses."""
        self._search = search
        self._k = checked_k(k)
        self._scope = Scope(document_ids, as_core_filter(filters))
        self._returns = checked_returns(returns)
        super().__init__(callback_manager, object_map, verbose=verbose)

    @property
    @abstractmethod
    def core(self) -> Retriever:
        """What searches, without a framework."""

    @property
    def search(self) -> SearchConfig | None:
        """Budget, progress control and heads; None for the defaults."""
        return self._search

    @abstractmethod
    def _source(self, document: Document) -> Source:
        """A document that was searched, with the template of what it came as."""

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
    def walk(self, query_bundle: QueryBundle) -> tuple[AnswerStream | None, list[NodeWithScore]]:
        """An answer that is yet to be decoded, and the nodes; where `k` is set, at most `k`.

        None and no nodes where there is no document.
        """
        options = self._options(query_bundle)
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
        vector = self._query_vector(query_bundle)
        return {
            "config": self._search,
            "scope": self._scope,
            **({} if vector is None else {"query_vector": vector}),
        }

    def _query_vector(self, query_bundle: QueryBundle) -> list[float] | None:
        """The embedding that a query comes with, or the mean of those of the texts it names."""
        if not isinstance(self.core, CoreIndex):  # others embed the question in their own way
            return None
        embedding = query_bundle.embedding
        if embedding is not None:
            if len(embedding) == self.core.embedder.dimension:
                return embedding
            # why not refused: retrievers that share a query leave their own embedding in it
            logger.warning(
                "the embedding of the query has %d numbers, the nodes were embedded with %d by %s; "
                "the question is embedded again",
                len(embedding),
                self.core.embedder.dimension,
                self.core.embedder.name,
            )
        if texts := query_bundle.custom_embedding_strs:
            vectors = [self.core.embedder.embed_query(text) for text in texts]
            mean: list[float] = np.mean(vectors, axis=0).tolist()
            return mean
        return None

    def _nodes(self, retrieval: Retrieval) -> list[NodeWithScore]:
        retrieval = returned(retrieval, self._returns)
        steps = retrieval.steps if self._k is None else retrieval.best(self._k)
        return [self._scored(step, retrieval) for step in steps]

    def _scored(self, step: Step, retrieval: Retrieval) -> NodeWithScore:
        document = retrieval.sources[step.node.document_id]
        node = text_node(step.node, self._source(document))
        own = {"heading": step.node.heading} if step.node.heading else {}
        metadata = {**own, **node.metadata, METADATA_KEY: provenance(step, retrieval)}
        found = RetrievedNode(**(dict(node) | {"metadata": metadata}))
        return NodeWithScore(node=found, score=float(step.score))

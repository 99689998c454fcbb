"""A search of the core as a LlamaIndex retriever: what all retrievers of this face share."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Collection
from typing import Any

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.callbacks.base import CallbackManager
from llama_index.core.instrumentation import get_dispatcher  # type: ignore[attr-defined]
from llama_index.core.instrumentation.events.base import BaseEvent  # type: ignore[attr-defined]
from llama_index.core.schema import NodeWithScore, QueryBundle

from hwdag.config import SearchConfig, checked_k
from hwdag.retrievers.base import Retriever
from hwdag.search.answering import AnswerStream
from hwdag.trace.provenance import METADATA_KEY, passages, provenance
from hwdag.types import Document, Retrieval, Step
from llama_index_hwdag.storage import Source, text_node

dispatcher = get_dispatcher(__name__)


class HWDAGStepEvent(BaseEvent):
    """A node was visited; names as in `hwdag.trace.provenance`."""

    node_id: str
    document_id: str
    level: int
    text: str
    position: int
    score: float
    attention: float
    similarity: float
    reference: float
    relevance: float
    p_yes: float | None

    @classmethod
    def class_name(cls) -> str:
        """Under which handlers see it."""
        return "HWDAGStepEvent"

    @classmethod
    def of(cls, step: Step) -> HWDAGStepEvent:
        """The event of a step."""
        return cls(
            node_id=step.node.id,
            document_id=step.node.document_id,
            level=step.node.level,
            text=step.node.text,
            position=step.position,
            score=step.score,
            attention=step.attention,
            similarity=step.similarity,
            reference=step.reference,
            relevance=step.relevance,
            p_yes=step.p_yes,
        )


class RetrieverFace(BaseRetriever):
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
        return_sources: bool,
        callback_manager: CallbackManager | None,
        object_map: dict[str, Any] | None,
        verbose: bool,
    ) -> None:
        """See the subclasses."""
        self._search = search
        self._k = checked_k(k)
        self._document_ids = document_ids
        self._return_sources = return_sources
        super().__init__(callback_manager, object_map, verbose=verbose)

    @property
    @abstractmethod
    def core(self) -> Retriever:
        """What searches, without a framework."""

    @abstractmethod
    def _source(self, document: Document) -> Source:
        """A document that was searched, with the template of what it came as."""

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        retrieval = self.core.search(
            query_bundle.query_str,
            config=self._search,
            document_ids=self._document_ids,
            k=self._k,
            on_step=_report,
        )
        return self._nodes(retrieval)

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await asyncio.to_thread(self._retrieve, query_bundle)

    def walk(self, query_bundle: QueryBundle) -> tuple[AnswerStream, list[NodeWithScore]]:
        """An answer that is yet to be decoded, and the nodes; where `k` is set, at most `k`."""
        stream = self.core.stream(
            query_bundle.query_str,
            config=self._search,
            document_ids=self._document_ids,
            on_step=_report,
        )
        return stream, self._nodes(stream.retrieval)

    def _nodes(self, retrieval: Retrieval) -> list[NodeWithScore]:
        steps = retrieval.steps if self._k is None else retrieval.best(self._k)
        return [self._scored(step, retrieval) for step in steps]

    def _scored(self, step: Step, retrieval: Retrieval) -> NodeWithScore:
        # why: a node of a corpus layer has no document of its own, and so no metadata
        document = retrieval.sources.get(step.node.document_id, Document("", ""))
        node = text_node(step.node, self._source(document))
        node.metadata = {**node.metadata, METADATA_KEY: provenance(step, retrieval)}
        node.excluded_embed_metadata_keys.append(METADATA_KEY)
        node.excluded_llm_metadata_keys.append(METADATA_KEY)
        if self._return_sources:
            node.text = "\n".join(passages(step.node, retrieval.sources))
        return NodeWithScore(node=node, score=float(step.score))


def _report(step: Step) -> None:
    dispatcher.event(HWDAGStepEvent.of(step))

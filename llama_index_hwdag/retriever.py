"""The walk as a LlamaIndex retriever."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.callbacks.base import CallbackManager
from llama_index.core.instrumentation import get_dispatcher  # type: ignore[attr-defined]
from llama_index.core.instrumentation.events.base import BaseEvent  # type: ignore[attr-defined]
from llama_index.core.schema import NodeWithScore, QueryBundle

from hwdag.config import SearchConfig, checked_k
from hwdag.search.answering import AnswerStream
from hwdag.trace.provenance import METADATA_KEY, provenance
from hwdag.types import Retrieval, Step
from llama_index_hwdag.storage import Source, text_node

if TYPE_CHECKING:
    from llama_index_hwdag.base import HWDAGIndex

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
            relevance=step.relevance,
            p_yes=step.p_yes,
        )


class HWDAGRetriever(BaseRetriever):
    """Walks the graphs of an index for a question; the visited nodes are the result.

    Without `k` the walk decides how much is enough, and nodes come in visiting order. With `k`
    exactly min(k, number of nodes) come, best first. A node's score is the score that it was chosen
    by; where it is from and why it is there is `metadata["hwdag"]`, which neither LLMs nor embedding
    models see. Its edges are in the docstore, under the same id. Every visited node is an
    `HWDAGStepEvent` as it happens.

    Relations: `HWDAGQueryEngine` goes on to answer from the same KV cache.
    """

    def __init__(
        self,
        index: HWDAGIndex,
        *,
        search: SearchConfig | None = None,
        k: int | None = None,
        document_ids: Collection[str] | None = None,
        return_sources: bool = False,
        callback_manager: CallbackManager | None = None,
        object_map: dict[str, Any] | None = None,
        verbose: bool = False,
    ) -> None:
        """Usually made by `index.as_retriever`.

        Args:
            index: later changes to it are seen.
            search: budget, progress control, heads.
            k: number of nodes.
            document_ids: ref doc ids; only these documents are walked. None for all.
            return_sources: give the passages of the original document that a node rests on as its
                text, one per line, instead of the node's own.
            callback_manager: see LlamaIndex, as the following.
            object_map: see LlamaIndex.
            verbose: see LlamaIndex.
        """
        self._index = index
        self._search = search
        self._k = checked_k(k)
        self._document_ids = document_ids
        self._return_sources = return_sources
        super().__init__(callback_manager, object_map, verbose=verbose)

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        before = self._index.sources
        retrieval = self._index.core.search(
            query_bundle.query_str,
            config=self._search,
            document_ids=self._document_ids,
            k=self._k,
            on_step=_report,
        )
        return self._nodes(retrieval, before)

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await asyncio.to_thread(self._retrieve, query_bundle)

    def walk(self, query_bundle: QueryBundle) -> tuple[AnswerStream, list[NodeWithScore]]:
        """An answer that is yet to be decoded, and the nodes; where `k` is set, at most `k`."""
        before = self._index.sources
        stream = self._index.core.stream(
            query_bundle.query_str,
            config=self._search,
            document_ids=self._document_ids,
            on_step=_report,
        )
        return stream, self._nodes(stream.retrieval, before)

    def _nodes(self, retrieval: Retrieval, before: Mapping[str, Source]) -> list[NodeWithScore]:
        # why: somebody else may delete or insert a document during the walk
        sources = {**self._index.sources, **before}
        steps = retrieval.steps if self._k is None else retrieval.best(self._k)
        return [self._scored(step, retrieval, sources[step.node.document_id]) for step in steps]

    def _scored(self, step: Step, retrieval: Retrieval, source: Source) -> NodeWithScore:
        node = text_node(step.node, source)
        node.metadata = {**node.metadata, METADATA_KEY: provenance(step, retrieval)}
        node.excluded_embed_metadata_keys.append(METADATA_KEY)
        node.excluded_llm_metadata_keys.append(METADATA_KEY)
        if self._return_sources:
            text = source.document.text
            node.text = "\n".join(text[span.start : span.end] for span in step.node.sources)
        return NodeWithScore(node=node, score=float(step.score))


def _report(step: Step) -> None:
    dispatcher.event(HWDAGStepEvent.of(step))

"""Rerank the nodes of another retriever by attention."""

from __future__ import annotations

from typing import Any

from llama_index.core.instrumentation import get_dispatcher  # type: ignore[attr-defined]
from llama_index.core.instrumentation.events.rerank import ReRankEndEvent, ReRankStartEvent
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import MetadataMode, NodeWithScore, QueryBundle
from pydantic import ConfigDict, Field

from hwdag.errors import InputError
from llama_index_hwdag.adapters import as_reader

dispatcher = get_dispatcher(__name__)


class HWDAGReranker(BaseNodePostprocessor):
    """Keeps the nodes that a local model attends to most, given the question, best first.

    Their score is the attention, higher is better. Nodes without text are left out. The forward
    stops after the last layer whose heads count.

    Attributes:
        reader: a `HuggingFaceLLM`, an `hwdag.HuggingFaceLM` (with heads of your own, if you have
            any), a model name, or None for the default.
        top_n: number of nodes.
        window_tokens: longest prompt; the rest is read in further ones. None is the model's context.
        keep_retrieval_score: keep the earlier score as `metadata["retrieval_score"]`.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    reader: Any = Field(default=None, exclude=True, repr=False)
    top_n: int = Field(default=3, ge=1)
    window_tokens: int | None = None
    keep_retrieval_score: bool = False

    @classmethod
    def class_name(cls) -> str:
        """Return its name in the files of LlamaIndex."""
        return "HWDAGReranker"

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        if query_bundle is None:
            raise InputError("a reranker needs the question; pass query_bundle or query_str")
        dispatcher.event(
            ReRankStartEvent(
                query=query_bundle,
                nodes=nodes,
                top_n=self.top_n,
                model_name=getattr(self.reader, "name", None) or str(self.reader or "default"),
            )
        )
        from hwdag.rerank import best_passages  # why here: it loads torch

        best = best_passages(
            as_reader(self.reader),
            query_bundle.query_str,
            [found.node.get_content(metadata_mode=MetadataMode.EMBED) for found in nodes],
            top_n=self.top_n,
            window_tokens=self.window_tokens,
        )
        kept = [self._scored(nodes[i], score) for i, score in best]
        dispatcher.event(ReRankEndEvent(nodes=kept))
        return kept

    def _scored(self, found: NodeWithScore, score: float) -> NodeWithScore:
        node = found.node
        if self.keep_retrieval_score:
            node = node.model_copy(
                update={"metadata": {**node.metadata, "retrieval_score": found.score}}
            )
        return NodeWithScore(node=node, score=score)

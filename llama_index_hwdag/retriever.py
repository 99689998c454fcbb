"""The walk as a LlamaIndex retriever."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import Any, Protocol

from llama_index.core.callbacks.base import CallbackManager

from hwdag.checks import under_one_name
from hwdag.config import SearchConfig
from hwdag.index import HWDAGIndex as CoreIndex
from hwdag.search.passages import Returns
from hwdag.types import Document
from llama_index_hwdag.base_retriever import CoreSearchRetriever
from llama_index_hwdag.metadata_filters import Filters
from llama_index_hwdag.nodes import Source


class WalkedIndex(Protocol):
    """What a walk needs of an index, which is `llama_index_hwdag.HWDAGIndex`."""

    @property
    def core(self) -> CoreIndex:
        """The index without a framework."""

    def source_of(self, document: Document) -> Source:
        """What the framework knows of a document."""


class HWDAGRetriever(CoreSearchRetriever):
    """Walks the graphs of an index for a question; the visited nodes are the result.

    Without `k` the walk decides how much is enough, and nodes come in visiting order. With `k`
    exactly min(k, number of nodes) come, best first. A node's score is the score that it was chosen
    by; where it is from and why it is there is `metadata["hwdag"]`, which neither LLMs nor embedding
    models see. Its edges are in the docstore, under the same id. Every visited node is an
    `HWDAGStepEvent` as it happens, within a span of its own. Where a `QueryBundle` comes with an
    embedding, or with texts to be embedded in its place, similarity is to these.

    Relations: `HWDAGQueryEngine` goes on to answer from the same KV cache; `CoreRetriever` is the
    same over any other retriever of the core.
    """

    def __init__(
        self,
        index: WalkedIndex,
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
        """Usually made by `index.as_retriever`.

        Args:
            index: later changes to it are seen.
            search: budget, progress control, heads.
            k: number of nodes.
            similarity_top_k: LlamaIndex's name of `k`.
            document_ids: ref doc ids; only these documents are walked. None for all.
            filters: only documents whose metadata match: `MetadataFilters`, a core filter, or its
                JSON form.
            returns: "nodes" as they were read; "sources", with what a node rests on in the original
                document as its text, one per line; or "passages", the whole paragraphs that these are
                in, each once.
            callback_manager: see LlamaIndex, as the following.
            object_map: see LlamaIndex.
            verbose: see LlamaIndex.

        Raises:
            UnknownOption: `MetadataFilters` with an operator that the core has no equal of.
            UnknownOption: `k` and `similarity_top_k` differ.
            InputError: k is not a number, or a filter cannot be used.
        """
        self._index = index
        super().__init__(
            search=search,
            k=under_one_name(k=k, similarity_top_k=similarity_top_k),
            document_ids=document_ids,
            filters=filters,
            returns=returns,
            callback_manager=callback_manager,
            object_map=object_map,
            verbose=verbose,
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the index, which must be in a file, and how it is searched."""
        scope = self._scope
        options: dict[str, Any] = {
            "search": self._search,
            "k": self._k,
            "document_ids": scope.document_ids,
            "filters": scope.filters,
            "returns": self._returns,
        }
        return partial(type(self), self._index, **options), ()

    @property
    def core(self) -> CoreIndex:
        """The index without a framework."""
        return self._index.core

    def _source(self, document: Document) -> Source:
        return self._index.source_of(document)

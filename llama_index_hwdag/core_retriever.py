"""Any retriever of the core as a LlamaIndex retriever."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from typing import Any, Self

from llama_index.core.callbacks.base import CallbackManager
from llama_index.core.schema import BaseNode, TextNode

from hwdag.building.report import BuildReport
from hwdag.config import SearchConfig
from hwdag.retriever import Retriever
from hwdag.search.passages import Returns
from hwdag.types import Document
from hwdag_lab.methods.making import as_core_retriever, make_retriever
from llama_index_hwdag.adapters import MODELS
from llama_index_hwdag.base_retriever import CoreSearchRetriever
from llama_index_hwdag.metadata_filters import Filters
from llama_index_hwdag.nodes import Source, by_ref_doc

logger = logging.getLogger(__name__)


class CoreRetriever(CoreSearchRetriever):
    """Searches with any retriever of the core: BM25, dense, RAPTOR, MeMWalker, HWDAG itself.

    Without `k` come the nodes that fit into the token budget, in the order in which the reader
    reads them. With `k` exactly min(k, available) come, best first. Where a node is from and why it
    is there is `metadata["hwdag"]`, which neither LLMs nor embedding models see. Every node that is
    read is an `HWDAGStepEvent`.

    `RetrieverQueryEngine.from_args(retriever, llm)` answers with any LLM, and
    `HWDAGQueryEngine(retriever)` with the reader.

    Relations: `HWDAGRetriever` is the same over `HWDAGIndex`, which lives in LlamaIndex's stores;
    what a `CoreRetriever` searches is kept by the core alone.
    """

    def __init__(
        self,
        retriever: Retriever | CoreRetriever,
        *,
        search: SearchConfig | None = None,
        k: int | None = None,
        document_ids: Collection[str] | None = None,
        filters: Filters | None = None,
        returns: Returns = "nodes",
        callback_manager: CallbackManager | None = None,
        object_map: dict[str, Any] | None = None,
        verbose: bool = False,
    ) -> None:
        """Wrap a retriever that holds its documents; `from_documents` also puts them in.

        Args:
            retriever: anything that satisfies `hwdag.retriever.Retriever`, or another of this
                class, whose documents are shared. Later changes to it are seen.
            search: token budget and heads.
            k: number of nodes.
            document_ids: only these documents are searched; None for all.
            filters: only documents whose metadata match: `MetadataFilters`, a core filter, or its
                JSON form.
            returns: "nodes" as they were read; "sources", with what a node rests on in the original
                document as its text, one per line; or "passages", the whole paragraphs that these are
                in, each once.
            callback_manager: see LlamaIndex, as the following.
            object_map: see LlamaIndex.
            verbose: see LlamaIndex.

        Raises:
            InputError: not a retriever of the core, or k is not a number.
            UnknownOption: `MetadataFilters` with an operator that the core has no equal of.
        """
        self._retriever = as_core_retriever(_unwrapped(retriever))
        self._templates: dict[str, TextNode] = {}
        if isinstance(retriever, CoreRetriever):
            self._templates = retriever._templates
        self._report: BuildReport | None = None
        super().__init__(
            search=search,
            k=k,
            document_ids=document_ids,
            filters=filters,
            returns=returns,
            callback_manager=callback_manager,
            object_map=object_map,
            verbose=verbose,
        )

    @classmethod
    def from_documents(
        cls,
        documents: Sequence[BaseNode],
        retriever: str | type[Retriever] | Retriever | CoreRetriever,
        *,
        search: SearchConfig | None = None,
        k: int | None = None,
        document_ids: Collection[str] | None = None,
        filters: Filters | None = None,
        returns: Returns = "nodes",
        callback_manager: CallbackManager | None = None,
        show_progress: bool = False,
        **options: Any,
    ) -> Self:
        """Insert documents into a retriever of the core.

        Args:
            documents: documents, or the nodes of a pipeline, which are joined by ref doc as in
                `HWDAGIndex`. What is blank is skipped with a warning, and listed in `report.skipped`.
            retriever: the name of a method ("raptor") or a class, which is made with `options`, or
                a finished one, which keeps the documents that it holds.
            search: see `__init__`, as the following.
            k: number of nodes.
            document_ids: only these documents.
            filters: only documents that match.
            returns: nodes, or what they rest on.
            callback_manager: see LlamaIndex.
            show_progress: bars on standard error.
            options: arguments of the class; as `reader`, `writer` and `embedder` also LlamaIndex's
                models, as in `HWDAGIndex`.

        Raises:
            InputError: an id is taken by a document with other content.
            UnknownOption: a finished retriever and `options`.
            TypeError: the class has no such option.
        """
        made = make_retriever(_unwrapped(retriever), options, MODELS)
        wrapped = cls(
            retriever if isinstance(retriever, CoreRetriever) else made,
            search=search,
            k=k,
            document_ids=document_ids,
            filters=filters,
            returns=returns,
            callback_manager=callback_manager,
        )
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
        sources = [Source.of(key, list(parts.values())) for key, parts in by_ref_doc(nodes).items()]
        # why: before the insertion, which may be interrupted after some of the documents
        self._templates.update({source.document.id: source.template for source in sources})
        documents = [source.document for source in sources]
        self._report = self._retriever.insert(documents, show_progress=show_progress)
        for document_id, reason in self._report.skipped:
            logger.warning("document %s was skipped: %s", document_id, reason)

    def _source(self, document: Document) -> Source:
        template = self._templates.get(document.id)
        if template is None or template.metadata != document.metadata:
            return Source.of_document(document)
        return Source(document, (document.id,), template)


def _unwrapped(value: object) -> object:
    """The core's retriever of another one of this class; anything else as it is."""
    return value.core if isinstance(value, CoreRetriever) else value

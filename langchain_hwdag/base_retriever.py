"""The common base of the LangChain retrievers: a search of the core."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NoReturn, TypedDict

from langchain_core.callbacks import (
    AsyncCallbackManagerForRetrieverRun,
    BaseCallbackManager,
    CallbackManagerForRetrieverRun,
    adispatch_custom_event,
    dispatch_custom_event,
)
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever, LangSmithRetrieverParams
from langchain_core.runnables import RunnableConfig
from pydantic import (
    ConfigDict,
    InstanceOf,
    PrivateAttr,
    field_validator,
)

from hwdag.answers.passages import Returns, returned
from hwdag.building.report import BuildReport
from hwdag.checks import refuse
from hwdag.config import SearchConfig, checked_k
from hwdag.errors import EmptyIndex, InputError
from hwdag.filters import Filter, predicate
from hwdag.retriever import Retriever
from hwdag.scope import Scope
from hwdag.types import Step
from langchain_hwdag.documents import node_document
from langchain_hwdag.events import STEP_EVENT, in_thread

OnStep = Callable[[Step], None]


class SearchOptions(TypedDict, total=False):
    """How a retriever searches; `CoreSearchRetriever` explains them."""

    search: SearchConfig | None
    k: int | None
    document_ids: Iterable[str] | None
    filters: Filter | None
    returns: Returns


class CoreSearchRetriever(BaseRetriever):
    """Searches with a retriever of the core, and returns the nodes that it reads as documents.

    Without `k` it returns the nodes that fit into the token budget, in reading order; with `k` the
    min(k, available) best ones, best first. `metadata["hwdag"]` holds the provenance of a node. Every
    node that is read fires a custom event `hwdag.step` at once.

    All fields can be made configurable (`configurable_fields`). For one call,
    `invoke(question, k=..., document_ids=..., filters=...)` replaces them.

    Attributes:
        search: token budget, progress control, heads; a dict holds options of `SearchConfig`.
        k: number of nodes.
        document_ids: the documents to search; None for all.
        filters: searches only documents with matching metadata: a filter of `hwdag.filters`, such as
            `{"lang": "de"}`.
        returns: "nodes" as they were read; "sources", the sentences of the document that a node is
            made from, one per line; or "passages", the whole paragraphs around these, each once.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    search: InstanceOf[SearchConfig] | None = None
    k: int | None = None
    document_ids: tuple[str, ...] | None = None
    filters: dict[str, Any] | None = None
    returns: Returns = "nodes"

    _report: BuildReport | None = PrivateAttr(default=None)

    @property
    @abstractmethod
    def core(self) -> Retriever:
        """The retriever of the core."""

    @property
    def report(self) -> BuildReport | None:
        """Report of the latest change through this object: documents skipped, cost."""
        return self._report

    @field_validator("search", mode="before")
    @classmethod
    def _options(cls, value: object) -> object:
        return SearchConfig.from_dict(value) if isinstance(value, Mapping) else value

    @field_validator("filters")
    @classmethod
    def _filter(cls, value: dict[str, Any] | None) -> dict[str, Any] | None:
        if value is not None:
            predicate(value)  # raises for an invalid filter
        return value

    @field_validator("k", mode="before")
    @classmethod
    def _whole_number(cls, value: int | None) -> int | None:
        return checked_k(value)

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **options: Any
    ) -> list[Document]:
        config = self._within(run_manager.get_child())
        return self._retrieve(
            query,
            lambda step: dispatch_custom_event(STEP_EVENT, step.to_dict(), config=config),
            **options,
        )

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **options: Any
    ) -> list[Document]:
        config = self._within(run_manager.get_child())

        def search(report: OnStep) -> list[Document]:
            return self._retrieve(query, report, **options)

        async def tell(step: Step) -> None:
            await adispatch_custom_event(STEP_EVENT, step.to_dict(), config=config)

        return await in_thread(search, tell)

    def _retrieve(
        self,
        query: str,
        on_step: OnStep,
        *,
        k: int | None = None,
        document_ids: Collection[str] | None = None,
        filters: Filter | None = None,
        history: Sequence[tuple[str, str]] = (),
        **unknown: Any,
    ) -> list[Document]:
        """Search with the options of the call, by default with the fields."""
        refuse(unknown, "invoke", "k, document_ids, filters, history")
        if not isinstance(query, str):
            raise InputError(
                f"the question must be a text, got {type(query).__name__}; pick it from a mapping: "
                'itemgetter("question") | retriever'
            )
        core, wanted = self.core, checked_k(self.k if k is None else k)
        scope = Scope(
            self.document_ids if document_ids is None else document_ids,
            self.filters if filters is None else filters,
        )
        try:
            retrieval = core.search(
                query,
                config=self.search,
                scope=scope,
                k=wanted,
                on_step=on_step,
                **({"history": history} if history else {}),
            )
        except EmptyIndex:  # like LangChain's own stores: an application begins with nothing
            return []
        retrieval = returned(retrieval, self.returns)
        steps = retrieval.context if wanted is None else retrieval.best(wanted)
        return [node_document(step, retrieval) for step in steps]

    def _within(self, run: BaseCallbackManager) -> RunnableConfig:
        """Return a config for events of a run, with the run's own tags and metadata."""
        run.add_tags(self.tags or [], inherit=False)
        run.add_metadata(self.metadata or {}, inherit=False)
        return {"callbacks": run}

    def _get_ls_params(self, **options: Any) -> LangSmithRetrieverParams:
        if self.name is not None:
            return super()._get_ls_params(**options)
        return LangSmithRetrieverParams(ls_retriever_name=self.core.name)

    def __getstate__(self) -> dict[Any, Any]:
        """Return what is pickled: the path of the index file, which unpickling opens."""
        if getattr(self.core, "path", None) is None:
            raise TypeError(
                f"a {type(self).__name__} over an index in memory cannot be pickled; save the index "
                "(save_local) and load it: over a file it can"
            )
        return super().__getstate__()

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> NoReturn:
        raise TypeError(
            f"a {type(self).__name__} holds loaded models and cannot be copied deeply; use "
            "model_copy(), which shares the index"
        )


def unwrapped(value: object) -> object:
    """Return the core retriever inside a retriever of this package; anything else as it is."""
    return value.core if isinstance(value, CoreSearchRetriever) else value

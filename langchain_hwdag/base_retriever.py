"""A search of the core as a LangChain retriever: what all retrievers of this package share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping
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

from hwdag.building.report import BuildReport
from hwdag.checks import refuse
from hwdag.config import SearchConfig, checked_k
from hwdag.errors import EmptyIndex, InputError
from hwdag.filters import Filter, predicate
from hwdag.retriever import Retriever
from hwdag.scope import Scope
from hwdag.search.passages import Returns, returned
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
    """Searches with a retriever of the core; the nodes that it reads are the documents.

    Without `k` come the nodes that fit into the token budget, in the order in which the reader reads
    them. With `k` exactly min(k, available) come, best first. Every document carries its provenance under
    `metadata["hwdag"]`; every node that is read is a custom event `hwdag.step` as it happens.

    All fields may be made configurable (`configurable_fields`); of one call
    `invoke(question, k=..., document_ids=..., filters=...)` take their place.

    Attributes:
        search: token budget, progress control, heads; a dict is read as the options of `SearchConfig`.
        k: number of nodes.
        document_ids: only these documents are searched; None for all.
        filters: only documents whose metadata match are searched: a filter of `hwdag.filters`, such as
            `{"lang": "de"}`.
        returns: "nodes" as they were read; "sources", with what a node rests on in the original
            document as its text, one per line; or "passages", the whole paragraphs that these are
            in, each once.
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
        """What searches, without a framework."""

    @property
    def report(self) -> BuildReport | None:
        """What the latest change through this object did: documents skipped, cost."""
        return self._report

    @field_validator("search", mode="before")
    @classmethod
    def _options(cls, value: object) -> object:
        return SearchConfig.from_dict(value) if isinstance(value, Mapping) else value

    @field_validator("filters")
    @classmethod
    def _filter(cls, value: dict[str, Any] | None) -> dict[str, Any] | None:
        if value is not None:
            predicate(value)  # which refuses what is none
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
        **unknown: Any,
    ) -> list[Document]:
        """Search with the options of a call, or else the own ones."""
        refuse(unknown, "invoke", "k, document_ids, filters")
        if not isinstance(query, str):
            raise InputError(
                f"a question is a text, got {type(query).__name__}; of a mapping pick it first: "
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
            )
        except EmptyIndex:  # as LangChain's own stores: an application begins with nothing
            return []
        retrieval = returned(retrieval, self.returns)
        steps = retrieval.steps if wanted is None else retrieval.best(wanted)
        return [node_document(step, retrieval) for step in steps]

    def _within(self, run: BaseCallbackManager) -> RunnableConfig:
        """A config for events of a run, with the tags and metadata that the run itself has."""
        run.add_tags(self.tags or [], inherit=False)
        run.add_metadata(self.metadata or {}, inherit=False)
        return {"callbacks": run}

    def _get_ls_params(self, **options: Any) -> LangSmithRetrieverParams:
        if self.name is not None:
            return super()._get_ls_params(**options)
        return LangSmithRetrieverParams(ls_retriever_name=self.core.name)

    def __getstate__(self) -> dict[Any, Any]:
        """What is pickled: of an index in a file its path, which is opened again."""
        if getattr(self.core, "path", None) is None:
            raise TypeError(
                f"a {type(self).__name__} holds loaded models and cannot be pickled; save the index "
                "(save_local), and load it where it is needed; one over a file can be pickled"
            )
        return super().__getstate__()

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> NoReturn:
        raise TypeError(
            f"a {type(self).__name__} holds loaded models and cannot be copied deeply; model_copy() "
            "makes one with other options over the same index"
        )


def unwrapped(value: object) -> object:
    """The core's retriever of a retriever of this package; anything else as it is."""
    return value.core if isinstance(value, CoreSearchRetriever) else value

"""The search as a Haystack component."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any, Self

from haystack import Document, component, default_from_dict, default_to_dict

from haystack_integrations.components.retrievers.hwdag.filters import checked
from hwdag.config import checked_k
from hwdag.errors import EmptyIndex, InputError
from hwdag.index import HWDAGIndex
from hwdag.scope import Scope
from hwdag.trace.provenance import METADATA_KEY, provenance
from hwdag.types import Retrieval, Step


@component
class HWDAGRetriever:
    """Searches an index for the exact sentences that answer a question.

    Without `top_k`, the search decides how much is enough, and documents come in the order in which
    they were chosen; with it, exactly that many come, the most similar one first. Each has the
    metadata of its source, its `heading`, and its provenance under `hwdag`.

    Attributes:
        index: an `hwdag.HWDAGIndex`, or the path of its file, which names the models to search with.
        top_k: number of documents.
        filters: searches only sources with matching metadata: a filter of Haystack, with its meaning,
            or of `hwdag.filters`.
    """

    def __init__(
        self,
        index: HWDAGIndex | str | Path,
        top_k: int | None = None,
        filters: dict[str, Any] | None = None,
    ) -> None:
        self._opened = isinstance(index, str | Path)
        self.index = HWDAGIndex.load(index) if isinstance(index, str | Path) else index
        if not hasattr(self.index, "asearch"):
            raise InputError(
                f"index must be an hwdag.HWDAGIndex or the path of one, got {type(index).__name__}"
            )
        self.top_k = checked_k(top_k)
        self.filters = filters
        checked(filters)

    def to_dict(self) -> dict[str, Any]:
        """Return the component with the path of the index file. Raises `InputError` for an index in memory."""
        if self.index.path is None:
            raise InputError(
                "a pipeline names the file of an index, and this index is in memory; build it with "
                "path=..., or index.save(path) and HWDAGRetriever(path)"
            )
        path = str(self.index.path)
        return default_to_dict(self, index=path, top_k=self.top_k, filters=self.filters)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Open what `to_dict` returned; errors are those of `hwdag.HWDAGIndex.load`."""
        made: Self = default_from_dict(cls, data)
        return made

    def close(self) -> None:
        """Close the index file, if the component opened it."""
        if self._opened:
            self.index.close()

    @component.output_types(documents=list[Document])
    def run(
        self, query: str, top_k: int | None = None, filters: dict[str, Any] | None = None
    ) -> dict[str, list[Document]]:
        """Search; `top_k` and `filters` replace those of the component.

        Raises:
            InputError: `top_k` is no whole number of at least 1, no document can match the filter, or
                Haystack cannot compare its value with that of a source.
            UnknownOption: it is no filter, or has an operator that does not exist.
        """
        wanted, scope = self._asked(top_k, filters)
        try:
            return _documents(self.index.search(query, k=wanted, scope=scope), wanted)
        except EmptyIndex:  # like Haystack's document stores: an application begins with nothing
            return {"documents": []}

    @component.output_types(documents=list[Document])
    async def run_async(
        self, query: str, top_k: int | None = None, filters: dict[str, Any] | None = None
    ) -> dict[str, list[Document]]:
        """Do the same as `run` without blocking the event loop."""
        wanted, scope = self._asked(top_k, filters)
        try:
            return _documents(await self.index.asearch(query, k=wanted, scope=scope), wanted)
        except EmptyIndex:
            return {"documents": []}

    def _asked(self, top_k: int | None, filters: dict[str, Any] | None) -> tuple[int | None, Scope]:
        chosen = self.filters if filters is None else filters
        return checked_k(self.top_k if top_k is None else top_k), Scope(None, checked(chosen))


def _documents(retrieval: Retrieval, wanted: int | None) -> dict[str, list[Document]]:
    steps = retrieval.context if wanted is None else retrieval.best(wanted)
    return {"documents": [_document(step, retrieval) for step in steps]}


def _document(step: Step, retrieval: Retrieval) -> Document:
    node = step.node
    own = deepcopy(dict(retrieval.sources[node.document_id].metadata))
    meta = {"heading": node.heading, **own, METADATA_KEY: provenance(step, retrieval)}
    return Document(id=node.id, content=node.text, meta=meta, score=step.score)

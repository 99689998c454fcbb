"""What is asked: one index, searched in several ways, and whatever other methods stand beside it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from hwdag.building.report import BuildReport
from hwdag.config import SearchConfig
from hwdag.errors import InputError
from hwdag.index import HWDAGIndex
from hwdag.retriever import Retriever
from hwdag.trace.bars import Reporter
from hwdag.types import Document


@dataclass(frozen=True, slots=True)
class System:
    """A retriever with the settings that it is asked with."""

    retriever: Retriever
    config: SearchConfig


class Systems:
    """The systems by name; they hold the same documents.

    "hwdag" asks the index as `config` says, "garlic" with the papers' settings, "similarity" without
    anything but the similarity to the question; the budget and the length of answers hold for all.
    `others` are further methods by name, which hold the documents of the index already.
    """

    def __init__(
        self,
        index: HWDAGIndex,
        config: SearchConfig | None = None,
        others: Mapping[str, Retriever] | None = None,
    ) -> None:
        if index.config.tenant_key is not None:
            raise InputError(
                "the documents of this index belong to tenants, and a server tells nobody apart; "
                "serve an index per tenant, or call HWDAGIndex from an application of your own"
            )
        self.index = index
        config = config or SearchConfig()
        alone = replace(config.scoring, attention=0.0, mentions=0.0, echoes=0.0, paragraph=0.0)
        papers = SearchConfig.garlic(
            token_budget=config.token_budget, max_new_tokens=config.max_new_tokens
        )
        self._systems = {
            "hwdag": System(index, config),
            "garlic": System(index, papers),
            "similarity": System(index, replace(config, scoring=alone, progress="budget")),
        }
        for name, other in (others or {}).items():
            self._systems[name] = System(other, config)

    def __iter__(self) -> Iterator[str]:
        return iter(self._systems)

    def named(self, name: object, **changed: Any) -> System:
        """Return a system, its settings changed where a value is not None; raises `InputError`."""
        if not isinstance(name, str) or name not in self._systems:
            known = ", ".join(self._systems)
            raise InputError(f"no system {name!r}; there are {known}")
        system = self._systems[name]
        wanted = {key: value for key, value in changed.items() if value is not None}
        return replace(system, config=replace(system.config, **wanted))

    def insert(self, documents: Iterable[Document], progress: Reporter) -> BuildReport:
        """Add or replace documents in every system; the report is that of the index."""
        found = list(documents)
        report = self.index.refresh(found, show_progress=progress)
        built = [one for one in found if one.id in report.built]
        for other in self._others():
            for one in built:
                if one.id in other.documents:
                    other.delete(one.id)
            other.insert(built, show_progress=progress)
        return report

    def delete(self, document_id: str) -> None:
        """Remove a document from every system. Raises `InputError` if it is not there."""
        self.index.delete(document_id)
        for other in self._others():
            if document_id in other.documents:
                other.delete(document_id)

    def _others(self) -> list[Retriever]:
        retrievers = [system.retriever for system in self._systems.values()]
        return [one for one in retrievers if one is not self.index]

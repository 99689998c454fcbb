"""The systems that a server offers: one index searched in several ways, and other methods."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from hwdag.building.report import BuildReport
from hwdag.config import METHOD_DEFAULTS, NEVER, Scoring, SearchConfig
from hwdag.errors import InputError
from hwdag.index import HWDAGIndex
from hwdag.retriever import Retriever
from hwdag.trace.bars import Reporter
from hwdag.types import Document


class UnknownSystem(InputError):
    """There is no system, or model of OpenAI's API, of that name."""


class Systems:
    """Retrievers by name, each with the settings it is asked with. They hold the same documents.

    "hwdag" searches the index with `config`, and "similarity" with the similarity to the question alone;
    "garlic" searches as the paper does, if the index has points. All have the token budget of
    `config`.
    `others` are other methods by name, which already hold the documents of the index.
    """

    def __init__(
        self,
        index: HWDAGIndex,
        config: SearchConfig | None = None,
        others: Mapping[str, Retriever] | None = None,
    ) -> None:
        self.index = index
        config = config or SearchConfig()
        alone = Scoring(attention=0.0, references=0.0, paragraph_weight=0.0)
        self._others = dict(others or {})
        papers = {}
        if self.has_points:
            papers["garlic"] = replace(config, method="garlic")
        self._configs = {
            "hwdag": config,
            **papers,
            "similarity": replace(config, scoring=alone, confidence=NEVER, navigator="none"),
            **dict.fromkeys(self._others, config),
        }

    @property
    def has_points(self) -> bool:
        """Whether the index has a graph of points."""
        built = self.index.config.method
        return built != "auto" and METHOD_DEFAULTS[built].has_points

    def __iter__(self) -> Iterator[str]:
        return iter(self._configs)

    def named(self, name: object, **changed: Any) -> tuple[Retriever, SearchConfig]:
        """Return a system, its settings changed by values that are not None. Raises `UnknownSystem`."""
        if not isinstance(name, str) or name not in self._configs:
            raise UnknownSystem(f"no system {name!r}; there are {', '.join(self)}")
        wanted = {key: value for key, value in changed.items() if value is not None}
        return self._others.get(name, self.index), replace(self._configs[name], **wanted)

    def insert(self, documents: Iterable[Document], progress: Reporter) -> BuildReport:
        """Add or replace documents in every system. The report is that of the index."""
        found = list(documents)
        report = self.index.refresh(found, show_progress=progress)
        built = [one for one in found if one.id in report.built]
        for other in self._others.values():
            for one in built:
                if one.id in other.documents:
                    other.delete(one.id)
            other.insert(built, show_progress=progress)
        return report

    def delete(self, document_id: str) -> None:
        """Remove a document from every system. Raises `UnknownDocument`."""
        self.index.delete(document_id)
        for other in self._others.values():
            if document_id in other.documents:
                other.delete(document_id)

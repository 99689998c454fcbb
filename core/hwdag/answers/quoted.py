"""An answer of quoted sentences, for a reader that is too small to write a summary."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath

from hwdag.answers.abstention import bare
from hwdag.answers.citations import citable_sentences, citations
from hwdag.search.evidence import Evidence
from hwdag.types import Citation, Node, TokenCount

LEAST_QUOTED, MOST_QUOTED = 4, 12  # sentences


class QuotedAnswer:
    """The first sentences of the documents, word for word."""

    name: str | None = None
    tokens: TokenCount | None = None
    likelihood: float | None = None

    def __init__(self, found: Evidence) -> None:
        self._retrieval = found.retrieval
        nodes = [step.node for step in found.retrieval.steps[:MOST_QUOTED]]
        # steps begin with a sentence of each document
        documents = len({node.document_id for node in nodes})
        self._first = nodes[: max(LEAST_QUOTED, documents)]
        self._is_named = documents > 1
        several = f"{documents} documents" if documents > 1 else "the document"
        self.notes = (f"the reader is too small to sum up: these sentences are from {several}",)

    def __iter__(self) -> Iterator[str]:
        return iter([self.text] if self.text else [])

    @property
    def text(self) -> str:
        """The sentences, in a line each, after the names of their documents if there are several."""
        return "\n".join(f"- {self._name(node)}{bare(node)}" for node in self._first)

    def _name(self, node: Node) -> str:
        document = self._retrieval.sources[node.document_id]
        return f"{document.title or PurePath(document.id).name}: " if self._is_named else ""

    def cited(self) -> tuple[Citation, ...]:
        """Return the sentences, with equal shares."""
        units = [
            unit
            for i, node in enumerate(self._first)
            for unit in citable_sentences(i, node, node.text)
        ]
        nodes = {place: unit.node.id for unit in units for place in unit.places}
        return citations(((p, 1 / len(nodes)) for p in nodes), nodes, self._retrieval.sources)

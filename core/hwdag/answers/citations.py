"""The sentences of a node and their places in its document, for citations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hwdag.text.sentences import is_heading_line, sentences
from hwdag.types import Citation, CitedBy, Document, Node, Span

Place = tuple[str, Span]  # of a sentence: document and characters


@dataclass(frozen=True, slots=True)
class CitableSentence:
    """A sentence of a visited node, and its place in its document.

    `position` is that of the node among the nodes that were read, `within` are the characters of its
    text as it was read, after its heading.
    """

    position: int
    node: Node
    text: str
    within: Span
    sources: tuple[Span, ...]

    @property
    def places(self) -> list[Place]:
        """Return the spans of its sources."""
        return [(self.node.document_id, source) for source in self.sources]


def citations(
    shares: Iterable[tuple[Place, float]],
    nodes: Mapping[Place, str],
    documents: Mapping[str, Document],
    by: CitedBy = "attention",
) -> tuple[Citation, ...]:
    """Cite sentences with these shares, in this order; `nodes` are the ids of those that have them."""
    return tuple(
        Citation(
            key,
            span,
            documents[key].text[span.start : span.end],
            share,
            nodes[key, span],
            documents[key].page_of(span.start),
            by,
        )
        for (key, span), share in shares
    )


def citable_sentences(position: int, node: Node, shown: str) -> list[CitableSentence]:
    """Cut slices of the document into their sentences; any other text is one citable sentence.

    `shown` is the text as it was read, after its heading. A row that was read with the names of its
    columns is one, too. A heading above them is none.
    """
    is_verbatim = shown.endswith(node.text)
    heading = len(shown) - len(node.text) if is_verbatim else 0
    if node.origin not in ("chunk", "extractive") or not is_verbatim:
        return [CitableSentence(position, node, node.text, Span(heading, len(shown)), node.sources)]
    units, at = [], 0
    for source in node.sources:
        piece = node.text[at : at + len(source)]
        for part in sentences(piece):
            place = Span(source.start + part.start, source.start + part.end)
            start = heading + at + part.start
            text = piece[part.start : part.end]
            units.append(
                CitableSentence(position, node, text, Span(start, start + len(part)), (place,))
            )
        at += len(source) + 1  # one character between slices
    return [unit for unit in units if not is_heading_line(unit.text)] or units

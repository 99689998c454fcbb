"""What a search gives back: nodes as they were read, what they rest on, or whole paragraphs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal, get_args

from hwdag.checks import one_of
from hwdag.text.headings import Outline
from hwdag.types import Retrieval, Span, Step

Returns = Literal["nodes", "sources", "passages"]
"""Nodes as they were read; with the text of the document that they rest on, one source per line; or the
whole paragraphs that these are in."""


def checked_returns(returns: Returns) -> Returns:
    """The option itself. Raises `UnknownOption` for one that does not exist."""
    one_of("returns", returns, get_args(Returns))
    return returns


def returned(retrieval: Retrieval, returns: Returns) -> Retrieval:
    """The retrieval as the option says."""
    if checked_returns(returns) == "passages":
        return in_passages(retrieval)
    return in_sources(retrieval) if returns == "sources" else retrieval


def in_sources(retrieval: Retrieval) -> Retrieval:
    """The same retrieval; the text of every node is what it rests on, one source per line."""

    def sourced(step: Step) -> Step:
        node = step.node
        text = retrieval.sources[node.document_id].text if node.sources else ""
        lines = (text[span.start : span.end] for span in node.sources)
        return replace(step, node=replace(node, text="\n".join(lines)))

    steps, beyond = (tuple(map(sourced, some)) for some in (retrieval.steps, retrieval.beyond))
    return replace(retrieval, steps=steps, beyond=beyond)


def in_passages(retrieval: Retrieval) -> Retrieval:
    """The same retrieval with the paragraphs that its context rests on, each once, in the order of the walk.

    A paragraph has the scores of the first node that led to it; its `tokens` are estimated from that.
    """
    outlines = {key: Outline(document.text) for key, document in retrieval.sources.items()}
    seen: set[tuple[str, Span]] = set()

    def paragraphs(steps: Sequence[Step]) -> Iterator[Step]:
        for step in steps:
            key = step.node.document_id
            for source in step.node.sources:
                for span in outlines[key].paragraphs_over(source):
                    if (key, span) not in seen:
                        seen.add((key, span))
                        yield _passage(step, span, retrieval.sources[key].text)

    read = tuple(paragraphs(retrieval.context))
    return replace(retrieval, steps=read, beyond=tuple(paragraphs(retrieval.beyond)))


def _passage(step: Step, span: Span, document: str) -> Step:
    node, text = step.node, document[span.start : span.end]
    tokens = max(1, round(node.tokens * len(text) / max(1, len(node.text))))
    return replace(
        step,
        node=replace(
            node,
            id=f"{node.document_id}@{span.start}-{span.end}",
            level=1,
            text=text,
            origin="chunk",
            tokens=tokens,
            sources=(span,),
        ),
    )

"""Where a node is from and why it is there, as one JSON-able mapping for other people's metadata."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hwdag.types import Document, Node, Retrieval, Step

METADATA_KEY = "hwdag"
"""The one key under which both faces put it."""


def provenance(step: Step, retrieval: Retrieval) -> dict[str, Any]:
    """Everything about one returned node.

    Keys: `id`, `document_id` (empty for a node of a corpus layer, which rests on several documents),
    `level`, `origin`, `spans` (exact [start, end) character ranges), `span_documents` (the document
    of each span), `position` (visiting order, the question being 1), `visited`, `score` with its
    parts `attention`, `similarity` and `reference`, `relevance`, `p_yes` (None where it was not read), `stop`;
    where a controller steered the walk, also `p_enough`, its probability; where notes had joined the
    question by then, also `note`, their number.
    """
    node = step.node
    return {
        "id": node.id,
        "document_id": node.document_id,
        "level": node.level,
        "origin": node.origin,
        "spans": [[span.start, span.end] for span in node.sources],
        "span_documents": [document for document, _ in node.places],
        "position": step.position,
        "visited": step not in retrieval.beyond,
        **_scores(step),
        "stop": retrieval.stop,
    }


def step_record(step: Step) -> dict[str, Any]:
    """A node as it is visited, JSON-able; keys as in `provenance`, and its `text`."""
    return {
        "id": step.node.id,
        "document_id": step.node.document_id,
        "level": step.node.level,
        "text": step.node.text,
        "position": step.position,
        **_scores(step),
    }


def _scores(step: Step) -> dict[str, Any]:
    return {
        "score": step.score,
        "attention": step.attention,
        "similarity": step.similarity,
        "reference": step.reference,
        "relevance": step.relevance,
        "p_yes": step.p_yes,
        **({} if step.p_enough is None else {"p_enough": step.p_enough}),
    }


def passages(node: Node, sources: Mapping[str, Document]) -> list[str]:
    """The text of every span that a node rests on; `sources` are those of its `Retrieval`."""
    return [sources[document].text[span.start : span.end] for document, span in node.places]

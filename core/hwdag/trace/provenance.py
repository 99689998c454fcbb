"""Where a node is from and why it is there, as one JSON-able mapping for other people's metadata."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hwdag.types import Document, Node, Retrieval, Step

METADATA_KEY = "hwdag"  # the one key under which both frameworks' packages put it


def provenance(step: Step, retrieval: Retrieval) -> dict[str, Any]:
    """Return everything about one returned node but its text.

    Keys: those of `Step.to_dict()`; `visited`, whether it was read; `stop`, why the walk ended; `pages`,
    where a document has some: the one that each span begins on.
    """
    found = {**step.to_dict(), "visited": step not in retrieval.beyond, "stop": retrieval.stop}
    del found["text"]
    document = retrieval.sources.get(step.node.document_id)
    if document is not None and document.page_starts:
        found["pages"] = [document.page_of(span.start) for span in step.node.sources]
    return found


def passages(node: Node, sources: Mapping[str, Document]) -> list[str]:
    """The text of every span that a node rests on; `sources` are those of its `Retrieval`."""
    text = sources[node.document_id].text if node.sources else ""
    return [text[span.start : span.end] for span in node.sources]

"""Where a node is from and why it is there, as one JSON-able mapping for other people's metadata."""

from __future__ import annotations

from typing import Any

from hwdag.types import Retrieval, Step

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

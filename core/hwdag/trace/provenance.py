"""Where a node comes from and why it was chosen, as one JSON-able mapping for metadata."""

from __future__ import annotations

from typing import Any

from hwdag.types import Retrieval, Step

METADATA_KEY = "hwdag"  # used by both framework packages


def provenance(step: Step, retrieval: Retrieval) -> dict[str, Any]:
    """Return everything about a returned node except its text.

    Keys: those of `Step.to_dict()`; `visited`, whether the node was read; `stop`, why the walk ended;
    in a document with pages, `pages`: the page each span starts on; and in subtitles, `times`: the second
    each span starts at.
    """
    found = {**step.to_dict(), "visited": step not in retrieval.unread, "stop": retrieval.stop}
    del found["text"]
    document = retrieval.sources.get(step.node.document_id)
    if document is not None and document.page_starts:
        found["pages"] = [document.page_of(span.start) for span in step.node.sources]
    if document is not None and document.times:
        found["times"] = [document.time_of(span.start) for span in step.node.sources]
    return found

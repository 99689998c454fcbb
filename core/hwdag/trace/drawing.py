"""Graphs and walks of an index as a page or JSON-able values."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from hwdag.checks import listed
from hwdag.errors import UnknownDocument
from hwdag.graph.dag import HWDAG
from hwdag.page import page
from hwdag.types import Answer, Document, Retrieval, shown_document, shown_documents

LEAST_SHOWN = 0.01  # weight below which an edge is left out of a page

Entries = Mapping[str, tuple[Document, HWDAG, Any]]
"""Documents with their graphs, by document id; other contents of an entry are not shown."""


def html_of(
    entries: Entries, document_ids: Collection[str] | None, walk: Answer | Retrieval | None
) -> str:
    """Return the page of graphs, or of a walk on them; see `HWDAGIndex.to_html`."""
    if walk is None:
        return page("The graph", data_of(entries, document_ids))
    retrieval, kind = (walk.retrieval, "answer") if isinstance(walk, Answer) else (walk, "walk")
    read = shown_documents(retrieval)
    if document_ids is None:
        # why: a document that was replaced since is shown without a graph
        now = {key: entry[0] for key in retrieval.sources if (entry := entries.get(key))}
        document_ids = [d["id"] for d in read if now.get(d["id"]) == retrieval.sources[d["id"]]]
    shown = data_of(entries, document_ids)
    others = [d for d in read if d["id"] not in document_ids]
    documents = [*shown["documents"], *others]
    return page(
        retrieval.question,
        {"documents": documents, "graphs": shown["graphs"], kind: walk.to_dict()},
    )


def data_of(entries: Entries, document_ids: Collection[str] | None) -> dict[str, Any]:
    """Return documents and graphs as the page takes them; see `HWDAGIndex.to_dict`."""
    wanted = list(entries) if document_ids is None else list(document_ids)
    if missing := sorted(set(wanted) - set(entries)):
        raise UnknownDocument(f"no document {missing[0]!r}; there are {listed(entries)}")
    found = [entries[key] for key in wanted]
    graphs = [
        {"document_id": document.id, **graph.to_dict(least_weight=LEAST_SHOWN)}
        for document, graph, _ in found
    ]
    return {"documents": [shown_document(d) for d, _, _ in found], "graphs": graphs}

"""Answers, walks and graphs as HTML pages that need nothing else: no server, no network.

What documents and questions say is data. It stands in the page as JSON without a character that HTML
would act on, and is only ever shown as text; a content security policy lets nothing run but the
page's own script, and nothing be loaded.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from hwdag.graph.dag import HWDAG
from hwdag.text.words import content_words
from hwdag.trace.render import STOP_REASONS
from hwdag.types import Answer, Citation, Document, Node, Retrieval, Step
from hwdag.version import __version__

LEAST_WEIGHT = 0.01
"""Weaker edges are left out of a page: at most a hundred of a node's edges are stronger."""

Graphs = Iterable[tuple[Document, HWDAG]]

_UNSAFE = str.maketrans({c: f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029\u007f"})
"""Within JSON these stand in strings alone, where escapes mean the same."""


def answer_page(answer: Answer, graphs: Graphs = ()) -> str:
    """Return the page of an answer: its words linked to citations, the walk, and the sources.

    Args:
        answer: what is shown.
        graphs: documents with their graphs, to be drawn beside the walk; none leaves that out.
    """
    sources = _Sources()
    retrieval = answer.retrieval
    steps = {step.node.id: i for i, step in reversed(list(enumerate(retrieval.steps)))}
    usage = answer.usage
    shown = {
        "words": list(_linked_words(answer.text, answer.citations)),
        "citations": [
            {
                "span": sources.span(retrieval.sources[c.document_id], c.span.start, c.span.end),
                "text": c.text,
                "weight": round(c.weight, 4),
                "step": steps.get(c.node_id, -1),
            }
            for c in answer.citations
        ],
        "cost": f"{usage.tokens:,} tokens through the model, {usage.tflops:.3f} TFLOPs, "
        f"{usage.seconds:.1f} s",
    }
    return _page(retrieval.question, sources, _walk(retrieval, sources), shown, graphs)


def retrieval_page(retrieval: Retrieval, graphs: Graphs = ()) -> str:
    """Return the page of a walk; see `answer_page`."""
    sources = _Sources()
    return _page(retrieval.question, sources, _walk(retrieval, sources), None, graphs)


def graph_page(graphs: Graphs, title: str) -> str:
    """Return the page of graphs: levels as layers, edges by weight (as GARLIC Figure 5)."""
    return _page(title, _Sources(), None, None, graphs)


class _Sources:
    """The documents that a page shows, numbered in the order in which they are first named."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._wide: list[list[int]] = []  # places of characters that take two UTF-16 units
        self.documents: list[dict[str, Any]] = []

    def number(self, document: Document) -> int:
        if document.id not in self._numbers:
            self._numbers[document.id] = len(self.documents)
            self._wide.append([i for i, c in enumerate(document.text) if ord(c) > 0xFFFF])
            shown = {"id": document.id, "title": document.title, "text": document.text, "pages": []}
            self.documents.append(shown)
        return self._numbers[document.id]

    def span(self, document: Document, start: int, end: int) -> list[int]:
        """Return [document, start, end] in UTF-16 units, which is what a browser counts in."""
        number = self.number(document)
        wide = self._wide[number]
        return [number, start + bisect_left(wide, start), end + bisect_left(wide, end)]

    def node(self, node: Node, documents: Mapping[str, Document]) -> dict[str, Any]:
        spans = [self.span(documents[id_], span.start, span.end) for id_, span in node.places]
        return {
            "id": node.id,
            "document": self.number(documents[node.document_id]),
            "level": node.level,
            "text": node.text,
            "origin": node.origin,
            "tokens": node.tokens,
            "spans": spans,
        }


def _walk(retrieval: Retrieval, sources: _Sources) -> dict[str, Any]:
    documents = retrieval.sources

    def candidate(step: Step) -> dict[str, Any]:
        parts = {name: _rounded(getattr(step, name)) for name in _PARTS}
        return {**sources.node(step.node, documents), **parts}

    def visited(step: Step) -> dict[str, Any]:
        return {
            **candidate(step),
            "position": step.position,
            "initial": step.initial,
            "relevance": _rounded(step.relevance),
            "p_yes": _rounded(step.p_yes),
            "p_enough": _rounded(step.p_enough),
        }

    return {
        "question": retrieval.question,
        "stop": retrieval.stop,
        "why": STOP_REASONS[retrieval.stop],
        "notes": list(retrieval.notes),
        "tokens": retrieval.context_tokens,
        "steps": [visited(step) for step in retrieval.steps],
        "unread": [candidate(step) for step in retrieval.beyond],
    }


_PARTS = ("attention", "similarity", "reference")


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(float(value), 4)


def _linked_words(text: str, citations: Sequence[Citation]) -> Iterator[tuple[str, int | None]]:
    """Pieces of the answer, each with the strongest citation that says it, or None."""
    said = [set(content_words(citation.text)) for citation in citations]
    at = 0
    for word in text.split():
        start = text.index(word, at)
        if start > at:
            yield text[at:start], None
        at = start + len(word)
        found = content_words(word)
        yield word, next((i for i, s in enumerate(said) if found and s.issuperset(found)), None)


def _graph(graphs: Sequence[tuple[Document, HWDAG]], sources: _Sources) -> dict[str, Any]:
    """Nodes with their horizontal places, and edges, strongest first."""
    nodes: list[dict[str, Any]] = []
    edges: list[tuple[int, int, float]] = []
    leaves = sum(len(graph.at_level(1)) for _, graph in graphs)
    left = 0
    for document, graph in graphs:
        first, width = len(nodes), len(graph.at_level(1))
        for node, x in zip(graph.nodes, places(graph), strict=True):
            place = round((left + x * width) / max(1, leaves), 5)
            nodes.append({**sources.node(node, {document.id: document}), "x": place})
        left += width
        parents = np.repeat(np.arange(len(graph)), np.diff(graph.edges.indptr))
        kept = graph.edges.data >= LEAST_WEIGHT
        edges += zip(
            (parents[kept] + first).tolist(),
            (graph.edges.indices[kept] + first).tolist(),
            graph.edges.data[kept].round(4).tolist(),
            strict=True,
        )
    return {"nodes": nodes, "edges": sorted(edges, key=lambda edge: -edge[2])}


def places(graph: HWDAG) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return the horizontal place of every node in [0, 1], (n,).

    Leaves stand in document order, points above the middle of what they rest on, weighted by their
    edges; within a level they are spread evenly in that order, so that no two lie on each other.
    """
    x = np.zeros(len(graph))
    for level in range(1, graph.height + 1):
        rows = np.asarray(graph.at_level(level))
        wanted = np.arange(len(rows)) if level == 1 else graph.edges[rows] @ x
        order = np.argsort(wanted, kind="stable")
        x[rows[order]] = (np.arange(len(rows)) + 0.5) / len(rows)
    return x


def _page(
    title: str,
    sources: _Sources,
    walk: dict[str, Any] | None,
    answer: dict[str, Any] | None,
    graphs: Graphs,
) -> str:
    graphs = list(graphs)
    graph = _graph(graphs, sources) if graphs else None
    data = {
        "title": title,
        "version": __version__,
        "documents": sources.documents,
        "walk": walk,
        "answer": answer,
        "graph": graph,
    }
    style, script = _resource("page.css"), _resource("page.js")
    policy = (
        f"default-src 'none'; style-src {_source(style)}; script-src {_source(script)}; "
        "base-uri 'none'; form-action 'none'"
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{html.escape(policy)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>{style}</style>\n</head>\n<body>\n"
        '<div id="hwdag-page"></div>\n<noscript>This page needs JavaScript.</noscript>\n'
        f'<script type="application/json" id="hwdag-data">{_json(data)}</script>\n'
        f"<script>{script}</script>\n</body>\n</html>\n"
    )


def _json(data: Mapping[str, Any]) -> str:
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).translate(_UNSAFE)


@cache
def _resource(name: str) -> str:
    return (files("hwdag.trace") / "page" / name).read_text("utf-8")


def _source(text: str) -> str:
    """How a content security policy names an inline element."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

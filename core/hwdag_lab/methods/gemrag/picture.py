"""An interactive page that shows a memory graph: one HTML file that needs nothing else.

What documents say is data: it stands in the page as JSON without a character that HTML would act
on, and is only ever shown as text. A content security policy lets nothing run but the page's own
script, and nothing be loaded.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

import numpy as np

from hwdag.arrays import Floats
from hwdag.errors import InputError
from hwdag_lab.methods.gemrag.memory import Graph
from hwdag_lab.methods.gemrag.spectrum import BLOCK, Affinity, spectrum

_UNSAFE = str.maketrans({c: f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029\u007f"})
"""Within JSON these only stand in strings, where escapes mean the same."""


def page(graph: Graph, titles: Mapping[str, str], neighbors: int) -> str:
    """The page of a graph; `titles` are those of its documents, by id.

    Raises:
        InputError: a negative number of neighbours.
    """
    if neighbors < 0:
        raise InputError(f"neighbors must be at least 0, got {neighbors!r}")
    style, script = (_resource(name) for name in ("page.css", "page.js"))
    policy = f"default-src 'none'; style-src {_source(style)}; script-src {_source(script)}"
    data = json.dumps(_data(graph, titles, neighbors)).translate(_UNSAFE)
    return _resource("page.html").format(
        policy=html.escape(policy), style=style, script=script, data=data
    )


def _data(graph: Graph, titles: Mapping[str, str], neighbors: int) -> dict[str, Any]:
    affinity = Affinity.of(graph.sums, graph.texts)
    places = _places(affinity)
    questions = [q for memory in graph.memories for q in memory.questions]
    firsts = np.cumsum([0, *(len(memory.nodes) for memory in graph.memories)]).tolist()
    children = [
        [first + i for i in below]
        for first, memory in zip(firsts, graph.memories, strict=False)
        for below in memory.tree.children
    ]
    return {
        "nodes": [
            {
                "id": node.id,
                "document": titles[node.document_id],
                "theme": node.level > 1,
                "text": node.text,
                "questions": asked,
                "members": below,
                "x": round(float(x), 4),
                "y": round(float(y), 4),
            }
            for node, asked, below, (x, y) in zip(
                graph.nodes, questions, children, places, strict=True
            )
        ],
        "edges": _strongest(affinity, neighbors),
    }


def _places(affinity: Affinity) -> Floats:
    """The second and third eigenvector by rank, (n, 2) in [0, 1].

    The first one tells how central a node is. Ranks spread nodes that would lie on each other.
    """
    size = len(affinity)
    vectors = spectrum(affinity, min(3, size)).vectors
    places = np.full((size, 2), 0.5)
    for axis in range(min(2, vectors.shape[1] - 1)):
        order = np.argsort(vectors[:, axis + 1], kind="stable")
        places[order, axis] = np.linspace(0.0, 1.0, size)
    return places


def _strongest(affinity: Affinity, neighbors: int) -> list[tuple[int, int, float]]:
    """(Node, node, weight): of every node its edges of largest weight, each edge once."""
    found: dict[tuple[int, int], float] = {}
    size = len(affinity)
    kept = min(neighbors, size - 1)
    for start in range(0, size if kept else 0, BLOCK):
        rows = np.arange(start, min(start + BLOCK, size))
        weights = affinity.weights(rows)
        weights[np.arange(len(rows)), rows] = -np.inf
        nearest = np.argsort(-weights, axis=1, kind="stable")[:, :kept]
        for at, node in enumerate(rows.tolist()):
            for other in nearest[at].tolist():
                pair = (min(node, other), max(node, other))
                found[pair] = round(float(weights[at, other]), 4)
    return [(a, b, weight) for (a, b), weight in sorted(found.items())]


def _resource(name: str) -> str:
    return (files(__package__) / name).read_text("utf-8")


def _source(text: str) -> str:
    """How a content security policy names an inline element."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

"""The command `show`: what is in an index file; no language model is loaded."""

from __future__ import annotations

import argparse
import json
from typing import Any

from hwdag.cli.terminal import width
from hwdag.errors import InputError
from hwdag.index import HWDAGIndex
from hwdag.trace import render


def show(options: argparse.Namespace) -> int:
    """Print documents, levels, sizes, some points and their edges; of one document all nodes."""
    one, columns = options.document, width()
    with HWDAGIndex.load(options.file) as index:
        if one is not None and one not in index.documents:
            raise InputError(
                f"no document {one!r} in {options.file}; `hwdag show {options.file}` lists them"
            )
        keys = list(index.documents) if one is None else [one]
        if options.html:
            options.html.write_text(index.to_html(None if one is None else keys), "utf-8")
        if options.json:
            shown = {
                "built_by": index.built_by,
                "documents": [_described(index, key, nodes=one is not None) for key in keys],
            }
            print(json.dumps(shown, ensure_ascii=False, indent=2))
            return 0
        print(f"{options.file}: {len(index)} documents, built by {index.built_by}")
        for key in keys:
            document, graph, _ = index.entries[key]
            print(f"{key}  {document.title!r}: {len(graph)} nodes, {graph.edges.nnz} edges")
            every = render.node_lines(graph, columns)
            for line in every if one else render.graph_lines(graph, points=2, width=columns):
                print(line)
    return 0


def _described(index: HWDAGIndex, key: str, *, nodes: bool) -> dict[str, Any]:
    """A document as JSON-able values."""
    document, graph, _ = index.entries[key]
    return {
        "id": key,
        "title": document.title,
        "levels": [len(graph.at_level(n + 1)) for n in range(graph.height)],
        "edges": int(graph.edges.nnz),
        "nodes": [
            {"id": n.id, "level": n.level, "origin": n.origin, "text": n.text}
            for n in (graph.nodes if nodes else ())
        ],
    }

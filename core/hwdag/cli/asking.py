"""The commands `ask` and `show`: a question to an answer, a file to a summary."""

from __future__ import annotations

import argparse
import json
import time
from reprlib import repr as brief

from hwdag.cli.models import reader
from hwdag.cli.options import config_of
from hwdag.config import SearchConfig
from hwdag.errors import InputError
from hwdag.index import HWDAGIndex
from hwdag.retriever import Retriever
from hwdag.scope import Scope
from hwdag.trace import render
from hwdag.types import Answer, Step


def ask(options: argparse.Namespace) -> int:
    """Answer a question; the walk is shown as it happens."""
    config = config_of(SearchConfig.garlic() if options.garlic else SearchConfig(), options)
    scope = scope_of(options)
    with HWDAGIndex.load(
        options.file, reader=reader(options, options.file), embedder=options.embedder
    ) as index:
        print_answer(index, options, config, scope)
    return 0


def print_answer(
    index: Retriever, options: argparse.Namespace, config: SearchConfig, scope: Scope
) -> None:
    """Ask `options.question`, and print the walk, the answer and its sources, or all as JSON."""
    if options.json:
        answer = index.answer(options.question, config=config, scope=scope)
        print(json.dumps(answer.to_dict(), ensure_ascii=False, indent=2))
    else:
        answer = show_answer(index, options.question, config, scope)
    if options.html:
        options.html.write_text(answer.to_html(), "utf-8")


def show(options: argparse.Namespace) -> int:
    """Documents, levels, sizes, some points and their edges; no language model is loaded."""
    with HWDAGIndex.load(options.file) as index:
        if options.document is not None and options.document not in index.graphs:
            raise InputError(
                f"no document {options.document!r}; there are {', '.join(sorted(index.graphs))}"
            )
        if options.html:
            page = index.to_html([options.document] if options.document else None)
            options.html.write_text(page, "utf-8")
        if options.json:
            print(json.dumps(_described(index, options.document), ensure_ascii=False, indent=2))
            return 0
        print(f"{options.file}: {len(index)} documents, built by {index.built_by}")
        for key in [options.document] if options.document else index.graphs:
            document, graph, _ = index.entries[key]
            print(f"{key}  {document.title!r}: {len(graph)} nodes, {graph.edges.nnz} edges")
            for line in render.graph_lines(graph, points=len(graph) if options.document else 2):
                print(line)
    return 0


def show_answer(
    index: Retriever, question: str, config: SearchConfig, scope: Scope | None = None
) -> Answer:
    """Walk, answer and print everything on the way."""
    began = time.perf_counter()
    print(f"question: {question}\n{render.HEADER}")
    stream = index.stream(question, config=config, scope=scope, on_step=_print_step)
    print(render.stop_line(stream.retrieval))
    print("answer: ", end="")
    for piece in stream:
        print(piece, end="", flush=True)
    answer = stream.answer
    print("\nsources:")
    for citation in answer.citations:
        print(render.citation_line(citation))
    print(render.usage_line(answer, time.perf_counter() - began))
    return answer


def scope_of(options: argparse.Namespace) -> Scope:
    """Return which documents the command line asks for."""
    filters = options.filter
    try:
        filters = None if filters is None else json.loads(filters)
    except (ValueError, RecursionError) as error:
        raise InputError(
            f'--filter must be JSON such as \'{{"year": {{"gte": 2020}}}}\', got {brief(filters)}: {error}'
        ) from error
    return Scope(options.document, filters, options.tenant)


def _print_step(step: Step) -> None:
    print(render.step_line(step), flush=True)


def _described(index: HWDAGIndex, document_id: str | None) -> dict[str, object]:
    keys = [document_id] if document_id else list(index.graphs)
    return {
        "built_by": index.built_by,
        "documents": [
            {
                "id": key,
                "title": document.title,
                "levels": [len(graph.at_level(n + 1)) for n in range(graph.height)],
                "edges": int(graph.edges.nnz),
                "nodes": [
                    {"id": n.id, "level": n.level, "origin": n.origin, "text": n.text}
                    for n in (graph.nodes if document_id else ())
                ],
            }
            for key, (document, graph, _) in ((key, index.entries[key]) for key in keys)
        ],
    }

"""The commands `ask` and `show`: a question to an answer, a file to a summary."""

from __future__ import annotations

import argparse
import json
import time
from contextlib import AbstractContextManager, nullcontext
from reprlib import repr as brief
from typing import Any

from hwdag.cli.models import reader
from hwdag.config import Scoring, SearchConfig
from hwdag.errors import InputError
from hwdag.index import HWDAGIndex
from hwdag.retriever import Retriever
from hwdag.scope import Scope
from hwdag.trace import render
from hwdag.types import Answer, Step
from hwdag_lab.cli import retrievers
from hwdag_lab.methods.opening import is_saved_retriever


def ask(options: argparse.Namespace) -> int:
    """Answer a question; the walk is shown as it happens."""
    config = SearchConfig(
        scoring=Scoring.garlic() if options.scoring == "garlic" else Scoring(),
        token_budget=options.budget,
        progress=options.progress,
        confidence=options.confidence,
        patience=options.patience,
        heads="all" if options.heads == "all" else "auto",
        calibration=options.calibration,
        notebook=options.notebook,
        max_new_tokens=options.max_new_tokens,
    )
    scope = Scope(options.document, _filters(options.filter), options.tenant)
    with _opened(options) as index:
        if not options.json:
            show_answer(index, options.question, config, scope)
            return 0
        began = time.perf_counter()
        answer = index.answer(options.question, config=config, scope=scope)
        found = render.answer_json(answer, time.perf_counter() - began)
        print(json.dumps(found, ensure_ascii=False, indent=2))
    return 0


def show(options: argparse.Namespace) -> int:
    """Documents, levels, sizes, some points and their edges; no language model is loaded."""
    if is_saved_retriever(options.file):
        return retrievers.show(options)
    with HWDAGIndex.load(options.file) as index:
        if options.document is not None and options.document not in index.graphs:
            raise InputError(
                f"no document {options.document!r}; there are {', '.join(sorted(index.graphs))}"
            )
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
    for line in render.notebook_lines(stream.retrieval):
        print(line)
    print("answer: ", end="")
    for piece in stream:
        print(piece, end="", flush=True)
    answer = stream.answer
    print("\nsources:")
    for citation in answer.citations:
        print(render.citation_line(citation))
    print(render.usage_line(answer, time.perf_counter() - began))
    return answer


def _opened(options: argparse.Namespace) -> AbstractContextManager[Any]:
    """The index, or the retriever beside HWDAG, that the file holds."""
    if is_saved_retriever(options.file):
        return nullcontext(retrievers.asked(options))
    retrievers.refuse_options(options)
    return HWDAGIndex.load(
        options.file, reader=reader(options, options.file), embedder=options.embedder
    )


def _filters(text: str | None) -> Any:
    """A filter in its JSON form."""
    if text is None:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(
            f'--filter must be JSON such as \'{{"year": {{"gte": 2020}}}}\', got {brief(text)}: {error}'
        ) from error


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

"""The commands: documents to an index file, a question to an answer, a file to a summary."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from hwdag.config import BuildConfig, Scoring, SearchConfig
from hwdag.errors import InputError
from hwdag.index import HWDAGIndex
from hwdag.lm.base import Reader
from hwdag.store.sqlite import Store
from hwdag.text.files import Skipped, read_documents
from hwdag.trace import render
from hwdag.types import Answer, Document, Step


def build(options: argparse.Namespace) -> int:
    """Build or extend an index file; interrupted, it keeps every finished document."""
    documents, skipped = read(options.paths)
    config = BuildConfig(
        leaves=options.leaves,
        chunk_tokens=options.chunk_tokens,
        window_tokens=options.window_tokens,
        points=options.points,
        language=options.language,
        batch_size=options.batch_size,
    )
    try:
        index = HWDAGIndex.from_documents(
            documents,
            reader=_reader(options, options.output),
            embedder=options.embedder,
            config=config,
            path=options.output,
            progress=not options.quiet,
        )
    except KeyboardInterrupt:
        print(
            f"\n{options.output} holds every document that was finished; "
            "the same command goes on from there",
            file=sys.stderr,
        )
        raise
    for file in skipped:
        print(f"skipped {file.path}: {file.reason}")
    print(index.report)
    print(f"{options.output}: {len(index)} documents")
    return 0


def ask(options: argparse.Namespace) -> int:
    """Answer a question; the walk is shown as it happens."""
    config = SearchConfig(
        scoring=Scoring.garlic() if options.scoring == "garlic" else Scoring(),
        token_budget=options.budget,
        progress=options.progress,
        confidence=options.confidence,
        patience=options.patience,
        heads=options.heads,
        max_new_tokens=options.max_new_tokens,
    )
    index = HWDAGIndex.load(
        options.file, reader=_reader(options, options.file), embedder=options.embedder
    )
    began = time.perf_counter()
    if options.json:
        answer = index.answer(options.question, config=config, document_ids=options.document)
        found = render.answer_json(answer, time.perf_counter() - began)
        print(json.dumps(found, ensure_ascii=False, indent=2))
    else:
        show_answer(index, options.question, config, options.document)
    return 0


def show(options: argparse.Namespace) -> int:
    """Documents, levels, sizes, some points and their edges; no language model is loaded."""
    index = HWDAGIndex.load(options.file)
    if options.document is not None and options.document not in index.graphs:
        raise InputError(
            f"no document {options.document!r}; there are {', '.join(sorted(index.graphs))}"
        )
    if options.json:
        print(json.dumps(_described(index, options.document), ensure_ascii=False, indent=2))
        return 0
    print(f"{options.file}: {len(index)} documents, built by {index.built_by}")
    for key in [options.document] if options.document else index.graphs:
        graph = index.graphs[key]
        print(f"{key}  {index.documents[key].title!r}: {len(graph)} nodes, {graph.edges.nnz} edges")
        for line in render.graph_lines(graph, points=len(graph) if options.document else 2):
            print(line)
    return 0


def show_answer(
    index: HWDAGIndex,
    question: str,
    config: SearchConfig,
    document_ids: list[str] | None = None,
) -> Answer:
    """Walk, answer and print everything on the way."""
    began = time.perf_counter()
    print(f"question: {question}\n{render.HEADER}")
    stream = index.stream(question, config=config, document_ids=document_ids, on_step=_print_step)
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


def read(paths: Iterable[Path]) -> tuple[list[Document], list[Skipped]]:
    """Documents of files and folders, and what could not be read."""
    found = list(read_documents(paths))
    documents = [item for item in found if isinstance(item, Document)]
    return documents, [item for item in found if isinstance(item, Skipped)]


def _print_step(step: Step) -> None:
    print(render.step_line(step), flush=True)


def _reader(options: argparse.Namespace, file: Path) -> Reader | str | None:
    """The reader that was asked for; None leaves it to the index.

    A dtype or a device alone go to the model that the file names, or to the default one.
    """
    if options.dtype is None and options.device is None:
        return str(options.reader) if options.reader else None
    from hwdag.lm.default import DEFAULT_MODEL, load_reader

    name = options.reader or (_built_by(file) if file.exists() else DEFAULT_MODEL)
    return load_reader(name, dtype=options.dtype, device=options.device)


def _built_by(file: Path) -> str:
    with Store.open(file, readonly=True) as store:
        return store.header.reader


def _described(index: HWDAGIndex, document_id: str | None) -> dict[str, object]:
    keys = [document_id] if document_id else list(index.graphs)
    return {
        "built_by": index.built_by,
        "documents": [
            {
                "id": key,
                "title": index.documents[key].title,
                "levels": [len(graph.at_level(n + 1)) for n in range(graph.height)],
                "edges": int(graph.edges.nnz),
                "nodes": [
                    {"id": n.id, "level": n.level, "origin": n.origin, "text": n.text}
                    for n in (graph.nodes if document_id else ())
                ],
            }
            for key, graph in ((key, index.graphs[key]) for key in keys)
        ],
    }

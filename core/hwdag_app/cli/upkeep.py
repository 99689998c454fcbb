"""The commands for an index file that need no language model: show, verify, repair, and so on."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator
from typing import Any

from hwdag.errors import InputError
from hwdag.index import HWDAGIndex
from hwdag.store.exporting import export_index
from hwdag.store.transfer import merge as merge_files
from hwdag.store.transfer import repair as repair_file
from hwdag.store.verify import compact as compact_file
from hwdag.store.verify import verify as verify_file
from hwdag.trace import render
from hwdag_app.cli.inputs import check_page
from hwdag_app.cli.terminal import width

EXIT_DAMAGED = 1


def show(options: argparse.Namespace) -> int:
    """Print documents, levels, sizes, some points and their edges, or all nodes of one document."""
    one, columns = options.document, width()
    if options.html:
        check_page(options.html)
    with HWDAGIndex.load(options.file) as index:
        if one is not None and one not in index.documents:
            raise InputError(
                f"no document {one!r} in {options.file}; `hwdag show {options.file}` lists them"
            )
        keys = list(index.documents) if one is None else [one]
        if options.notes and not options.json:
            for line in _notes(index, keys):
                print(line)
            return 0
        if options.html:
            options.html.write_text(index.to_html(None if one is None else keys), "utf-8")
        if options.json:
            shown = {
                "built_by": index.built_by,
                "dtype": index.built_dtype,
                "documents": [_described(index, key, nodes=one is not None) for key in keys],
            }
            print(json.dumps(shown, ensure_ascii=False, indent=2))
            return 0
        dtype = f" in {index.built_dtype}" if index.built_dtype else ""
        print(f"{options.file}: {len(index)} documents, built by {index.built_by}{dtype}")
        for key in keys:
            document, graph, _ = index.entries[key]
            print(f"{key}  {document.title!r}: {len(graph)} nodes, {graph.edges.nnz} edges")
            points = 2 if one is None else None
            for line in render.graph_lines(graph, points=points, width=columns):
                print(line)
    return 0


def verify(options: argparse.Namespace) -> int:
    """Check the whole file; the exit status is 1 if something is damaged."""
    verdict = verify_file(options.file, show_progress=not options.quiet)
    for problem in verdict.problems:
        name = "" if problem.document_id is None else f"document {problem.document_id!r}: "
        print(f"{name}{problem.what}")
    state = "sound" if verdict.sound else f"damaged, {len(verdict.problems)} problems"
    print(f"{options.file}: {state}; {len(verdict.whole)} intact documents")
    return 0 if verdict.sound else EXIT_DAMAGED


def repair(options: argparse.Namespace) -> int:
    """Copy the intact documents to a new file; the exit status is 1 if some were lost."""
    found = repair_file(options.file, options.output, show_progress=not options.quiet)
    for name in found.lost:
        print(f"lost {name}; insert it again")
    print(f"{found.path}: {len(found.kept)} documents kept, {len(found.lost)} lost")
    return EXIT_DAMAGED if found.lost else 0


def merge(options: argparse.Namespace) -> int:
    """Copy the documents of several index files into a new one."""
    merge_files(options.files, options.output, show_progress=not options.quiet)
    print(f"{options.output}: written")
    return 0


def reembed(options: argparse.Namespace) -> int:
    """Embed all nodes of an index file with another model."""
    with HWDAGIndex.load(options.file) as index:
        done = index.reembed(options.embedder, show_progress=not options.quiet)
        by = f"embedded with {index.embedder.name}"
        said = f"{len(index)} documents {by}" if done else f"{by} already; nothing to do"
        print(f"{options.file}: {said}")
    return 0


def compact(options: argparse.Namespace) -> int:
    """Shrink the file by the space of deleted documents."""
    found = compact_file(options.file, drop_calls=options.drop_calls)
    print(f"{options.file}: {found.before:,} bytes before, {found.after:,} after")
    return 0


def export(options: argparse.Namespace) -> int:
    """Write documents and graphs as JSON lines."""
    export_index(options.file, options.output, show_progress=not options.quiet)
    print(f"{options.output}: written")
    return 0


def _notes(index: HWDAGIndex, keys: Iterable[str]) -> Iterator[str]:
    """Yield the notes of each document."""
    found = [f"{key}: {note}" for key in keys for note in index.documents[key].notes]
    yield from found or ["no notes: nothing was left out or guessed in the files"]


def _described(index: HWDAGIndex, key: str, *, nodes: bool) -> dict[str, Any]:
    document, graph, _ = index.entries[key]
    return {
        "id": key,
        "title": document.title,
        "notes": document.notes,
        "levels": [len(graph.at_level(n + 1)) for n in range(graph.height)],
        "edges": int(graph.edges.nnz),
        "nodes": [
            {"id": n.id, "level": n.level, "origin": n.origin, "text": n.text}
            for n in (graph.nodes if nodes else ())
        ],
    }

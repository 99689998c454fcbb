"""The commands that look after an index file: verify, repair, compact, export."""

from __future__ import annotations

import argparse

from hwdag.store.exporting import export_index
from hwdag.store.integrity import compact as compact_file
from hwdag.store.integrity import repair as repair_file
from hwdag.store.integrity import verify as verify_file

EXIT_DAMAGED = 1


def verify(options: argparse.Namespace) -> int:
    """Read and check everything; the exit status is 1 if something is damaged."""
    verdict = verify_file(options.file, show_progress=not options.quiet)
    for problem in verdict.problems:
        name = "" if problem.document_id is None else f"document {problem.document_id!r}: "
        print(f"{name}{problem.what}")
    state = "sound" if verdict.sound else f"damaged, {len(verdict.problems)} problems"
    print(f"{options.file}: {state}; {verdict.documents} whole documents")
    return 0 if verdict.sound else EXIT_DAMAGED


def repair(options: argparse.Namespace) -> int:
    """Save the documents that are whole; the exit status is 1 if some were lost."""
    found = repair_file(
        options.file,
        options.output,
        reader=options.reader,
        embedder=options.embedder,
        show_progress=not options.quiet,
    )
    for name in found.lost:
        print(f"lost {name}; insert it again")
    if found.unnamed:
        print(f"lost {found.unnamed} more, whose ids cannot be read")
    for note in found.notes:
        print(note)
    if found.damaged is None and options.output is None:
        print(f"{found.path}: sound, {len(found.kept)} documents; nothing was done")
        return 0
    lost = len(found.lost) + found.unnamed
    print(f"{found.path}: {len(found.kept)} documents kept, {lost} lost, {found.calls} calls kept")
    if found.damaged is not None:
        print(f"the damaged file is {found.damaged}")
    return EXIT_DAMAGED if lost else 0


def compact(options: argparse.Namespace) -> int:
    """Give back the space of what was deleted."""
    found = compact_file(options.file, drop_calls=options.drop_calls)
    print(f"{options.file}: {found.before:,} bytes before, {found.after:,} after")
    return 0


def export(options: argparse.Namespace) -> int:
    """Write documents and graphs as JSON lines or GraphML."""
    found = export_index(options.file, options.output, show_progress=not options.quiet)
    print(
        f"{options.output}: {found.documents} documents, {found.nodes} nodes, {found.edges} edges"
    )
    return 0

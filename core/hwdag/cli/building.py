"""The commands that change an index: build, insert, refresh, delete."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hwdag.building.report import BuildReport
from hwdag.cli.inputs import named_documents, reader, writer
from hwdag.cli.options import config_of
from hwdag.config import BuildConfig
from hwdag.errors import InputError
from hwdag.index import HWDAGIndex
from hwdag.lm.heads import HeadFile
from hwdag.store.opening import check_folder, holds_something
from hwdag.text.files import Skipped
from hwdag.types import Document

EXIT_STOPPED = 3
"""A budget was used up: the index is whole, and the same command goes on from there."""


def build(options: argparse.Namespace) -> int:
    """Build or extend an index file; interrupted, it keeps every finished call."""
    config = config_of(BuildConfig.garlic() if options.garlic else BuildConfig(), options)
    if options.head_list is not None and options.edge_heads is None:
        # why: recorded, so that later insertions have edges of the same heads
        config = replace(config, edge_heads=HeadFile.load(options.head_list).pairs)
    check_folder(options.output)
    documents, skipped = named_documents(options)
    is_new = not holds_something(options.output)

    def run() -> tuple[HWDAGIndex, BuildReport]:
        index = HWDAGIndex.from_documents(
            documents,
            **_models(options, options.output),
            config=config,
            path=options.output,
            **_limits(options),
        )
        assert index.report is not None  # from_documents has just made it
        if is_new and not (len(index) or index.report.stopped):
            index.close()
            options.output.unlink()
            raise InputError(f"nothing was built, so there is no {options.output}\n{index.report}")
        return index, index.report

    return _reported(run, options.output, skipped)


def insert(options: argparse.Namespace) -> int:
    """Add documents to an index; an id that is taken by other content is an error."""
    return _changed(options, lambda index, found, _: index.insert(found, **_limits(options)))


def refresh(options: argparse.Namespace) -> int:
    """Add what is new, rebuild what changed; with --prune, delete what is gone."""

    def change(index: HWDAGIndex, found: list[Document], skipped: Sequence[Skipped]) -> BuildReport:
        unread = [Path(file.path).as_posix() for file in skipped]

        def gone(identity: str) -> bool:
            # why: what cannot be read at present, or lies below it, need not be gone
            return not any(identity == path or identity.startswith(f"{path}/") for path in unread)

        return index.refresh(found, prune=options.prune and gone, **_limits(options))

    return _changed(options, change)


def delete(options: argparse.Namespace) -> int:
    """Remove documents with all that was derived from them."""
    with HWDAGIndex.load(options.file) as index:
        for identity in options.documents:
            index.delete(identity)
            print(f"deleted {identity}")
        print(f"{options.file}: {len(index)} documents; `hwdag compact` gives the space back")
    return 0


def _changed(
    options: argparse.Namespace,
    change: Callable[[HWDAGIndex, list[Document], Sequence[Skipped]], BuildReport],
) -> int:
    documents, skipped = named_documents(options)

    def run() -> tuple[HWDAGIndex, BuildReport]:
        index = HWDAGIndex.load(options.file, **_models(options, options.file))
        return index, change(index, documents, skipped)

    return _reported(run, options.file, skipped)


def _reported(
    run: Callable[[], tuple[HWDAGIndex, BuildReport]], file: Path, skipped: Iterable[Skipped]
) -> int:
    try:
        index, report = run()
    except KeyboardInterrupt:
        print(
            f"\n{file} holds every call that was finished; the same command goes on from there",
            file=sys.stderr,
        )
        raise
    report.skipped += [(str(file.path), file.reason) for file in skipped]
    with index:
        print(report)
        print(f"{file}: {len(index)} documents")
    return EXIT_STOPPED if report.stopped else 0


def _models(options: argparse.Namespace, file: Path) -> dict[str, Any]:
    return {
        "writer": writer(options),  # why first: the reader may be loaded here, for minutes
        "reader": reader(options, file),
        "embedder": options.embedder,
    }


def _limits(options: argparse.Namespace) -> dict[str, Any]:
    return {
        "show_progress": not options.quiet,
        "max_tokens": options.max_tokens,
        "max_seconds": options.max_seconds,
    }

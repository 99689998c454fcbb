"""The commands that change an index: build, insert, refresh, delete."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from hwdag.building.report import BuildReport, named
from hwdag.config import BuildConfig
from hwdag.errors import InputError
from hwdag.index import HWDAGIndex
from hwdag.lm.model_file import ModelFile
from hwdag.store.sqlite import check_folder, holds_something
from hwdag.types import Document
from hwdag_app.cli.inputs import named_documents, reader, writer
from hwdag_app.cli.options import config_of
from hwdag_app.cli.spellings import Spellings, is_below
from hwdag_files.read import Skipped

EXIT_STOPPED = 3
"""A limit ended the build; the same command continues it."""


def build(options: argparse.Namespace) -> int:
    """Build or extend an index file. An interrupted build is resumed."""
    config = config_of(BuildConfig(), options)
    if options.head_list is not None and options.edge_heads is None:
        # why: record them, so that later insertions use the same heads
        config = replace(config, edge_heads=ModelFile.load(options.head_list).heads)
    file: Path = options.output or named_after(options.paths)
    check_folder(file)
    documents, skipped = named_documents(options)
    documents, notes = Spellings.of(file).known(documents)
    if options.estimate:
        print(_index(options, config, file).estimate(documents))
        return 0
    is_new = not holds_something(file)
    with _interruptible(file):
        index = HWDAGIndex.from_documents(
            documents, config=config, path=file, **_models(options, file), **_limits(options)
        )
    report = index.report
    assert report is not None  # set by from_documents
    _add_files(report, documents, skipped, notes)
    with index:
        is_empty = is_new and not (len(index) or report.stopped)
        if not is_empty:
            return _reported(index, report, file)
    file.unlink()
    raise InputError(f"nothing was built, so {file} was not created\n{report}")


def _index(options: argparse.Namespace, config: BuildConfig, file: Path) -> HWDAGIndex:
    """Return the index that a build would extend, or an empty one that is no file."""
    if holds_something(file):
        return HWDAGIndex.load(file, config=config, **_models(options, file))
    return HWDAGIndex(config=config, **_models(options, file))


def insert(options: argparse.Namespace) -> int:
    """Add documents to an index. Raises `InputError` if another document has the same id."""
    documents, skipped = named_documents(options)
    documents, notes = Spellings.of(options.file).known(documents)
    with _interruptible(options.file), _loaded(options) as index:
        report = index.insert(documents, **_limits(options))
        _add_files(report, documents, skipped, notes)
        return _reported(index, report, options.file)


def refresh(options: argparse.Namespace) -> int:
    """Add new documents and rebuild changed ones; with --prune, delete missing ones."""
    documents, skipped = named_documents(options)
    spellings = Spellings.of(options.file)
    documents, notes = spellings.known(documents)
    unread = [os.path.normpath(Path.cwd() / file.path) for file in skipped]

    def gone(identity: str) -> bool:
        # why: a file that is unreadable now, or in an unreadable folder, may still exist
        return not any(is_below(place, unread) for place in spellings.places(identity))

    if not options.prune:
        missing = list(filter(gone, spellings.missing(options.paths, documents)))
        if missing:
            others = set(filter(gone, spellings.ids)) - {*missing, *(one.id for one in documents)}
            notes.append(
                f"files that are gone, but not from the index: {named(missing)}; --prune deletes them"
                + (
                    f", and the rest that is not in the given paths: {named(sorted(others))}"
                    if others
                    else ""
                )
            )
    with _interruptible(options.file), _loaded(options) as index:
        report = index.refresh(documents, prune=options.prune and gone, **_limits(options))
        _add_files(report, documents, skipped, notes)
        return _reported(index, report, options.file)


def delete(options: argparse.Namespace) -> int:
    """Remove documents and everything derived from them."""
    with HWDAGIndex.load(options.file) as index:
        for identity in options.documents:
            index.delete(identity)
            print(f"deleted {identity}")
        print(f"{options.file}: {len(index)} documents; `hwdag compact` shrinks the file")
    return 0


@contextmanager
def _interruptible(file: Path) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        print(
            f"\n{file} holds all finished calls; the same command continues",
            file=sys.stderr,
        )
        raise


def _add_files(
    report: BuildReport,
    documents: Sequence[Document],
    skipped: Iterable[Skipped],
    more: Iterable[str],
) -> None:
    """Add to a report the losses of the files, the files that were not read, and more notes."""
    # why a list: --metadata may name its own notes
    notes = {d.id: found for d in documents if isinstance(found := d.metadata["notes"], list)}
    report.skipped = [(key, "; ".join([why, *notes.get(key, ())])) for key, why in report.skipped]
    report.skipped += [(str(one.path), one.reason) for one in skipped]
    own = (f"{key}: {note}" for key in report.built for note in notes.get(key, ()))
    report.notes[:0] = [*more, *own]


def named_after(paths: Sequence[Path]) -> Path:
    """Return the index file for one path, in this folder. Raises `InputError` for several paths."""
    if len(paths) != 1 or not (name := paths[0].resolve().stem):
        raise InputError("name the index file: -o notes.hwdag")
    return Path(f"{name}.hwdag")


def _reported(index: HWDAGIndex, report: BuildReport, file: Path) -> int:
    """Print the result in a sentence, then whatever was lost or limited, then the next command."""
    count = len(index)
    changes = {
        "new or changed": len(report.built),
        "unchanged": len(report.unchanged),
        "deleted": len(report.deleted),
        "skipped": len(report.skipped),
    }
    said = ", ".join(f"{number} {name}" for name, number in changes.items() if number)
    print(f"{file} has {count} document{'s' * (count != 1)}: {said or 'nothing new'}.")
    details = str(report).splitlines()[1:]
    print(
        "".join(f"{line}\n" for line in details if not line.startswith('method "evidence"')), end=""
    )
    if report.stopped:
        return EXIT_STOPPED
    print(f'Ask it: hwdag ask {shlex.quote(str(file))} "..."')
    return 0


def _loaded(options: argparse.Namespace) -> HWDAGIndex:
    return HWDAGIndex.load(options.file, **_models(options, options.file))


def _models(options: argparse.Namespace, file: Path) -> dict[str, Any]:
    return {
        "writer": writer(options),  # why first: loading the reader may take minutes
        "reader": reader(options, file),
        "embedder": options.embedder,
    }


def _limits(options: argparse.Namespace) -> dict[str, Any]:
    return {
        "show_progress": not options.quiet,
        "max_tokens": options.max_tokens,
        "max_seconds": None if options.minutes is None else 60 * options.minutes,
    }

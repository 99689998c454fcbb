"""Models and documents named on the command line."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from hwdag.errors import InputError
from hwdag.lm.base import Reader, Writer
from hwdag.lm.model_file import ModelFile
from hwdag.page import HEAD
from hwdag.store.sqlite import Store, check_folder, holds_something
from hwdag.types import Document
from hwdag_files.read import Skipped, read_documents

MOST_NAMED = 10  # files that a message names

ANSWERER_RETRIES, ANSWERER_TIMEOUT = 2, 120.0
"""In requests and seconds; less than in a build, since a user waits for the answer."""


def check_page(path: Path) -> None:
    """Raise `InputError` if no HTML page can be written; an earlier page is replaced, and nothing else."""
    check_folder(path)
    try:
        with path.open("rb") as file:
            is_page = file.read(len(HEAD)) == HEAD.encode()
    except FileNotFoundError:
        return
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}); name another file") from error
    if not is_page:
        raise InputError(f"{path} exists and is no page of hwdag; name another file for the page")


def reader(options: argparse.Namespace, file: Path | None) -> Reader | str | None:
    """Return the reader named on the command line; None leaves the choice to the index.

    Without a name, dtype, device, card and head list apply to the model of the file, or to the default.
    """
    file_of_card = getattr(options, "card", None)
    card = None if file_of_card is None else ModelFile.load(file_of_card)
    file_of_heads = getattr(options, "head_list", None)
    heads = None if file_of_heads is None else ModelFile.load(file_of_heads)
    if all(one is None for one in (options.dtype, options.device, card, heads)):
        return str(options.reader) if options.reader else None
    from hwdag.lm.default import load_reader

    name = options.reader or None
    if name is None and file is not None and holds_something(file):
        with Store.open(file) as store:
            name = store.header.reader
    found = load_reader(name, dtype=options.dtype, device=options.device)
    found = found if card is None else found.with_card(card)
    return found if heads is None else found.with_heads(heads)


def writer(options: argparse.Namespace) -> Writer | None:
    """Return the model on a server that writes the points, if the command line names one."""
    if options.writer is None:
        if options.writer_url is not None:
            raise InputError("--writer-url needs --writer, the name of a model on that server")
        return None
    return _on_server(options.writer, options.writer_url)


def answerer(options: argparse.Namespace) -> Writer | None:
    """Return the model on a server that answers, if the command line names one."""
    if options.answerer_model is None:
        if options.answerer is not None or options.answerer_key is not None:
            raise InputError(
                "--answerer needs --answerer-model, the name of a model on that server"
            )
        return None
    return _on_server(
        options.answerer_model,
        options.answerer,
        api_key_env=options.answerer_key,
        max_retries=ANSWERER_RETRIES,
        timeout=ANSWERER_TIMEOUT,
    )


def _on_server(model: str, url: str | None, **options: Any) -> Writer:
    try:
        from hwdag.lm.openai_compatible import OpenAIWriter
    except ImportError as error:
        raise InputError(str(error)) from error
    return OpenAIWriter(model, base_url=url, **options)


def read(
    paths: Iterable[Path], *, show_progress: bool = False
) -> tuple[list[Document], list[Skipped]]:
    """Read files and folders; returns the documents and the unreadable files."""
    found = list(read_documents(paths, show_progress=show_progress))
    documents = [item for item in found if isinstance(item, Document)]
    return documents, [item for item in found if isinstance(item, Skipped)]


def named_documents(options: argparse.Namespace) -> tuple[list[Document], list[Skipped]]:
    """Read the documents of the command line, and add its metadata."""
    added = {}
    for pair in options.metadata:
        key, equals, value = pair.partition("=")
        if not key or not equals:
            raise InputError(f"--metadata must be KEY=VALUE, got {pair!r}")
        added[key] = value
    documents, skipped = read(options.paths, show_progress=not options.quiet)
    if not documents:
        reasons = "".join(f"\n  {file.path}: {file.reason}" for file in skipped[:MOST_NAMED])
        raise InputError(f"found no document, so there is nothing to do{reasons}")
    return [replace(d, metadata={**d.metadata, **added}) for d in documents], skipped

"""The models that a command line asks for."""

from __future__ import annotations

import argparse
from pathlib import Path

from hwdag.errors import InputError
from hwdag.lm.base import Reader, Writer
from hwdag.lm.heads import HeadFile
from hwdag.store.opening import holds_something
from hwdag.store.sqlite import Store


def reader(options: argparse.Namespace, file: Path | None) -> Reader | str | None:
    """The reader that was asked for; None leaves it to the index.

    A dtype, a device or heads alone go to the model that the file names, or to the default one.
    """
    heads = head_list(options)
    if options.dtype is None and options.device is None and heads is None:
        return str(options.reader) if options.reader else None
    from hwdag.lm.default import load_reader

    recorded = _built_by(file) if file is not None and holds_something(file) else None
    found = load_reader(options.reader or recorded, dtype=options.dtype, device=options.device)
    return found if heads is None else found.with_heads(heads)


def head_list(options: argparse.Namespace) -> HeadFile | None:
    """The file of retrieval heads, if one was named. Raises `InputError` if it is none."""
    return None if options.head_list is None else HeadFile.load(options.head_list)


def writer(options: argparse.Namespace) -> Writer | None:
    """The server that writes the points, if one was named."""
    if options.writer is None:
        if options.writer_url is not None:
            raise InputError("--writer-url needs --writer, the name of a model on that server")
        return None
    from hwdag.lm.openai_compatible import OpenAIWriter

    try:
        return OpenAIWriter(options.writer, base_url=options.writer_url)
    except ImportError as error:
        raise InputError(str(error)) from error


def _built_by(file: Path) -> str:
    # why for writing: the command opens it so in any case, and an older format is migrated
    with Store.open(file) as store:
        return store.header.reader

"""The models that a command line asks for."""

from __future__ import annotations

import argparse
from pathlib import Path

from hwdag.errors import InputError
from hwdag.lm.base import Reader, Writer
from hwdag.store.sqlite import Store


def reader(options: argparse.Namespace, file: Path | None) -> Reader | str | None:
    """The reader that was asked for; None leaves it to the index.

    A dtype or a device alone go to the model that the file names, or to the default one.
    """
    if options.dtype is None and options.device is None:
        return str(options.reader) if options.reader else None
    from hwdag.lm.default import DEFAULT_MODEL, load_reader

    recorded = _built_by(file) if file is not None and file.exists() else DEFAULT_MODEL
    return load_reader(options.reader or recorded, dtype=options.dtype, device=options.device)


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
    with Store.open(file, readonly=True) as store:
        return store.header.reader

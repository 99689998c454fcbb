"""The documents that a command line names."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from hwdag.errors import InputError
from hwdag.text.files import Skipped, read_documents
from hwdag.types import Document

MOST_NAMED = 10
"""Files that a message names."""


def read(paths: Iterable[Path]) -> tuple[list[Document], list[Skipped]]:
    """Documents of files and folders, and what could not be read."""
    found = list(read_documents(paths))
    documents = [item for item in found if isinstance(item, Document)]
    return documents, [item for item in found if isinstance(item, Skipped)]


def read_given(options: argparse.Namespace) -> tuple[list[Document], list[Skipped]]:
    """As `read`, with the metadata of the command line."""
    added = {}
    for pair in options.metadata:
        key, equals, value = pair.partition("=")
        if not key or not equals:
            raise InputError(f"--metadata must be KEY=VALUE, got {pair!r}")
        added[key] = value
    documents, skipped = read(options.paths)
    if not documents:
        reasons = "".join(f"\n  {file.path}: {file.reason}" for file in skipped[:MOST_NAMED])
        raise InputError(f"no document was found, so nothing is done{reasons}")
    return [replace(d, metadata={**d.metadata, **added}) for d in documents], skipped

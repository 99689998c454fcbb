"""The retrievers that can be saved, by the names that their files are marked with.

retriever = open_retriever("notes.youra")
retriever = retriever_class("gem-rag").from_documents(documents, path="notes.gem-rag")
"""

from __future__ import annotations

from contextlib import closing
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from hwdag.errors import IndexVersionError, InputError, UnknownOption
from hwdag.retrievers.methods import METHODS
from hwdag.retrievers.saved import SavedRetriever
from hwdag.retrievers.saved_file import APPLICATION_ID, SavedFile, SavedHeader
from hwdag.store.opening import holds_something

APPLICATION_ID_AT = 68
"""Where SQLite keeps `application_id`, four bytes, big-endian (its file format, 1.3)."""


def retriever_class(method: str) -> type[SavedRetriever[Any]]:
    """The class of a method. Raises `UnknownOption` for a name that stands for none."""
    if method not in METHODS:
        raise UnknownOption(f"there is no method {method!r}; there are {', '.join(METHODS)}")
    module, name = METHODS[method]
    return cast("type[SavedRetriever[Any]]", getattr(import_module(module), name))


def is_saved_retriever(path: str | Path) -> bool:
    """Whether a file is that of a retriever beside HWDAG, as its first bytes say."""
    path = Path(path)
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            start = file.read(APPLICATION_ID_AT + 4)
    except OSError:  # why: what cannot be read is explained by whoever opens it
        return False
    return start[APPLICATION_ID_AT:] == APPLICATION_ID.to_bytes(4, "big")


def saved_header(path: str | Path) -> SavedHeader:
    """What a file was built with.

    Raises:
        InputError: there is no file.
        NotAnIndex, IndexVersionError, IndexCorrupt: the file cannot be used.
    """
    path = Path(path)
    if not holds_something(path):
        raise InputError(f"there is no file {path}")
    with closing(SavedFile(path)) as file:
        return file.header


def open_retriever(path: str | Path, **options: Any) -> SavedRetriever[Any]:
    """Open the file of a retriever, whichever it is of.

    Args:
        path: what `save`, or `path=` of a constructor, has written.
        options: what `load` of its class takes.

    Raises:
        InputError: there is no file.
        NotAnIndex, IndexVersionError, IndexCorrupt: the file cannot be used.
    """
    method = saved_header(path).method
    if method not in METHODS:
        raise IndexVersionError(
            f"{path} was saved by the method {method!r}, which this hwdag has not; it has "
            f"{', '.join(METHODS)}. Load it with the class that saved it, or upgrade hwdag"
        )
    return retriever_class(method).load(path, **options)

"""The retrievers that can be saved, by the names that their files are marked with.

retriever = open_retriever("notes.youra")
retriever = retriever_class("gem-rag").from_documents(documents, path="notes.gem-rag")
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import fields, replace
from importlib import import_module
from inspect import signature
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

from hwdag.config import refuse
from hwdag.errors import IndexVersionError, InputError, UnknownOption
from hwdag.store.opening import holds_something
from hwdag_lab.methods.methods import METHODS
from hwdag_lab.methods.saved import SavedRetriever
from hwdag_lab.methods.saved_file import APPLICATION_ID, SavedFile, SavedHeader

COMMON_OPTIONS = ("reader", "prompts", "writer", "embedder", "config", "path")
"""Of the constructors: models, the config as a whole, and the file."""

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


def named_options(
    cls: type[SavedRetriever[Any]],
    given: Mapping[str, Any],
    settings: Mapping[str, Any] = MappingProxyType({}),
) -> dict[str, Any]:
    """Options of a constructor from names that stand for them, or for fields of its config.

    Args:
        cls: the class of the retriever.
        given: such as `{"granularity": "sentence"}`, `{"mode": "tree", "chunk_tokens": 100}`.
        settings: of a file, which are what the other fields of a config are taken from.

    Raises:
        UnknownOption: a name that is neither.
        InputError: a value of another kind than the default, or that the config refuses.
    """
    parameters = signature(cls).parameters.values()
    own = {p.name: p.default for p in parameters if p.name not in COMMON_OPTIONS}
    config: Any = cls._options(settings).get("config")
    known = {f.name: getattr(config, f.name) for f in fields(config)} if config else {}
    usual = known | own
    unknown = {name: value for name, value in given.items() if name not in usual}
    refuse(unknown, f"the method {cls.method}", ", ".join([*own, *known]))
    for name, value in given.items():
        _check_kind(name, value, usual[name])
    options = {name: value for name, value in given.items() if name in own}
    if rest := {name: value for name, value in given.items() if name not in own}:
        options["config"] = replace(config, **rest)
    return options


def _check_kind(name: str, value: object, usual: object) -> None:
    """Raise `InputError` for no switch or no number where the default is one."""
    is_switch = isinstance(value, bool)
    if isinstance(usual, bool):
        fits, wanted = is_switch, "true or false"
    else:
        fits = not isinstance(usual, float) or (isinstance(value, int | float) and not is_switch)
        wanted = "a number"
    if not fits:
        raise InputError(f"{name} must be {wanted}, got {value!r}")

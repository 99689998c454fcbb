"""Build, insert, delete, ask and show for the files of the retrievers beside HWDAG."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from inspect import signature
from pathlib import Path
from typing import Any

from hwdag.cli.documents import given
from hwdag.cli.models import reader, writer
from hwdag.config import BuildConfig, SearchConfig
from hwdag.errors import InputError
from hwdag.store.opening import holds_something
from hwdag.trace import render
from hwdag_lab.methods.opening import (
    is_saved_retriever,
    named_options,
    open_retriever,
    retriever_class,
    saved_header,
)
from hwdag_lab.methods.saved import SavedRetriever

Retriever = SavedRetriever[Any]

HWDAG = "hwdag"
"""The method that all other modules of this package are for."""

OF_HWDAG = (
    "points",
    "leaves",
    "chunk_tokens",
    "window_tokens",
    "batch_size",
    "questions",
    "language",
    "corpus_layers",
    "tenant_key",
    "max_tokens",
    "max_seconds",
)
"""Options of `hwdag build` and `hwdag insert` that mean nothing to the other methods."""

OF_THE_WALK = (
    "progress",
    "confidence",
    "patience",
    "scoring",
    "calibration",
    "notebook",
    "tenant",
)
"""Options of `hwdag ask` that mean nothing to the other methods."""


def build(options: argparse.Namespace) -> int:
    """Build or extend a file of `options.method`; interrupted, it keeps every finished document."""
    _refuse_hwdag_options(options)
    file: Path = options.output

    def made() -> Retriever:
        if holds_something(file):
            return opened(options, file)
        cls = retriever_class(options.method)
        return cls(
            path=file, **named_options(cls, _options(options)), **_models(options, file, cls)
        )

    return _changed(options, file, made)


def insert(options: argparse.Namespace) -> int:
    """Add documents to a file."""
    _refuse_hwdag_options(options)
    return _changed(options, options.file, lambda: opened(options, options.file))


def delete(options: argparse.Namespace) -> int:
    """Remove documents with all that was derived from them."""
    retriever = open_retriever(options.file)
    for identity in options.documents:
        retriever.delete(identity)
        print(f"deleted {identity}")
    print(f"{options.file}: {len(retriever.documents)} documents")
    return 0


def show(options: argparse.Namespace) -> int:
    """What a file was built with, and how many nodes each document has."""
    retriever, header = open_retriever(options.file), saved_header(options.file)
    documents = retriever.documents
    if options.document is not None and options.document not in documents:
        raise InputError(f"no document {options.document!r}; there are {', '.join(documents)}")
    shown = [options.document] if options.document else list(documents)
    nodes = {key: retriever.nodes(key) for key in shown}
    models = {"reader": header.reader, "writer": header.writer, "embedder": header.embedder}
    if options.json:
        listed = [{"id": k, "title": documents[k].title, "nodes": len(nodes[k])} for k in shown]
        found = {"method": header.method, "settings": header.settings, **models}
        print(json.dumps({**found, "documents": listed}, ensure_ascii=False, indent=2))
        return 0
    named = ", ".join(f"{role} {name}" for role, name in models.items() if name)
    print(f"{options.file}: {len(documents)} documents, {header.method}, {named}")
    for key in shown:
        print(f"{key}  {documents[key].title!r}: {len(nodes[key])} nodes")
        for node in nodes[key] if options.document else ():
            print(render.node_line(node))
    return 0


def opened(options: argparse.Namespace, file: Path) -> Retriever:
    """The retriever of a file, with the models and the options of the command line."""
    header = saved_header(file)
    method = getattr(options, "method", header.method)
    if method != header.method:
        raise InputError(
            f"{file} is of the method {header.method!r}, not {method!r}; name another file"
        )
    cls = retriever_class(header.method)
    changed = named_options(cls, _options(options), header.settings)
    return open_retriever(file, **changed, **_models(options, file, cls))


def asked(options: argparse.Namespace) -> Retriever:
    """The retriever that `hwdag ask` has to ask. Raises `InputError` for options of the walk."""
    usual = asdict(SearchConfig()) | {"scoring": HWDAG}
    for name in OF_THE_WALK:
        if getattr(options, name) != usual.get(name):
            raise InputError(
                f"{_flag(name)} is for HWDAG, and {options.file} is of another method; leave it out"
            )
    return opened(options, options.file)


def refuse_file(options: argparse.Namespace, file: Path | None) -> None:
    """Raise `InputError` for a file of another method, where a command is for HWDAG alone."""
    if file is not None and is_saved_retriever(file):
        method = saved_header(file).method
        raise InputError(
            f"{file} is of the method {method!r}, not an hwdag index; `hwdag {options.command}` is "
            f"for those. Such files are for `hwdag build --method {method}`, insert, delete, show "
            "and ask"
        )


def refuse_options(options: argparse.Namespace) -> None:
    """Raise `InputError` for an `--option` that was given to HWDAG."""
    if options.option:
        raise InputError(
            "--option is for the methods beside HWDAG; its own options are those that --help lists"
        )


def _changed(options: argparse.Namespace, file: Path, make: Callable[[], Retriever]) -> int:
    documents, skipped = given(options)
    try:
        retriever = make()
        report = retriever.insert(documents, progress=not options.quiet)
    except KeyboardInterrupt:
        print(
            f"\n{file} holds every finished document; the same command goes on from there",
            file=sys.stderr,
        )
        raise
    report.skipped += [(str(file.path), file.reason) for file in skipped]
    print(report)
    print(f"{file}: {len(retriever.documents)} documents")
    return 0


def _models(options: argparse.Namespace, file: Path, cls: type[Retriever]) -> dict[str, Any]:
    """The models that were asked for. Raises `InputError` for one that the method does not use."""
    found = {
        "reader": reader(options, file),
        "writer": writer(options) if "writer" in options else None,
        "embedder": options.embedder,
    }
    asked = {role: model for role, model in found.items() if model is not None}
    for role in asked:
        if role not in signature(cls).parameters:
            raise InputError(f"the method {cls.method} has no {role}; leave --{role} out")
    return asked


def _options(options: argparse.Namespace) -> dict[str, Any]:
    """`--option NAME=VALUE`: a value is JSON where it can be, else text."""
    found = {}
    for pair in options.option:
        name, equals, text = pair.partition("=")
        if not name or not equals:
            raise InputError(f"--option must be NAME=VALUE, got {pair!r}")
        try:
            found[name.replace("-", "_")] = json.loads(text)
        except (ValueError, RecursionError):
            found[name.replace("-", "_")] = text
    return found


def _refuse_hwdag_options(options: argparse.Namespace) -> None:
    """Raise `InputError` for one that was given."""
    for name in OF_HWDAG:
        default = getattr(BuildConfig(), name, None)
        if getattr(options, name, default) != default:
            raise InputError(
                f"{_flag(name)} is an option of HWDAG; other methods take theirs by --option "
                "NAME=VALUE"
            )


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")

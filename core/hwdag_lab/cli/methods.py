"""The command `try`: one question to another method over documents read anew."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hwdag.config import SearchConfig, known_options
from hwdag.errors import InputError
from hwdag.methods import retriever_class
from hwdag_app.cli.asking import print_answer, scope_of
from hwdag_app.cli.inputs import named_documents, reader, writer
from hwdag_app.cli.options import config_of

if TYPE_CHECKING:
    from hwdag_lab.methods.document_retriever import DocumentRetriever


def try_method(options: argparse.Namespace) -> int:
    """Build, or take the build from the cache, and answer the question."""
    config = config_of(SearchConfig(), options)
    scope = scope_of(options)
    cls = retriever_class(options.named)
    retriever = cls(config=config_named(cls, options.option), **_models(options))
    documents, skipped = named_documents(options)
    report = retriever.insert(documents, show_progress=not options.quiet)
    report.skipped += [(str(file.path), file.reason) for file in skipped]
    print(report, file=sys.stderr)
    print_answer(retriever, options, config, scope)
    return 0


def config_named(cls: type[DocumentRetriever[Any]], pairs: Sequence[str]) -> Any:
    """Return the config of a method with the values of `--option NAME=VALUE`.

    A value is JSON if it parses, else text; a number is text if the default is text.

    Raises:
        UnknownOption: the method has no such option.
        InputError: the pair is not NAME=VALUE, or the value is illegal.
    """
    usual, values = cls.Config(), dict[str, Any]()
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not name or not equals:
            raise InputError(f"--option must be NAME=VALUE, got {pair!r}")
        name = name.replace("-", "_")
        is_text = isinstance(getattr(usual, name, None), str)
        found = _json(text)
        values[name] = text if is_text and isinstance(found, int | float) else found
    return cls.Config(**known_options(cls.Config, values))


def _json(text: str) -> Any:
    """Return the value of a JSON text, or any other text as it is."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _models(options: argparse.Namespace) -> dict[str, Any]:
    """Return the models that were asked for."""
    asked = {
        "reader": reader(options, None),
        "writer": writer(options),
        "embedder": options.embedder,
        "cache": options.cache,
    }
    return {role: model for role, model in asked.items() if model is not None}

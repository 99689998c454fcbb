"""The command `try`: one question to another method, over documents that are read anew."""

from __future__ import annotations

import argparse
import json
import sys
from inspect import signature
from typing import Any

from hwdag.cli.asking import print_answer, scope_of
from hwdag.cli.documents import read_given
from hwdag.cli.models import reader, writer
from hwdag.cli.options import config_of
from hwdag.config import SearchConfig
from hwdag.errors import InputError
from hwdag_lab.methods.opening import named_options, retriever_class


def try_method(options: argparse.Namespace) -> int:
    """Build what the method searches, or take it from the cache, and answer the question."""
    config = config_of(SearchConfig(), options)
    scope = scope_of(options)
    cls = retriever_class(options.method)
    settings = named_options(cls, named_values(options.option))
    documents, skipped = read_given(options)
    retriever = cls(path=options.cache, **settings, **_models(options, cls))
    report = retriever.insert(documents, show_progress=not options.quiet)
    report.skipped += [(str(file.path), file.reason) for file in skipped]
    print(report, file=sys.stderr)
    print_answer(retriever, options, config, scope)
    return 0


def named_values(pairs: list[str]) -> dict[str, Any]:
    """Return `--option NAME=VALUE` by name; a value is JSON where it can be, else text."""
    found = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not name or not equals:
            raise InputError(f"--option must be NAME=VALUE, got {pair!r}")
        try:
            found[name.replace("-", "_")] = json.loads(text)
        except (ValueError, RecursionError):
            found[name.replace("-", "_")] = text
    return found


def _models(options: argparse.Namespace, cls: type[Any]) -> dict[str, Any]:
    """The models that were asked for. Raises `InputError` for one that the method does not use."""
    asked = {
        "reader": reader(options, None),
        "writer": writer(options),
        "embedder": options.embedder,
    }
    for role, model in asked.items():
        if model is not None and role not in signature(cls).parameters:
            raise InputError(f"the method {cls.method} has no {role}; leave --{role} out")
    return {role: model for role, model in asked.items() if model is not None}

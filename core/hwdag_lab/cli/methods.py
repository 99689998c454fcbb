"""The command `try`: one question to another method, over documents that are read anew."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from inspect import signature
from typing import Any, get_args, get_type_hints

from hwdag.checks import refuse
from hwdag.cli.asking import print_answer, scope_of
from hwdag.cli.inputs import named_documents, reader, writer
from hwdag.cli.options import config_of
from hwdag.config import SearchConfig
from hwdag.errors import InputError
from hwdag_lab.methods.registry import retriever_class

NO_SETTINGS = ("reader", "models", "config")
"""Options of methods that other options of the command line stand for."""


def try_method(options: argparse.Namespace) -> int:
    """Build what the method searches, or take it from the cache, and answer the question."""
    config = config_of(SearchConfig(), options)
    scope = scope_of(options)
    cls = retriever_class(options.method)
    settings = named_options(options.method, named_values(options.option))
    models = _models(options, cls.uses)
    documents, skipped = named_documents(options)
    retriever = cls(**settings, **models)
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


def named_options(method: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return options of a method's class by names that stand for them, or for fields of its config.

    Raises:
        UnknownOption: a name that is neither.
        InputError: a value of another kind than the default, or that the config refuses.
    """
    cls = retriever_class(method)
    own = parameters(cls)
    config = default_config(method)
    known = {} if config is None else {f.name: getattr(config, f.name) for f in fields(config)}
    usual = known | own
    unknown = {name: value for name, value in values.items() if name not in usual}
    refuse(unknown, f"the method {method}", ", ".join([*own, *known]))
    for name, value in values.items():
        _check_kind(name, value, usual[name])
    options = {name: value for name, value in values.items() if name in own}
    if rest := {name: value for name, value in values.items() if name not in own}:
        options["config"] = replace(config, **rest)
    return options


def default_config(method: str) -> Any:
    """Return the config that a method has by default; None for a method without one."""
    hint = get_type_hints(retriever_class(method).__init__).get("config")
    return next((one() for one in get_args(hint) if one is not type(None)), None)


def parameters(cls: type[Any]) -> dict[str, Any]:
    """Return the defaults of the options of a class, its models and its config apart."""
    found = {name: one.default for name, one in signature(cls).parameters.items()}
    return {name: default for name, default in found.items() if name not in NO_SETTINGS}


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


def _models(options: argparse.Namespace, accepted: Sequence[str]) -> dict[str, Any]:
    """What was asked for. Raises `InputError` for a model that the method does not use."""
    asked = {
        "reader": reader(options, None),
        "writer": writer(options),
        "embedder": options.embedder,
        "cache": options.cache,
    }
    for role, model in asked.items():
        if model is not None and role not in accepted:
            raise InputError(f"the method {options.method} has no {role}; leave --{role} out")
    return {role: model for role, model in asked.items() if model is not None}

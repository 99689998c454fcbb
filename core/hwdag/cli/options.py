"""Options that several commands share, and options that are the fields of a config."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from importlib import import_module
from pathlib import Path
from types import NoneType
from typing import Any, Literal, TypeAlias, TypeVar, get_args, get_origin, get_type_hints

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
Config = TypeVar("Config")

SHORT = {"token_budget": "--budget"}  # second names of options

DOCUMENTED = re.compile(r"^ {8}(\w+): (.*(?:\n {12}.*)*)", re.MULTILINE)
"""A field in the docstring of a config, and what is said about it."""

END_OF_SENTENCE = re.compile(r"(?<=\w[\w)])\.(?:\s|$)")


def lazily(place: str) -> Callable[..., Any]:
    """Return a function that imports `module:function` when it runs: help must not wait for torch."""

    def run(*arguments: Any) -> Any:
        module, _, name = place.partition(":")
        return getattr(import_module(module), name)(*arguments)

    return run


def add_config(
    command: argparse._ActionsContainer,
    config: Any,
    *,
    only: tuple[str, ...] = (),
    prefix: str = "",
) -> None:
    """Add an option for each field of a config, or for those in `only`; the docstring is their help.

    A field that is a config itself has one option for each field of its own, `--FIELD-NAME`. The help
    leaves those out.
    """
    about = dict(DOCUMENTED.findall(type(config).__doc__ or ""))
    hints = get_type_hints(type(config))
    for field in fields(config):
        usual = getattr(config, field.name)
        if only and field.name not in only:
            continue
        if is_dataclass(usual):
            add_config(command, usual, prefix=f"{field.name}_")
            continue
        name, said = prefix + field.name, " ".join(about.get(field.name, "").split())
        first_sentence = END_OF_SENTENCE.split(said)[0].rstrip(".")
        shown = ",".join(map(str, usual)) if isinstance(usual, tuple) else usual
        default = "" if usual in (None, "") else f" (default: {shown})"
        command.add_argument(
            "--" + name.replace("_", "-"),
            *filter(None, [SHORT.get(name)]),
            dest=name,
            help=argparse.SUPPRESS if prefix else (first_sentence + default).replace("%", "%%"),
            **_kind(hints[field.name]),
        )


def config_of(config: Config, options: argparse.Namespace, *, prefix: str = "") -> Config:
    """Return a config, changed as the command line says. Raises `InputError` as the config does."""
    changed: dict[str, Any] = {}
    for field in fields(config):  # type: ignore[arg-type] # a dataclass
        usual = getattr(config, field.name)
        value = getattr(options, prefix + field.name, None)
        if is_dataclass(usual):
            value = config_of(usual, options, prefix=f"{field.name}_")
        if value is not None:
            changed[field.name] = value
    return replace(config, **changed)  # type: ignore[type-var]


def _kind(hint: Any) -> dict[str, Any]:
    """What argparse has to know of a field's type."""
    kinds = [kind for kind in _members(hint) if kind is not NoneType]
    words = [kind for kind in kinds if isinstance(kind, str)]
    if kinds == words:
        return {"choices": words}
    if kinds == [bool]:
        return {"action": argparse.BooleanOptionalAction}
    (kind,) = (kind for kind in kinds if kind not in words)
    read, shown = READERS.get(kind) or (
        lambda text: tuple(tuple(map(int, pair.split("-"))) for pair in text.split(",")),
        "LAYER-HEAD,...",  # such as 8-14,9-2
    )

    def value(text: str) -> Any:
        return text if text in words else read(text)

    # why: argparse names the function in its message, "invalid number value"
    value.__name__ = " or ".join([*words, "number" if kind in (int, float) else shown])
    return {"type": value, "metavar": "|".join([*words, shown])}


def _members(hint: Any) -> list[Any]:
    if get_origin(hint) is Literal:
        return list(get_args(hint))
    if get_origin(hint) is tuple or not get_args(hint):
        return [hint]
    return [member for one in get_args(hint) for member in _members(one)]


READERS: dict[Any, tuple[Callable[[str], Any], str]] = {
    int: (int, "N"),
    float: (float, "X"),
    str: (str, "TEXT"),
    tuple[str, ...]: (lambda text: tuple(filter(None, text.split(","))), "NAME,..."),
    tuple[int, ...]: (lambda text: tuple(map(int, text.split(","))), "N,..."),
}
"""How a type is read, and what stands for it in the help."""


def add_models(
    command: argparse.ArgumentParser, *, writer: bool = True, heads: bool = True
) -> None:
    """Add the options that name models."""
    command.add_argument("--reader", metavar="NAME", help="hub name or path of a causal LM")
    command.add_argument("--dtype", help="of the reader: float32, bfloat16, ... (default: auto)")
    command.add_argument("--device", help="of the reader: cpu, cuda, mps, ... (default: the best)")
    if heads:
        command.add_argument(
            "--head-list",
            metavar="FILE",
            help="retrieval heads of the reader, as `hwdag heads detect` writes them (default: those "
            "that are shipped for it, else all)",
        )
    command.add_argument("--embedder", metavar="NAME", help="sentence-transformers name or path")
    if not writer:
        return
    command.add_argument(
        "--writer", metavar="MODEL", help="who writes the points: a model of an OpenAI-like server"
    )
    command.add_argument(
        "--writer-url",
        metavar="URL",
        help="that server, such as http://localhost:11434/v1 (default: OpenAI's)",
    )


def add_file(command: argparse.ArgumentParser, help: str = "index file") -> None:
    """Add the index file that a command is for."""
    command.add_argument("file", type=Path, metavar="FILE", help=help)


def add_settings(command: argparse.ArgumentParser, group: str, config: Any) -> None:
    """Add a group with the fields of a config, and the switch to the papers' values of them."""
    command.add_argument(
        "--garlic", action="store_true", help="the papers' settings, but for what is set otherwise"
    )
    inner = [field for field in fields(config) if is_dataclass(getattr(config, field.name))]
    more = "; ".join(f"--{field.name}-NAME for each field NAME of {field.type}" for field in inner)
    add_config(command.add_argument_group(group, more or None), config)


def add_paths(command: argparse.ArgumentParser) -> None:
    """Add the documents that a command reads, and what is added to their metadata."""
    command.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="files or folders")
    command.add_argument(
        "--metadata",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a text in the metadata of all these documents (repeatable)",
    )


def add_quiet(command: argparse.ArgumentParser) -> None:
    """Add the switch that leaves out progress bars."""
    command.add_argument("-q", "--quiet", action="store_true", help="no progress bars")


def add_scope(command: argparse.ArgumentParser) -> None:
    """Add the options that say which documents a search may see."""
    command.add_argument(
        "--document", action="append", metavar="ID", help="only this document (repeatable)"
    )
    command.add_argument(
        "--filter", metavar="JSON", help='only documents whose metadata match: {"year": 2020}'
    )


def add_html(command: argparse.ArgumentParser, what: str) -> None:
    """Add the option that writes a page."""
    command.add_argument(
        "--html", type=Path, metavar="FILE", help=f"write a page that shows {what} to FILE as well"
    )


def add_json(command: argparse.ArgumentParser) -> None:
    """Add the switch for output that programs read."""
    command.add_argument("--json", action="store_true", help="one JSON object instead of text")

"""Options of commands: the fields of configs, and tables of options that commands share."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass, replace
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from types import NoneType
from typing import Any, NoReturn, TypeAlias, TypeVar, get_type_hints

from hwdag.config import ANSWERER_TOKENS, MAX_NEW_TOKENS
from hwdag.options import members

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
Options: TypeAlias = "dict[str, dict[str, Any]]"
"""Arguments of `add_argument`, by the names of the option, separated by blanks."""

Config = TypeVar("Config")

HIDDEN = "_groups_of_all_options"
"""Default of a command: the groups that its short help leaves out."""

SHORT = {"token_budget": "--budget"}
"""Second names of options that people use often; the short help shows these."""

DOCUMENTED = re.compile(r"^ {8}(\w+): (.*(?:\n {12}.*)*)", re.MULTILINE)
"""A field in the docstring of a config, and its description."""

END_OF_SENTENCE = re.compile(r"(?<=\w[\w)])\.(?:\s|$)")


def lazily(place: str) -> Callable[..., Any]:
    """Return a function that imports and calls `module:function`, so that help does not import torch."""

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
    """Add an option for each field of a config, or for those in `only`, with help from the docstring.

    A field that is itself a config gets one option, `--FIELD-NAME`, for each of its own fields. The help
    of the command omits them.
    """
    about = dict(DOCUMENTED.findall(type(config).__doc__ or ""))
    hints = get_type_hints(type(config))
    for field in fields(config):
        usual = getattr(config, field.name)
        if only and field.name not in only:
            continue
        if inner := _inner(hints[field.name]):
            add_config(command, inner(), prefix=f"{field.name}_")
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
    """Return a config with the changes of the command line. Raises `InputError` as the config does."""
    changed: dict[str, Any] = {}
    hints = get_type_hints(type(config))
    for field in fields(config):  # type: ignore[arg-type] # a dataclass
        value = getattr(options, prefix + field.name, None)
        if inner := _inner(hints[field.name]):
            value = config_of(inner(), options, prefix=f"{field.name}_")
            value = None if value == inner() else value
        if value is not None:
            changed[field.name] = value
    return replace(config, **changed)  # type: ignore[type-var]


def _inner(hint: Any) -> type[Any] | None:
    """Return the config class of a field, if it has one."""
    return next((kind for kind in members(hint) if is_dataclass(kind)), None)  # type: ignore[return-value]


def _kind(hint: Any) -> dict[str, Any]:
    """Arguments of `add_argument` for a field of this type."""
    kinds = [kind for kind in members(hint) if kind is not NoneType]
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


READERS: dict[Any, tuple[Callable[[str], Any], str]] = {
    int: (int, "N"),
    float: (float, "X"),
    str: (str, "TEXT"),
    tuple[str, ...]: (lambda text: tuple(filter(None, text.split(","))), "NAME,..."),
    tuple[int, ...]: (lambda text: tuple(map(int, text.split(","))), "N,..."),
}
"""How to read a value of a type, and its placeholder in the help."""


class ShortHelp(argparse.Action):
    """Shows the help of a command without the groups of `add_settings`."""

    def __init__(self, option_strings: Sequence[str], dest: str, **about: Any) -> None:
        super().__init__(option_strings, dest, nargs=0, default=argparse.SUPPRESS, **about)

    def __call__(self, parser: argparse.ArgumentParser, *_: Any, **__: Any) -> None:
        """Print the help, and end."""
        hidden = parser.get_default(HIDDEN) or ()
        for group in hidden:
            for action in group._group_actions:
                if action.dest not in SHORT:
                    action.help = argparse.SUPPRESS
            group.title = group.description = None
        if hidden:
            parser.epilog = f"`{parser.prog} --help-all` shows all options."
        parser.print_help()
        parser.exit()


class Parser(argparse.ArgumentParser):
    """Reports an error in one line, with the command that was probably meant."""

    def error(self, message: str) -> NoReturn:
        """Print the message, and end with status 2."""
        if found := re.search(
            r"argument COMMAND: invalid choice: '([^']*)' \(choose from (.*)\)", message
        ):
            known = [name.strip("' ") for name in found[2].split(",")]
            close = get_close_matches(found[1], known, 1)
            message = f"there is no command {found[1]!r}"
            message += f"; did you mean {close[0]}?" if close else ""
        elif found := re.search(r"the following arguments are required: (.*)", message):
            named = (one.metavar or one.dest for one in self._actions if not one.option_strings)
            message = f"{found[1]} is missing; write: {self.prog} {' '.join(map(str, named))}"
        self.exit(2, f"{self.prog}: {message}\n{self.prog} --help shows what there is\n")


def add_options(command: argparse._ActionsContainer, options: Options) -> None:
    """Add options to a command."""
    for names, about in options.items():
        command.add_argument(*names.split(), **about)


def add_command(
    commands: Commands, name: str, place: str, help: str, options: Options, **about: Any
) -> argparse.ArgumentParser:
    """Add a command that runs `module:function`."""
    command = commands.add_parser(name, help=help, add_help=False, **about)
    command.add_argument("-h", "--help", action=ShortHelp, help="show the options that matter most")
    command.add_argument("--help-all", action="help", help="show all options")
    command.set_defaults(run=lazily(place))
    add_options(command, options)
    return command


def add_settings(command: argparse.ArgumentParser, group: str, config: Any) -> None:
    """Add a group with the fields of a config."""
    hints = get_type_hints(type(config))
    more = "; ".join(
        f"--{field.name}-NAME for each field NAME of {kind.__name__}"
        for field in fields(config)
        if (kind := _inner(hints[field.name]))
    )
    made = command.add_argument_group(group, more or None)
    add_config(made, config)
    command.set_defaults(**{HIDDEN: (*(command.get_default(HIDDEN) or ()), made)})


def page_of(what: str) -> Options:
    """Return the option that writes a page of something."""
    about = f"also write a page to FILE that shows {what}"
    return {"--html": {"type": Path, "metavar": "FILE", "help": about}}


FILE: Options = {"file": {"type": Path, "metavar": "FILE", "help": "index file"}}
NEW_FILE: Options = {
    "-o --output": {
        "type": Path,
        "required": True,
        "metavar": "NEW_FILE",
        "help": "file to write; it must not exist",
    }
}
PATHS: Options = {
    "paths": {"nargs": "+", "type": Path, "metavar": "PATH", "help": "files or folders"},
    "--metadata": {
        "action": "append",
        "default": [],
        "metavar": "KEY=VALUE",
        "help": "add a text to the metadata of all these documents (repeatable)",
    },
}
MODELS: Options = {
    "--reader": {"metavar": "NAME", "help": "hub name or path of a causal LM"},
    "--dtype": {"help": "of the reader: float32, bfloat16, ... (default: auto)"},
    "--device": {"help": "of the reader: cpu, cuda, mps, ... (default: the best)"},
    "--embedder": {"metavar": "NAME", "help": "sentence-transformers name or path"},
}
HEAD_LIST: Options = {
    "--head-list": {
        "metavar": "FILE",
        "help": "retrieval heads of the reader, from `hwdag heads detect` (default: the ones shipped for "
        "it, else all)",
    }
}
CARD: Options = {
    "--card": {
        "metavar": "FILE",
        "help": "what the reader can do, from `hwdag probe` (default: the card shipped for it, else what "
        "its size lets assume)",
    }
}
WRITER: Options = {
    "--writer": {
        "metavar": "MODEL",
        "help": "model on an OpenAI-compatible server that writes points",
    },
    "--writer-url": {
        "metavar": "URL",
        "help": "address of that server, such as http://localhost:11434/v1 (default: OpenAI's)",
    },
}
ANSWERER: Options = {
    "--answerer": {
        "metavar": "URL",
        "help": "OpenAI-compatible server that answers from the search results, such as "
        "http://localhost:11434/v1 (default: the reader answers)",
    },
    "--answerer-model": {
        "metavar": "NAME",
        "help": "model on that server (without --answerer: on OpenAI's)",
    },
    "--answerer-key": {
        "metavar": "VARIABLE",
        "help": "environment variable with the key of that server (default: none; for OpenAI's "
        "OPENAI_API_KEY)",
    },
}
LIMITS: Options = {
    "--max-tokens": {"type": int, "metavar": "N", "help": "make no model call after N tokens"},
    "--minutes": {
        "type": float,
        "metavar": "M",
        "help": "leaves first, then points for M minutes; the same command goes on",
    },
}
LENGTH: Options = {
    "--max-new-tokens": {
        "type": int,
        "metavar": "N",
        "help": f"the longest answer (default: {MAX_NEW_TOKENS}, of an answerer {ANSWERER_TOKENS})",
    }
}
"""Length of an answer."""

SCOPE: Options = {
    "--document": {"action": "append", "metavar": "ID", "help": "only this document (repeatable)"},
    "--filter": {
        "metavar": "JSON",
        "help": 'only documents with matching metadata: {"year": 2020}',
    },
}
JSON: Options = {
    "--json": {"action": "store_true", "help": "print one JSON object instead of text"}
}
VERBOSE: Options = {
    "--verbose": {"action": "store_true", "help": "show the walk: every node with its scores"}
}
QUIET: Options = {"-q --quiet": {"action": "store_true", "help": "no progress bars"}}

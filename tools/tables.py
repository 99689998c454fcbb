"""Parts of the documentation that are made from the code: options of dataclasses, help of commands.

A page asks for one with a comment on a line of its own, `<!-- options: hwdag.config.BuildConfig -->`
or `<!-- commands -->`, and `tools/site.py` puts it there when the site is built.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterator
from dataclasses import MISSING, Field, fields, is_dataclass
from importlib import import_module
from typing import Any

from hwdag_app.cli.options import DOCUMENTED
from hwdag_app.main import parser

OPTIONS = re.compile(r"^<!-- options: ([\w.]+) -->$", re.MULTILINE)
COMMANDS = "<!-- commands -->"


def filled(markdown: str) -> str:
    """Put tables and help where a page asks for them."""
    markdown = OPTIONS.sub(lambda found: option_table(found[1]), markdown)
    return markdown.replace(COMMANDS, command_help()) if COMMANDS in markdown else markdown


def option_table(name: str) -> str:
    """Return a Markdown table of the fields of a dataclass, with their descriptions in its docstring.

    Raises:
        KeyError: the docstring does not describe a field.
    """
    module, _, attribute = name.rpartition(".")
    config = getattr(import_module(module), attribute)
    about = dict(DOCUMENTED.findall(config.__doc__ or ""))
    rows = ["| option | default | what it does |", "|---|---|---|"]
    for field in fields(config):
        text = " ".join(about[field.name].split()).replace("|", "\\|")
        text = f"{text[0].upper()}{text[1:]}"
        rows.append(f"| `{field.name}` | {_default(field)} | {text} |")
    return "\n".join(rows)


def _default(field: Field[Any]) -> str:
    if field.default is not MISSING:
        return f"`{field.default!r}`".replace("'", '"')
    if field.default_factory is MISSING:
        return "required"
    made = field.default_factory()
    return f"`{type(made).__name__}()`" if is_dataclass(made) else f"`{made!r}`"


def command_help() -> str:
    """Return the help of every command, as `hwdag COMMAND --help` prints it at 100 columns."""
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = "100"
    try:
        pages = [
            f"### `{name}`\n\n```text\n{command.format_help()}```"
            for name, command in commands("hwdag", parser())
        ]
    finally:
        del os.environ["COLUMNS"]
        if before is not None:
            os.environ["COLUMNS"] = before
    return "\n\n".join(pages)


def commands(
    name: str, parsed: argparse.ArgumentParser
) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Yield a command and all commands of its own, by their full names."""
    yield name, parsed
    for group in parsed._subparsers._group_actions if parsed._subparsers else ():
        for sub, inner in group.choices.items():  # type: ignore[union-attr,attr-defined]
            yield from commands(f"{name} {sub}", inner)

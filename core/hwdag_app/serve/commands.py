"""The commands `serve` and `mcp`, added to those of `hwdag`. Imports nothing heavy, so help is fast."""

from __future__ import annotations

from argparse import ArgumentTypeError
from pathlib import Path

from hwdag.config import SearchConfig
from hwdag.methods import method_names
from hwdag_app.cli.options import (
    ANSWERER,
    CARD,
    FILE,
    HEAD_LIST,
    MODELS,
    SCOPE,
    Commands,
    Options,
    add_command,
    add_config,
    add_options,
    add_settings,
)
from hwdag_app.serve.config import ServerConfig


def port(text: str) -> int:
    """Return a number that a server can listen on."""
    if not text.isdecimal() or not int(text) < 1 << 16:
        raise ArgumentTypeError(f"must be from 0 to 65535, got {text!r}")
    return int(text)


SERVE: Options = {
    "file": {"type": Path, "metavar": "FILE", "help": "index file; a new one begins empty"},
    "--host": {
        "default": "127.0.0.1",
        "help": "address to listen on; beyond this machine clients need a token (default: %(default)s)",
    },
    "--port": {"type": port, "default": 8000, "metavar": "N", "help": "(default: %(default)s)"},
    "--compare": {
        "action": "append",
        "default": [],
        "choices": method_names(),
        "metavar": "METHOD",
        "help": "offer another method too, built when the server starts (repeatable): %(choices)s",
    },
}


def add(commands: Commands) -> None:
    """Add the commands that serve an index."""
    about = "serve a page to ask an index in a browser, and an API like OpenAI's"
    serve = add_command(commands, "serve", "hwdag_app.serve.serving:serve", about, SERVE)
    add_config(serve, ServerConfig(), only=("read_only", "max_upload_bytes", "max_questions"))
    about = (
        "serve an index to agents: search, fetch, answer, outline, list (Model Context Protocol)"
    )
    mcp = add_command(commands, "mcp", "hwdag_app.mcp.commands:mcp", about, FILE | SCOPE)
    for command in (serve, mcp):
        add_options(command, ANSWERER | MODELS | CARD | HEAD_LIST)
        add_settings(command, "the walk", SearchConfig())

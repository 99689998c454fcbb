"""The commands `serve` and `mcp`, added to those of `hwdag`. Imports nothing heavy, so help is fast."""

from __future__ import annotations

from hwdag.cli import options as shared
from hwdag.cli.options import Commands
from hwdag.config import SearchConfig
from hwdag_lab.methods.registry import METHODS
from hwdag_serve.config import ServerConfig


def add(commands: Commands) -> None:
    """Add the commands that serve an index."""
    _add_serve(commands)
    about = "serve an index to agents: search, answer, sources, list (Model Context Protocol)"
    mcp = commands.add_parser("mcp", help=about)
    mcp.set_defaults(run=shared.lazily("hwdag_serve.mcp:mcp"))
    shared.add_file(mcp)
    shared.add_models(mcp, writer=False)
    shared.add_scope(mcp)
    shared.add_settings(mcp, "the walk", SearchConfig())


def _add_serve(commands: Commands) -> None:
    about = "a page to ask an index in a browser, and an API like OpenAI's"
    serve = commands.add_parser("serve", help=about)
    serve.set_defaults(run=shared.lazily("hwdag_serve.serving:serve"))
    shared.add_file(serve, help="index file; one that is not there begins empty")
    serve.add_argument(
        "--host",
        default="127.0.0.1",
        help="address to listen on; beyond this machine a token is asked for (default: %(default)s)",
    )
    serve.add_argument("--port", type=int, default=8000, help="(default: %(default)s)")
    shared.add_config(
        serve, ServerConfig(), only=("read_only", "max_upload_bytes", "max_questions")
    )
    serve.add_argument(
        "--compare",
        action="append",
        default=[],
        choices=METHODS,
        metavar="METHOD",
        help="offer another method too, built when the server starts (repeatable): %(choices)s",
    )
    shared.add_models(serve, writer=False)
    shared.add_settings(serve, "the walk", SearchConfig())

"""The commands for an index and what each of them takes; imports none of what they do."""

from __future__ import annotations

import argparse
from pathlib import Path

from hwdag.cli.options import (
    Commands,
    add_config,
    add_file,
    add_html,
    add_json,
    add_models,
    add_paths,
    add_quiet,
    add_scope,
    lazily,
)
from hwdag.config import BuildConfig, SearchConfig


def add(commands: Commands) -> None:
    """Add the commands for an index."""
    _add_build(commands)
    _add_ask(commands)
    _add_chat(commands)
    _add_serve(commands)
    _add_mcp(commands)
    _add_show(commands)
    _add_insert(commands)
    _add_refresh(commands)
    _add_delete(commands)
    _add_upkeep(commands)
    _add_demo(commands)


def _add_build(commands: Commands) -> None:
    build = commands.add_parser("build", help="build or extend an index file from documents")
    build.set_defaults(run=lazily("hwdag.cli.building:build"))
    add_paths(build)
    build.add_argument("-o", "--output", type=Path, required=True, metavar="FILE")
    _add_building(build)
    _add_build_config(build)


def _add_ask(commands: Commands) -> None:
    ask = commands.add_parser("ask", help="walk an index for a question and answer it")
    ask.set_defaults(run=lazily("hwdag.cli.asking:ask"))
    add_file(ask)
    ask.add_argument("question")
    _add_walk(ask)
    add_json(ask)
    add_html(ask, "the answer, its walk and its sources")


def _add_chat(commands: Commands) -> None:
    chat = commands.add_parser(
        "chat", help="ask question after question; the models are loaded once"
    )
    chat.set_defaults(run=lazily("hwdag.cli.asking:chat"))
    add_file(chat)
    _add_walk(chat)


def _add_serve(commands: Commands) -> None:
    serve = commands.add_parser(
        "serve", help="a page to ask an index in a browser, and an API like OpenAI's"
    )
    serve.set_defaults(run=lazily("hwdag.cli.serving:serve"), others=None)
    add_file(serve, help="index file; one that is not there begins empty")
    serve.add_argument(
        "--host",
        default="127.0.0.1",
        help="address to listen on; beyond this machine a token is asked for (default: %(default)s)",
    )
    serve.add_argument("--port", type=int, default=8000, help="(default: %(default)s)")
    serve.add_argument("--read-only", action="store_true", help="no uploads and no deletions")
    serve.add_argument(
        "--max-upload", type=int, default=50, metavar="MB", help="of one document (default: 50)"
    )
    serve.add_argument(
        "--max-questions",
        type=int,
        default=4,
        metavar="N",
        help="answered at a time, others are told to come back (default: %(default)s)",
    )
    add_models(serve, writer=False)
    _add_garlic(serve)
    add_config(serve.add_argument_group("the walk"), SearchConfig())


def _add_mcp(commands: Commands) -> None:
    mcp = commands.add_parser(
        "mcp",
        help="serve an index to agents: search, answer, sources, list (Model Context Protocol)",
    )
    mcp.set_defaults(run=lazily("hwdag.cli.mcp_server:mcp"))
    add_file(mcp)
    _add_walk(mcp)


def _add_show(commands: Commands) -> None:
    show = commands.add_parser("show", help="what is in an index file; needs no language model")
    show.set_defaults(run=lazily("hwdag.cli.upkeep:show"))
    add_file(show)
    show.add_argument("--document", metavar="ID", help="all nodes of this document")
    add_json(show)
    add_html(show, "the graphs")


def _add_insert(commands: Commands) -> None:
    insert = commands.add_parser("insert", help="add documents to an index file")
    insert.set_defaults(run=lazily("hwdag.cli.building:insert"))
    add_file(insert)
    add_paths(insert)
    _add_building(insert)


def _add_refresh(commands: Commands) -> None:
    refresh = commands.add_parser(
        "refresh", help="bring an index file up to date: only what is new or changed costs anything"
    )
    refresh.set_defaults(run=lazily("hwdag.cli.building:refresh"))
    add_file(refresh)
    add_paths(refresh)
    refresh.add_argument(
        "--prune", action="store_true", help="delete the documents that are not among PATH"
    )
    _add_building(refresh)


def _add_delete(commands: Commands) -> None:
    delete = commands.add_parser(
        "delete", help="remove documents, and all that was derived from them, from an index file"
    )
    delete.set_defaults(run=lazily("hwdag.cli.building:delete"))
    add_file(delete)
    delete.add_argument("documents", nargs="+", metavar="DOC", help="ids, as `hwdag show` has them")


def _add_upkeep(commands: Commands) -> None:
    """`verify`, `repair`, `compact` and `export`."""
    verify = commands.add_parser("verify", help="check every byte of an index file that counts")
    add_file(verify)
    repair = commands.add_parser("repair", help="save the whole documents of a damaged index file")
    add_file(repair)
    repair.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="write there, and leave FILE as it is"
    )
    compact = commands.add_parser("compact", help="give back the space of deleted documents")
    add_file(compact)
    compact.add_argument(
        "--drop-calls",
        action="store_true",
        help="forget finished model calls too: unfinished builds and edits then pay for them again",
    )
    export = commands.add_parser("export", help="write documents and graphs for other programs")
    add_file(export)
    export.add_argument(
        "output", type=Path, metavar="OUTPUT", help="a new file, .jsonl or .graphml"
    )
    for command in (verify, repair, export):
        add_quiet(command)
    for name, command in {
        "verify": verify,
        "repair": repair,
        "compact": compact,
        "export": export,
    }.items():
        command.set_defaults(run=lazily(f"hwdag.cli.upkeep:{name}"))


def _add_demo(commands: Commands) -> None:
    demo = commands.add_parser("demo", help="build an index over hwdag's documentation and ask it")
    demo.set_defaults(run=lazily("hwdag.cli.demo:demo"))
    demo.add_argument("--docs", type=Path, help="folder of documents instead of the shipped ones")
    demo.add_argument("-o", "--output", type=Path, help="index file to keep (default: user cache)")


def _add_building(command: argparse.ArgumentParser) -> None:
    add_models(command)
    command.add_argument(
        "--max-tokens", type=int, metavar="N", help="no further call once the models took so many"
    )
    command.add_argument(
        "--max-seconds", type=float, metavar="S", help="no further call after that time"
    )
    add_quiet(command)


def _add_build_config(command: argparse.ArgumentParser) -> None:
    _add_garlic(command)
    add_config(command.add_argument_group("the graph"), BuildConfig())


def _add_walk(command: argparse.ArgumentParser) -> None:
    add_models(command, writer=False)
    add_scope(command)
    _add_garlic(command)
    add_config(command.add_argument_group("the walk"), SearchConfig())


def _add_garlic(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--garlic", action="store_true", help="the papers' settings, but for what is set otherwise"
    )

"""The commands for an index and what each of them takes; imports none of what they do."""

from __future__ import annotations

import argparse
from pathlib import Path

from hwdag.cli import options as shared
from hwdag.cli.options import Commands
from hwdag.config import BuildConfig, SearchConfig


def add(commands: Commands) -> None:
    """Add the commands for an index."""
    _add_build(commands)
    _add_questions(commands)
    _add_changes(commands)
    _add_upkeep(commands)
    _add_demo(commands)


def _command(
    commands: Commands, name: str, function: str, help: str, *, file: bool = True
) -> argparse.ArgumentParser:
    """Add a command that runs `function`, a place in this package, on an index file."""
    command = commands.add_parser(name, help=help)
    command.set_defaults(run=shared.lazily(f"hwdag.cli.{function}"))
    if file:
        shared.add_file(command)
    return command


def _add_build(commands: Commands) -> None:
    about = "build or extend an index file from documents"
    build = _command(commands, "build", "building:build", about, file=False)
    shared.add_paths(build)
    build.add_argument("-o", "--output", type=Path, required=True, metavar="FILE")
    _add_models_and_limits(build)
    shared.add_settings(build, "the graph", BuildConfig())


def _add_questions(commands: Commands) -> None:
    ask = _command(commands, "ask", "asking:ask", "walk an index for a question and answer it")
    ask.add_argument("question")
    about = "ask question after question; the models are loaded once"
    chat = _command(commands, "chat", "asking:chat", about)
    for command in (ask, chat):
        shared.add_models(command, writer=False)
        shared.add_scope(command)
        shared.add_settings(command, "the walk", SearchConfig())
    shared.add_json(ask)
    shared.add_html(ask, "the answer, its walk and its sources")
    about = "write a page that replays the walk on the graphs of what it read to FILE as well"
    ask.add_argument("--graph", type=Path, metavar="FILE", help=about)


def _add_changes(commands: Commands) -> None:
    insert = _command(commands, "insert", "building:insert", "add documents to an index file")
    about = "bring an index file up to date: only what is new or changed costs anything"
    refresh = _command(commands, "refresh", "building:refresh", about)
    for command in (insert, refresh):
        shared.add_paths(command)
        _add_models_and_limits(command, heads=False)  # those of the build are recorded
    refresh.add_argument(
        "--prune", action="store_true", help="delete the documents that are not among PATH"
    )
    about = "remove documents, and all that was derived from them, from an index file"
    delete = _command(commands, "delete", "building:delete", about)
    delete.add_argument("documents", nargs="+", metavar="DOC", help="ids, as `hwdag show` has them")


def _add_upkeep(commands: Commands) -> None:
    about = "what is in an index file; needs no language model"
    show = _command(commands, "show", "upkeep:show", about)
    show.add_argument("--document", metavar="ID", help="all nodes of this document")
    shared.add_json(show)
    shared.add_html(show, "the graphs")
    about = "check every byte of an index file that counts"
    verify = _command(commands, "verify", "upkeep:verify", about)
    about = "copy the whole documents of a damaged index file to a new one"
    repair = _command(commands, "repair", "upkeep:repair", about)
    repair.add_argument(
        "-o", "--output", type=Path, required=True, metavar="NEW", help="the new index file"
    )
    about = "copy the documents of several index files to a new one"
    merge = _command(commands, "merge", "upkeep:merge", about, file=False)
    merge.add_argument("files", nargs="+", type=Path, metavar="FILE", help="index files, in order")
    merge.add_argument(
        "-o", "--output", type=Path, required=True, metavar="NEW", help="the new index file"
    )
    about = "give back the space of deleted documents"
    compact = _command(commands, "compact", "upkeep:compact", about)
    compact.add_argument(
        "--drop-calls",
        action="store_true",
        help="forget finished model calls too: unfinished builds and edits then pay for them again",
    )
    about = "write documents and graphs for other programs"
    export = _command(commands, "export", "upkeep:export", about)
    export.add_argument(
        "output", type=Path, metavar="OUTPUT", help="a new file, .jsonl or .graphml"
    )
    for command in (verify, repair, merge, export):
        shared.add_quiet(command)


def _add_demo(commands: Commands) -> None:
    about = "build an index over hwdag's documentation and ask it"
    demo = _command(commands, "demo", "demo:demo", about, file=False)
    demo.add_argument("--docs", type=Path, help="folder of documents instead of the shipped ones")
    demo.add_argument("-o", "--output", type=Path, help="index file to keep (default: user cache)")


def _add_models_and_limits(command: argparse.ArgumentParser, *, heads: bool = True) -> None:
    shared.add_models(command, heads=heads)
    command.add_argument(
        "--max-tokens", type=int, metavar="N", help="no further call once the models took so many"
    )
    command.add_argument(
        "--max-seconds", type=float, metavar="S", help="no further call after that time"
    )
    shared.add_quiet(command)

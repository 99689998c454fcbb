"""The commands for an index and their options. Imports nothing heavy, so help is fast."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path

from hwdag.config import BuildConfig, SearchConfig
from hwdag_app.cli.options import (
    ANSWERER,
    CARD,
    FILE,
    HEAD_LIST,
    JSON,
    LENGTH,
    LIMITS,
    MODELS,
    NEW_FILE,
    PATHS,
    QUIET,
    SCOPE,
    VERBOSE,
    WRITER,
    Commands,
    Options,
    add_command,
    add_settings,
    page_of,
)

OUTPUT: Options = {
    "-o --output": {
        "type": Path,
        "metavar": "FILE",
        "help": "index file (default: the name of PATH with .hwdag, in this folder)",
    }
}
ESTIMATE: Options = {
    "--estimate": {
        "action": "store_true",
        "help": "say what the build will cost, and build nothing",
    }
}
PRUNE = {"action": "store_true", "help": "delete the documents that are not in PATH"}
IDS = {"nargs": "+", "metavar": "DOC", "help": "ids from `hwdag show`"}
GRAPH: Options = {
    "--graph": {
        "type": Path,
        "metavar": "FILE",
        "help": "also write a page to FILE that replays the walk on the graphs it read",
    }
}
DROP_CALLS: Options = {
    "--drop-calls": {
        "action": "store_true",
        "help": "delete finished model calls too: unfinished builds and edits pay for them again",
    }
}


def add(commands: Commands) -> None:
    """Add the commands for an index."""
    _add_building(commands)
    _add_asking(commands)
    _add_upkeep(commands)
    about = "ask three questions about a small town, with sources"
    add_command(commands, "demo", "hwdag_app.cli.demo:demo", about, {})


def _add_building(commands: Commands) -> None:
    def add(name: str, about: str, options: Options) -> ArgumentParser:
        return add_command(commands, name, f"hwdag_app.cli.building:{name}", about, options)

    models = MODELS | CARD | WRITER | LIMITS | QUIET
    about = "build or extend an index file from documents"
    build = add("build", about, PATHS | OUTPUT | models | HEAD_LIST | ESTIMATE)
    add_settings(build, "the graph", BuildConfig())
    # why no head list: the heads of the build are recorded
    add("insert", "add documents to an index file", FILE | PATHS | models)
    about = "update an index file; unchanged documents cost nothing"
    add("refresh", about, FILE | PATHS | models | {"--prune": PRUNE})
    about = "remove documents and everything derived from them from an index file"
    add("delete", about, FILE | {"documents": IDS})


def _add_asking(commands: Commands) -> None:
    def add(name: str, about: str, options: Options) -> None:
        options = FILE | options | VERBOSE | ANSWERER | MODELS | CARD | HEAD_LIST | SCOPE | LENGTH
        command = add_command(commands, name, f"hwdag_app.cli.asking:{name}", about, options)
        add_settings(command, "the walk", SearchConfig())

    page = page_of("the answer, its walk and its sources")
    about = "search an index for a question and answer it"
    add(
        "ask",
        about,
        {"question": {"help": "in quotes, if it has several words"}} | JSON | page | GRAPH,
    )
    add("chat", "ask question after question; the models are loaded once", {})


def _add_upkeep(commands: Commands) -> None:
    def add(name: str, about: str, options: Options) -> None:
        add_command(commands, name, f"hwdag_app.cli.upkeep:{name}", about, options)

    document = {"--document": {"metavar": "ID", "help": "all nodes of this document"}}
    about = "show the contents of an index file; needs no language model"
    about_notes = "what was left out, hidden, unreadable or guessed in each file"
    notes = {"--notes": {"action": "store_true", "help": about_notes}}
    add("show", about, FILE | document | notes | JSON | page_of("the graphs"))
    add("verify", "check an index file for damage", FILE | QUIET)
    about = "copy the intact documents of a damaged index file to a new one"
    add("repair", about, FILE | NEW_FILE | QUIET)
    files = {
        "files": {"nargs": "+", "type": Path, "metavar": "FILE", "help": "index files, in order"}
    }
    add("merge", "copy the documents of several index files to a new one", files | NEW_FILE | QUIET)
    embedder = {"--embedder": {**MODELS["--embedder"], "required": True}}
    add("reembed", "embed all nodes of an index file with another model", FILE | embedder | QUIET)
    add("compact", "shrink an index file by the space of deleted documents", FILE | DROP_CALLS)
    output = {"output": {"type": Path, "metavar": "OUTPUT", "help": "new file, .jsonl"}}
    add("export", "write documents and graphs for other programs", FILE | output | QUIET)

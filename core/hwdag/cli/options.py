"""What the commands take, those of the evaluation aside."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from hwdag.config import BuildConfig, Progress, SearchConfig
from hwdag_lab.methods.methods import METHODS

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]


def add_build(commands: Commands) -> None:
    """`hwdag build`."""
    build = commands.add_parser("build", help="build or extend an index file from documents")
    build.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="files or folders")
    build.add_argument("-o", "--output", type=Path, required=True, metavar="FILE")
    build.add_argument(
        "--method",
        choices=("hwdag", *METHODS),
        default="hwdag",
        help="what searches the file (default: %(default)s)",
    )
    _add_method_option(build)
    _add_build_config(build)
    _add_building(build)


def add_insert(commands: Commands) -> None:
    """`hwdag insert`."""
    insert = commands.add_parser("insert", help="add documents to an index file")
    _add_file_and_paths(insert)
    _add_method_option(insert)
    _add_building(insert)


def add_refresh(commands: Commands) -> None:
    """`hwdag refresh`."""
    refresh = commands.add_parser(
        "refresh", help="bring an index file up to date: only what is new or changed costs anything"
    )
    _add_file_and_paths(refresh)
    refresh.add_argument(
        "--prune", action="store_true", help="delete the documents that are not among PATH"
    )
    _add_building(refresh)


def add_delete(commands: Commands) -> None:
    """`hwdag delete`."""
    delete = commands.add_parser(
        "delete", help="remove documents, and all that was derived from them, from an index file"
    )
    delete.add_argument("file", type=Path, metavar="FILE")
    delete.add_argument("documents", nargs="+", metavar="DOC", help="ids, as `hwdag show` has them")


def add_estimate(commands: Commands) -> None:
    """`hwdag estimate`."""
    estimate = commands.add_parser(
        "estimate", help="calls, tokens, TFLOPs and time of a build, before anything is built"
    )
    estimate.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="files or folders")
    estimate.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="the index file that would be extended"
    )
    estimate.add_argument(
        "--no-calibration", action="store_true", help="time nothing, so give no seconds"
    )
    _add_metadata(estimate)
    _add_build_config(estimate)
    add_models(estimate)
    _add_writer(estimate)


def add_upkeep(commands: Commands) -> None:
    """`hwdag verify`, `repair`, `compact`, `export` and `import`."""
    verify = commands.add_parser("verify", help="check every byte of an index file that counts")
    verify.add_argument("file", type=Path, metavar="FILE")
    repair = commands.add_parser("repair", help="save the whole documents of a damaged index file")
    repair.add_argument("file", type=Path, metavar="FILE")
    repair.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="write there, and leave FILE as it is"
    )
    for role in ("reader", "embedder"):
        repair.add_argument(
            f"--{role}", metavar="NAME", help=f"of the {role}, where the file no longer says it"
        )
    compact = commands.add_parser("compact", help="give back the space of deleted documents")
    compact.add_argument("file", type=Path, metavar="FILE")
    compact.add_argument(
        "--drop-calls",
        action="store_true",
        help="forget finished model calls too: unfinished builds and edits then pay for them again",
    )
    export = commands.add_parser("export", help="write an index as JSONL and safetensors files")
    export.add_argument("file", type=Path, metavar="FILE")
    export.add_argument("folder", type=Path, metavar="FOLDER", help="does not exist yet")
    import_ = commands.add_parser("import", help="make an index file of an exported folder")
    import_.add_argument("folder", type=Path, metavar="FOLDER")
    import_.add_argument("-o", "--output", type=Path, required=True, metavar="FILE")
    for command in (verify, repair, export, import_):
        _add_quiet(command)


def add_ask(commands: Commands) -> None:
    """`hwdag ask`."""
    ask = commands.add_parser("ask", help="walk an index for a question and answer it")
    ask.add_argument("file", type=Path, metavar="FILE")
    ask.add_argument("question")
    _add_method_option(ask)
    add_models(ask, heads="auto|all|FILE")
    defaults = SearchConfig()
    ask.add_argument(
        "--budget",
        type=int,
        default=defaults.token_budget,
        metavar="TOKENS",
        help="node tokens put before the model, at most (default: %(default)s)",
    )
    ask.add_argument(
        "--progress",
        choices=get_args(Progress),
        default=defaults.progress,
        help="who says that it is enough (default: %(default)s)",
    )
    ask.add_argument(
        "--confidence",
        type=float,
        metavar="P",
        help="a probability above it counts as a yes (default: the reader's own)",
    )
    ask.add_argument("--patience", type=int, default=defaults.patience, metavar="N")
    ask.add_argument("--max-new-tokens", type=int, default=defaults.max_new_tokens, metavar="N")
    ask.add_argument(
        "--scoring",
        choices=("hwdag", "garlic"),
        default="hwdag",
        help="how the next node is chosen: ours, or the papers' formula (default: %(default)s)",
    )
    ask.add_argument(
        "--calibration",
        choices=("none", "null"),
        default=defaults.calibration,
        help="null: attention counts less what a question without content gets (default: none)",
    )
    ask.add_argument(
        "--notebook",
        type=int,
        default=defaults.notebook,
        metavar="N",
        help="notes of the model that join the question on the way (default: %(default)s)",
    )
    ask.add_argument(
        "--document", action="append", metavar="ID", help="only this document (repeatable)"
    )
    ask.add_argument(
        "--filter", metavar="JSON", help='only documents whose metadata match: {"year": 2020}'
    )
    ask.add_argument("--tenant", metavar="NAME", help="whose documents, if they belong to tenants")
    ask.add_argument("--json", action="store_true", help="one JSON object instead of text")


def add_show(commands: Commands) -> None:
    """`hwdag show`."""
    show = commands.add_parser("show", help="what is in an index file; needs no language model")
    show.add_argument("file", type=Path, metavar="FILE")
    show.add_argument("--document", metavar="ID", help="all nodes of this document")
    show.add_argument("--json", action="store_true", help="JSON instead of text")


def add_demo(commands: Commands) -> None:
    """`hwdag demo`."""
    demo = commands.add_parser("demo", help="build an index over hwdag's documentation and ask it")
    demo.add_argument("--docs", type=Path, help="folder of documents instead of the shipped ones")
    demo.add_argument("-o", "--output", type=Path, help="index file to keep (default: user cache)")


def add_models(command: argparse.ArgumentParser, *, heads: str = "FILE") -> None:
    """The models that a command takes; `heads` names what its option of that name may be."""
    command.add_argument("--reader", metavar="NAME", help="hub name or path of a causal LM")
    command.add_argument("--dtype", help="of the reader: float32, bfloat16, ... (default: its own)")
    command.add_argument("--device", help="of the reader: cpu, cuda, mps, ... (default: the best)")
    command.add_argument(
        "--heads",
        metavar=heads,
        help="retrieval heads of the reader: FILE is what `hwdag heads detect` wrote (default: those "
        "that are shipped for it, else all)",
    )
    command.add_argument("--embedder", metavar="NAME", help="sentence-transformers name or path")


def _add_file_and_paths(command: argparse.ArgumentParser) -> None:
    command.add_argument("file", type=Path, metavar="FILE", help="index file")
    command.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="files or folders")


def _add_method_option(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="of a method beside hwdag, such as granularity=sentence or mode=tree (repeatable)",
    )


def _add_build_config(command: argparse.ArgumentParser) -> None:
    defaults = BuildConfig()
    command.add_argument(
        "--points",
        choices=("auto", "generated", "extractive"),
        default=defaults.points,
        help="who makes the Information Points (default: %(default)s)",
    )
    command.add_argument(
        "--leaves",
        choices=("sentences", "chunks"),
        default=defaults.leaves,
        help="what level 1 consists of; the papers' are chunks (default: %(default)s)",
    )
    command.add_argument("--chunk-tokens", type=int, default=defaults.chunk_tokens, metavar="N")
    command.add_argument("--window-tokens", type=int, default=defaults.window_tokens, metavar="N")
    command.add_argument("--batch-size", type=int, default=defaults.batch_size, metavar="N")
    command.add_argument(
        "--questions",
        type=int,
        default=defaults.questions,
        metavar="N",
        help="questions that each node answers, written and embedded beside it (default: %(default)s)",
    )
    command.add_argument(
        "--language",
        default=defaults.language,
        help='of generated points: "same" or a name (default: %(default)s)',
    )
    command.add_argument(
        "--corpus-layers", action="store_true", help="also make points over several documents"
    )
    command.add_argument(
        "--tenant-key", metavar="NAME", help="metadata field that says whose a document is"
    )


def _add_building(command: argparse.ArgumentParser) -> None:
    _add_metadata(command)
    add_models(command)
    _add_writer(command)
    command.add_argument(
        "--max-tokens", type=int, metavar="N", help="no further call once the models took so many"
    )
    command.add_argument(
        "--max-seconds", type=float, metavar="S", help="no further call after that time"
    )
    _add_quiet(command)


def _add_quiet(command: argparse.ArgumentParser) -> None:
    command.add_argument("-q", "--quiet", action="store_true", help="no progress bars")


def _add_metadata(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--metadata",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a text in the metadata of all these documents, such as their tenant (repeatable)",
    )


def _add_writer(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--writer", metavar="MODEL", help="who writes the points: a model of an OpenAI-like server"
    )
    command.add_argument(
        "--writer-url",
        metavar="URL",
        help="that server, such as http://localhost:11434/v1 (default: OpenAI's)",
    )

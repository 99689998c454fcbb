"""The command line of `hwdag heads`; kept apart, so that help loads no model."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TypeAlias

from hwdag_lab.cli.evaluation_options import limit

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"

LIMIT = 100
"""Questions per data set, unless the command says otherwise."""

BUDGET = 1024
"""Node tokens of a walk, unless the command says otherwise."""


def add_heads(commands: Commands) -> argparse.ArgumentParser:
    """`hwdag heads` with its own commands."""
    command = commands.add_parser(
        "heads", help="which attention heads retrieve: find them in a model, or show a list"
    )
    actions = command.add_subparsers(dest="action", required=True, metavar="ACTION")
    _add_detect(actions)
    _add_calibrate(actions)
    _add_show(actions)
    return command


def _add_detect(actions: Commands) -> None:
    command = actions.add_parser(
        "detect",
        help="find the retrieval heads of a model",
        description="Every head alone ranks the passages of questions whose gold passages are known. "
        "The best heads are written as a small file for --head-list of the other commands, and for "
        "HuggingFaceLM(heads=FILE).",
    )
    _add_model(command)
    command.add_argument(
        "--data",
        nargs="+",
        type=Path,
        required=True,
        metavar="FILE",
        help='JSONL of {"question", "passages", "gold": [indices]}, or data of `hwdag eval` with '
        "paragraphs and evidence",
    )
    command.add_argument(
        "--criterion",
        choices=("qrhead", "ndcg", "core"),
        default="qrhead",
        help="attention to gold passages, nDCG@10, or gold against all others (default: %(default)s)",
    )
    command.add_argument(
        "--top", type=int, default=16, metavar="N", help="heads of the list (default: %(default)s)"
    )
    command.add_argument(
        "--limit",
        type=limit,
        default=64,
        metavar="N",
        help="questions per data set, or all (default: %(default)s)",
    )
    command.add_argument(
        "--subtract-null",
        action=argparse.BooleanOptionalAction,
        default=None,
        help='subtract the attention of the question "N/A" (default: all criteria but core)',
    )
    command.add_argument(
        "--query",
        choices=("first", "last"),
        default="last",
        help="where the question stands; the walk has it first (default: %(default)s)",
    )
    command.add_argument(
        "--max-tokens",
        type=int,
        metavar="N",
        help="leave out questions whose prompt is longer (default: the context of the model)",
    )
    command.add_argument(
        "--malformed",
        choices=("error", "skip"),
        default="error",
        help="what a line that cannot be used does (default: %(default)s)",
    )
    command.add_argument("-o", "--output", type=Path, metavar="FILE", help="where the list goes")
    command.add_argument("-q", "--quiet", action="store_true", help="no progress bar")


def _add_calibrate(actions: Commands) -> None:
    command = actions.add_parser(
        "calibrate",
        help="fit what says that a walk has read enough, and write it into a head file",
        description="Walks questions whose evidence is known up to the token budget, and fits the "
        "controllers of --progress calibrated and head_mass: how likely is it, after each node, that "
        "all evidence was read? Prints how good they are on documents that they were not fitted to. "
        "Started again with the same FILE, it goes on where it was.",
    )
    _add_model(command)
    command.add_argument(
        "--data",
        nargs="+",
        type=Path,
        required=True,
        metavar="DATA",
        help="JSONL files as `hwdag eval` reads them, or folders of them",
    )
    command.add_argument(
        "--heads", type=Path, metavar="FILE", help="head list (default: the one shipped for it)"
    )
    command.add_argument(
        "-o", "--output", type=Path, required=True, metavar="FILE", help="head file to write"
    )
    command.add_argument(
        "--limit",
        type=limit,
        default=LIMIT,
        metavar="N",
        help="questions per data set, or all (default: %(default)s)",
    )
    command.add_argument(
        "--budget",
        type=int,
        default=BUDGET,
        metavar="TOKENS",
        help="node tokens of a walk (default: %(default)s)",
    )
    command.add_argument(
        "--points",
        choices=("auto", "generated", "extractive"),
        default="auto",
        help="Information Points of the graphs that are walked (default: %(default)s)",
    )
    command.add_argument("--embedder", metavar="NAME", help="sentence-transformers name or path")
    command.add_argument(
        "--plot", type=Path, metavar="FILE", help="also draw the reliability curves (.png, .svg)"
    )
    command.add_argument("-q", "--quiet", action="store_true", help="no progress bars")


def _add_model(command: argparse.ArgumentParser) -> None:
    """The model that is looked into, and which questions it gets."""
    command.add_argument(
        "--model",
        metavar="NAME",
        help="hub name or path of a causal LM (default: the embedded one)",
    )
    command.add_argument(
        "--seed", type=int, default=0, metavar="N", help="of the choice of questions"
    )
    command.add_argument("--dtype", help="float32, bfloat16, ... (default: auto)")
    command.add_argument("--device", help="cpu, cuda, mps, ... (default: the best)")


def _add_show(actions: Commands) -> None:
    command = actions.add_parser(
        "show", help="a head list, or all that are shipped; needs no language model"
    )
    command.add_argument(
        "list",
        nargs="?",
        metavar="MODEL|FILE",
        help="name of a model whose list is shipped, or a file (default: all that are shipped)",
    )

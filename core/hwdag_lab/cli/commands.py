"""The lab's commands for `hwdag`; imports nothing that they run, so help is fast."""

from __future__ import annotations

import argparse
from pathlib import Path

from hwdag.config import SearchConfig
from hwdag.methods import method_names
from hwdag_app.cli.options import (
    CARD,
    HEAD_LIST,
    JSON,
    LENGTH,
    MODELS,
    PATHS,
    QUIET,
    SCOPE,
    VERBOSE,
    WRITER,
    Commands,
    add_config,
    add_options,
    lazily,
    page_of,
)
from hwdag_lab.eval.formats import FORMATS
from hwdag_lab.eval.plan import Plan
from hwdag_lab.eval.systems import DEFAULT_SYSTEMS, all_names


def add(commands: Commands) -> None:
    """Add the commands that measure and compare."""
    _add_try(commands)
    _add_eval(commands)
    _add_compare(commands)
    _add_convert(commands)
    _add_probe(commands)
    heads = commands.add_parser("heads", help="find the retrieval heads of a model, or show a list")
    actions = heads.add_subparsers(dest="action", required=True, metavar="ACTION")
    _add_detect(actions)
    _add_show(actions)


def _add_try(commands: Commands) -> None:
    command = commands.add_parser(
        "try",
        help="ask another method about the same documents",
        description="Build what the method searches, ask, and forget it again; with --cache the same "
        "documents cost no model call the next time.",
    )
    command.set_defaults(run=lazily("hwdag_lab.cli.methods:try_method"))
    command.add_argument("named", choices=method_names(), metavar="METHOD", help="%(choices)s")
    add_options(command, PATHS)
    command.add_argument("-Q", "--question", required=True)
    command.add_argument(
        "--cache",
        type=Path,
        metavar="FILE",
        help="keeps finished model calls, for the next question",
    )
    command.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="option of the method, such as granularity=sentence or mode=tree (repeatable)",
    )
    add_options(command, MODELS | CARD | HEAD_LIST | WRITER | SCOPE | LENGTH | VERBOSE)
    add_config(command, SearchConfig(), only=("token_budget", "heads"))
    add_options(command, JSON | page_of("the answer and its sources") | QUIET)


def _add_eval(commands: Commands) -> None:
    command = commands.add_parser(
        "eval",
        help="compare HWDAG with its alternatives on questions with gold answers",
        description="Run systems on the same questions with the same reader and token budgets. "
        "Started again with the same folder, it does what is left: systems and budgets may be "
        "added, and the limit may be raised.",
        epilog=f"systems: {all_names()}. bm25 and dense alone run every granularity; +title "
        "searches each passage behind its heading.",
    )
    command.set_defaults(run=lazily("hwdag_lab.cli.evaluation:evaluate"))
    command.add_argument(
        "data", nargs="+", type=Path, metavar="DATA", help="JSONL files, or folders of them"
    )
    command.add_argument("-o", "--output", type=Path, required=True, metavar="DIR")
    plan = Plan(DEFAULT_SYSTEMS)
    asked = ("systems", "budgets", "max_new_tokens", "answers", "match", "retry_errors")
    add_config(command, plan, only=asked)
    _add_choice(command, plan.limit)
    add_options(command, MODELS | HEAD_LIST)
    command.add_argument(
        "--writer",
        metavar="NAME",
        help="another model to write points and summaries (default: the reader)",
    )
    command.add_argument(
        "--dense-model",
        metavar="NAME",
        help="embedder of the dense systems only (default: that of all)",
    )
    _add_malformed(command)
    add_options(command, QUIET)


def _add_compare(commands: Commands) -> None:
    command = commands.add_parser(
        "compare",
        help="compare two runs, or two systems of one run",
        description="Paired bootstrap over the questions that both sides were asked, per data set "
        "and budget. The difference is the first minus the second.",
    )
    command.set_defaults(run=lazily("hwdag_lab.cli.evaluation:compare_runs"))
    command.add_argument("folders", nargs="+", type=Path, metavar="DIR", help="one or two runs")
    command.add_argument(
        "--system",
        action="append",
        default=[],
        metavar="NAME",
        help="system of both runs, or one per side if given twice (default: all common ones)",
    )
    command.add_argument(
        "--metric",
        action="append",
        default=[],
        metavar="NAME",
        help="such as f1, accuracy, paragraph_half (repeatable; default: one of answers, one of "
        "evidence)",
    )


def _add_convert(commands: Commands) -> None:
    command = commands.add_parser(
        "convert", help="convert official files of public data sets to JSONL for eval"
    )
    command.set_defaults(run=lazily("hwdag_lab.cli.evaluation:convert_data"))
    command.add_argument("format", choices=FORMATS, metavar="FORMAT", help="%(choices)s")
    command.add_argument("source", type=Path, metavar="SOURCE", help="file")
    command.add_argument("-o", "--output", type=Path, required=True, metavar="FILE")
    _add_malformed(command)


def _add_probe(commands: Commands) -> None:
    command = commands.add_parser(
        "probe",
        help="measure what a model can do as a reader, and write its card",
        description="On invented texts: the share of usable points, AUC of p_yes, how often the "
        "heaviest edge meets the source, and the best heads. The card is a small file for "
        "--card of the other commands, and for HuggingFaceLM(card=FILE).",
    )
    command.set_defaults(run=lazily("hwdag_lab.cli.probe:run"))
    command.add_argument("--model", required=True, metavar="NAME", help="hub name or path")
    command.add_argument("-o", "--output", type=Path, required=True, metavar="CARD")
    command.add_argument("--dtype", help="float32, bfloat16, ... (default: auto)")
    command.add_argument("--device", help="cpu, cuda, mps, ... (default: the best)")
    add_options(command, QUIET)


def _add_detect(actions: Commands) -> None:
    command = actions.add_parser(
        "detect",
        help="find the retrieval heads of a model",
        description="Every head alone ranks the passages of questions whose gold passages are known. "
        "The best heads are written as a small file for --head-list of the other commands, and for "
        "HuggingFaceLM(heads=FILE).",
    )
    command.set_defaults(run=lazily("hwdag_lab.cli.heads:detect"))
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
    _add_choice(command, 64)
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
        "--subtract-null",
        action=argparse.BooleanOptionalAction,
        default=None,
        help='subtract the attention of the question "N/A" (default: all criteria but core)',
    )
    command.add_argument(
        "--query",
        choices=("first", "last"),
        default="last",
        help="position of the question; the walk has it first (default: %(default)s)",
    )
    command.add_argument(
        "--max-tokens",
        type=int,
        metavar="N",
        help="leave out questions whose prompt is longer (default: the context of the model)",
    )
    _add_malformed(command)
    command.add_argument("-o", "--output", type=Path, metavar="FILE", help="where the list goes")
    add_options(command, QUIET)


def _add_show(actions: Commands) -> None:
    command = actions.add_parser(
        "show", help="a head list, or all that are shipped; needs no language model"
    )
    command.set_defaults(run=lazily("hwdag_lab.cli.heads:show"))
    command.add_argument(
        "list",
        nargs="?",
        metavar="MODEL|FILE",
        help="name of a model whose list is shipped, or a file (default: all that are shipped)",
    )


def _add_model(command: argparse.ArgumentParser) -> None:
    """Add the options for the model to inspect."""
    command.add_argument(
        "--model",
        metavar="NAME",
        help="hub name or path of a causal LM (default: the embedded one)",
    )
    command.add_argument("--dtype", help="float32, bfloat16, ... (default: auto)")
    command.add_argument("--device", help="cpu, cuda, mps, ... (default: the best)")


def _add_choice(command: argparse.ArgumentParser, limit: int | None) -> None:
    """Add the options for the choice of questions."""
    command.add_argument(
        "--limit",
        type=_limit,
        default=limit,
        metavar="N",
        help="questions per data set, or all (default: %(default)s)",
    )
    command.add_argument(
        "--seed", type=int, default=0, metavar="N", help="seed of the choice of questions"
    )


def _add_malformed(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--malformed",
        choices=("error", "skip"),
        default="error",
        help="what to do with a malformed record (default: %(default)s)",
    )


def _limit(text: str) -> int | None:
    return None if text == "all" else int(text)


_limit.__name__ = "number"  # why: argparse names the function in its message

"""The command line of `eval`, `compare` and `convert`; kept apart, so that help loads no model."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TypeAlias

from hwdag_lab.eval.formats import FORMATS
from hwdag_lab.eval.plan import Plan
from hwdag_lab.eval.systems import DEFAULT_SYSTEMS, listed

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def add_eval(commands: Commands) -> argparse.ArgumentParser:
    """`hwdag eval`, without the options of the models that it shares with other commands."""
    command = commands.add_parser(
        "eval",
        help="run HWDAG beside what one would use instead, on questions with gold answers",
        description="Run systems on the same questions with the same reader and token budgets. "
        "Started again with the same folder, it does what is left: systems and budgets may be "
        "added, and the limit may be raised.",
        epilog=f"systems: {listed()}. bm25 and dense alone stand for every granularity; +title "
        "searches each passage behind its heading; hwdag/patience=N stops after N times yes.",
    )
    command.add_argument(
        "data", nargs="+", type=Path, metavar="DATA", help="JSONL files, or folders of them"
    )
    command.add_argument("-o", "--output", type=Path, required=True, metavar="DIR")
    _add_plan(command)
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
    command.add_argument("-q", "--quiet", action="store_true", help="no progress bars")
    return command


def add_compare(commands: Commands) -> argparse.ArgumentParser:
    """`hwdag compare`."""
    command = commands.add_parser(
        "compare",
        help="whether two runs, or two systems of one run, differ",
        description="Paired bootstrap over the questions that both sides were asked, per data set "
        "and budget. The difference is the first minus the second.",
    )
    command.add_argument("folders", nargs="+", type=Path, metavar="DIR", help="one or two runs")
    command.add_argument(
        "--system",
        action="append",
        default=[],
        metavar="NAME",
        help="of both runs, or given twice: one for each side (default: all that both have)",
    )
    command.add_argument(
        "--metric",
        action="append",
        default=[],
        metavar="NAME",
        help="such as f1, accuracy, paragraph_half (repeatable; default: one of answers, one of "
        "evidence)",
    )
    return command


def add_convert(commands: Commands) -> argparse.ArgumentParser:
    """`hwdag convert`."""
    command = commands.add_parser(
        "convert", help="official files of public data sets to the JSONL that eval reads"
    )
    command.add_argument("format", choices=FORMATS, metavar="FORMAT", help="%(choices)s")
    command.add_argument("source", type=Path, metavar="SOURCE", help="file")
    command.add_argument("-o", "--output", type=Path, required=True, metavar="FILE")
    _add_malformed(command)
    return command


def _add_plan(command: argparse.ArgumentParser) -> None:
    defaults = Plan(systems=DEFAULT_SYSTEMS)
    command.add_argument(
        "--systems",
        type=_names,
        default=list(defaults.systems),
        metavar="NAME,...",
        help=f"rows of the tables, see below (default: {','.join(defaults.systems)})",
    )
    command.add_argument(
        "--budgets",
        type=_numbers,
        default=list(defaults.budgets),
        metavar="N,...",
        help=f"node tokens before the reader (default: {','.join(map(str, defaults.budgets))})",
    )
    command.add_argument(
        "--limit",
        type=limit,
        default=defaults.limit,
        metavar="N",
        help="questions per data set, or all (default: %(default)s)",
    )
    command.add_argument("--seed", type=int, default=defaults.seed, metavar="N")
    command.add_argument(
        "--answers",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="decode answers, or measure the retrieval alone",
    )
    command.add_argument(
        "--answer-budgets",
        type=_numbers,
        metavar="N,...",
        help="decode answers at these budgets only",
    )
    command.add_argument("--max-new-tokens", type=int, default=defaults.max_new_tokens, metavar="N")
    command.add_argument(
        "--match",
        default="",
        metavar="NAME",
        help="also ask every other system at the mean number of node tokens that this one read "
        "before it stopped, per data set and budget (such as hwdag)",
    )
    command.add_argument(
        "--retry-errors", action="store_true", help="ask again what ended in an error"
    )


def _add_malformed(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--malformed",
        choices=("error", "skip"),
        default="error",
        help="what a record that cannot be used does (default: %(default)s)",
    )


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _numbers(text: str) -> list[int]:
    return [int(number) for number in _names(text)]


def limit(text: str) -> int | None:
    """A number of questions; None for `all`."""
    return None if text == "all" else int(text)


# why: argparse names the function in its message, "invalid _numbers value"
_numbers.__name__, limit.__name__ = "list of numbers", "number"

"""The lab's commands, which join those of `hwdag`; imports none of what they do."""

from __future__ import annotations

from pathlib import Path

from hwdag.cli.options import (
    Commands,
    add_config,
    add_html,
    add_json,
    add_models,
    add_paths,
    add_quiet,
    add_scope,
    lazily,
)
from hwdag.config import SearchConfig
from hwdag_lab.cli.evaluation_options import add_compare, add_convert, add_eval
from hwdag_lab.cli.heads_options import add_heads
from hwdag_lab.methods.registry import METHODS


def add(commands: Commands) -> None:
    """Add the commands that measure and compare."""
    _add_try(commands)
    _add_beside(commands)
    evaluation = add_eval(commands)
    add_models(evaluation, writer=False)
    evaluation.set_defaults(run=lazily("hwdag_lab.cli.evaluation:evaluate"))
    add_compare(commands).set_defaults(run=lazily("hwdag_lab.cli.evaluation:compare_runs"))
    add_convert(commands).set_defaults(run=lazily("hwdag_lab.cli.evaluation:convert_data"))
    add_heads(commands).set_defaults(run=lazily("hwdag_lab.cli.heads:heads"))


def _add_beside(commands: Commands) -> None:
    """Other methods on the page of `hwdag serve`, for the same question."""
    serve = commands.choices["serve"]
    serve.add_argument(
        "--beside",
        action="append",
        default=[],
        choices=METHODS,
        metavar="METHOD",
        help="another method to compare with, built when the server starts (repeatable): %(choices)s",
    )
    serve.set_defaults(others=lazily("hwdag_lab.cli.serving:others"))


def _add_try(commands: Commands) -> None:
    command = commands.add_parser(
        "try",
        help="ask what another method answers, over the same documents",
        description="Build what the method searches, ask, and forget it again; with --cache the same "
        "documents cost no model call the next time.",
    )
    command.set_defaults(run=lazily("hwdag_lab.cli.trying:try_method"))
    command.add_argument("method", choices=METHODS, metavar="METHOD", help="%(choices)s")
    add_paths(command)
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
        help="of the method, such as granularity=sentence or mode=tree (repeatable)",
    )
    add_models(command)
    add_scope(command)
    add_config(command, SearchConfig(), only=("token_budget", "heads", "max_new_tokens"))
    add_json(command)
    add_html(command, "the answer and its sources")
    add_quiet(command)

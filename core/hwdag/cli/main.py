"""The command `hwdag`: parses the command line and turns errors into messages."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence

from hwdag.cli.options import (
    add_ask,
    add_build,
    add_delete,
    add_demo,
    add_estimate,
    add_insert,
    add_models,
    add_refresh,
    add_show,
    add_upkeep,
)
from hwdag.cli.terminal import visible_output
from hwdag.errors import HWDAGError
from hwdag.text.characters import visible
from hwdag.version import __version__
from hwdag_lab.cli.evaluation_options import add_compare, add_convert, add_eval
from hwdag_lab.cli.heads_options import add_heads

EXIT_ERROR = 2
EXIT_INTERRUPTED = 130
EXIT_PIPE = 141


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status.

    0 is success, 1 a damaged index (`verify`, `repair`), 2 an error of hwdag (the message is on
    standard error), 3 a budget that was used up, 130 an interruption.
    """
    options = parser().parse_args(arguments)
    options.arguments = list(sys.argv[1:] if arguments is None else arguments)
    try:
        with visible_output():
            return _command(options.command)(options)
    except HWDAGError as error:
        print(f"hwdag: {visible(str(error))}", file=sys.stderr)
        return EXIT_ERROR
    except BrokenPipeError:  # whoever read the output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_PIPE
    except KeyboardInterrupt:
        print("hwdag: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED


def _command(name: str) -> Callable[[argparse.Namespace], int]:
    # imported here: `hwdag --help` must not wait for torch
    if name in ("eval", "compare", "convert"):
        from hwdag_lab.cli import evaluation

        return {
            "eval": evaluation.evaluate,
            "compare": evaluation.compare_runs,
            "convert": evaluation.convert_data,
        }[name]
    if name == "heads":
        from hwdag_lab.cli.heads import heads

        return heads
    from hwdag.cli import asking, building, demo, upkeep

    return {
        "build": building.build,
        "insert": building.insert,
        "refresh": building.refresh,
        "delete": building.delete,
        "estimate": building.estimate,
        "ask": asking.ask,
        "show": asking.show,
        "verify": upkeep.verify,
        "repair": upkeep.repair,
        "compact": upkeep.compact,
        "export": upkeep.export,
        "import": upkeep.import_,
        "demo": demo.demo,
    }[name]


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    top = argparse.ArgumentParser(
        prog="hwdag",
        description="Answer questions over long documents: the language model's own attention "
        "becomes a graph, and the model walks it.",
    )
    top.add_argument("--version", action="version", version=f"hwdag {__version__}")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    add_build(commands)
    add_ask(commands)
    add_show(commands)
    add_insert(commands)
    add_refresh(commands)
    add_delete(commands)
    add_estimate(commands)
    add_upkeep(commands)
    add_demo(commands)
    add_models(add_eval(commands))
    add_compare(commands)
    add_convert(commands)
    add_heads(commands)
    return top


if __name__ == "__main__":
    sys.exit(main())

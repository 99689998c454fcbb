"""The command `hwdag`: parses the command line and turns errors into messages."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from hwdag.cli.evaluation_options import add_compare, add_convert, add_eval
from hwdag.config import BuildConfig, SearchConfig
from hwdag.errors import HWDAGError
from hwdag.version import __version__

EXIT_ERROR = 2
EXIT_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status.

    0 is success, 2 an error of hwdag (the message is on standard error), 130 an interruption.
    """
    options = parser().parse_args(arguments)
    options.arguments = list(sys.argv[1:] if arguments is None else arguments)
    try:
        return _command(options.command)(options)
    except HWDAGError as error:
        print(f"hwdag: {error}", file=sys.stderr)
        return EXIT_ERROR
    except KeyboardInterrupt:
        print("hwdag: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED


def _command(name: str) -> Callable[[argparse.Namespace], int]:
    # imported here: `hwdag --help` must not wait for torch
    if name in ("eval", "compare", "convert"):
        from hwdag.cli import evaluation

        return {
            "eval": evaluation.evaluate,
            "compare": evaluation.compare_runs,
            "convert": evaluation.convert_data,
        }[name]
    from hwdag.cli import commands, demo

    return {
        "build": commands.build,
        "ask": commands.ask,
        "show": commands.show,
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
    _add_build(commands)
    _add_ask(commands)
    _add_show(commands)
    demo = commands.add_parser("demo", help="build an index over hwdag's documentation and ask it")
    demo.add_argument("--docs", type=Path, help="folder of documents instead of the shipped ones")
    demo.add_argument("-o", "--output", type=Path, help="index file to keep (default: user cache)")
    _add_models(add_eval(commands))
    add_compare(commands)
    add_convert(commands)
    return top


def _add_build(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    build = commands.add_parser("build", help="build or extend an index file from documents")
    build.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="files or folders")
    build.add_argument("-o", "--output", type=Path, required=True, metavar="FILE")
    _add_models(build)
    defaults = BuildConfig()
    build.add_argument(
        "--points",
        choices=("auto", "generated", "extractive"),
        default=defaults.points,
        help="who makes the Information Points (default: %(default)s)",
    )
    build.add_argument(
        "--leaves",
        choices=("sentences", "chunks"),
        default=defaults.leaves,
        help="what level 1 consists of; the papers' are chunks (default: %(default)s)",
    )
    build.add_argument("--chunk-tokens", type=int, default=defaults.chunk_tokens, metavar="N")
    build.add_argument("--window-tokens", type=int, default=defaults.window_tokens, metavar="N")
    build.add_argument("--batch-size", type=int, default=defaults.batch_size, metavar="N")
    build.add_argument(
        "--language",
        default=defaults.language,
        help='of generated points: "same" or a name (default: %(default)s)',
    )
    build.add_argument("-q", "--quiet", action="store_true", help="no progress bars")


def _add_ask(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    ask = commands.add_parser("ask", help="walk an index for a question and answer it")
    ask.add_argument("file", type=Path, metavar="FILE")
    ask.add_argument("question")
    _add_models(ask)
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
        choices=("auto", "p_yes", "budget"),
        default=defaults.progress,
        help="who says that it is enough (default: %(default)s)",
    )
    ask.add_argument("--confidence", type=float, default=defaults.confidence, metavar="P")
    ask.add_argument("--patience", type=int, default=defaults.patience, metavar="N")
    ask.add_argument("--max-new-tokens", type=int, default=defaults.max_new_tokens, metavar="N")
    ask.add_argument("--heads", choices=("auto", "all"), default="auto")
    ask.add_argument(
        "--scoring",
        choices=("hwdag", "garlic"),
        default="hwdag",
        help="how the next node is chosen: ours, or the papers' formula (default: %(default)s)",
    )
    ask.add_argument(
        "--document", action="append", metavar="ID", help="only this document (repeatable)"
    )
    ask.add_argument("--json", action="store_true", help="one JSON object instead of text")


def _add_show(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    show = commands.add_parser("show", help="what is in an index file; needs no language model")
    show.add_argument("file", type=Path, metavar="FILE")
    show.add_argument("--document", metavar="ID", help="all nodes of this document")
    show.add_argument("--json", action="store_true", help="JSON instead of text")


def _add_models(command: argparse.ArgumentParser) -> None:
    command.add_argument("--reader", metavar="NAME", help="hub name or path of a causal LM")
    command.add_argument("--dtype", help="of the reader: float32, bfloat16, ... (default: its own)")
    command.add_argument("--device", help="of the reader: cpu, cuda, mps, ... (default: the best)")
    command.add_argument("--embedder", metavar="NAME", help="sentence-transformers name or path")


if __name__ == "__main__":
    sys.exit(main())

"""The command `hwdag`: parse the command line, and turn errors into messages."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib.metadata import entry_points

from hwdag.errors import HWDAGError
from hwdag.text.characters import visible
from hwdag.version import __version__
from hwdag_app.cli import commands
from hwdag_app.cli.options import Parser
from hwdag_app.cli.terminal import visible_output
from hwdag_app.serve import commands as serve_commands

EXIT_ERROR = 2
EXIT_INTERRUPTED = 130
EXIT_PIPE = 141

PLUGINS = "hwdag.commands"
"""Group of entry points that add commands. Each is a function of the value that `add_subparsers` returns.

A command sets `run` to a function from the parsed options to the exit status. `hwdag --help` calls the
entry points too, so they import heavy modules only when a command runs.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status.

    0 is success, 1 a damaged index (`verify`, `repair`), 2 an error of hwdag or of a file (with a
    message on standard error), 3 a limit that ended a build, 130 an interruption.
    """
    options = parser().parse_args(arguments)
    options.arguments = list(sys.argv[1:] if arguments is None else arguments)
    try:
        with visible_output():
            status: int = options.run(options)
            return status
    except BrokenPipeError:  # the reader of the output has left, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_PIPE
    except (HWDAGError, OSError) as error:  # OSError: a file named there, as a rule
        print(f"hwdag: {visible(str(error))}", file=sys.stderr)
        return EXIT_ERROR
    except KeyboardInterrupt:
        print("hwdag: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED


def parser() -> argparse.ArgumentParser:
    """Return the whole command line, with the commands of other packages."""
    top: argparse.ArgumentParser = Parser(
        prog="hwdag",
        description="Ask questions about long documents, and get answers with the exact sentences that "
        "support them.",
    )
    top.add_argument("--version", action="version", version=f"hwdag {__version__}")
    added = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add(added)
    serve_commands.add(added)
    for plugin in sorted(entry_points(group=PLUGINS)):
        plugin.load()(added)
    return top


if __name__ == "__main__":
    sys.exit(main())

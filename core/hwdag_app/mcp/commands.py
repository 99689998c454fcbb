"""The command `mcp`: serve an index on standard input and output."""

from __future__ import annotations

import argparse
import sys
from contextlib import redirect_stdout

from hwdag.errors import InputError
from hwdag_app.cli.asking import opened, scope_of, search_config


def mcp(options: argparse.Namespace) -> int:
    """Serve until the input ends."""
    config, scope = search_config(options), scope_of(options)
    try:
        from hwdag_app.mcp.server import server
    except ImportError as error:
        raise InputError(
            f'hwdag mcp needs the package mcp, 2.3 or newer: pip install "hwdag[mcp]" ({error})'
        ) from error
    with (
        opened(options, scope) as index,
        redirect_stdout(
            sys.__stdout__
        ),  # why: the protocol writes bytes, and nothing else is printed
    ):
        server(index, config, scope).run("stdio")
    return 0

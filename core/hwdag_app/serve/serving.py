"""The command `serve`: an index over HTTP."""

from __future__ import annotations

import argparse
import os
import secrets
import socket
import sys
from collections.abc import Mapping
from typing import Any

from hwdag.errors import InputError
from hwdag.index import HWDAGIndex
from hwdag.methods import retriever_class
from hwdag.retriever import Retriever
from hwdag.store.sqlite import check_folder, holds_something
from hwdag_app.cli.asking import search_config
from hwdag_app.cli.inputs import answerer, reader
from hwdag_app.cli.options import config_of
from hwdag_app.serve.config import is_loopback
from hwdag_app.warming import warm

TOKEN = "HWDAG_TOKEN"  # an environment variable: other users can read a command line


def serve(options: argparse.Namespace) -> int:
    """Serve an index until the process ends; a file that does not exist begins empty."""
    try:
        import uvicorn

        from hwdag_app.serve.application import ServerConfig, application
        from hwdag_app.serve.connections import Timed
    except ImportError as error:
        raise InputError(f'{error}; install it with: pip install "hwdag[serve]"') from error
    config, token = search_config(options), token_for(options.host)
    server = config_of(ServerConfig(token), options)
    check_address(options.host, options.port)
    with _opened(options) as index:
        app = application(index, config, others=others(options, index), server=server)
        print(f"{index!r}")
        warm(index)
        host = f"[{options.host}]" if ":" in options.host else options.host
        shown = "" if token is None else f"/#token={token}"
        print(f"http://{host}:{options.port}{shown}", flush=True)
        uvicorn.run(
            app,
            host=options.host,
            port=options.port,
            http=Timed,
            log_level="warning",
            server_header=False,
            timeout_graceful_shutdown=5,
        )
    return 0


def check_address(host: str, port: int) -> None:
    """Raise `InputError` if a server cannot listen there."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        socket.create_server(address[:2], family=family).close()
    except OSError as error:
        raise InputError(
            f"cannot serve at {host}, port {port}: {error.strerror or error}; choose another --port or "
            "--host"
        ) from error


def token_for(host: str) -> str | None:
    """Return the token clients must send: HWDAG_TOKEN, else a new one if others can reach the host."""
    token = os.environ.get(TOKEN)
    if token is None:
        return None if is_loopback(host) else secrets.token_urlsafe(24)
    if len(token) < 16:
        raise InputError(f"{TOKEN} has {len(token)} characters; use at least 16, or unset it")
    return token


def _opened(options: argparse.Namespace) -> HWDAGIndex:
    models: dict[str, Any] = {
        "reader": reader(options, options.file),
        "embedder": options.embedder,
        "answerer": answerer(options),
    }
    if holds_something(options.file):
        return HWDAGIndex.load(options.file, **models)
    if options.read_only:
        raise InputError(
            f"there is no index {options.file}, and with --read-only it would stay empty"
        )
    check_folder(options.file)
    return HWDAGIndex(path=options.file, **models)


def others(options: argparse.Namespace, index: HWDAGIndex) -> Mapping[str, Retriever]:
    """Build the methods that `--compare` names; they share the models of the index."""
    found: dict[str, Retriever] = {}
    for name in dict.fromkeys(options.compare):
        cls = retriever_class(name)
        models = {r: getattr(index, r) for r in ("reader", "embedder") if r in cls.uses}
        found[name] = cls(**models)
        report = found[name].insert(index.documents.values(), show_progress=True)
        print(f"{name}: {report}", file=sys.stderr)
    return found

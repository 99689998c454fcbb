"""Clients that send or read too slowly lose their connection, and others are served meanwhile."""

import socket
import threading
import time
from contextlib import closing

import pytest
from serve_world import CONFIG, index

pytest.importorskip("starlette", reason="needs the extra serve")
pytest.importorskip("uvicorn", reason="needs the extra serve")
pytest.importorskip("prometheus_client", reason="needs the extra serve")

import uvicorn

from hwdag_app.serve import connections, guard
from hwdag_app.serve.application import ServerConfig, application
from hwdag_app.serve.connections import Timed

SECONDS = 0.5


@pytest.fixture
def port(monkeypatch):
    """A server that is as patient as a test."""
    monkeypatch.setattr(connections, "HEAD_SECONDS", SECONDS)
    monkeypatch.setattr(guard, "GRACE", SECONDS)
    with index() as made:
        app = application(made, CONFIG, server=ServerConfig())
        server = uvicorn.Server(
            uvicorn.Config(app, port=0, http=Timed, log_level="error", timeout_keep_alive=60)
        )
        thread = threading.Thread(target=server.run)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        yield server.servers[0].sockets[0].getsockname()[1]
        server.should_exit = True
        thread.join()


def connected(port):
    found = socket.create_connection(("127.0.0.1", port), timeout=20)
    return closing(found), found


def rest(connection):
    """What comes until the server closes the connection."""
    found = b""
    while piece := connection.recv(65536):
        found += piece
    return found


@pytest.mark.parametrize("sent", [b"", b"GET /health HTT", b"GET /health HTTP/1.1\r\nHost: local"])
def test_half_a_head_is_not_waited_for(port, sent):
    closed, connection = connected(port)
    with closed:
        began = time.monotonic()
        connection.sendall(sent)
        assert rest(connection) == b""
        assert SECONDS * 0.9 < time.monotonic() - began < 20 * SECONDS


def test_a_head_that_trickles_is_not_waited_for_either(port):
    closed, connection = connected(port)
    with closed, pytest.raises(OSError):
        for byte in b"GET /health HTTP/1.1\r\nX: " + b"x" * 400:
            connection.sendall(bytes([byte]))
            time.sleep(SECONDS / 20)


def test_a_second_request_on_a_connection_has_the_same_time(port):
    closed, connection = connected(port)
    with closed:
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b"200 OK" in connection.recv(65536)
        time.sleep(2 * SECONDS)  # idle between two requests is allowed
        began = time.monotonic()
        connection.sendall(b"GET /hea")
        rest(connection)
        assert SECONDS * 0.9 < time.monotonic() - began < 20 * SECONDS


def test_a_body_that_stops_is_refused_and_holds_no_slot(port):
    """More slow uploads than there are slots; afterwards there is room for one that is quick."""
    head = b"PUT /api/documents/a.txt HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n"
    slow = [connected(port)[1] for _ in range(guard.MAX_UPLOADS)]
    for connection in slow:
        connection.sendall(head + b"The ha")
    for connection in slow:
        assert b" 408 " in rest(connection).split(b"\r\n")[0]
        connection.close()
    closed, connection = connected(port)
    with closed:
        text = b"Nora Vale built the mill."
        connection.sendall(head.replace(b"100", b"%d" % len(text)) + text)
        assert b" 200 " in connection.recv(65536).split(b"\r\n")[0]

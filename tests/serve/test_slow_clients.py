"""Clients that send or read too slowly lose their connection, and others are served meanwhile."""

import json
import socket
import threading
import time
from contextlib import closing
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from serve_world import CONFIG, index, running

pytest.importorskip("starlette", reason="needs the extra serve")
pytest.importorskip("uvicorn", reason="needs the extra serve")
pytest.importorskip("prometheus_client", reason="needs the extra serve")

import uvicorn

from hwdag import Document, HWDAGIndex
from hwdag.embedding.hashing import HashingEmbedder
from hwdag_app.serve import connections, guard
from hwdag_app.serve.application import ServerConfig, application
from hwdag_app.serve.connections import Timed
from hwdag_lab.scripted import ScriptedLM

pytestmark = pytest.mark.slow  # its subject is time

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
    """Return the bytes that come until the server closes the connection."""
    found = b""
    while piece := connection.recv(65536):
        found += piece
    return found


def test_half_a_head_is_not_waited_for(port):
    halves = [b"", b"GET /health HTT", b"GET /health HTTP/1.1\r\nHost: local"]
    connections = [connected(port)[1] for _ in halves]
    began = time.monotonic()
    for connection, sent in zip(connections, halves, strict=True):
        connection.sendall(sent)
    for connection in connections:
        with connection:
            assert rest(connection) == b""
            assert SECONDS * 0.8 < time.monotonic() - began < 20 * SECONDS


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


def test_a_body_for_agents_that_stops_is_refused(port):
    pytest.importorskip("mcp", reason="needs the extra mcp")
    head = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n"
    closed, connection = connected(port)
    with closed:
        connection.sendall(head + b'{"json')
        assert b" 408 " in rest(connection).split(b"\r\n")[0]


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


@pytest.mark.slow
def test_a_reader_of_events_that_stops_holds_no_slot(monkeypatch):
    """Its answer, with the whole text of its document, is far larger than all buffers between them."""
    monkeypatch.setattr(guard, "GRACE", SECONDS)
    text = "\n\n".join(f"The harbour number {i} was built.{' ' * 9000}" for i in range(600))
    made = HWDAGIndex.from_documents(
        [Document("ropes.md", text)],
        method="evidence",
        reader=ScriptedLM(),
        embedder=HashingEmbedder(),
    )
    question = json.dumps({"question": "Which harbour was built?"})
    head = (
        "POST /api/ask HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(question)}\r\n\r\n"
    )
    with running(made, ServerConfig(max_questions=1)) as address, socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", int(address.rpartition(":")[2])))
        connection.sendall(f"{head}{question}".encode())
        assert connection.recv(12) == b"HTTP/1.1 200"  # and reads no more
        statuses = set()
        for _ in range(200):
            statuses.add(ask(address, question))
            if 200 in statuses:
                break
            time.sleep(0.1)
        assert statuses == {503, 200}


def ask(address, question):
    """Return the status of a question whose client reads all of the answer."""
    request = Request(f"{address}/api/ask", question.encode(), {"Content-Type": "application/json"})
    try:
        with urlopen(request, timeout=60) as reply:
            while reply.read(1 << 16):
                pass
            return reply.status
    except HTTPError as error:
        return error.code

"""A real chat server on the loopback with a chosen behaviour for each request."""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Behaviour = Callable[["Request"], None]


@dataclass(frozen=True)
class Asked:
    """The content of a request; a connection serves several."""

    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]
    prompt: str
    address: tuple[str, int]


class Request(BaseHTTPRequestHandler):
    """One request at the server; a behaviour answers it."""

    protocol_version = "HTTP/1.1"
    server: Server
    prompt: str

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.prompt = body["messages"][0]["content"]
        asked = Asked(self.path, dict(self.headers), body, self.prompt, self.client_address)
        self.server.handle_chat(self, asked)

    def do_GET(self) -> None:
        self.server.strays.append(self.path)
        self.reply(b"{}")

    def log_message(self, *_: object) -> None:
        pass

    def reply(self, content: bytes, status: int = 200, **headers: str) -> None:
        self.send_response(status)
        names = {"Content-Type": "application/json", "Content-Length": str(len(content))}
        for name, value in (names | {k.replace("_", "-"): v for k, v in headers.items()}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def completion(self, content: object, **fields: object) -> None:
        choice = {"index": 0, "message": {"role": "assistant", "content": content}}
        usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
        body = {"object": "chat.completion", "choices": [choice], "usage": usage}
        self.reply(json.dumps(body | fields).encode())

    def streamed(
        self, *pieces: str, usage: Mapping[str, int] | None = None, finish: str | None = "stop"
    ) -> None:
        """Send a reply in pieces, as a stream of events; `usage` comes in an event of its own."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for piece in pieces:
            self._event({"choices": [{"index": 0, "delta": {"content": piece}}]})
        if finish is not None:
            self._event({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
        if usage is not None:
            self._event({"choices": [], "usage": usage})
        self.wfile.write(b"data: [DONE]\n\n")
        self.close_connection = True

    def _event(self, chunk: object) -> None:
        self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
        self.wfile.flush()

    def reset(self) -> None:
        """End the connection in the middle, not with an orderly FIN but with a RST."""
        self.wfile.flush()
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        self.connection.close()


class Server(ThreadingHTTPServer):
    """Meets the n-th request with the n-th behaviour, all later ones with the last."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, behaviours: Sequence[Behaviour]) -> None:
        super().__init__(("127.0.0.1", 0), Request)
        self.behaviours = behaviours
        self.requests: list[Asked] = []
        self.strays: list[str] = []
        self.active = self.most_active = 0
        self.lock = threading.Lock()
        self.ended = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def handle_chat(self, request: Request, asked: Asked) -> None:
        with self.lock:
            behave = self.behaviours[min(len(self.requests), len(self.behaviours) - 1)]
            self.requests.append(asked)
            self.active += 1
            self.most_active = max(self.most_active, self.active)
        try:
            behave(request)
        except OSError:
            request.close_connection = True
        finally:
            with self.lock:
                self.active -= 1

    def handle_error(self, *_: object) -> None:
        pass


@contextmanager
def serving(*behaviours: Behaviour) -> Iterator[Server]:
    """Yield a server with these behaviours, until the end of the block."""
    server = Server(behaviours)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.ended.set()
        server.shutdown()
        server.server_close()
        thread.join()

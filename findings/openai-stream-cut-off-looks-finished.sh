#!/usr/bin/env bash
# openai 3.57.0 (2026-11-28)
# Expected: a streamed reply that breaks off in the middle ends in an exception, or in an error that
#   the client cannot overlook.
# Seen: the iterator ends as after a whole reply if the stream stops without `finish_reason` and
#   without [DONE] (a server or proxy that closes), and if the error has another form than OpenAI's:
#   {"object": "error"} (vLLM's), {"detail": ...} (FastAPI's), an `event: error` with a bare
#   message. `chat.completions.stream()` even returns a final completion. Only {"error": {...}}
#   raises.
# Costs: half an answer, "The ship did not", is stored and shown as the answer. Check that a
#   `finish_reason` came; the exception that one waits for never does.
. "$(dirname "$0")/lib/setup.sh" openai==3.57.0
python - <<'PY'
import http.server
import json
import threading

import openai
from still import still


def chunk(content: str) -> bytes:
    choice = {"index": 0, "delta": {"content": content}, "finish_reason": None}
    head = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return b"data: " + json.dumps(head | {"choices": [choice]}).encode() + b"\n\n"


class Server(http.server.BaseHTTPRequestHandler):
    ending = b""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        body = chunk("The ship ") + chunk("did not") + self.ending
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
client = openai.OpenAI(base_url=f"http://127.0.0.1:{server.server_port}", api_key="-", max_retries=0)
for ending in ("", 'data: {"object": "error", "message": "out of memory"}\n\n',
               'data: {"detail": "engine died"}\n\n', 'event: error\ndata: {"message": "died"}\n\n'):
    Server.ending = ending.encode()
    asked = {"model": "m", "messages": [{"role": "user", "content": "?"}]}
    with client.chat.completions.stream(**asked) as stream:
        text = stream.get_final_completion().choices[0].message.content
    still(text, "The ship did not", f"reply of a stream that ends in {ending!r}")
PY

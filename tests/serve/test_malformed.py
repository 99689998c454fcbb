"""Malformed requests: every one is refused with 4xx and a message, none is a failure of the server."""

import itertools
import json
import time

import pytest
from serve_world import CONFIG, QUESTION, index

pytest.importorskip("starlette", reason="needs the extra serve")
pytest.importorskip("prometheus_client", reason="needs the extra serve")

from starlette.testclient import TestClient

from hwdag_app.serve.application import application

JSON = {"content-type": "application/json"}

ASKED = {"question": QUESTION, "system": "hwdag", "token_budget": 64, "documents": ["a"]}
CHAT = {
    "model": "hwdag",
    "messages": [{"role": "user", "content": QUESTION}],
    "max_tokens": 8,
    "max_completion_tokens": 8,
    "n": 1,
    "stream": False,
    "stream_options": {"include_usage": True},
    "response_format": {"type": "text"},
}
VALUES = [
    None,
    True,
    0,
    -1,
    1.5,
    10**30,
    "",
    "x",
    "\ud800",
    "\0",
    [],
    [[]],
    [None],
    [{}],
    ["a", 1],
    {},
    {"a": []},
    [{"role": "user"}],
    [{"role": "user", "content": 1}],
    [{"role": "user", "content": [1]}],
    [{"role": "user", "content": [{"type": "text"}]}],
    [{"role": [], "content": "x"}],
]
BODIES = [
    b"",
    b"{",
    b"null",
    b"[]",
    b'"x"',
    b"1",
    b"\xff",
    b"NaN",
    b"[" * 100_000,
    b'{"question": 1e999}',
    b'{"a": ' + b"9" * 5000 + b"}",
]
HEADERS = [
    {"host": "["},
    {"host": "a:b:c"},
    {"host": "localhost:x"},
    {"host": ""},
    {"host": "\xff"},
    {"origin": "http://["},
    {"origin": "\xff"},
    {"origin": "null"},
    {"authorization": "\xff"},
    {"content-length": "-5"},
    {"content-length": "9" * 5000},
    {"content-length": "\u00b2"},
    {"content-type": "\xff"},
]


@pytest.fixture(scope="module")
def served():
    with index() as made:
        yield made


@pytest.fixture(scope="module")
def client(served):
    with TestClient(application(served, CONFIG), "http://localhost", False) as client:
        yield client


def refused(response):
    """Return a refusal in words; events that begin may still end in an error of the same kind."""
    if response.status_code == 200:
        return "server failed" not in response.text
    return 400 <= response.status_code < 500 and response.json()["error"]["message"]


@pytest.mark.parametrize("path", ["/api/ask", "/v1/chat/completions"])
@pytest.mark.parametrize("body", BODIES, ids=range(len(BODIES)))
def test_what_is_no_json_object_is_refused(client, path, body):
    response = client.post(path, content=body, headers=JSON)
    assert 400 <= response.status_code < 500
    assert response.json()["error"]["message"]


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [("/api/ask", ASKED, f) for f in ASKED]
    + [("/v1/chat/completions", CHAT, f) for f in CHAT]
    + [("/v1/chat/completions", CHAT | {"stream": True}, "stream_options")],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_fields_of_any_kind_are_answered_or_refused(client, path, body, field):
    wrong = []
    for value in VALUES:
        content = json.dumps({**body, field: value})
        response = client.post(path, content=content, headers=JSON)
        if not refused(response):
            wrong.append((value, response.status_code, response.text[:200]))
    assert not wrong


@pytest.mark.parametrize(
    "history",
    [
        [["Who?", "Ada."]] * 10_000,
        [["Who?", " " * 900_000 + "x"]],
        [["Who?", "[1" * 400_000]],
        [[f"Who is {i}?", ""] for i in range(30_000)],
    ],
    ids=["turns", "blanks", "marks", "questions"],
)
def test_a_long_history_takes_no_time(client, history):
    began = time.process_time()
    response = client.post("/api/ask", json=ASKED | {"documents": None, "history": history})
    assert response.status_code == 200
    assert time.process_time() - began < 10


def test_a_request_chooses_no_server_and_no_file(served, monkeypatch):
    """No field of a request reaches the index but those that the server knows."""
    asked, stream = [], served.stream
    monkeypatch.setattr(served, "stream", lambda *q, **o: asked.append(o) or stream(*q, **o))
    wanted = dict.fromkeys(
        ("answerer", "base_url", "api_base", "writer_url", "reader", "path"), "http://127.0.0.1:9/"
    )
    with TestClient(application(served, CONFIG), "http://localhost") as client:
        assert client.post("/api/ask", json=wanted | ASKED).status_code == 200
        assert client.post("/v1/chat/completions", json=wanted | CHAT).status_code == 200
        named = client.post("/v1/chat/completions", json=CHAT | {"model": wanted["path"]})
    assert named.status_code == 404
    assert len(asked) == 2
    assert all("127.0.0.1" not in repr(options) for options in asked)


@pytest.mark.parametrize("headers", HEADERS, ids=range(len(HEADERS)))
def test_headers_of_any_kind_are_answered_or_refused(client, headers):
    raw = [(k.encode("latin-1"), v.encode("utf-8")) for k, v in headers.items()]
    for method, path in itertools.product(["GET", "POST"], ["/", "/api/state", "/api/ask"]):
        response = client.request(method, path, headers=raw)
        assert response.status_code < 500, (method, path, response.text)


@pytest.mark.parametrize(
    "path",
    [
        "/api/graph?document=%00",
        "/api/graph?document=%ff",
        "/api/graph?document=nothing",
        "/api/documents/%00",
        "/api/documents/%ff",
        "/api/documents/%ed%a0%80",
        "/api/documents/..%2f..%2fx",
        "/api/documents/" + "x" * 5000,
        "/%00",
    ],
)
def test_paths_of_any_kind_are_answered_or_refused(client, path):
    for method in ("GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
        response = client.request(method, path)
        assert response.status_code < 500, (method, response.text)

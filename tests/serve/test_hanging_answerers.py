"""Answerers that hang: they keep the slots of their questions and nothing else, as long as they run."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from chat_world import serving
from serve_world import QUESTION, index, running

pytest.importorskip("starlette", reason="needs the extra serve")
pytest.importorskip("uvicorn", reason="needs the extra serve")
pytest.importorskip("prometheus_client", reason="needs the extra serve")
pytest.importorskip("openai", reason="needs the extra openai")
pytest.importorskip("httpx")

import httpx

from hwdag.lm.openai_compatible import OpenAIWriter
from hwdag_app.serve.application import ServerConfig

SLOTS = 4
ASKED = {
    "/api/ask": {"question": QUESTION},
    "/v1/chat/completions": {"messages": [{"role": "user", "content": QUESTION}]},
}


def asking(answerer):
    """Return the address of a server with this answerer."""
    return running(index(answerer=answerer), ServerConfig(max_questions=SLOTS))


def until(is_true):
    for _ in range(1000):
        if is_true():
            return
        time.sleep(0.01)
    pytest.fail("it did not happen within ten seconds")


def hang(request):
    """Keep the stream alive, without a word of a reply."""
    request.send_response(200)
    request.send_header("Content-Type", "text/event-stream")
    request.end_headers()
    while not request.server.ended.wait(0.01):
        request.wfile.write(b": alive\n\n")


def post(address, path, seconds):
    """Return the status of a question, None for a client that leaves first."""
    try:
        return httpx.post(f"{address}{path}", json=ASKED[path], timeout=seconds).status_code
    except httpx.TimeoutException:
        return None


def test_forty_clients_that_leave_free_the_server_and_the_server_it_asks():
    with (
        serving(hang) as behind,
        asking(OpenAIWriter("m", base_url=behind.url)) as address,
        ThreadPoolExecutor(40) as threads,
    ):
        paths = list(ASKED) * 20
        statuses = list(threads.map(lambda path: post(address, path, 2), paths))
        assert set(statuses) == {503, None}
        assert behind.most_active <= SLOTS
        until(lambda: behind.active == 0)
        behind.behaviours = [lambda request: request.streamed("In 1871 [1].")]
        answer = httpx.post(f"{address}/api/ask", json=ASKED["/api/ask"], timeout=20)
        assert "In 1871" in answer.text


def test_a_slot_is_held_until_its_thread_has_ended():
    """A function cannot be interrupted. The next client is refused at once, not kept waiting."""
    released = threading.Event()

    def answerer(prompt):
        assert released.wait(60)
        return "In 1871 [1]."

    with asking(answerer) as address, ThreadPoolExecutor(SLOTS) as threads:
        paths = (list(ASKED) * SLOTS)[:SLOTS]
        left = threads.map(lambda path: post(address, path, 2), paths)
        assert list(left) == [None] * SLOTS
        for path in ASKED:
            began = time.monotonic()
            assert post(address, path, 20) == 503
            assert time.monotonic() - began < 5
        assert httpx.get(f"{address}/health").status_code == 200
        released.set()
        until(lambda: post(address, "/v1/chat/completions", 20) == 200)

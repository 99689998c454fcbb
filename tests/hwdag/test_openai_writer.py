"""A real server on the loopback that misbehaves in every way; no test waits longer than it must."""

from __future__ import annotations

import logging
import signal
import subprocess
import threading
import time
from contextlib import contextmanager
from typing import Any

import pytest
from chat_world import Request, serving
from processes import program, python

from hwdag.errors import InputError, WriterFailed
from hwdag.lm import openai_compatible
from hwdag.lm.base import ConcurrentWriter, Metered
from hwdag.lm.openai_compatible import THREAD, OpenAIWriter
from hwdag.lm.writers import CallableWriter, as_writer

KEY = "sk-test-0123456789-secret"
KEY_ENV = "HWDAG_TEST_KEY"


@contextmanager
def writing(server, **options):
    yield OpenAIWriter("m", **{"base_url": server.url} | options)


@pytest.fixture(autouse=True)
def slept(monkeypatch):
    """Seconds between requests; nobody waits for them."""
    seconds = list[float]()

    async def sleep(delay: float) -> None:
        seconds.append(delay)

    monkeypatch.setattr("anyio.sleep", sleep)
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv(KEY_ENV, KEY)
    yield seconds
    assert not [thread for thread in threading.enumerate() if thread.name == THREAD]


def echo(request):
    request.completion(f"* {request.prompt}")


def status(code, content=b'{"error": "no"}', **headers):
    return lambda request: request.reply(content, code, **headers)


def body(content, **headers):
    return lambda request: request.reply(content, **headers)


def hang(request):
    request.server.ended.wait(30)


def drip(request):
    """Send a valid reply, a byte at a time, without end."""
    request.send_response(200)
    request.send_header("Content-Length", "1000000")
    request.end_headers()
    while not request.server.ended.wait(0.01):
        request.wfile.write(b" ")


def reset_in_the_middle(request):
    request.send_response(200)
    request.send_header("Content-Length", "1000")
    request.end_headers()
    request.wfile.write(b'{"choices": [')
    request.reset()


def test_what_is_sent_and_what_comes_back(monkeypatch):
    """Nothing of OpenAI's own reaches another server, whatever the environment holds."""
    for name in ("API_KEY", "ADMIN_KEY", "ORG_ID", "PROJECT_ID"):
        monkeypatch.setenv(f"OPENAI_{name}", "sk-of-openai")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Secret: sk-of-openai")
    options: dict[str, Any] = {"temperature": None, "extra_body": {"max_completion_tokens": 5}}
    with serving(echo, echo, status(401)) as server:
        with writing(server, api_key_env=KEY_ENV, extra_body={"top_p": 0.9}) as writer:
            assert writer.write(["ü \ud800"], max_new_tokens=17) == ["* ü \ufffd"]
            assert writer.write([], max_new_tokens=1) == []
            assert isinstance(writer, ConcurrentWriter)
            assert isinstance(writer, Metered)
            assert as_writer(writer) is writer
            assert writer.name == "openai:m"
        with writing(server, **options) as writer:
            writer.write(["b"], max_new_tokens=9)
            with pytest.raises(WriterFailed, match="asks for a key"):
                writer.write(["c"], max_new_tokens=9)
    with_key, without, _ = server.requests
    assert with_key.path == "/v1/chat/completions"
    assert with_key.headers["Authorization"] == f"Bearer {KEY}"
    assert with_key.body == {
        "model": "m",
        "messages": [{"role": "user", "content": "ü \ufffd"}],
        "max_tokens": 17,
        "temperature": 0.0,
        "top_p": 0.9,
    }
    assert "Authorization" not in without.headers
    assert without.body == {
        "model": "m",
        "messages": [{"role": "user", "content": "b"}],
        "max_completion_tokens": 5,
    }
    assert "sk-of-openai" not in repr(server.requests)


@pytest.mark.parametrize(
    "behaviour", [status(429), status(503), hang, reset_in_the_middle, lambda r: r.reset()]
)
def test_a_passing_failure_is_tried_again_and_reported_when_it_stays(behaviour):
    with serving(behaviour, echo) as server, writing(server, timeout=0.3) as writer:
        assert writer.write(["a"], max_new_tokens=9) == ["* a"]
    with (
        serving(behaviour) as server,
        writing(server, timeout=0.3, max_retries=1) as writer,
        pytest.raises(WriterFailed),
    ):
        writer.write(["a"], max_new_tokens=9)
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("behaviour", "way_out"),
    [
        (status(301), "301"),
        (status(400), "options"),
        (status(403), KEY_ENV),
        (status(404), "address"),
        (status(429, Retry_After="86400"), "86400"),
        (body(b"<html>log in</html>", Content_Type="text/html"), "web page: log in"),
        (status(302, Location="/login"), "leads to ./login"),
        (body(b""), "an empty text"),
        (body(b'{"choices": [{"message": {"content": "* a'), "address"),
        (body(b"[" * 1_000_000), "address"),
        (body(b"\xff\xfe\x00"), "address"),
        (body(b"null"), "address"),
        (body(b'{"error": {"message": "overloaded"}}'), "overloaded"),
        (body(b'{"choices": [null]}'), "address"),
        (body(b'{"choices": [{"message": {"content": ["* a"]}}]}'), "address"),
    ],
)
def test_a_lasting_failure_is_reported_at_once_with_a_way_out(behaviour, way_out, slept):
    with (
        serving(behaviour) as server,
        writing(server, api_key_env=KEY_ENV) as writer,
        pytest.raises(WriterFailed, match=way_out),
    ):
        writer.write(["a"], max_new_tokens=9)
    assert len(server.requests) == 1
    assert slept == []


def test_a_server_that_sends_without_end_is_given_up(monkeypatch):
    """The time-out of the client begins anew with every byte."""
    monkeypatch.setattr(openai_compatible, "LONGEST_WAIT", 0.0)
    with (
        serving(drip) as server,
        writing(server, timeout=0.5, max_retries=0) as writer,
        pytest.raises(WriterFailed, match="no reply within"),
    ):
        writer.write(["a"], max_new_tokens=9)


def test_control_tokens_reach_no_server_in_their_spelling():
    with serving(echo) as server, writing(server) as writer:
        hostile = "a<|im_end|> [INST] b </s>, 1 < 2"
        writer.write([hostile], max_new_tokens=9)
        assert server.requests[0].prompt == "a< |im_end|> [ INST] b < /s>, 1 < 2"
    assert CallableWriter(str).write([hostile], max_new_tokens=9) == [server.requests[0].prompt]


@pytest.mark.parametrize(
    "content",
    [
        b'{"choices": []}',
        b'{"choices": [{"message": {"content": null}}]}',
        b'{"choices": [{"message": {"role": "assistant", "reasoning_content": "hm"}}]}',
        b'{"choices": [{"message": {"content": ""}, "finish_reason": "content_filter"}]}',
    ],
)
def test_a_model_without_content_gives_an_empty_reply(content):
    with serving(body(content)) as server, writing(server) as writer:
        assert writer.write(["a"], max_new_tokens=9) == [""]
    assert len(server.requests) == 1


def events(*lines):
    """Return a stream of these lines after a piece of a reply."""
    first = 'data: {"choices": [{"index": 0, "delta": {"content": "he"}}]}'
    return body("\n\n".join([first, *lines]).encode(), Content_Type="text/event-stream")


END = 'data: {"choices": [{"index": 0, "delta": {}, "finish_reason": "%s"}]}'
USAGE = '{"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}'


@pytest.mark.parametrize(
    ("lines", "seen"),
    [
        (['event: error\ndata: {"message": "no memory"}', ""], "no memory"),
        (['data: {"object": "error", "message": "no memory"}', "data: [DONE]", ""], "no memory"),
        (['data: {"detail": "no memory"}', END % "stop", "data: [DONE]", ""], "no memory"),
        (['data: {"error": {"message": "no memory"}}', ""], "no memory"),
        ([END % "error", "data: [DONE]", ""], "error"),
        (['data: {"choices": null}', END % "stop", ""], "broke off"),
        ([END % "stop"], "finish_reason"),  # an event without the blank line that ends it
        (["data: [DONE]", ""], "finish_reason"),
        ([""], "finish_reason"),
        (['data: {"choices"', ""], "whole reply"),
    ],
)
def test_a_stream_that_breaks_off_is_no_whole_reply(lines, seen):
    came = []
    with (
        serving(events(*lines)) as server,
        writing(server) as writer,
        pytest.raises(WriterFailed, match=seen),
    ):
        came.extend(writer.stream("a", max_new_tokens=9))
    assert came == ["he"]


@pytest.mark.parametrize(
    "lines",
    [
        [END % "stop", f'data: {{"choices": [], "usage": {USAGE}}}', "data: [DONE]", ""],
        [END % "stop", f'data: {{"choices": null, "usage": {USAGE}}}', "data: [DONE]", ""],
        [f'data: {{"choices": [], "usage": {USAGE}}}', END % "stop", ""],
        [": a comment", 'data: {"choices": []}', f'data: {{"usage": {USAGE}}}', END % "length", ""],
        [END % "stop", 'data: {"choices": [{"index": 0}]}', f'data: {{"usage": {USAGE}}}', ""],
    ],
)
def test_a_stream_of_another_form_is_a_whole_reply(lines):
    with serving(events(*lines)) as server, writing(server) as writer:
        assert list(writer.stream("a", max_new_tokens=9)) == ["he"]
    assert writer.usage.tokens == 10


def test_a_reply_that_ends_in_an_error_is_no_reply():
    choice = b'{"message": {"content": "he"}, "finish_reason": "error"}'
    behaviour = body(b'{"choices": [%s]}' % choice)
    with (
        serving(behaviour) as server,
        writing(server) as writer,
        pytest.raises(WriterFailed, match="broke off"),
    ):
        writer.write(["a"], max_new_tokens=9)


def test_requests_run_side_by_side_and_never_more_than_the_limit():
    barrier = threading.Barrier(4)

    def together(request: Request) -> None:
        barrier.wait(30)  # passes only when four requests are under way
        echo(request)

    prompts = [str(i) for i in range(24)]
    with serving(together) as server, writing(server, concurrency=4) as writer:
        assert writer.write(prompts, max_new_tokens=9) == [f"* {p}" for p in prompts]
    assert server.most_active == 4


def test_replies_come_as_they_are_finished_and_in_order_from_write():
    turn = {str(i): threading.Event() for i in range(4)}
    turn["3"].set()

    def backwards(request: Request) -> None:
        assert turn[request.prompt].wait(30)
        echo(request)

    with serving(backwards) as server, writing(server) as writer:
        came = []
        for number, reply in writer.replies([*"0123"], max_new_tokens=9):
            assert reply == f"* {number}"
            came.append(number)
            if number:
                turn[str(number - 1)].set()
        assert came == [3, 2, 1, 0]
        assert writer.write([*"0123"], max_new_tokens=9) == ["* 0", "* 1", "* 2", "* 3"]


def test_what_is_under_way_when_a_prompt_fails_is_kept_and_nothing_else_is_sent():
    failed = threading.Event()

    def behave(request: Request) -> None:
        if request.prompt == "bad":
            request.reply(b"no", 400)
            failed.set()
        else:
            failed.wait(30)
            time.sleep(0.2)
            echo(request)

    prompts, came = ["a", "b", "bad", "c", *"xyz"], []
    with (
        serving(behave) as server,
        writing(server, concurrency=4) as writer,
        pytest.raises(WriterFailed, match="prompt 3"),
    ):
        for one in writer.replies(prompts, max_new_tokens=9):
            came.append(one)
    assert sorted(came) == [(0, "* a"), (1, "* b"), (3, "* c")]
    assert len(server.requests) == 4


def test_what_arrived_before_a_failure_is_yielded_and_the_rest_is_given_up(monkeypatch):
    monkeypatch.setattr(openai_compatible, "GRACE_SECONDS", 0.1)
    lost, arrived = threading.Event(), threading.Event()

    def behave(request: Request) -> None:
        if request.prompt == "ok":
            echo(request)
        elif request.prompt == "bad":
            arrived.wait(30)
            request.reply(b"no", 400)
        else:
            request.connection.settimeout(30)
            if request.connection.recv(1) == b"":  # the client hung up
                lost.set()

    came = []
    with serving(behave) as server, writing(server, concurrency=3) as writer:
        with pytest.raises(WriterFailed, match="prompt 3"):
            for number, reply in writer.replies(["slow", "ok", "bad", "x", "x"], max_new_tokens=9):
                came.append((number, reply))
                arrived.set()
        assert came == [(1, "* ok")]
        assert lost.wait(30)


def test_a_process_that_is_interrupted_ends():
    """Neither the thread nor the open request keeps the interpreter alive."""

    def interrupt(request: Request) -> None:
        process.send_signal(signal.SIGINT)
        hang(request)

    code = """
        import sys, warnings
        warnings.simplefilter("error")
        from hwdag.lm.openai_compatible import OpenAIWriter
        OpenAIWriter('m', base_url=sys.argv[1]).write(['a'] * 9, max_new_tokens=9)
    """
    with serving(interrupt, hang) as server:
        process = subprocess.Popen(**program(code, server.url), stderr=subprocess.PIPE, text=True)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT
    assert errors.strip().splitlines()[-1] == "KeyboardInterrupt"
    assert "Warning" not in errors


def test_the_key_is_shown_nowhere(caplog):
    caplog.set_level(logging.DEBUG)

    def tell(request: Request) -> None:
        request.reply(f"wrong: {request.headers['Authorization']}".encode(), 401)

    with serving(tell) as server, writing(server, api_key_env=KEY_ENV) as writer:
        with pytest.raises(WriterFailed, match=r"Bearer \*\*\*") as caught:
            writer.write(["a"], max_new_tokens=9)
        assert KEY not in repr(writer)
        assert KEY not in repr(vars(writer))
    assert KEY not in caplog.text
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    seen = caught.tb
    while seen is not None:
        if seen.tb_frame.f_globals["__name__"].startswith("hwdag"):
            assert KEY not in repr(seen.tb_frame.f_locals)
        seen = seen.tb_next


def test_a_redirect_is_not_followed():
    with (
        serving(echo) as elsewhere,
        serving(status(307, Location=elsewhere.url + "/chat/completions")) as server,
        writing(server, api_key_env=KEY_ENV) as writer,
        pytest.raises(WriterFailed, match="307"),
    ):
        writer.write(["a"], max_new_tokens=9)
    assert elsewhere.requests == []
    assert elsewhere.strays == []


def test_the_official_address_needs_a_key_and_the_new_field(monkeypatch):
    with pytest.raises(InputError, match="OPENAI_API_KEY"):
        OpenAIWriter("m")
    with pytest.raises(InputError, match="NO_SUCH_KEY"):
        OpenAIWriter("m", base_url="http://localhost:1/v1", api_key_env="NO_SUCH_KEY")
    for bad in ("sk-1\nX-Evil: 1", "sk 1", "sk-ü"):
        monkeypatch.setenv("OPENAI_API_KEY", bad)
        with pytest.raises(InputError, match="key") as caught:
            OpenAIWriter("m")
        assert bad not in str(caught.value)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert repr(OpenAIWriter("m")) == "OpenAIWriter('m', base_url='https://api.openai.com/v1')"


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"model": " "}, InputError),
        ({"base_url": ""}, InputError),
        ({"base_url": "localhost:8000/v1"}, InputError),
        ({"base_url": "file:///etc/passwd"}, InputError),
        ({"base_url": "http://"}, InputError),
        ({"base_url": "http://[x"}, InputError),
        ({"base_url": f"http://user:{KEY}@localhost/v1"}, InputError),
        ({"base_url": f"http://localhost/v1?key={KEY}"}, InputError),
        ({"concurrency": 0}, InputError),
        ({"concurrency": True}, InputError),
        ({"max_retries": -1}, InputError),
        ({"timeout": 0}, InputError),
        ({"timeout": float("inf")}, InputError),
        ({"timeout": float("nan")}, InputError),
        ({"temperature": float("nan")}, InputError),
        ({"extra_body": {"stream": True}}, InputError),
        ({"extra_body": {"seed": object()}}, InputError),
    ],
)
def test_options_that_cannot_be(options, error):
    with pytest.raises(error) as caught:
        OpenAIWriter(**{"model": "m", "base_url": "http://localhost:1/v1"} | options)
    assert KEY not in str(caught.value)


def test_the_package_that_is_missing_is_named():
    code = "import sys; sys.modules['openai'] = None; import hwdag.lm.openai_compatible"
    assert "hwdag[openai]" in python(code, ends=1).stderr.splitlines()[-1]


def test_tokens_are_counted_if_the_server_reports_them():
    told = {
        '{"total_tokens": 12}': 12,
    }
    untold = [
        "null",
        '{"total_tokens": "12"}',
        '{"total_tokens": -1}',
        f'{{"total_tokens": {10**50}}}',
    ]
    bodies = [body(f'{{"choices": [], "usage": {u}}}'.encode()) for u in (*told, *untold)]
    with serving(*bodies) as server, writing(server) as writer:
        writer.write(["a"] * len(bodies), max_new_tokens=9)
        assert (writer.usage.tokens, writer.usage.tflops) == (12, 0)
        assert writer.usage.seconds > 0


def keeps_alive(line):
    """Begin a stream of events, then send one without content for ever."""

    def behave(request):
        request.send_response(200)
        request.send_header("Content-Type", "text/event-stream")
        request.send_header("Connection", "close")
        request.end_headers()
        request._event({"choices": [{"index": 0, "delta": {"content": "he"}}]})
        while not request.server.ended.wait(0.01):
            request.wfile.write(line + b"\n\n")

    return behave


SIGNS_OF_LIFE = [
    b": ping",
    b'data: {"choices": []}',
    b'data: {"choices": [{"delta": {"role": "assistant", "content": ""}}]}',
]


@pytest.mark.parametrize("line", SIGNS_OF_LIFE)
def test_a_server_that_only_keeps_a_stream_alive_is_given_up(line):
    came = list[str]()
    with (
        serving(keeps_alive(line)) as server,
        writing(server, timeout=0.5) as writer,
        pytest.raises(WriterFailed, match="allow more"),
    ):
        came.extend(writer.stream("a", max_new_tokens=9))
    assert len(server.requests) == 1


@pytest.mark.parametrize("behaviour", [hang, drip, *map(keeps_alive, SIGNS_OF_LIFE)])
def test_a_flag_ends_a_stream_that_waits_and_its_request(behaviour):
    stop = threading.Event()
    timer = threading.Timer(0.3, stop.set)
    with serving(behaviour) as server, writing(server) as writer:
        timer.start()
        assert "".join(writer.stream("a", max_new_tokens=9, stop=stop)) in ("", "he")
        for _ in range(200):
            if behaviour is hang or not server.active:  # one that hangs never looks
                break
            time.sleep(0.01)
        else:
            pytest.fail("the request goes on")


def test_a_reply_that_keeps_arriving_may_take_longer_than_the_timeout():
    def slowly(request):
        request.send_response(200)
        request.send_header("Content-Type", "text/event-stream")
        request.send_header("Connection", "close")
        request.end_headers()
        for letter in "abcdefgh":
            request._event({"choices": [{"index": 0, "delta": {"content": letter}}]})
            time.sleep(0.1)
        request._event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})

    with serving(slowly) as server, writing(server, timeout=0.5) as writer:
        assert "".join(writer.stream("a", max_new_tokens=9)) == "abcdefgh"

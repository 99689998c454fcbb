"""Failures as a client reads them: a sentence and a number, under which the log has all of it."""

import json
import logging
import re

import pytest
from chat_world import serving
from serve_world import DOCUMENTS, QUESTION, index, running

pytest.importorskip("starlette", reason="needs the extra serve")
pytest.importorskip("uvicorn", reason="needs the extra serve")
pytest.importorskip("prometheus_client", reason="needs the extra serve")
pytest.importorskip("openai", reason="needs the extra openai")
pytest.importorskip("httpx")

import httpx

from hwdag import HWDAGIndex
from hwdag.embedding.hashing import HashingEmbedder
from hwdag.errors import IndexBusy, IndexCorrupt, InputError, QuestionTooLong
from hwdag.lm.openai_compatible import OpenAIWriter
from hwdag_app.serve.refusals import refusal, without_folder
from hwdag_lab.scripted import ScriptedLM

SECRET = "sk-secret-of-the-owner"
NUMBER = re.compile(r"error ([0-9a-f]{8});")
CHAT = {"messages": [{"role": "user", "content": QUESTION}]}
REQUESTS = [
    ("/api/ask", {"question": QUESTION}),
    ("/v1/chat/completions", CHAT),
    ("/v1/chat/completions", CHAT | {"stream": True}),
]


@pytest.fixture
def log(caplog):
    """The log of the server, each line with its traceback."""
    caplog.set_level(logging.DEBUG)
    return lambda: "\n".join(map(logging.Formatter().format, caplog.records))


def withheld(text, log, *secrets):
    """Check that the text has an error's number and no secret, and that the log has them under that number."""
    [number] = set(NUMBER.findall(text))
    assert not [secret for secret in secrets if secret in text]
    assert number in log
    assert not [secret for secret in secrets if secret not in log]


def raises(prompt):
    raise RuntimeError(f"no such folder /home/owner/{SECRET}")


def post(address, path, body):
    return httpx.post(f"{address}{path}", json=body, timeout=30)


def test_the_text_of_an_answerers_exception_stays_in_the_log(log):
    with running(index(answerer=raises)) as address:
        replies = [post(address, *request) for request in REQUESTS]
    assert [reply.status_code for reply in replies] == [200, 502, 200]
    for reply in replies:
        withheld(reply.text, log(), SECRET, "/home/owner", "RuntimeError")


def refuse(request):
    request.reply(json.dumps({"error": {"message": f"key {SECRET} is wrong"}}).encode(), 401)


def break_off(request):
    request.streamed("In", " 18", finish=None)


def nonsense(request):
    request.reply(f"<html>{SECRET}".encode())


def elsewhere(request):
    request.reply(SECRET.encode(), 302, Location="http://10.0.0.1/")


def test_address_and_body_of_the_server_that_answers_stay_in_the_log(log):
    """The last time there is no server any more."""
    with serving(refuse) as other:
        writer = OpenAIWriter("m", base_url=other.url, max_retries=0)
        with running(index(answerer=writer)) as address:
            for behave in (refuse, break_off, nonsense, elsewhere):
                other.behaviours = [behave]
                secrets = [SECRET] if behave in (refuse, nonsense) else []
                for request in REQUESTS:
                    withheld(post(address, *request).text, log(), other.url, *secrets)
            other.shutdown()
            other.server_close()
            withheld(post(address, *REQUESTS[0]).text, log(), other.url)
    assert "Traceback" not in log()


@pytest.mark.parametrize("answerer", [raises, lambda prompt: ""], ids=["raises", "empty"])
def test_a_question_that_no_model_rewrote_is_a_note_without_the_error(answerer, log):
    asked = {
        "question": "And when?",
        "history": [[QUESTION, "Clara Holm."]],
        "system": "similarity",
    }
    with running(index(answerer=answerer)) as address:
        reply = post(address, "/api/ask", asked)
    assert SECRET not in reply.text
    assert (SECRET in log()) is (answerer is raises)


class Failing(HashingEmbedder):
    """An embedder whose service is down."""

    is_down = False

    def embed(self, texts):
        if self.is_down:
            raise ConnectionError(f"no connection to http://10.0.0.1/{SECRET}")
        return super().embed(texts)

    def embed_query(self, text):
        return self.embed([text])[0]


def test_an_exception_that_is_not_of_hwdag_stays_in_the_log(log):
    embedder = Failing()
    made = HWDAGIndex.from_documents(DOCUMENTS, reader=ScriptedLM(), embedder=embedder)
    with running(made) as address:
        embedder.is_down = True
        for path, body in REQUESTS:
            withheld(post(address, path, body).text, log(), SECRET)
        upload = httpx.put(f"{address}/api/documents/a.md", content=b"A quarry.", timeout=30)
        withheld(upload.text, log(), SECRET)


def test_the_place_of_a_store_that_was_moved_stays_in_the_log(tmp_path, log):
    path = tmp_path / "own" / "town.hwdag"
    path.parent.mkdir()
    made = index(path=path)
    with running(made) as address:
        path.parent.rename(tmp_path / "moved")
        replies = [
            *(post(address, *request) for request in REQUESTS),
            httpx.put(f"{address}/api/documents/a.md", content=b"A quarry.", timeout=30),
            httpx.delete(f"{address}/api/documents/harbour.md", timeout=30),
        ]
        for reply in replies:
            assert str(tmp_path) not in reply.text
        failed = [reply.text for reply in replies if "error" in reply.text]
        assert failed
        for text in failed:
            withheld(text, log(), str(tmp_path))


def test_mistakes_of_a_client_are_reported_in_full(caplog):
    for error in (
        InputError("question must be a text"),
        QuestionTooLong("3,000 tokens and/or more"),
    ):
        assert refusal(error) == (400, str(error))
    assert not caplog.records


@pytest.mark.parametrize(
    "error",
    [
        InputError("no file /srv/index/a.hwdag"),
        InputError("no folder C:\\models"),
        InputError("'model:/srv/x' makes no vectors"),
        InputError("nothing at https://models.example"),
        IndexBusy("/srv/a.hwdag is being changed"),
        IndexCorrupt("document 'a' of /srv/a.hwdag is damaged"),
        OSError("no space left in /srv"),
    ],
)
def test_paths_and_addresses_are_withheld_in_any_error(error, caplog):
    status, message = refusal(error)
    assert status == {InputError: 400, IndexBusy: 503}.get(type(error), 500)
    assert not re.search("srv|models|example", message)
    assert NUMBER.search(message)[1] in caplog.text and str(error) in caplog.text


def test_an_input_error_that_quotes_another_exception_is_withheld():
    try:
        raise InputError(f"it failed: {SECRET}") from ValueError(SECRET)
    except InputError as error:
        assert SECRET not in refusal(error)[1]


def test_a_model_is_named_without_its_folder():
    assert without_folder("/srv/models/qwen-0.5b") == "qwen-0.5b"
    assert without_folder("openai:/srv/qwen.gguf") == "qwen.gguf"
    assert without_folder("openai:Qwen/Qwen2.5") == "openai:Qwen/Qwen2.5"
    assert without_folder(None) is None

"""Answers and points of a real llama.cpp server, and its errors in the user's terms."""

import json
import os
import re

import pytest
from chat_world import serving
from llama_server import CONTEXT, KEY, gguf_model, llama_server, saying

from hwdag import Document, HWDAGIndex
from hwdag.embedding.hashing import HashingEmbedder
from hwdag.errors import AnswererFailed, InputError, WriterFailed
from hwdag.lm import openai_compatible
from hwdag.lm.openai_compatible import OpenAIWriter
from hwdag_app.cli import inputs
from hwdag_app.main import main
from hwdag_lab.scripted import ScriptedLM

pytest.importorskip("xllamacpp", reason="needs the package xllamacpp")

TOWN = [
    Document("mill", "The mill was built by Ada Holm. It has four wheels.", "The mill"),
    Document("tower", "The tower was built by Jon Berg. Jon Berg died in 1902.", "The tower"),
]
QUESTION = "Who built the tower?"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return gguf_model(tmp_path_factory.mktemp("gguf"))


@pytest.fixture(scope="module")
def url(model):
    with llama_server(model) as url:
        yield url


@pytest.fixture(scope="module")
def town():
    return HWDAGIndex.from_documents(
        TOWN, method="evidence", reader=ScriptedLM(), embedder=HashingEmbedder()
    )


def saying_writer(url, text, **options):
    return OpenAIWriter("some", base_url=url, extra_body=saying(text), **options)


def test_a_reply_is_streamed_with_its_citation_and_its_tokens(town, url):
    stream = town.stream(QUESTION, answerer=saying_writer(url, "Jon Berg [1]"))
    pieces = list(stream)
    answer = stream.answer
    assert "".join(pieces) == answer.text == "Jon Berg [1]"
    assert len(pieces) > 1
    assert [cited.by for cited in answer.citations] == ["number"]
    assert answer.notes == ()
    assert answer.answerer_tokens.by == "server"
    assert answer.answerer_tokens.prompt > 0


def test_a_model_keeps_the_name_that_it_was_asked_for_by(town, url, model):
    """The server's own name for it is the path of the file, and it accepts any other."""
    answer = town.answer(QUESTION, answerer=saying_writer(url, "Jon Berg [1]"))
    assert answer.answered_by == "openai:some"
    assert model.name not in json.dumps(answer.to_dict())


def test_no_tokens_are_not_asked_for(town, url):
    """The server would write one."""
    with pytest.raises(InputError, match="at least 1, got 0"):
        town.answer(QUESTION, answerer=saying_writer(url, "Jon Berg [1]"), max_new_tokens=0)


def test_a_bare_number_is_no_answer(town, url):
    with pytest.raises(AnswererFailed, match=r"no words, only '\[1\]'") as caught:
        town.answer(QUESTION, answerer=saying_writer(url, "[1]"))
    assert caught.value.retrieval.steps


def test_a_reply_of_as_many_tokens_as_allowed_is_marked_as_cut_off(town, url):
    writer = saying_writer(url, "Jon Berg built the tower")
    answer = town.answer(QUESTION, answerer=writer, max_new_tokens=3)
    assert "Jon Berg built the tower".startswith(answer.text)
    assert len(answer.notes) == 1
    assert "cut off" in answer.notes[0]


@pytest.mark.skipif("HWDAG_GGUF" in os.environ, reason="another model counts otherwise")
def test_a_full_context_is_reported_with_its_numbers(url):
    with pytest.raises(WriterFailed, match=f"{CONTEXT:,} tokens for a prompt of 9,0") as caught:
        OpenAIWriter("some", base_url=url).write(["x" * 9000], max_new_tokens=9)
    assert "--budget" in str(caught.value)


def test_a_wrong_key_and_a_wrong_address_are_reported(model, url, monkeypatch):
    monkeypatch.setenv("SOME_KEY", "wrong")
    with llama_server(model, key=KEY) as locked:
        wrong = OpenAIWriter("some", base_url=locked, api_key_env="SOME_KEY")
        keyless = OpenAIWriter("some", base_url=locked)
        for writer, named in ((wrong, "refuses the key, .*SOME_KEY"), (keyless, "asks for a key")):
            with pytest.raises(WriterFailed, match=named):
                writer.write(["a"], max_new_tokens=9)
        monkeypatch.setenv("SOME_KEY", KEY)
        assert wrong.write(["a"], max_new_tokens=9)
    with pytest.raises(WriterFailed, match="no chat API there"):
        OpenAIWriter("some", base_url=f"{url}/v2").write(["a"], max_new_tokens=9)


PAGE = "<html><head><title>502 Bad Gateway</title></head><body><hr>nginx</body></html>"
EMPTY = '{"choices": [{"message": {"content": ""}, "finish_reason": "stop"}]}'
ERRORS = {
    "loading": (503, "Loading model", "loading its model after 0.05 s"),
    "unknown": (404, "model 'some' not found", "does not know the model 'some'"),
    "context": (400, "This model's maximum context length is 8192 tokens.", "8192"),
    "other": (400, "no such field", "no such field"),
    "key": (401, "Invalid API Key", "asks for a key, 'Invalid API Key'"),
    "proxy": (502, PAGE, "sent status 502, 'a web page: 502 Bad Gateway'"),
    "sign-in": (200, PAGE, "a web page: 502 Bad Gateway"),
    "nothing": (200, "", "an empty text"),
    "no words": (200, EMPTY, "its reply is empty"),
}


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    folder = tmp_path_factory.mktemp("town")
    (folder / "tower.txt").write_text(TOWN[1].text, "utf-8")
    path = folder / "town.hwdag"
    assert main(["build", str(folder / "tower.txt"), "-o", str(path), "--quiet"]) == 0
    return str(path)


@pytest.mark.model
@pytest.mark.parametrize(("status", "message", "said"), ERRORS.values(), ids=ERRORS)
def test_an_error_on_the_command_line_is_one_line_without_names_of_python(
    status, message, said, file, monkeypatch, capsys
):
    monkeypatch.setattr(openai_compatible, "LOADING_PAUSE", 0.01)
    monkeypatch.setattr(inputs, "ANSWERER_TIMEOUT", 0.05)
    monkeypatch.setattr(inputs, "ANSWERER_RETRIES", 0)
    is_body = message[:1] in ("", "<", "{")
    said_so = message if is_body else json.dumps({"error": {"message": message, "code": status}})
    content = said_so.encode()
    with serving(lambda request: request.reply(content, status)) as server:
        options = ["--answerer", server.url, "--answerer-model", "some"]
        assert main(["ask", file, QUESTION, *options]) == 2
    check_error(*capsys.readouterr(), said)


def check_error(out, err, said):
    [line] = [one for one in err.splitlines() if one.startswith("hwdag: ")]
    assert said in line
    assert not re.search(r"Error|Exception|\w\(|retrieval|[a-z]_[a-z]", line)
    assert out.startswith("found:\n")


@pytest.mark.model
def test_a_server_that_does_not_run_is_reported_without_an_empty_answer(file, monkeypatch, capsys):
    monkeypatch.setattr(inputs, "ANSWERER_RETRIES", 0)
    options = ["--answerer", "http://127.0.0.1:9/v1", "--answerer-model", "some"]
    assert main(["ask", file, QUESTION, *options]) == 2
    check_error(*capsys.readouterr(), "cannot be reached")


@pytest.mark.model
def test_the_command_line_answers_with_the_words_of_the_server(file, url, capsys):
    options = ["--answerer", url, "--answerer-model", "some", "--max-new-tokens", "12"]
    assert main(["ask", file, QUESTION, *options]) in (0, 2)  # random words may be none
    assert "answer: " in capsys.readouterr().out


def test_a_server_that_loads_its_model_is_waited_for(caplog, monkeypatch):
    monkeypatch.setattr(openai_compatible, "LOADING_PAUSE", 0.01)
    loading = json.dumps({"error": {"message": "Loading model", "code": 503}}).encode()
    behaviours = [lambda request: request.reply(loading, 503)] * 4
    with serving(*behaviours, lambda request: request.completion("* a")) as server:
        writer = OpenAIWriter("some", base_url=server.url, max_retries=0, timeout=20)
        assert writer.write(["a"], max_new_tokens=9) == ["* a"]
    assert len(server.requests) == 5
    assert [record.getMessage().count("loading its model") for record in caplog.records] == [1]

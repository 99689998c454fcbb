"""An answer as clients read it: how sure it is, whether it was found, and whether its reply was cut off."""

import json

import pytest
from chat_world import serving
from serve_world import QUESTION, index, running

pytest.importorskip("starlette", reason="needs the extra serve")
pytest.importorskip("uvicorn", reason="needs the extra serve")
pytest.importorskip("prometheus_client", reason="needs the extra serve")
pytest.importorskip("openai", reason="needs the extra openai")
pytest.importorskip("httpx")

import httpx
import openai

from hwdag.answers.generated import CUT_OFF
from hwdag.lm.openai_compatible import OpenAIWriter

MESSAGES = [{"role": "user", "content": QUESTION}]


def told(address):
    """Return the answer that the page gets."""
    frames = httpx.post(f"{address}/api/ask", json={"question": QUESTION}, timeout=60).text.split(
        "\n\n"
    )
    [found] = [one for one in frames if one.startswith("event: answer")]
    return json.loads(found.partition("data: ")[2])["answer"]


def chosen(address):
    """Return the only choice of a chat at once, and the last one of a stream."""
    client = openai.OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0)
    whole = client.chat.completions.create(model="hwdag", messages=MESSAGES).choices[0]
    *_, last = client.chat.completions.create(model="hwdag", messages=MESSAGES, stream=True)
    return [
        (whole.message, whole.finish_reason),
        (last.choices[0].delta, last.choices[0].finish_reason),
    ]


def test_a_reply_that_was_cut_off_is_marked_in_every_output():
    with serving(lambda request: None) as other:
        answerer = OpenAIWriter("m", base_url=other.url)
        with running(index(answerer=answerer)) as address:
            for reason, note in [*CUT_OFF.items(), ("stop", None)]:
                choice = {"message": {"content": "Clara Holm [1]"}, "finish_reason": reason}
                for reply in (
                    lambda request, reason=reason: request.streamed(
                        "Clara ", "Holm [1]", finish=reason
                    ),
                    lambda request, choice=choice: request.completion("", choices=[choice]),
                ):
                    other.behaviours = [reply]
                    answer = told(address)
                    assert answer["answer"].startswith("Clara Holm [1]")
                    assert answer["notes"] == [note][: note is not None]
                    for message, finish in chosen(address):
                        assert finish == reason
                        assert message.notes == answer["notes"]


def test_confidence_and_found_come_with_an_answer():
    with running(index()) as address:
        answer = told(address)
        for message, finish in chosen(address):
            assert finish == "stop"
            assert (message.found, message.confidence) == (answer["found"], answer["confidence"])
            assert message.citations == answer["citations"]
        assert {"found", "confidence", "notes"} <= answer.keys()

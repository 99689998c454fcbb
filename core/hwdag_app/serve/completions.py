"""`/v1/models` and `/v1/chat/completions`, as clients of OpenAI's API ask and read them."""

from __future__ import annotations

import time
import uuid
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from hwdag.answers.generated import CUT_OFF
from hwdag.errors import InputError
from hwdag.lm.base import Reader
from hwdag.search.follow_ups import turns_of
from hwdag.types import Answer
from hwdag_app.serve.asking import Asked, Questions, unless_gone
from hwdag_app.serve.guard import Events, error_of, frame, json_body
from hwdag_app.serve.refusals import refusal

REFUSED = ("tools", "functions", "response_format", "logprobs", "stop")
"""Options that would change the kind of an answer. Others that the server does not know are ignored."""


class Completions:
    """Answers the last message of a chat from the documents; the API's models are our systems.

    The last message may refer to earlier ones.
    """

    def __init__(self, questions: Questions) -> None:
        self._questions = questions

    async def models(self, request: Request) -> Response:
        """List the systems."""
        listed = [
            {"id": name, "object": "model", "created": 0, "owned_by": "hwdag"}
            for name in self._questions.systems
        ]
        return JSONResponse({"object": "list", "data": listed})

    async def create(self, request: Request) -> Response:
        """Answer, at once or as a stream of chunks, the last of which carries the citations."""
        body = await json_body(request)
        question, history = conversation_of(body)
        name = body.get("model", "hwdag")
        limits = [
            body[n] for n in ("max_completion_tokens", "max_tokens") if body.get(n) is not None
        ]
        wanted = limits[0] if limits else None
        system = self._questions.systems.named(name)
        asked: dict[str, Any] = {"history": history}
        if wanted is not None:
            asked["max_new_tokens"] = wanted
        head = {"id": f"chatcmpl-{uuid.uuid4().hex}", "created": int(time.time()), "model": name}
        if body.get("stream"):
            options = body.get("stream_options") or {}
            if not isinstance(options, dict):
                raise InputError(
                    'stream_options must be an object, such as {"include_usage": true}'
                )
            is_told = bool(options.get("include_usage"))
            chunks = self._chunks(head, system, question, asked, with_usage=is_told)
            return Events(chunks, self._questions.slots)
        with self._questions.slots.one():
            answer = await unless_gone(request, self._whole(name, system, question, asked))
        usage, finish = _usage(answer, system), _finish(answer)
        said = {"role": "assistant", "content": answer.text, "refusal": None}
        message = {**said, **judged(answer)}
        choice = {"index": 0, "message": message, "finish_reason": finish, "logprobs": None}
        return JSONResponse(
            head | {"object": "chat.completion", "choices": [choice], "usage": usage}
        )

    async def _whole(
        self, name: str, system: Asked, question: str, asked: dict[str, Any]
    ) -> Answer:
        async with aclosing(self._questions.ask(name, system, question, **asked)) as events:
            async for event in events:
                if isinstance(event, Answer):
                    answer = event
        return answer

    async def _chunks(
        self,
        head: dict[str, Any],
        system: Asked,
        question: str,
        asked: dict[str, Any],
        *,
        with_usage: bool,
    ) -> AsyncGenerator[str]:
        head = head | {"object": "chat.completion.chunk"}

        def chunk(delta: dict[str, Any], finish: str | None = None) -> str:
            choice = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}
            return frame(head | {"choices": [choice]})

        yield chunk({"role": "assistant", "content": ""})
        try:
            asking = self._questions.ask(head["model"], system, question, **asked)
            async with aclosing(asking) as events:
                async for event in events:
                    if isinstance(event, str):
                        yield chunk({"content": event})
                    elif isinstance(event, Answer):
                        yield chunk(judged(event), _finish(event))
                        if with_usage:
                            yield frame(head | {"choices": [], "usage": _usage(event, system)})
        except Exception as error:
            yield frame({"error": error_of(*refusal(error))})
            return
        yield "data: [DONE]\n\n"


def conversation_of(body: dict[str, Any]) -> tuple[str, list[tuple[str, str]]]:
    """Return the user's last message, and the questions before it with their answers.

    Raises `InputError` if there is no message of a user, or for a refused option.
    """
    if asked := [n for n in REFUSED if body.get(n) and body[n] != {"type": "text"}]:
        raise InputError(f"{', '.join(asked)}: not offered; leave it out")
    if body.get("n") not in (None, 1):
        raise InputError(
            f"n must be 1, got {body['n']!r}; decoding is greedy, so all answers would be the same"
        )
    messages = body.get("messages")
    if not isinstance(messages, list) or not all(isinstance(one, dict) for one in messages):
        raise InputError("messages must be a list of {role, content}")
    turns = turns_of((one.get("role"), _text(one.get("content"))) for one in messages)
    question = turns[-1][0] if turns else ""
    if not question.strip():
        raise InputError("the last message with role 'user' is the question, and it has no text")
    return question, [turn for turn in turns[:-1] if turn[0].strip()]


def _text(content: object) -> str:
    """Return the text of a message, which may have parts."""
    if isinstance(content, list):
        parts = [part for part in content if isinstance(part, dict)]
        return "\n".join(str(part.get("text")) for part in parts if part.get("type") == "text")
    return content if isinstance(content, str) else ""


def judged(answer: Answer) -> dict[str, Any]:
    """Return the fields of a message besides its text: citations, best first, and facts about the answer.

    `found` is whether the documents seem to hold an answer, `confidence` the probability that this one is
    right; either may be None. Offsets count characters.
    """
    shown = answer.to_dict()
    return {name: shown[name] for name in ("citations", "found", "confidence", "notes")}


def _replied(answer: Answer, system: Asked) -> int:
    """Return the tokens of a reply, those of an answerer as its server counts them."""
    if answer.answerer_tokens is not None:
        return answer.answerer_tokens.reply
    reader: Reader = system[0].reader  # type: ignore[attr-defined] # every system has one
    return reader.count_tokens([answer.reply])[0]


def _finish(answer: Answer) -> str:
    """Return why an answer ended: "length", "content_filter" or "stop"."""
    return next((reason for reason, note in CUT_OFF.items() if note in answer.notes), "stop")


def _usage(answer: Answer, system: Asked) -> dict[str, int]:
    """Tokens through the model, and those of the reply among them."""
    total = answer.usage.tokens
    completion = min(_replied(answer, system), total)
    return {
        "prompt_tokens": total - completion,
        "completion_tokens": completion,
        "total_tokens": total,
    }

"""A Writer over any server with OpenAI's chat API: vLLM, SGLang, llama.cpp, Ollama, hosted ones.

The `openai` client makes the requests and retries them. This module adds a time limit per prompt, and
keeps OpenAI's key, organisation and other headers from any other server.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from queue import SimpleQueue
from typing import Any, Literal, get_args
from urllib.parse import urlsplit

from hwdag.checks import one_of, positive, whole
from hwdag.errors import InputError, WriterFailed
from hwdag.text.characters import disarmed, without_surrogates
from hwdag.types import Usage

try:
    import httpx2
    from anyio.from_thread import start_blocking_portal
    from openai import APIConnectionError, APIStatusError, AsyncOpenAI, DefaultAsyncHttpxClient
except ImportError as error:
    raise ImportError("OpenAIWriter needs openai; run `pip install 'hwdag[openai]'`") from error

OPENAI_URL = "https://api.openai.com/v1"
OPENAI_KEY = "OPENAI_API_KEY"

LONGEST_WAIT = 120.0  # longest Retry-After that the client honours, in seconds
MOST_TOKENS = 1 << 32  # a reply that claims more is not believed
EXCERPT_CHARACTERS = 300
THREAD = "hwdag-openai"

LimitField = Literal["max_tokens", "max_completion_tokens"]
_OURS = ("model", "messages", "stream")
_SENT = ("host", "connection", "content-length", "content-type", "accept", "user-agent")


class _Failure(Exception):
    """A prompt got no reply."""


class OpenAIWriter:
    """A model behind an OpenAI-compatible server as a Writer; thread-safe.

    Every prompt is one chat request. The client retries after a temporary failure (no connection,
    time-out, status 408, 409, 429 or 5xx): after 0.5 to 8 seconds, or the server's `Retry-After` of at
    most two minutes. Any other failure ends the call. Redirects are not followed. The key is read from
    the environment for every request and never stored. Control tokens spelled out in a prompt are broken
    up by a space (`hwdag.text.characters.disarmed`).

    Args:
        model: name of the model on the server; the index records "openai:" and this name.
        base_url: the address up to "/v1", such as "http://localhost:8000/v1"; None is OpenAI's own.
        api_key_env: name of the environment variable that holds the key. None is `OPENAI_API_KEY`
            for OpenAI's own address, and no key for any other.
        concurrency: most requests of one call in flight at a time.
        timeout: seconds that a request waits for the server to send something.
        max_retries: requests for one prompt after the first.
        temperature: sampling temperature; None leaves it to the server.
        limit_field: name of the field that limits the reply. None is "max_completion_tokens" for
            OpenAI's own address, whose newer models refuse the other, and "max_tokens" elsewhere.
        extra_body: more fields of the request, such as `{"top_p": 0.9}`.

    Attributes:
        settings: what else replies depend on besides model and prompt, as JSON; not the address.
        usage: tokens that the server counted, and seconds of all calls; TFLOPs are unknown, so 0.

    Raises:
        InputError: an invalid option, or a named key that is not set.
        ImportError: the extra `openai` is not installed.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key_env: str | None = None,
        concurrency: int = 8,
        timeout: float = 300.0,
        max_retries: int = 5,
        temperature: float | None = 0.0,
        limit_field: LimitField | None = None,
        extra_body: Mapping[str, Any] | None = None,
    ) -> None:
        if not model.strip():
            raise InputError("the name of the model is empty; use a name that the server knows")
        self._model, self.name = model, f"openai:{model}"
        self._base_url = _checked_url(OPENAI_URL if base_url is None else base_url)
        official = self._base_url == OPENAI_URL
        self._key_env = api_key_env or (OPENAI_KEY if official else None)
        self.concurrency = whole("concurrency", concurrency, 1)
        self._timeout = positive("timeout", timeout)
        self._max_retries = whole("max_retries", max_retries, 0)
        limit_field = limit_field or ("max_completion_tokens" if official else "max_tokens")
        self._limit_field = one_of("limit_field", limit_field, get_args(LimitField))
        self._options = _checked_options(temperature, extra_body or {})
        self.settings = json.dumps(self._options, sort_keys=True)
        self._lock = threading.Lock()
        self.usage = Usage()
        _key_in(self._key_env)

    def __repr__(self) -> str:
        return f"OpenAIWriter({self._model!r}, base_url={self._base_url!r})"

    def write(self, prompts: Sequence[str], *, max_new_tokens: int) -> list[str]:
        """One reply per prompt, in order. Raises as `replies` does."""
        found = dict(self.replies(prompts, max_new_tokens=max_new_tokens))
        return [found[number] for number in range(len(prompts))]

    def replies(self, prompts: Sequence[str], *, max_new_tokens: int) -> Iterator[tuple[int, str]]:
        """Yield (ordinal of the prompt, reply) as each arrives.

        A reply may be empty. Closing the iterator, or an exception in the loop over it, cancels the
        requests in flight.

        Raises:
            WriterFailed: a prompt got no reply. Replies that arrived before are yielded first.
        """
        if not prompts:
            return
        _key_in(self._key_env)
        arrived = SimpleQueue[tuple[int, str] | None]()
        with start_blocking_portal(name=THREAD) as portal:  # an exception gives up what runs in it
            running = portal.start_task_soon(self._all, prompts, max_new_tokens, arrived)
            running.add_done_callback(lambda _: arrived.put(None))
            while (reply := arrived.get()) is not None:
                yield reply
        if failure := running.result():
            raise WriterFailed(f"{self.name} at {self._base_url}: {failure}")

    async def _all(
        self, prompts: Sequence[str], limit: int, arrived: SimpleQueue[tuple[int, str] | None]
    ) -> str | None:
        """Put every reply into `arrived`; returns the first failure, or None."""
        jobs, began = iter(enumerate(prompts)), time.perf_counter()

        async def work(client: AsyncOpenAI) -> None:
            for number, prompt in jobs:
                try:
                    arrived.put((number, await self._ask(client, prompt, limit)))
                except _Failure as failure:
                    raise _Failure(f"prompt {number + 1} of {len(prompts)} {failure}") from None

        failures = list[str]()
        client = AsyncOpenAI(
            api_key="-",  # set in `_only_ours`
            base_url=self._base_url,
            timeout=self._timeout,
            max_retries=self._max_retries,
            http_client=DefaultAsyncHttpxClient(
                follow_redirects=False, event_hooks={"request": [self._only_ours]}
            ),
        )
        try:
            async with client, asyncio.TaskGroup() as group:
                for _ in range(min(self.concurrency, len(prompts))):
                    group.create_task(work(client))
        except* _Failure as failed:
            failures = list(map(str, failed.exceptions))
        finally:
            self._count(Usage(seconds=time.perf_counter() - began))
        return failures[0] if failures else None

    async def _ask(self, client: AsyncOpenAI, prompt: str, limit: int) -> str:
        """Return the reply to one prompt, after retries. Raises `_Failure`."""
        content = disarmed(without_surrogates(prompt)[0])
        seconds = (1 + self._max_retries) * (self._timeout + LONGEST_WAIT)
        try:
            async with asyncio.timeout(seconds):
                answer = await client.chat.completions.with_raw_response.create(
                    model=self._model,
                    messages=[{"role": "user", "content": content}],
                    extra_body={self._limit_field: limit, **self._options},
                )
        except TimeoutError:
            raise _Failure(f"got no whole reply in {seconds:g} s; raise timeout") from None
        except APIConnectionError as error:  # a time-out of the client as well
            cause = error.__cause__ or error
            seen = f"{type(cause).__name__}: {self._excerpt(str(cause))}"
            raise _Failure(f"got no reply ({seen}); check that the server is well") from None
        except APIStatusError as error:
            status, body = error.response.status_code, self._excerpt(error.response.text)
            raise _Failure(
                f"got status {status}, {body}; {self._way_out(error.response)}"
            ) from None
        response = answer.http_response
        try:
            found = json.loads(response.content)
        except (ValueError, RecursionError):
            found = None
        reply = _text(found)
        if reply is None:
            seen = f"{response.headers.get('content-type')}: {self._excerpt(response.text)}"
            raise _Failure(f"got a body that is no chat completion ({seen}); check base_url")
        self._count(Usage(_tokens(found.get("usage"))))
        return reply

    async def _only_ours(self, request: httpx2.Request) -> None:
        """Remove the client's own headers: some come from the environment, whatever the server."""
        for name in set(request.headers) - set(_SENT):
            if not name.startswith("x-stainless-"):  # the client's own notes
                del request.headers[name]
        request.headers["Accept-Encoding"] = "identity"
        if key := _key_in(self._key_env):
            request.headers["Authorization"] = f"Bearer {key}"

    def _way_out(self, response: httpx2.Response) -> str:
        status, wait = response.status_code, response.headers.get("retry-after")
        if status in (401, 403):
            if self._key_env is None:
                return "no key was sent; name its environment variable as api_key_env"
            return f"check the key in the environment variable {self._key_env}"
        if status == 404:
            return "check the name of the model, and base_url, which mostly ends in /v1"
        if 300 <= status < 400:
            return "redirects are not followed, pass the address itself as base_url"
        if status in (408, 409, 429) or status >= 500:
            return f"it asks to wait {wait} s" if wait else "check that the server is well"
        return "the server does not take the request: see limit_field, temperature and extra_body"

    def _excerpt(self, text: str) -> str:
        """Start of what a server sent, without the key."""
        key = os.environ.get(self._key_env or "", "").strip()
        text = (text.replace(key, "***") if key else text).strip()
        return f"{text[:EXCERPT_CHARACTERS]!r}{'...' * (len(text) > EXCERPT_CHARACTERS)}"

    def _count(self, usage: Usage) -> None:
        with self._lock:
            self.usage += usage


def _key_in(variable: str | None) -> str:
    if variable is None:
        return ""
    key = os.environ.get(variable, "").strip()
    if not key:
        raise InputError(
            f"the environment variable {variable} is not set; put the key into it, or pass the "
            "base_url of a server that needs none"
        )
    if not key.isascii() or not key.isprintable() or " " in key:
        raise InputError(
            f"the environment variable {variable} holds characters that no key has; it must be the "
            "key and nothing else"
        )
    return key


def _text(body: object) -> str | None:
    """Text of the reply; "" if empty, None if the body is not a chat completion."""
    match body:
        case {"choices": []}:
            return ""
        case {"choices": [{"message": dict() as message}, *_]}:
            content = message.get("content") or ""
            return without_surrogates(content)[0] if isinstance(content, str) else None
    return None


def _tokens(usage: object) -> int:
    """Tokens of prompt and reply; 0 if unknown."""
    match usage:
        case {"total_tokens": int() as total} if 0 < total < MOST_TOKENS:
            return total
        case {"prompt_tokens": int() as prompt, "completion_tokens": int() as reply}:
            return prompt + reply if prompt >= 0 <= reply and prompt + reply < MOST_TOKENS else 0
    return 0


def _checked_url(url: str) -> str:
    if any(mark in url for mark in "@?#"):
        raise InputError(
            "base_url holds a user, a query or a fragment, which may be a secret; pass an address "
            "such as http://localhost:8000/v1, and the key by its environment variable (api_key_env)"
        )
    try:
        parts = urlsplit(url)
        legal = parts.scheme in ("http", "https") and parts.hostname
    except ValueError:
        legal = False
    if not legal:
        raise InputError(f"base_url must be like http://localhost:8000/v1, got {url!r}")
    return url.rstrip("/")


def _checked_options(temperature: float | None, extra: Mapping[str, Any]) -> dict[str, Any]:
    if taken := [name for name in extra if name in _OURS]:
        raise InputError(f"extra_body cannot hold {', '.join(taken)}: the writer sets these itself")
    options = {**({} if temperature is None else {"temperature": temperature}), **extra}
    try:
        json.dumps(options, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InputError(f"temperature and extra_body must be plain JSON: {error}") from error
    return options

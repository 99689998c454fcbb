"""A Writer that asks a server with OpenAI's chat API: vLLM, SGLang, llama.cpp, Ollama, hosted ones.

The `openai` client makes the requests and repeats them. What it lacks is added in its transport: a
reply of bounded size, a hard end of every request, a check that the body is a reply, and no key,
organisation or other header of OpenAI for anybody else. Callers see plain iterators.
"""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from queue import SimpleQueue
from typing import Any, Literal, get_args
from urllib.parse import urlsplit

from hwdag.checks import one_of, positive, whole
from hwdag.errors import InputError, WriterFailed
from hwdag.text.characters import disarmed, without_surrogates
from hwdag.types import Usage
from hwdag.version import __version__

try:
    import httpx2
    from anyio.from_thread import start_blocking_portal
    from openai import APIConnectionError, APIStatusError, AsyncOpenAI
except ImportError as error:
    raise ImportError("OpenAIWriter needs openai; run `pip install 'hwdag[openai]'`") from error

OPENAI_URL = "https://api.openai.com/v1"
OPENAI_KEY = "OPENAI_API_KEY"

REPLY_BYTES = 4 << 20  # a body beyond this is no reply: the longest points have some kilobytes
MOST_TOKENS = 1 << 32  # a reply that claims more than this is not believed

CONNECT_SECONDS = 10.0
EXCERPT_CHARACTERS = 300
THREAD = "hwdag-openai"

LimitField = Literal["max_tokens", "max_completion_tokens"]
_OURS = ("model", "messages", "stream")


class _Failure(Exception):
    """Raised where a prompt leads to no reply."""


class OpenAIWriter:
    """A model behind an OpenAI-compatible server as a Writer; thread-safe.

    Every prompt is one chat request. A request that fails for a passing reason (no connection, a
    time-out, status 408, 409, 429 or 5xx, a body that is no reply) is repeated after a wait that doubles
    up to eight seconds and is jittered, or after the server's `Retry-After` of at most two minutes; any
    other failure ends the call at once. Redirects are not followed. The key is read from the environment
    for every request and kept nowhere. Spellings of control tokens in a prompt get a space
    (`hwdag.text.characters.disarmed`).

    Args:
        model: name of the model at the server; the index records "openai:" and this name.
        base_url: the address up to "/v1", such as "http://localhost:8000/v1"; None is OpenAI's own.
        api_key_env: name of the environment variable that holds the key. None is `OPENAI_API_KEY`
            for OpenAI's own address, and no key for any other, which is then not sent one.
        concurrency: requests of one call that are under way at a time, at most.
        timeout: seconds that one request may take, its whole reply included.
        max_retries: further requests for one prompt after the first.
        temperature: of the sampling; None leaves it to the server.
        limit_field: name of the field that limits the reply. None is "max_completion_tokens" for
            OpenAI's own address, whose newer models refuse the other, and "max_tokens" elsewhere.
        extra_body: more fields of the request, such as `{"top_p": 0.9}`.

    Attributes:
        settings: what replies depend on besides model and prompt, as JSON; not the address.
        usage: tokens that the server counted, and seconds of all calls; TFLOPs are unknown, so 0.

    Raises:
        InputError: an option that cannot be, or a key that is named and not there.
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
        """(Ordinal of the prompt, reply), each as soon as it has arrived.

        A model that replies with nothing gives an empty reply. Closing the iterator, or an exception
        in the loop over it, gives up the requests that are under way.

        Raises:
            WriterFailed: a prompt got no reply. Those that arrived before are yielded first.
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
        """Put every reply into `arrived`; returns what went wrong, if anything did."""
        jobs, began = iter(enumerate(prompts)), time.perf_counter()

        async def work(client: AsyncOpenAI) -> None:
            for number, prompt in jobs:
                try:
                    arrived.put((number, await self._ask(client, prompt, limit)))
                except _Failure as failure:
                    raise _Failure(f"prompt {number + 1} of {len(prompts)} {failure}") from None

        failures = list[str]()
        try:
            # the guard sets the key, and only where it belongs; it bounds a request as a whole
            guarded = AsyncOpenAI(
                api_key="-",
                base_url=self._base_url,
                timeout=None,
                max_retries=self._max_retries,
                http_client=_Guard(self._key_env, self._timeout),
            )
            async with guarded as client, asyncio.TaskGroup() as group:
                for _ in range(min(self.concurrency, len(prompts))):
                    group.create_task(work(client))
        except* _Failure as failed:
            failures = list(map(str, failed.exceptions))
        finally:
            self._count(Usage(seconds=time.perf_counter() - began))
        return failures[0] if failures else None

    async def _ask(self, client: AsyncOpenAI, prompt: str, limit: int) -> str:
        """The reply to one prompt, after as many requests as it takes. Raises `_Failure`."""
        content = disarmed(without_surrogates(prompt)[0])
        ask = client.chat.completions.with_raw_response.create
        try:
            answer = await ask(
                model=self._model,
                messages=[{"role": "user", "content": content}],
                extra_body={self._limit_field: limit, **self._options},
            )
        except APIConnectionError as error:  # time-outs and bodies that are no reply as well
            seen = f"{_requests(error.request)}: {error.__cause__}"
            raise _Failure(f"got no reply after {seen}; check that the server is well") from None
        except APIStatusError as error:
            response = error.response
            phrase = httpx2.codes.get_reason_phrase(response.status_code)
            seen = f"status {response.status_code}{phrase and f' ({phrase})'}"
            key = os.environ.get(self._key_env or "", "").strip()
            seen += f", {_excerpt(response, key)}; {self._way_out(response)}"
            raise _Failure(f"got no reply after {_requests(error.request)}: {seen}") from None
        body = answer.http_response.json()
        self._count(Usage(_tokens(body.get("usage"))))
        return _text(body) or ""

    def _way_out(self, response: httpx2.Response) -> str:
        status, wait = response.status_code, response.headers.get("retry-after", "")
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

    def _count(self, usage: Usage) -> None:
        with self._lock:
            self.usage += usage


class _NoReply(httpx2.RequestError):
    """What the client shall take for a broken connection, and repeat."""


class _Guard(httpx2.AsyncClient):
    """Sends requests for the client: bounded, and with nothing in them that is not for this server."""

    def __init__(self, key_env: str | None, seconds: float) -> None:
        super().__init__(
            headers={
                "Accept": "application/json",
                "Accept-Encoding": "identity",  # a compressed body has no bound
                "Content-Type": "application/json",
                "User-Agent": f"hwdag/{__version__}",
            },
            limits=httpx2.Limits(max_connections=None),  # the tasks bound them
            timeout=httpx2.Timeout(None, connect=CONNECT_SECONDS),  # the rest is bounded as a whole
            follow_redirects=False,
            verify=_certificates(),
        )
        self._key_env, self._seconds = key_env, seconds

    async def send(self, request: httpx2.Request, **_: Any) -> httpx2.Response:
        key = _key_in(self._key_env)
        # the client's own headers stay here: it takes OPENAI_ORG_ID, OPENAI_PROJECT_ID and
        # OPENAI_CUSTOM_HEADERS from the environment, whoever the server is
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        sent = self.build_request("POST", request.url, headers=headers, content=request.content)
        try:
            async with asyncio.timeout(self._seconds):
                found, content = await super().send(sent, stream=True), bytearray()
                try:
                    async for chunk in found.aiter_raw():
                        content += chunk
                        if len(content) > REPLY_BYTES:
                            raise _NoReply(f"a body of more than {REPLY_BYTES:,} bytes")
                finally:
                    await found.aclose()
        except TimeoutError:
            raise _NoReply(f"no whole reply within {self._seconds:.3g} s") from None
        except httpx2.HTTPError as error:
            raise _NoReply(_without(key, f"{type(error).__name__}: {error}")) from None
        wanted = ("content-type", "retry-after", "retry-after-ms")
        told = {name: found.headers[name] for name in wanted if name in found.headers}
        response = httpx2.Response(
            found.status_code, headers=told, content=bytes(content), request=request
        )
        if response.is_success and _text(_json(response)) is None:
            kind = told.get("content-type") or "no content type"
            raise _NoReply(
                f"status {response.status_code} with a body that is no chat completion ({kind}), "
                f"{_excerpt(response, key)}"
            )
        return response


def _json(response: httpx2.Response) -> Any:
    try:
        return response.json()
    except (ValueError, RecursionError):
        return None


def _excerpt(response: httpx2.Response, key: str) -> str:
    text = _without(key, response.content.decode(errors="replace")).strip()
    shown = repr(text[:EXCERPT_CHARACTERS])
    return f"body {shown}{'...' if len(text) > EXCERPT_CHARACTERS else ''}"


def _without(key: str, text: str) -> str:
    return text.replace(key, "***") if key else text


@lru_cache(maxsize=1)
def _certificates() -> ssl.SSLContext:
    """Loading them takes longer than many a request."""
    return httpx2.create_ssl_context()


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


def _requests(last: httpx2.Request) -> str:
    """How many requests were made, by what the client notes on the last one."""
    made = 1 + int(last.headers.get("x-stainless-retry-count", 0))
    return "1 request" if made == 1 else f"{made} requests"


def _text(body: Any) -> str | None:
    match body:
        case {"choices": []} | {"choices": [{"message": {"content": None}}, *_]}:
            return ""
        case {"choices": [{"message": {"content": str() as content}}, *_]}:
            return without_surrogates(content)[0]
        case {"choices": [{"message": dict() as message}, *_]} if "content" not in message:
            return ""
    return None


def _tokens(usage: object) -> int:
    """Tokens of prompt and reply; 0 where they are not told."""
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
        legal = parts.scheme in ("http", "https") and parts.hostname and httpx2.URL(url).host
    except (httpx2.InvalidURL, ValueError):
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

"""A Writer that asks a server with OpenAI's chat API: vLLM, SGLang, llama.cpp, Ollama, hosted ones.

The requests run in an event loop of their own, in a thread of the writer, so that every wait has a
hard end and whatever is given up is given up at once; callers, in a running loop or not, see plain
iterators. The HTTP client is used directly rather than through the `openai` package, which
bounds neither the size of what it reads nor the time of a reply that arrives in drips.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import threading
import time
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from http import HTTPStatus
from queue import SimpleQueue
from typing import Any, Literal, Self, get_args

from hwdag.errors import InputError, UnknownOption, WriterFailed
from hwdag.lm.http_loop import Failure, HTTPLoop, Response, is_address, wait_before
from hwdag.text.characters import disarmed, without_surrogates
from hwdag.types import Usage

OPENAI_URL = "https://api.openai.com/v1"
OPENAI_KEY = "OPENAI_API_KEY"

MOST_TOKENS = 1 << 32
"""A reply that claims more than this is not believed."""


LimitField = Literal["max_tokens", "max_completion_tokens"]
_OURS = ("model", "messages", "stream")
_RETRIED = {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.CONFLICT, HTTPStatus.TOO_MANY_REQUESTS}
_Arrival = tuple[int, str]


class OpenAIWriter:
    """A model behind an OpenAI-compatible server as a Writer.

    Every prompt is one chat request. At most `concurrency` of them are under way at a time, however
    many threads call. A request that fails for a passing reason (no connection, a time-out, status
    408, 409, 429 or 5xx, a body that is no reply) is repeated after a wait that doubles, is jittered,
    and is never shorter than the server's `Retry-After`; any other failure ends the call at once.

    The key is read from the environment for every request and kept nowhere. Redirects are not
    followed. Thread-safe; `close()`, a `with` block or the garbage collector ends the thread.

    A server may read control tokens in a prompt as such, so their spellings get a space
    (`hwdag.text.characters.disarmed`).

    Relations: `CallableWriter` takes any other client. The reader stays local: edges need attention.

    Args:
        model: name of the model at the server; the index records "openai:" and this name.
        base_url: the address up to "/v1", such as "http://localhost:8000/v1"; None is OpenAI's own.
        api_key_env: name of the environment variable that holds the key. None is `OPENAI_API_KEY`
            for OpenAI's own address, and no key for any other, which is then not sent one.
        concurrency: requests at a time.
        timeout: seconds that one request may take, its whole reply included.
        total_timeout: seconds that one prompt may take, retries and waits included.
        max_retries: further requests for one prompt after the first.
        temperature: of the sampling; None leaves it to the server.
        limit_field: name of the field that limits the reply. None is "max_completion_tokens" for
            OpenAI's own address, whose newer models refuse the other, and "max_tokens" elsewhere.
        extra_body: more fields of the request, such as `{"top_p": 0.9}`.
        sleep: what waits between retries; for tests.

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
        total_timeout: float = 1800.0,
        max_retries: int = 5,
        temperature: float | None = 0.0,
        limit_field: LimitField | None = None,
        extra_body: Mapping[str, Any] | None = None,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        if not model.strip():
            raise InputError("the name of the model is empty; use a name that the server knows")
        self._model = model
        self._base_url = _checked_url(OPENAI_URL if base_url is None else base_url)
        official = self._base_url == OPENAI_URL
        self._key_env = api_key_env or (OPENAI_KEY if official else None)
        self._concurrency = _whole("concurrency", concurrency, 1)
        self._timeout = _seconds("timeout", timeout)
        self._total_timeout = _seconds("total_timeout", total_timeout)
        self._max_retries = _whole("max_retries", max_retries, 0)
        self._limit_field = _checked_limit_field(
            limit_field or ("max_completion_tokens" if official else "max_tokens")
        )
        self._options = _checked_options(temperature, extra_body or {})
        self._sleep = sleep
        self._lock = threading.Lock()
        self._loop: HTTPLoop | None = None
        self._usage = Usage()
        self._uncounted = 0
        self._key()

    def __repr__(self) -> str:
        return f"OpenAIWriter({self._model!r}, base_url={self._base_url!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def name(self) -> str:
        """Recorded in the index."""
        return f"openai:{self._model}"

    @property
    def concurrency(self) -> int:
        """Requests under way at a time, at most."""
        return self._concurrency

    @property
    def settings(self) -> str:
        """What its replies depend on besides model and prompt, as JSON; not the address."""
        return json.dumps(self._options, sort_keys=True)

    @property
    def usage(self) -> Usage:
        """Tokens that the server counted, and seconds of all calls; TFLOPs are unknown, so 0."""
        with self._lock:
            return self._usage

    @property
    def notes(self) -> tuple[str, ...]:
        """In words, what `usage` does not say."""
        with self._lock:
            if not self._uncounted:
                return ()
            return (f"{self.name} did not count the tokens of {self._uncounted} replies",)

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
        arrived = SimpleQueue[_Arrival | None]()
        running = self._start(
            lambda loop: self._all(loop, prompts, max_new_tokens, self._key(), arrived)
        )
        try:
            running.add_done_callback(lambda _: arrived.put(None))
            while (reply := arrived.get()) is not None:
                yield reply
            if failure := _outcome(running):
                raise WriterFailed(f"{self.name} at {self._base_url}: {failure}")
        finally:
            running.cancel()

    def close(self) -> None:
        """End the thread; replies that are waited for fail. The next call starts a new one."""
        with self._lock:
            loop, self._loop = self._loop, None
        if loop is not None:
            loop.close()

    def _start(
        self, make: Callable[[HTTPLoop], Coroutine[Any, Any, str | None]]
    ) -> Future[str | None]:
        with self._lock:  # so that nothing is started in a loop that is being closed
            if self._loop is None or not self._loop.alive:
                self._loop = HTTPLoop(self._concurrency)
                weakref.finalize(self, self._loop.close)
            return self._loop.start(make(self._loop))

    async def _all(
        self,
        loop: HTTPLoop,
        prompts: Sequence[str],
        limit: int,
        key: str,
        arrived: SimpleQueue[_Arrival | None],
    ) -> str | None:
        """Put every reply into `arrived`; returns what went wrong, if anything did."""
        jobs = iter(enumerate(prompts))

        async def work() -> None:
            for number, prompt in jobs:
                try:
                    async with loop.slots:
                        arrived.put((number, await self._ask(loop, self._body(prompt, limit), key)))
                except Failure as failure:
                    raise Failure(f"prompt {number + 1} of {len(prompts)} {failure}") from None

        failures, began = list[str](), time.perf_counter()
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(self._concurrency, len(prompts))):
                    group.create_task(work())
        except* Failure as failed:
            failures = list(map(str, failed.exceptions))
        finally:
            self._count(Usage(seconds=time.perf_counter() - began))
        return failures[0] if failures else None

    async def _ask(self, loop: HTTPLoop, body: bytes, key: str) -> str:
        """The reply to one prompt, after as many requests as it takes. Raises `Failure`."""
        deadline, requests = time.monotonic() + self._total_timeout, 0
        url = f"{self._base_url}/chat/completions"
        while True:
            requests += 1
            seconds = min(self._timeout, deadline - time.monotonic())
            try:
                return self._read(await loop.post(url, body, key=key, seconds=seconds), key)
            except Failure as failure:
                wait = wait_before(requests, failure.asked_wait)
                given_up = f"got no reply after {_times(requests)}: {failure}"
                if not failure.passing:
                    raise Failure(given_up) from None
                if requests > self._max_retries:
                    raise Failure(f"{given_up}; check that the server is well") from None
                if wait > deadline - time.monotonic():
                    raise Failure(
                        f"{given_up}; the next would wait {wait:.0f} s, longer than total_timeout "
                        f"({self._total_timeout:g} s) leaves"
                    ) from None
            await self._sleep(wait)

    def _read(self, response: Response, key: str) -> str:
        """The text of a reply; its tokens are counted. Raises `Failure`."""
        if not 200 <= response.status < 300:
            raise self._refused(response, key)
        body = response.json()
        text = _text(body)
        if text is None:
            kind = response.content_type or "no content type"
            seen = f"a body that is no chat completion ({kind}), {response.excerpt(key)}"
            raise Failure(f"status {response.status} with {seen}", passing=True)
        tokens = _tokens(body.get("usage"))
        with self._lock:
            self._uncounted += tokens is None
        self._count(Usage(tokens or 0))
        return text

    def _refused(self, response: Response, key: str) -> Failure:
        """What a status says that is not success."""
        status = response.status
        seen = f"status {status}{_phrase(status)}, {response.excerpt(key)}"
        if status in _RETRIED or status >= 500:
            return Failure(seen, passing=True, asked_wait=response.asked_wait)
        return Failure(f"{seen}; {self._way_out(status)}")

    def _way_out(self, status: int) -> str:
        if status in (401, 403):
            if self._key_env is None:
                return "no key was sent; name its environment variable as api_key_env"
            return f"check the key in the environment variable {self._key_env}"
        if status == 404:
            return "check the name of the model, and base_url, which mostly ends in /v1"
        if 300 <= status < 400:
            return "redirects are not followed, pass the address itself as base_url"
        return "the server does not take the request: see limit_field, temperature and extra_body"

    def _body(self, prompt: str, limit: int) -> bytes:
        message = {"role": "user", "content": disarmed(without_surrogates(prompt)[0])}
        ours = {"model": self._model, "messages": [message], self._limit_field: limit}
        return json.dumps(ours | self._options).encode()

    def _key(self) -> str:
        """The key, or nothing where none is to be sent. Raises `InputError`, which does not show it."""
        if self._key_env is None:
            return ""
        key = os.environ.get(self._key_env, "").strip()
        if not key:
            raise InputError(
                f"the environment variable {self._key_env} is not set; put the key into it, or pass "
                "the base_url of a server that needs none"
            )
        if not key.isascii() or not key.isprintable() or " " in key:
            raise InputError(
                f"the environment variable {self._key_env} holds characters that no key has; it "
                "must be the key and nothing else"
            )
        return key

    def _count(self, usage: Usage) -> None:
        with self._lock:
            self._usage += usage


def _outcome(running: Future[str | None]) -> str | None:
    try:
        return running.result()
    except CancelledError:
        return "the writer was closed while replies were waited for"


def _text(body: Any) -> str | None:
    """What the model said; None where the body is no chat completion."""
    match body:
        case {"choices": []} | {"choices": [{"message": {"content": None}}, *_]}:
            return ""
        case {"choices": [{"message": {"content": str() as content}}, *_]}:
            return without_surrogates(content)[0]
        case {"choices": [{"message": dict() as message}, *_]} if "content" not in message:
            return ""
    return None


def _tokens(usage: object) -> int | None:
    """Tokens of prompt and reply; None where they are not told."""
    match usage:
        case {"total_tokens": int() as total} if 0 < total < MOST_TOKENS:
            return total
        case {"prompt_tokens": int() as prompt, "completion_tokens": int() as reply}:
            return prompt + reply if prompt >= 0 <= reply and prompt + reply < MOST_TOKENS else None
    return None


def _times(requests: int) -> str:
    return "1 request" if requests == 1 else f"{requests} requests"


def _phrase(status: int) -> str:
    try:
        return f" ({HTTPStatus(status).phrase})"
    except ValueError:
        return ""


def _checked_url(url: str) -> str:
    """The address without a slash at its end."""
    if any(mark in url for mark in "@?#"):
        raise InputError(
            "base_url holds a user, a query or a fragment, which may be a secret; pass an address "
            "such as http://localhost:8000/v1, and the key by its environment variable (api_key_env)"
        )
    if not is_address(url):
        raise InputError(f"base_url must be like http://localhost:8000/v1, got {url!r}")
    return url.rstrip("/")


def _checked_limit_field(name: LimitField) -> LimitField:
    if name not in get_args(LimitField):
        known = ", ".join(get_args(LimitField))
        raise UnknownOption(f"limit_field must be one of {known}, got {name!r}")
    return name


def _checked_options(temperature: float | None, extra: Mapping[str, Any]) -> dict[str, Any]:
    if taken := [name for name in extra if name in _OURS]:
        raise InputError(f"extra_body cannot hold {', '.join(taken)}: the writer sets these itself")
    options = {**({} if temperature is None else {"temperature": temperature}), **extra}
    try:
        json.dumps(options, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InputError(f"temperature and extra_body must be plain JSON: {error}") from error
    return options


def _whole(name: str, value: int, minimum: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
        raise InputError(f"{name} must be a whole number of at least {minimum}, got {value!r}")
    return value


def _seconds(name: str, value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise InputError(f"{name} must be a number of seconds above 0, got {value!r}")
    return value

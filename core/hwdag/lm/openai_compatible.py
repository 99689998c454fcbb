"""A Writer over any server with OpenAI's chat API: vLLM, SGLang, llama.cpp, Ollama, hosted ones.

The `openai` client makes the requests and retries them. This module limits the time of a prompt, and
keeps OpenAI's key, organisation and other headers from any other server.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import threading
import time
from collections.abc import (
    AsyncIterable,
    Awaitable,
    Callable,
    Generator,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import contextmanager
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from hwdag.checks import positive, whole
from hwdag.errors import InputError, WriterFailed
from hwdag.lm.base import StopFlag
from hwdag.text.characters import disarmed, one_line, without_surrogates
from hwdag.types import ReplyEnd, TokenCount, Usage

try:
    import httpx2
    from anyio.from_thread import start_blocking_portal
    from openai import (
        APIConnectionError,
        APIError,
        APIStatusError,
        APITimeoutError,
        AsyncOpenAI,
        DefaultAsyncHttpxClient,
    )
except ImportError as error:
    raise ImportError("OpenAIWriter needs openai; run `pip install 'hwdag[openai]'`") from error

OPENAI_URL = "https://api.openai.com/v1"
LONGEST_WAIT = 120.0  # longest Retry-After that the client honours, in seconds
MOST_TOKENS = 1 << 32  # a reply that claims more is not believed
GRACE_SECONDS = 60.0  # for the requests under way once another one has failed
LOADING_PAUSE = 2.0  # seconds before a server that loads its model is asked again
EXCERPT_CHARACTERS = 300
LONGEST_READ = 20_000  # characters of a server's text that are looked at
STOP_SECONDS = 0.1  # between two looks at a stop flag
THREAD = "hwdag-openai"

_LOGGER = logging.getLogger("hwdag")

T = TypeVar("T")
R = TypeVar("R")
Put = Callable[[T], None]

_HEADERS = ("host", "connection", "content-length", "content-type", "accept", "user-agent")


class OpenAIWriter:
    """A model on an OpenAI-compatible server as a Writer; thread-safe.

    Every prompt is one chat request. The client retries temporary failures: no connection, a time-out,
    status 408, 409, 429 or 5xx. A server that is still loading its model is waited for, up to `timeout`.
    Any other failure ends the call, and so does a redirect. The key is
    read from the environment for every request and never stored. A space breaks up control tokens
    that a prompt spells out (`hwdag.text.characters.disarmed`).

    Args:
        model: name of the model on the server; the index records "openai:" and this name.
        base_url: the address up to "/v1", such as "http://localhost:8000/v1"; None is OpenAI's own.
        api_key_env: name of the environment variable that holds the key. None is `OPENAI_API_KEY`
            for OpenAI's own address, and no key for any other.
        concurrency: most requests of one call in flight at a time.
        timeout: seconds that a request may take, or the next piece of a reply in pieces, or the loading
            of the model. Signs of life without content do not count as a piece.
        max_retries: requests for one prompt after the first.
        temperature: sampling temperature; None leaves it to the server.
        extra_body: more fields of the request, such as `{"top_p": 0.9}`. A "max_completion_tokens"
            among them replaces "max_tokens", which limits replies everywhere but at OpenAI.

    Attributes:
        settings: all that replies depend on besides model and prompt, as JSON; not the address.
        usage: tokens that the server counted, and seconds of all calls; TFLOPs are unknown, so 0.

    Raises:
        InputError: an invalid option, or a key that is not set.
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
        extra_body: Mapping[str, Any] | None = None,
    ) -> None:
        if not model.strip():
            raise InputError("the name of the model is empty; use a name that the server knows")
        self._model, self.name = model, f"openai:{model}"
        self._url = _checked_url(OPENAI_URL if base_url is None else base_url)
        official = self._url == OPENAI_URL
        self._key_env = api_key_env or ("OPENAI_API_KEY" if official else "")
        self.concurrency = whole("concurrency", concurrency, 1)
        self._timeout = positive("timeout", timeout)
        self._max_retries = whole("max_retries", max_retries, 0)
        self._seconds = timeout + (1 + max_retries) * (timeout + LONGEST_WAIT)  # of a prompt
        self._options = dict(extra_body or {})
        if temperature is not None:
            self._options = {"temperature": temperature} | self._options
        newer = official or "max_completion_tokens" in self._options
        self._limit_field = "max_completion_tokens" if newer else "max_tokens"
        self.settings = _checked_json(self._options)
        self._lock = threading.Lock()
        self.usage = Usage()
        self._key()

    def __repr__(self) -> str:
        return f"OpenAIWriter({self._model!r}, base_url={self._url!r})"

    def write(self, prompts: Sequence[str], *, max_new_tokens: int) -> list[str]:
        """Return one reply per prompt, in order. Raises as `replies` does."""
        found = dict(self.replies(prompts, max_new_tokens=max_new_tokens))
        return [found[number] for number in range(len(prompts))]

    def replies(self, prompts: Sequence[str], *, max_new_tokens: int) -> Iterator[tuple[int, str]]:
        """Yield (ordinal of the prompt, reply) as each arrives.

        A reply may be empty. Closing the iterator, or an exception in the loop over it, cancels the
        requests in flight.

        Raises:
            WriterFailed: a prompt got no reply. Others that were sent are yielded first, if they come
                within `GRACE_SECONDS`.
        """
        yield from self._running(partial(self._ask_all, prompts, max_new_tokens))

    def stream(
        self, prompt: str, *, max_new_tokens: int, stop: StopFlag | None = None
    ) -> Generator[str, None, ReplyEnd]:
        """Yield the reply to one prompt in pieces, as the server sends them.

        Closing the iterator cancels the request, and so does `stop`, once it is set. Returns why the reply ended, and its tokens if the
        server counts them.

        Raises:
            WriterFailed: there was no reply, or it broke off after the pieces yielded so far.
        """
        found = yield from self._running(partial(self._stream, prompt, max_new_tokens), stop)
        return found or ReplyEnd()

    def _running(
        self, work: Callable[[Put[T]], Awaitable[R]], stop: StopFlag | None = None
    ) -> Generator[T, None, R | None]:
        """Yield the items that the work puts, and return its result, None if `stop` was set.

        Leaving the portal early cancels the work.
        """
        self._key()
        began, put = time.perf_counter(), SimpleQueue[T | None]()
        with start_blocking_portal(name=THREAD) as portal:
            running = portal.start_task_soon(work, put.put)
            running.add_done_callback(lambda _: put.put(None))
            try:
                while True:
                    try:
                        one = put.get(timeout=None if stop is None else STOP_SECONDS)
                    except Empty:
                        if stop is not None and stop.is_set():
                            running.cancel()
                            return None
                        continue
                    if one is None:
                        break
                    yield one
                if isinstance(failure := running.exception(), WriterFailed):
                    raise WriterFailed(*failure.args)  # without the frames that know the key
                return running.result()
            finally:
                self._count(Usage(seconds=time.perf_counter() - began))

    async def _ask_all(self, prompts: Sequence[str], limit: int, put: Put[tuple[int, str]]) -> None:
        """Put (ordinal of the prompt, reply) as each arrives.

        Once a prompt has failed no other is sent, and those under way, which are paid, have
        `GRACE_SECONDS`.
        """
        slots, failures = asyncio.Semaphore(self.concurrency), list[Exception]()
        async with self._client() as client:

            async def ask(number: int, prompt: str) -> None:
                with self._blaming(f", prompt {number + 1}"):
                    create = client.chat.completions.with_raw_response.create
                    async with asyncio.timeout(self._seconds):
                        asking = partial(create, **self._request(prompt, limit))
                        answer = await self._once_loaded(asking)
                    put((number, self._reply(answer.http_response)[0]))

            async def ask_in_turn(number: int, prompt: str) -> None:
                async with slots:
                    if failures:
                        return
                    try:
                        await ask(number, prompt)
                    except Exception as error:
                        failures.append(error)
                        raise

            tasks = [asyncio.create_task(ask_in_turn(*job)) for job in enumerate(prompts)]
            try:
                if tasks:
                    await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
                    await asyncio.wait(tasks, timeout=GRACE_SECONDS)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
        if failures:
            raise failures[0]

    async def _stream(self, prompt: str, limit: int, put: Put[str]) -> ReplyEnd:
        """Put the pieces of a reply as they arrive; return how it ended.

        Raises ValueError for a stream that ends without saying why: it may have been cut off.
        """
        asked = self._request(prompt, limit) | {"stream_options": {"include_usage": True}}
        with self._blaming():
            async with self._client() as client, asyncio.timeout(self._seconds):
                create = client.chat.completions.create
                stream = await self._once_loaded(partial(create, stream=True, **asked))
                async with asyncio.timeout(self._timeout) as patience:
                    if "event-stream" in stream.response.headers.get("content-type", ""):
                        return await self._read(stream, put, patience)
                    await stream.response.aread()
                reply, end = self._reply(stream.response)  # a server that does not stream
                put(reply)
                return end

    async def _read(
        self, stream: AsyncIterable[Any], put: Put[str], patience: asyncio.Timeout
    ) -> ReplyEnd:
        """Put the pieces of a stream; each content of it renews the patience of `timeout` seconds."""
        usage, reason, now = None, "", asyncio.get_running_loop().time
        async for chunk in stream:
            found = chunk.model_dump(warnings=False)
            usage = found.get("usage") or usage  # some servers send it with every piece
            if _has_content(found):
                patience.reschedule(now() + self._timeout)
            piece, ended = _piece(found)
            if piece:
                put(piece)
            reason = _checked_end(ended, found) or reason
        tokens = self._counted(usage)
        if not reason:
            raise ValueError("the reply broke off: its stream ended without a finish_reason")
        return ReplyEnd(tokens, reason)

    async def _once_loaded(self, asking: Callable[[], Awaitable[R]]) -> R:
        """Send a request, again and again while the server loads its model, up to `timeout`."""
        until, has_told = time.monotonic() + self._timeout, False
        while True:
            try:
                return await asking()
            except APIStatusError as error:
                if not _is_loading(error) or time.monotonic() > until:
                    raise
            if not has_told:
                wait = "%s is loading its model; waiting for it, up to %g seconds"
                _LOGGER.warning(wait, self._url, self._timeout)
                has_told = True
            await asyncio.sleep(LOADING_PAUSE)

    def _client(self) -> AsyncOpenAI:
        return AsyncOpenAI(
            api_key="-",  # `_only_ours` sets it
            base_url=self._url,
            timeout=self._timeout,
            max_retries=self._max_retries,
            http_client=_Client(
                self._timeout, follow_redirects=False, event_hooks={"request": [self._only_ours]}
            ),
        )

    def _request(self, prompt: str, limit: int) -> dict[str, Any]:
        content = disarmed(without_surrogates(prompt)[0])
        return {
            "model": self._model,
            "messages": [{"role": "user", "content": content}],
            "extra_body": {self._limit_field: limit, **self._options},
        }

    @contextmanager
    def _blaming(self, prompt: str = "") -> Iterator[None]:
        """Turn every failure of a prompt into a `WriterFailed`."""
        try:
            yield
            return
        except TimeoutError:
            why = f"sent no whole reply within {self._timeout:g} seconds; allow more, or use a faster server"
        except APIStatusError as error:
            why = self._refusal(error)
        except APITimeoutError:
            why = f"sent no reply within {self._timeout:g} seconds; allow more, or use a faster server"
        except APIConnectionError as error:
            seen = self._excerpt(str(error.__cause__ or error))
            why = f"cannot be reached, {seen}; is it running, and is the address right?"
        except (APIError, httpx2.HTTPError, ValueError) as error:  # a stream that breaks off too
            seen = self._excerpt(str(error) or "the connection ended")
            why = f"sent no whole reply, {seen}; check the address and the server"
        raise WriterFailed(f"{self.name}{prompt}: the server at {self._url} {why}")

    def _refusal(self, error: APIStatusError) -> str:
        """Return the meaning of a status other than 200 for the user, and the way out."""
        said = _message(error)
        seen = self._excerpt(said)
        if _is_loading(error):
            return f"was still loading its model after {self._timeout:g} s; wait, and ask again"
        if error.status_code in (401, 403) and self._key_env:
            return f"refuses the key, {seen}; check the environment variable {self._key_env}"
        if error.status_code in (401, 403):
            return f"asks for a key, {seen}; name its environment variable (--answerer-key)"
        if tokens := _exceeded(error, said):
            return (
                f"has too short a context, {tokens}; lower the token budget of the evidence "
                "(--budget), or give the server a longer context"
            )
        if error.status_code == 404 and "model" in said.lower():
            return f"does not know the model {self._model!r}, {seen}; use a name that it lists"
        if error.status_code == 404:
            return f"has no chat API there, {seen}; check the address, which mostly ends with /v1"
        if place := error.response.headers.get("location"):
            seen = f"which leads to {self._excerpt(place)}"
        why = f"sent status {error.status_code}, {seen}"
        if wait := error.response.headers.get("retry-after"):
            why += f", and asks to wait {wait} s"
        return f"{why}; check the address, the name of the model and its options"

    def _reply(self, response: httpx2.Response) -> tuple[str, ReplyEnd]:
        """Return the text of a reply and how it ended; ValueError for another body."""
        try:
            body = json.loads(response.content)
            choice = body["choices"][0] if body["choices"] else {}
            message, reason = choice.get("message") or {}, choice.get("finish_reason")
            reply, usage = without_surrogates(message.get("content") or "")[0], body.get("usage")
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
            raise ValueError(f"no chat completion: {_readable(response.text)}") from None
        tokens = self._counted(usage)
        return reply, ReplyEnd(tokens, _checked_end(reason, body))

    def _counted(self, usage: Any) -> TokenCount | None:
        """Count the tokens that a server reports; return those of prompt and reply if it reports both."""
        told = usage if isinstance(usage, Mapping) else {}
        self._count(Usage(_believed(told.get("total_tokens"))))
        prompt = _believed(told.get("prompt_tokens"))
        reply = _believed(told.get("completion_tokens"))
        return TokenCount(prompt, reply, "server") if prompt and reply else None

    async def _only_ours(self, request: httpx2.Request) -> None:
        """Remove the client's own headers: some come from the environment, whatever the server."""
        for name in set(request.headers) - set(_HEADERS):
            if not name.startswith("x-stainless-"):  # the client's notes to itself
                del request.headers[name]
        request.headers["Accept-Encoding"] = "identity"
        if key := self._key():
            request.headers["Authorization"] = f"Bearer {key}"

    def _key(self) -> str:
        key = os.environ.get(self._key_env, "").strip() if self._key_env else ""
        if self._key_env and not re.fullmatch("[!-~]+", key):
            raise InputError(
                f"the environment variable {self._key_env} holds no key, or more than a key; put the "
                "key into it, or pass the base_url of a server that needs none"
            )
        return key

    def _excerpt(self, text: str) -> str:
        """Return the start of a server's text, without the key."""
        text = _readable(text).replace(self._key() or "\0", "***")
        return f"{text[:EXCERPT_CHARACTERS]!r}{'...' * (len(text) > EXCERPT_CHARACTERS)}"

    def _count(self, usage: Usage) -> None:
        with self._lock:
            self.usage += usage


class _Client(DefaultAsyncHttpxClient):
    """A client whose time-out is that of a whole request; httpx2's begins anew with every byte."""

    def __init__(self, seconds: float, **options: Any) -> None:
        super().__init__(**options)
        self._seconds = seconds

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send a request. Raises `httpx2.ReadTimeout`, after which the openai client tries again."""
        try:
            async with asyncio.timeout(self._seconds):
                return await super().send(request, **options)
        except TimeoutError as error:
            raise httpx2.ReadTimeout("no whole reply in time", request=request) from error


def _has_content(chunk: Mapping[str, Any]) -> bool:
    """Return whether an event of a stream brings a part of a reply, or of a thought."""
    match chunk:
        case {"choices": [{"delta": dict() as delta}, *_]}:
            return any(value for name, value in delta.items() if name != "role")
    return False


def _piece(chunk: Mapping[str, Any]) -> tuple[str, object]:
    """Return the text and finish_reason of an event of a stream. ValueError for an event without choices.

    Servers send an error in the middle of a stream so, and it is the end of the reply.
    """
    match chunk:
        case {"choices": [{"delta": {"content": str() as text}} as choice, *_]}:
            return without_surrogates(text)[0], choice.get("finish_reason")
        case {"choices": [{"finish_reason": reason}, *_]}:
            return "", reason
        case {"choices": list()} | {"usage": dict()}:
            return "", None
    sent = {name: value for name, value in chunk.items() if value is not None}
    raise ValueError(f"the reply broke off: {json.dumps(sent, ensure_ascii=False, default=str)}")


def _checked_end(reason: object, sent: object) -> str:
    """Return the finish_reason of a reply, "" if there is none. ValueError for "error"."""
    if reason == "error":
        raise ValueError(
            f"the reply broke off: {json.dumps(sent, ensure_ascii=False, default=str)}"
        )
    return reason if isinstance(reason, str) else ""


def _believed(tokens: object) -> int:
    return tokens if type(tokens) is int and 0 < tokens < MOST_TOKENS else 0


def _is_loading(error: APIStatusError) -> bool:
    """Return whether the server is up, and its model is not yet (llama.cpp)."""
    return error.status_code == 503 and "loading" in error.response.text.lower()


def _message(error: APIStatusError) -> str:
    """Return the message in the body of an error, else the body."""
    match error.body:
        case {"message": str() as said} if said.strip():
            return said
    return error.response.text


def _readable(text: str) -> str:
    """Return a server's text on one line: of a web page its title, else its text."""
    shown = text[:LONGEST_READ]
    if re.match(r"\s*<(?:!doctype|html|\?xml)\b", shown, re.I):
        title = re.search(r"<title[^<>]*>([^<]*)</title", shown, re.I)
        name = title[1].strip() if title else ""
        shown = "a web page: " + (name or re.sub(r"<[^<>]*>", " ", shown))
    return " ".join(one_line(shown).split()) or "an empty text"


def _exceeded(error: APIStatusError, said: str) -> str:
    """Return by how much a prompt exceeds the model's context, "" for another error."""
    match error.body:
        case {"n_prompt_tokens": int() as asked, "n_ctx": int() as context}:
            return f"{context:,} tokens for a prompt of {asked:,}"
    is_context = "context" in said and ("exceed" in said or "maximum" in said)
    return repr(one_line(said)[:EXCERPT_CHARACTERS]) if is_context else ""


def _checked_url(url: str) -> str:
    if not re.fullmatch(r"https?://(\[[\da-fA-F:.]+\]|[^\s/@?#\[\]]+)(/[^\s@?#]*)?", url):
        raise InputError(  # why the address is not shown: its illegal part may be a secret
            "base_url must be an address such as http://localhost:8000/v1, without user, query or "
            "fragment; name the environment variable of a key as api_key_env"
        )
    return url.rstrip("/")


def _checked_json(options: dict[str, Any]) -> str:
    if {"model", "messages", "stream"} & set(options):
        raise InputError("extra_body cannot hold model, messages or stream: the writer sets them")
    try:
        return json.dumps(options, sort_keys=True, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InputError(f"temperature and extra_body must be plain JSON: {error}") from error

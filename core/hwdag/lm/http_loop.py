"""HTTP requests in an event loop of their own thread, for callers that know nothing of loops.

Every wait has a hard end, and what is given up is given up at once, in a running loop or not.
"""

from __future__ import annotations

import asyncio
import json
import math
import random
import ssl
import threading
import time
from collections.abc import Coroutine
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from hwdag.version import __version__

try:
    import httpx2
except ImportError as error:
    raise ImportError("OpenAIWriter needs httpx2; run `pip install 'hwdag[openai]'`") from error

REPLY_BYTES = 4 << 20
"""A body beyond this is no reply: the longest points have some kilobytes."""

CONNECT_SECONDS = 10.0
CLOSE_SECONDS = 5.0
BACKOFF_SECONDS = 0.5
"""Wait before the first retry; it doubles with each, up to `MAX_BACKOFF_SECONDS`."""

MAX_BACKOFF_SECONDS = 30.0
EXCERPT_CHARACTERS = 300


class Failure(Exception):
    """One request, or all for a prompt, led to no reply; a `passing` failure may be tried again."""

    def __init__(self, seen: str, *, passing: bool = False, asked_wait: float = 0.0) -> None:
        super().__init__(seen)
        self.passing = passing
        self.asked_wait = asked_wait


@dataclass(frozen=True, slots=True)
class Response:
    """What is kept of a response."""

    status: int
    content: bytes
    content_type: str
    retry_after: str

    @property
    def asked_wait(self) -> float:
        """Seconds that the server asks to wait, as a number or a date; 0 where it does not."""
        try:
            seconds = float(self.retry_after)
        except ValueError:
            seconds = _seconds_until(self.retry_after)
        return seconds if math.isfinite(seconds) and seconds > 0 else 0.0

    def json(self) -> Any:
        """The body, or None where it is no JSON."""
        try:
            return json.loads(self.content)
        except (ValueError, RecursionError):
            return None

    def excerpt(self, key: str) -> str:
        """The beginning of the body, control characters escaped."""
        text = _without(key, self.content.decode(errors="replace")).strip()
        shown = repr(text[:EXCERPT_CHARACTERS])
        return f"body {shown}{'...' if len(text) > EXCERPT_CHARACTERS else ''}"


class HTTPLoop:
    """An event loop in a thread, with one HTTP client, and slots that bound what runs at a time."""

    def __init__(self, concurrency: int) -> None:
        self.slots = asyncio.Semaphore(concurrency)
        self._client = httpx2.AsyncClient(
            headers={
                "Accept": "application/json",
                "Accept-Encoding": "identity",  # a compressed body has no bound
                "Content-Type": "application/json",
                "User-Agent": f"hwdag/{__version__}",
            },
            limits=httpx2.Limits(max_keepalive_connections=concurrency),  # slots bound the rest
            timeout=httpx2.Timeout(None, connect=CONNECT_SECONDS),  # the rest is bounded as a whole
            follow_redirects=False,
            verify=_certificates(),
        )
        self._loop = asyncio.new_event_loop()
        self._ended = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="hwdag-openai", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """False after the end, and in a forked process, which has no such thread."""
        return self._thread.is_alive()

    def start(self, work: Coroutine[Any, Any, str | None]) -> Future[str | None]:
        """Run `work` in the loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def post(self, url: str, body: bytes, *, key: str, seconds: float) -> Response:
        """One request, which may take that long, with a key unless it is empty.

        Raises:
            Failure: there was no whole response, or one of more than `REPLY_BYTES`. Passing.
        """
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        try:
            async with (
                asyncio.timeout(seconds),
                self._client.stream("POST", url, headers=headers, content=body) as response,
            ):
                return await _whole(response)
        except TimeoutError:
            raise Failure(f"no whole reply within {seconds:.3g} s", passing=True) from None
        except httpx2.HTTPError as error:
            seen = _without(key, f"{type(error).__name__}: {error}")
            raise Failure(seen, passing=True) from None

    def close(self) -> None:
        """Give up what is running and end the thread; may be called twice, and from any thread."""
        with suppress(RuntimeError):  # the loop is closed already
            self._loop.call_soon_threadsafe(self._ended.set)
        if threading.current_thread() is not self._thread:  # the garbage collector runs anywhere
            self._thread.join(CLOSE_SECONDS)

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        async with self._client:
            await self._ended.wait()
            running = asyncio.all_tasks() - {asyncio.current_task()}
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
        await self._loop.shutdown_asyncgens()


def wait_before(requests: int, asked: float) -> float:
    """Seconds before the next request: doubling, jittered, and not less than what was asked for."""
    backoff = min(MAX_BACKOFF_SECONDS, BACKOFF_SECONDS * 2.0 ** (requests - 1))
    jitter = random.uniform(0.5, 1.0)
    return max(backoff * jitter, asked + BACKOFF_SECONDS * jitter if asked else 0.0)


def _seconds_until(date: str) -> float:
    try:
        return parsedate_to_datetime(date).timestamp() - time.time()
    except (ValueError, OverflowError):
        return 0.0


def is_address(url: str) -> bool:
    """Whether requests can be sent to such an address."""
    try:
        parsed = httpx2.URL(url)
        host = urlsplit(url).hostname  # checks brackets, which the other leaves to the network
    except (httpx2.InvalidURL, ValueError):
        return False
    return parsed.scheme in ("http", "https") and bool(parsed.host and host)


@lru_cache(maxsize=1)
def _certificates() -> ssl.SSLContext:
    """Loading them takes longer than many a request."""
    return httpx2.create_ssl_context()


async def _whole(response: httpx2.Response) -> Response:
    content = bytearray()
    async for chunk in response.aiter_raw():
        content += chunk
        if len(content) > REPLY_BYTES:
            raise Failure(f"a body of more than {REPLY_BYTES:,} bytes", passing=True)
    found = response.headers
    kind, wait = found.get("content-type", ""), found.get("retry-after", "")
    return Response(response.status_code, bytes(content), kind, wait)


def _without(key: str, text: str) -> str:
    return text.replace(key, "***") if key else text

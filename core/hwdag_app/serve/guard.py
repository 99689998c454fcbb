"""The access to a server: clients, amounts at a time, and the events that it sends back."""

from __future__ import annotations

import asyncio
import hmac
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import SplitResult, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, StreamingResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hwdag_app.serve.config import is_loopback

OPEN_PATHS = ("/", "/page.js", "/page.css", "/health")
"""The empty page, and whether the server runs. They hold no document, question or figure."""

OTHER_SITES = ("cross-site", "same-site")  # "same-site" is another port of this machine, too

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


MAX_JSON_BYTES = 1_000_000
"""Of a question and the texts that come with it."""

GRACE = 30.0
"""Seconds in which a client must have sent or read something."""

MIN_BYTES_PER_SECOND = 10_000
"""Bytes per second at which a body must arrive, after the grace."""

MAX_UPLOADS = 4
"""Read or waiting at a time; they are built one after the other."""


class Guard:
    """Middleware: checks every request, and adds headers that isolate the page from other sites.

    Without a token it answers requests to this machine's own names only. It never answers a request that
    a page of another site sends.
    """

    def __init__(self, app: ASGIApp, token: str | None) -> None:
        self._app = app
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        refused = self._refused(scope["path"], Headers(scope=scope))
        if refused is None:
            await self._app(scope, receive, guarded)
        else:
            await refused(scope, receive, guarded)

    def _refused(self, path: str, headers: Headers) -> JSONResponse | None:
        host, origin, token = headers.get("host", ""), headers.get("origin"), self._token
        if origin is not None and _parsed(origin).netloc != host:
            return failure(403, f"a page of {origin!r} may not use this server")
        # why: browsers send no Origin with a GET, but they name the page that has asked
        if headers.get("sec-fetch-site") in OTHER_SITES and path not in OPEN_PATHS:
            return failure(403, "a page of another site may not use this server")
        if token is None:
            name = _parsed(f"//{host}").hostname
            if not is_loopback(name or ""):
                return failure(403, f"this server answers to localhost only, not to {name!r}")
        elif path not in OPEN_PATHS:
            said = headers.get("authorization", "")
            if not hmac.compare_digest(said.encode(), f"Bearer {token}".encode()):
                refused = failure(401, "send the server's token as 'Authorization: Bearer TOKEN'")
                refused.headers["WWW-Authenticate"] = "Bearer"
                return refused
        return None


def _parsed(url: str) -> SplitResult:
    """Return the parts of a URL, all empty if it is no URL."""
    try:
        return urlsplit(url)
    except ValueError:
        return urlsplit("")


class Slots:
    """A fixed number at a time, without a queue. `what` they hold is named in the refusal."""

    def __init__(self, count: int, what: str) -> None:
        self._count = count
        self._what = what
        self.taken = 0

    @contextmanager
    def one(self) -> Iterator[None]:
        """Hold a slot. Raises `HTTPException` (503) if none is free."""
        if self.taken >= self._count:
            raise HTTPException(
                503,
                f"this server takes {self._count} {self._what} at a time; try again soon",
                {"Retry-After": "5"},
            )
        self.taken += 1
        try:
            yield
        finally:
            self._free()

    def keep(self, work: asyncio.Future[Any]) -> None:
        """Hold one more slot until `work` has ended."""
        self.taken += 1
        work.add_done_callback(lambda _: self._free())

    def _free(self) -> None:
        self.taken -= 1


async def limited_body(request: Request, most: int) -> AsyncIterator[bytes]:
    """Yield the body of a request in pieces.

    Raises `HTTPException`: 413 beyond `most` bytes; 408 for a client that sends it slower than
    `MIN_BYTES_PER_SECOND` after `GRACE`, or stops.
    """
    too_long = HTTPException(413, f"more than the {most:,} bytes that this server takes")
    said = request.headers.get("content-length", "")
    if said.isdecimal() and int(said) > most:
        raise too_long
    taken, began, pieces = 0, time.monotonic(), request.stream()
    while True:
        left = began + GRACE + taken / MIN_BYTES_PER_SECOND - time.monotonic()
        try:
            piece = await asyncio.wait_for(anext(pieces), max(0, left))
        except StopAsyncIteration:
            return
        except TimeoutError as error:
            said = f"less than {MIN_BYTES_PER_SECOND:,} bytes per second came"
            raise HTTPException(408, said, {"Connection": "close"}) from error
        taken += len(piece)
        if taken > most:
            raise too_long
        yield piece


def failure(status: int, message: str) -> JSONResponse:
    """Return an error as OpenAI's clients read it."""
    return JSONResponse({"error": error_of(status, message)}, status)


def error_of(status: int, message: str) -> dict[str, Any]:
    """Return the fields of an error, as OpenAI's clients read them."""
    kind = "invalid_request_error" if status < 500 else "server_error"
    return {"message": message, "type": kind, "param": None, "code": str(status)}


class Events(StreamingResponse):
    """A stream of events that holds a slot until it ends. It is refused (503) if no slot is free.

    A client that reads nothing for `GRACE` loses it.
    """

    def __init__(self, frames: AsyncGenerator[str], slots: Slots) -> None:
        super().__init__(frames, media_type="text/event-stream")
        self._frames = frames
        self.headers["X-Accel-Buffering"] = "no"  # a proxy must not hold steps back
        self._slots = slots

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""

        async def sent(message: Message) -> None:
            try:
                await asyncio.wait_for(send(message), GRACE)
            except TimeoutError as error:
                raise ClientDisconnect from error

        with self._slots.one():
            try:
                await super().__call__(scope, receive, sent)
            finally:  # now: a client may have left between two frames
                await self._frames.aclose()


def frame(data: object, event: str | None = None) -> str:
    """Return one server-sent event. A line break would end it; JSON has none."""
    name = "" if event is None else f"event: {event}\n"
    return f"{name}data: {json.dumps(data, ensure_ascii=False)}\n\n"


async def json_body(request: Request) -> dict[str, Any]:
    """Return the JSON object in a request. Raises `HTTPException` (413, 415, 400)."""
    # why: a page of another site may send plain text without a preflight request, but not JSON
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise HTTPException(415, "send JSON, with 'Content-Type: application/json'")
    body = b"".join([piece async for piece in limited_body(request, MAX_JSON_BYTES)])
    try:
        found = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise HTTPException(400, f"the body is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise HTTPException(400, f"the body must be a JSON object, got a {type(found).__name__}")
    return found

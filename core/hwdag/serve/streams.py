"""Server-sent events, and requests that are JSON."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from hwdag.serve.guard import Slots, limited_body


class Events(StreamingResponse):
    """A stream that holds a slot until it ends; refused (503) before it begins if none is free."""

    def __init__(self, frames: AsyncIterator[str], slots: Slots) -> None:
        super().__init__(frames, media_type="text/event-stream")
        self.headers["X-Accel-Buffering"] = "no"  # a proxy must not hold steps back
        self._slots = slots

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        with self._slots.one():
            await super().__call__(scope, receive, send)


def frame(data: object, event: str | None = None) -> str:
    """Return one event. JSON has no line break, which would end it."""
    name = "" if event is None else f"event: {event}\n"
    return f"{name}data: {json.dumps(data, ensure_ascii=False)}\n\n"


async def json_body(request: Request, most: int) -> dict[str, Any]:
    """Return the object that a request carries.

    Raises:
        HTTPException: it is too long (413), not declared as JSON (415), or no JSON object (400).
    """
    # why: a page of another site can send any text without asking, but no JSON
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise HTTPException(415, "send JSON, with 'Content-Type: application/json'")
    body = b"".join([piece async for piece in limited_body(request, most)])
    try:
        found = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise HTTPException(400, f"the body is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise HTTPException(400, f"the body must be a JSON object, got a {type(found).__name__}")
    return found

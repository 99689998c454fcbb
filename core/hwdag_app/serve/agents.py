"""The Model Context Protocol over HTTP, among the other routes and within their limits."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from functools import partial

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import Message, Receive, Scope, Send

from hwdag.config import SearchConfig
from hwdag.errors import ModelBusy
from hwdag.index import HWDAGIndex
from hwdag_app.serve.guard import MAX_JSON_BYTES, Slots, limited_body
from hwdag_app.serve.refusals import refusal


class Agents:
    """Serves the tools of `hwdag mcp` at one address. Needs the extra `mcp`."""

    def __init__(self, index: HWDAGIndex, config: SearchConfig | None, slots: Slots) -> None:
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
        from mcp.server.transport_security import TransportSecuritySettings

        from hwdag_app.mcp.server import server

        made = server(
            index,
            config,
            slot=partial(_one_of, slots),
            explained=lambda error: refusal(error)[1],
        )
        # why no sessions and no checks of the SDK: nothing is kept between requests, and the guard checks
        made.streamable_http_app(
            json_response=True,
            stateless_http=True,
            max_request_body_size=MAX_JSON_BYTES,
            transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        )
        self._manager: StreamableHTTPSessionManager = made.session_manager

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Take requests until the end of the block."""
        async with self._manager.run():
            yield

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request. Its body must arrive in time, as that of any other request."""
        request = Request(scope, receive)
        body = b"".join([piece async for piece in limited_body(request, MAX_JSON_BYTES)])
        parts: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def received() -> Message:
            return parts.pop() if parts else await receive()

        await self._manager.handle_request(scope, received, send)


def agents_of(index: HWDAGIndex, config: SearchConfig | None, slots: Slots) -> Agents | None:
    """Return the server for agents; None without the extra `mcp`."""
    try:
        return Agents(index, config, slots)
    except ImportError:
        return None


@contextmanager
def _one_of(slots: Slots) -> Iterator[None]:
    """Hold a slot of the questions. Raises `ModelBusy` if none is free."""
    with ExitStack() as held:
        try:
            held.enter_context(slots.one())
        except HTTPException as error:
            raise ModelBusy(error.detail) from None
        yield

"""Connections whose clients must finish the head of a request in time."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_SECONDS = 10.0
"""For the head of a request, from its first byte, or from the connection for the first one."""


class Timed(H11Protocol):
    """Uvicorn's protocol, which closes a connection if the head of a request takes too long.

    Uvicorn itself times only connections that are idle between two requests.
    """

    _closing: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection."""
        super().connection_made(transport)
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Let a connection go."""
        self._head_came()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take bytes of a request."""
        if self._is_between_requests and self._closing is None:
            self._expect_head()
        super().data_received(data)
        if not self._is_between_requests:
            self._head_came()

    @property
    def _is_between_requests(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _expect_head(self) -> None:
        self._closing = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def _head_came(self) -> None:
        if self._closing is not None:
            self._closing.cancel()
            self._closing = None

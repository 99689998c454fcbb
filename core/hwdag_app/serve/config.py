"""Who may ask a server, and how much it takes on."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_address

from hwdag.checks import whole


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """The settings of a server.

    Attributes:
        token: requests must carry it as `Authorization: Bearer ...`. None is for a server that only
            its own machine reaches.
        read_only: refuse uploads and deletions.
        max_upload_bytes: size of an uploaded document, at most.
        max_questions: questions answered at a time; a client that comes later gets 503.
    """

    token: str | None = None
    read_only: bool = False
    max_upload_bytes: int = 50_000_000
    max_questions: int = 16

    def __post_init__(self) -> None:
        whole("max_upload_bytes", self.max_upload_bytes, 1)
        whole("max_questions", self.max_questions, 1)


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches a host."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"

"""A tree of summaries instead of a graph of points (GARLIC Table 2, "w/o graph-based summary")."""

from __future__ import annotations

from collections.abc import Sequence

from hwdag.building.points import PROMPTS_AT_ONCE, fitting
from hwdag.errors import ReaderRequired
from hwdag.lm.base import Reader, Writer
from hwdag.text.points import parse_points


class OneSummaryWriter:
    """Joins the points of a reply into one: one node per window, one parent per node.

    The wrapped writer counts the cost. A reply without points stays as it is: the build asks again,
    then picks several sentences, and counts both.

    Raises:
        ReaderRequired: the writer is a reader that cannot write.
    """

    def __init__(self, writer: Writer | Reader, reader: Reader) -> None:
        if not isinstance(writer, Writer):
            raise ReaderRequired(
                f"a tree of summaries is written, and the reader {writer.name} cannot write; pass a "
                "writer"
            )
        self._writer = writer
        self._reader = reader
        self.name = f"{writer.name}, one summary"
        self.concurrency: int = getattr(writer, "concurrency", PROMPTS_AT_ONCE)

    def write(self, prompts: Sequence[str], *, max_new_tokens: int) -> list[str]:
        """Reply to every prompt with one bullet: the points that fit into `max_new_tokens`."""
        replies = self._writer.write(prompts, max_new_tokens=max_new_tokens)
        return [self._joined(reply, max_new_tokens) for reply in replies]

    def _joined(self, reply: str, limit: int) -> str:
        points = fitting(parse_points(reply), self._reader, limit)
        return f"* {' '.join(points)}" if points else reply

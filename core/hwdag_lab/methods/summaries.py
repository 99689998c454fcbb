"""Summaries of groups of nodes, for the retrievers that search a tree of them.

A summary is written by a Writer, or picked from the text by the same extraction as HWDAG's own
points (`hwdag.building.points.extract`), so that methods are compared by equal means. `Node.origin`
says which, and `Node.sources` follow from it:

- "extractive": the exact spans of the picked sentences, in reading order. The text of the node is
  these slices of the document, one after the other, with `JOINT` between two;
- "generated": the union of the spans of its children, since a written text may rest on all of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hwdag.arrays import Floats
from hwdag.building.calls import Calls
from hwdag.building.points import Point, extract
from hwdag.building.windows import Part, Window
from hwdag.embedding.base import Embedder
from hwdag.errors import ContextTooSmall
from hwdag.graph.dag import union_of_spans
from hwdag.lm.base import Reader
from hwdag.text.chunking import chunk
from hwdag.text.sentences import sentences
from hwdag.types import Node, Span
from hwdag_lab.methods.decisions import UNKNOWN_CONTEXT, Asker, Decision

JOINT = " "
"""Between two picked sentences; one character, so that offsets can be told from the spans."""

RETRY = "\n\nWrite the summary in plain sentences."
"""Added where the first reply was empty."""

_FIELD = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class Summarizer:
    """Groups of nodes to one summary each.

    `asker` None extracts: `ratio` of the tokens of a group, at most `limit`. What is written is cut to
    whole sentences within `limit` tokens; where nothing is written, twice, that summary is extracted.
    `prompt` has the field {text}.
    """

    reader: Reader
    asker: Asker | None
    embedder: Embedder
    prompt: str
    limit: int
    ratio: float

    @property
    def capacity(self) -> int:
        """Tokens of a group that the writer can read.

        Raises:
            ContextTooSmall: prompt and summary fill the context.
        """
        asker = self.asker
        if asker is None:
            return UNKNOWN_CONTEXT
        if (free := asker.room(self.prompt, limit=self.limit)) < 1:
            raise ContextTooSmall(
                f"the context of {asker.writer.name} holds {asker.context} tokens, but the summary "
                f"prompt takes {asker.context - free - self.limit} and a summary may take "
                f"{self.limit}; lower summary_tokens, or use a writer with a longer context"
            )
        return free

    def summaries(self, groups: Sequence[Sequence[Node]]) -> list[Point]:
        """One point per group; see the module for their sources."""
        if self.asker is None:
            return self._extracted(groups)
        texts = self._written(self.asker, groups)
        missing = iter(self._extracted([g for g, t in zip(groups, texts, strict=True) if not t]))
        return [
            Point(text, "generated", union_of_spans([s for node in group for s in node.sources]))
            if text
            else next(missing)
            for group, text in zip(groups, texts, strict=True)
        ]

    def _written(self, asker: Asker, groups: Sequence[Sequence[Node]]) -> list[str | None]:
        texts = ["\n\n".join(node.text for node in group) for group in groups]
        requests = [Decision(filled(self.prompt, text=text), self._read, RETRY) for text in texts]
        return asker.decide(requests, limit=self.limit)

    def _read(self, reply: str) -> str | None:
        return self._head(reply.strip()) or None

    def _head(self, text: str) -> str:
        """The first sentences of a text, as many as a summary may have."""
        spans = chunk(text, count_tokens=self.reader.count_tokens, limit=self.limit)
        return text[spans[0].start : spans[0].end] if spans else ""

    def _extracted(self, groups: Sequence[Sequence[Node]]) -> list[Point]:
        if not groups:
            return []
        windows = [_window(group) for group in groups]
        picked = extract(
            windows, self.reader, self.embedder, Calls(), ratio=self.ratio, limit=self.limit
        )
        return [self._capped(joined(points)) for points in picked]

    def _capped(self, point: Point) -> Point:
        """Without the rest of a sentence that is longer than a summary may be."""
        if point.origin != "extractive" or len(point.sources) > 1:
            return point
        if self.reader.count_tokens([point.text])[0] <= self.limit:
            return point
        start, head = point.sources[0].start, self._head(point.text)
        return Point(head, point.origin, (Span(start, start + len(head)),))


def filled(template: str, **values: str) -> str:
    """The template with its {fields} filled; braces within the values stay what they are."""
    return _FIELD.sub(lambda field: values[field[1]], template)


def joined(points: Sequence[Point]) -> Point:
    """Picked parts as one text in reading order; "generated" if one of them was."""
    ordered = sorted(points, key=lambda point: point.sources)
    text = JOINT.join(point.text for point in ordered)
    spans = [span for point in ordered for span in point.sources]
    if all(point.origin == "extractive" for point in ordered):
        return Point(text, "extractive", tuple(spans))
    return Point(text, "generated", union_of_spans(spans))


def best_parts(
    parts: Sequence[tuple[int, Point]], relevance: Floats, cost: Callable[[str], int], budget: int
) -> dict[int, list[Point]]:
    """The most relevant parts of some nodes that fit into a budget, by node.

    A part comes with the ordinal of its node; `relevance` is of every part, (parts,), `cost` that of a
    text as a node.
    """
    kept, room = list[tuple[int, Point]](), budget
    for i in np.argsort(-relevance, kind="stable").tolist():
        if (needed := cost(parts[i][1].text)) <= room:
            kept.append(parts[i])
            room -= needed
    while True:
        found: dict[int, list[Point]] = {}
        for node, part in kept:
            found.setdefault(node, []).append(part)
        # why: the parts of a text do not always have as many tokens as the text
        if sum(cost(joined(points).text) for points in found.values()) <= budget:
            return found
        kept.pop()


def excerpt(node: Node, points: Sequence[Point], reader: Reader) -> Node:
    """A node cut down to some of its parts, in reading order."""
    point = joined(points)
    [tokens] = reader.count_tokens([point.text])
    return replace(
        node, text=point.text, origin=point.origin, sources=point.sources, tokens=max(1, tokens)
    )


def _window(group: Sequence[Node]) -> Window:
    """The parts that a summary of these nodes may be made of, each once.

    Soft clusters share nodes, so two summaries may have picked the same sentence.
    """
    parts: dict[tuple[str, tuple[Span, ...]], Part] = {}
    for segment, node in enumerate(group):
        for part in _parts(node, segment):
            parts.setdefault((part.text, part.sources), part)
    return Window(tuple(node.text for node in group), tuple(parts.values()))


def _parts(node: Node, segment: int) -> Iterator[Part]:
    """The sentences of a chunk, the sentences that a summary was made of, or a text as a whole."""
    if node.origin == "generated":
        yield Part(node.text, segment, Span(0, len(node.text)), node.sources, "generated")
        return
    for unit, source in units(node):
        yield Part(node.text[unit.start : unit.end], segment, unit, (source,))


def units(node: Node) -> Iterator[tuple[Span, Span]]:
    """Sentences of a verbatim node: their spans within its text and within the document."""
    if node.origin == "chunk":
        origin = node.sources[0].start
        for span in sentences(node.text):
            yield span, Span(origin + span.start, origin + span.end)
        return
    at = 0
    for source in node.sources:
        yield Span(at, at + len(source)), source
        at += len(source) + len(JOINT)

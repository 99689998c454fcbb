"""Summaries of groups of nodes.

A Writer writes a summary, or the extraction of HWDAG's own points (`hwdag.building.points.extract`)
picks it from the text, so methods are compared on equal terms. `Node.origin` tells them apart:

- "extractive": `Node.sources` are the exact spans of the picked sentences in reading order, and the
  text is these slices of the document, joined by `JOINT`;
- "generated": `Node.sources` is the union of the spans of the children, since a written text may
  rest on all of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hwdag.arrays import Floats
from hwdag.building.points import Point, extract
from hwdag.building.windows import WindowSentence
from hwdag.embedding.base import Embedder
from hwdag.errors import ContextTooSmall
from hwdag.graph.dag import union_of_spans
from hwdag.lm.base import Reader
from hwdag.store.calls import CallCache
from hwdag.text.chunking import chunk
from hwdag.text.sentences import sentences
from hwdag.types import Node, Span
from hwdag_lab.methods.decisions import UNKNOWN_CONTEXT, Asker, Decision

JOINT = " "
"""Between two picked sentences; one character, so that spans give the offsets."""

RETRY = "\n\nWrite the summary in plain sentences."
"""Added to the prompt if the first reply was empty."""

_FIELD = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class Summarizer:
    """Makes one summary per group of nodes.

    With an `asker`, summaries are written with `prompt`, which has the field {text}, and cut to
    whole sentences within `limit` tokens; a summary that comes back empty twice is extracted.
    Without one, all are extracted: `ratio` of the tokens of a group, at most `limit`.
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
        """Return one point per group; the module docstring defines its sources."""
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
        requests = [
            Decision(fill_template(self.prompt, text=text), self._read, RETRY) for text in texts
        ]
        return asker.decide(requests, limit=self.limit)

    def _read(self, reply: str) -> str | None:
        return self._head(reply.strip()) or None

    def _head(self, text: str) -> str:
        """Return the first sentences of a text, within the limit of a summary."""
        spans = chunk(text, count_tokens=self.reader.count_tokens, limit=self.limit)
        return text[spans[0].start : spans[0].end] if spans else ""

    def _extracted(self, groups: Sequence[Sequence[Node]]) -> list[Point]:
        if not groups:
            return []
        windows = [_each_once(group) for group in groups]
        picked = extract(
            windows,
            self.reader,
            self.embedder,
            CallCache.open(),
            ratio=self.ratio,
            limit=self.limit,
        )
        return [self._capped(join_points(points)) for points in picked]

    def _capped(self, point: Point) -> Point:
        """Cut a single sentence that is longer than a summary may be."""
        if point.origin != "extractive" or len(point.sources) > 1:
            return point
        if self.reader.count_tokens([point.text])[0] <= self.limit:
            return point
        start, head = point.sources[0].start, self._head(point.text)
        return Point(head, point.origin, (Span(start, start + len(head)),))


def fill_template(template: str, **values: str) -> str:
    """Fill the {fields} of a template; braces within the values stay as they are."""
    return _FIELD.sub(lambda field: values[field[1]], template)


def join_points(points: Sequence[Point]) -> Point:
    """Join picked parts in reading order; the result is "generated" if any part is."""
    ordered = sorted(points, key=lambda point: point.sources)
    text = JOINT.join(point.text for point in ordered)
    spans = [span for point in ordered for span in point.sources]
    if all(point.origin == "extractive" for point in ordered):
        return Point(text, "extractive", tuple(spans))
    return Point(text, "generated", union_of_spans(spans))


def best_parts(
    parts: Sequence[tuple[int, Point]], relevance: Floats, cost: Callable[[str], int], budget: int
) -> dict[int, list[Point]]:
    """Choose the most relevant parts that fit into a budget; return them by node.

    Each part comes with the number of its node. `relevance` has one value per part, (parts,).
    `cost` gives the tokens of a text as a node.
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
        # why: the tokens of parts do not always add up to those of the whole
        if sum(cost(join_points(points).text) for points in found.values()) <= budget:
            return found
        kept.pop()


def excerpt(node: Node, points: Sequence[Point], reader: Reader) -> Node:
    """Cut a node down to some of its parts, in reading order."""
    point = join_points(points)
    [tokens] = reader.count_tokens([point.text])
    return replace(
        node, text=point.text, origin=point.origin, sources=point.sources, tokens=max(1, tokens)
    )


def _each_once(group: Sequence[Node]) -> list[WindowSentence]:
    """Return the parts that a summary of these nodes may pick, each once.

    Soft clusters share nodes, so two summaries may have picked the same sentence.
    """
    parts: dict[tuple[str, tuple[Span, ...]], WindowSentence] = {}
    for segment, node in enumerate(group):
        for part in _parts(node, segment):
            parts.setdefault((part.text, part.sources), part)
    return list(parts.values())


def _parts(node: Node, segment: int) -> Iterator[WindowSentence]:
    """Yield sentences of a chunk or of an extractive summary; a generated text as a whole."""
    if node.origin == "generated":
        yield WindowSentence(node.text, segment, Span(0, len(node.text)), node.sources, "generated")
        return
    for unit, source in sentence_spans(node):
        yield WindowSentence(node.text[unit.start : unit.end], segment, unit, (source,))


def sentence_spans(node: Node) -> Iterator[tuple[Span, Span]]:
    """Yield sentences of a verbatim node: spans within its text, and within the document."""
    if node.origin == "chunk":
        origin = node.sources[0].start
        for span in sentences(node.text):
            yield span, Span(origin + span.start, origin + span.end)
        return
    at = 0
    for source in node.sources:
        yield Span(at, at + len(source)), source
        at += len(source) + len(JOINT)

"""A document becomes a graph: leaves, then points over windows, level by level (GARLIC 3.1).

leaves -> [ fill windows -> make points -> replay: attention -> edges ] until one window remains

The method "evidence" builds leaves alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from hwdag.arrays import Vectors
from hwdag.building.calls import Calls, vectors_of
from hwdag.building.edges import edges_of, replay, with_sources
from hwdag.building.points import Point, make_points
from hwdag.building.tools import Tools
from hwdag.building.windows import Window, line_costs, pack
from hwdag.embedding.base import Embedder
from hwdag.errors import InputError
from hwdag.graph.dag import HWDAG, EdgeRow
from hwdag.store.calls import key_of
from hwdag.text.chunking import chunk, leaves
from hwdag.text.headings import Outline, searched_text
from hwdag.trace.bars import Reporter
from hwdag.types import Document, Node

MAX_LEVELS = 12  # a graph ends there, even if the text does not shrink (ours)

EMBED_BATCH = 512  # texts that are embedded, and committed, at a time


@dataclass(frozen=True, slots=True)
class Built:
    """A finished document: its graph, what its nodes are found by, and what happened on the way."""

    graph: HWDAG
    vectors: Vectors  # (nodes, dimension)
    retries: int = 0
    fallbacks: int = 0
    notes: list[str] = field(default_factory=list)


def build(
    document: Document,
    tools: Tools,
    reporter: Reporter,
    calls: Calls | None = None,
    known: Mapping[str, Vectors] | None = None,
) -> Built:
    """Build the graph of one document.

    `calls` has finished calls, and keeps further ones; `known` are embeddings that need not be made,
    by text, (dimension,) each. Raises what `HWDAGIndex.refresh` says.
    """
    calls = Calls() if calls is None else calls
    outline = Outline(document.text, document.title)
    level = _leaves(document, outline, tools)
    nodes, rows, notes = list(level), list[EdgeRow](), list[str]()
    retries = fallbacks = 0
    for height in range(2, MAX_LEVELS + 1) if tools.config.rules.has_points else ():
        texts = [node.text for node in level]
        borders = None if tools.config.rules.is_paper else texts
        ranges = pack(line_costs(texts, tools.reader), tools.plan.content_tokens, borders)
        windows = [Window.of(level[r.start : r.stop], outline) for r in ranges]
        with reporter.stage(f"points of level {height}", len(windows), "window") as advance:
            made = make_points(windows, tools, calls, advance)
        retries, fallbacks = retries + made.retries, fallbacks + made.fallbacks
        with reporter.stage(f"edges of level {height}", len(windows), "window") as advance:
            replays = replay(windows, made.points, tools, calls, advance)
        found = list(map(with_sources, made.points, windows, replays))
        points = _nodes(document, outline, height, list(chain.from_iterable(found)), tools)
        if len(windows) > 1 and sum(n.tokens for n in points) >= sum(n.tokens for n in level):
            notes.append(f"level {height} was not shorter than the level below: dropped")
            break
        parents, first = iter(range(len(nodes), len(nodes) + len(points))), len(nodes) - len(level)
        for i, (window, its_points) in enumerate(zip(ranges, found, strict=True)):
            below = level[window.start : window.stop]
            edges = edges_of(its_points, below, replays[i])
            for places, raw in edges:
                rows.append(EdgeRow(next(parents), first + window.start + places, raw))
        nodes += points
        level = points
        if len(windows) == 1:
            break
    else:
        if tools.config.rules.has_points:
            notes.append(f"stopped at level {MAX_LEVELS}")
    graph = HWDAG.from_rows(nodes, rows)
    graph.check_integrity()
    texts = embedded_texts(nodes)
    vectors = _embedded(texts, known or {}, tools.embedder, calls)
    return Built(graph, vectors, retries, fallbacks, [f"{document.id}: {note}" for note in notes])


def _leaves(document: Document, outline: Outline, tools: Tools) -> list[Node]:
    config, text = tools.config, document.text
    cut = leaves if config.leaves == "sentences" else chunk
    spans = cut(text, count_tokens=tools.reader.count_tokens, limit=config.chunk_tokens)
    if not spans:
        raise InputError(f"document {document.id!r} is empty or only white space")
    slices = [Point(text[span.start : span.end], "chunk", (span,)) for span in spans]
    return _nodes(document, outline, 1, slices, tools)


def _nodes(
    document: Document, outline: Outline, level: int, points: Sequence[Point], tools: Tools
) -> list[Node]:
    tokens = tools.reader.count_tokens([point.text for point in points])
    is_paper = tools.config.rules.is_paper  # where nothing is read behind a heading
    return [
        Node(
            id=f"{document.id}#{level}.{i}",
            document_id=document.id,
            level=level,
            text=point.text,
            origin=point.origin,
            tokens=max(1, count),
            sources=point.sources,
            heading="" if is_paper else outline.heading_of(point.sources[0]),
        )
        for i, (point, count) in enumerate(zip(points, tokens, strict=True))
    ]


def embedded_texts(nodes: Sequence[Node]) -> list[str]:
    """Say what is embedded of every node: a slice of the document behind its heading."""
    return list(map(searched_text, nodes))


def _embedded(
    texts: Sequence[str], known: Mapping[str, Vectors], embedder: Embedder, calls: Calls
) -> Vectors:
    new = list(dict.fromkeys(text for text in texts if text not in known))
    batches = [new[i : i + EMBED_BATCH] for i in range(0, len(new), EMBED_BATCH)]

    def embed(missing: list[int]) -> list[dict[str, Vectors]]:
        return [{"vectors": np.asarray(embedder.embed(batches[i]), np.float32)} for i in missing]

    keys = [key_of("embed", embedder.name, batch) for batch in batches]
    fits = vectors_of([len(batch) for batch in batches], embedder.dimension)
    # why keep=False: the vectors of a finished document stand beside its nodes already
    made = calls.results(keys, fits, embed, keep=False)
    found = dict(known)
    for batch, arrays in zip(batches, made, strict=True):
        found |= zip(batch, arrays["vectors"], strict=True)
    return np.stack([found[text] for text in texts])

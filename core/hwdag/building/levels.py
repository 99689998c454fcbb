"""A document becomes a graph: leaves, then points over windows, level by level (GARLIC 3.1).

leaves -> [ fill windows -> make points -> replay: attention -> edges ] until one window remains

The method "evidence" builds leaves alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate, chain

import numpy as np

from hwdag.arrays import Floats, Indices, Vectors
from hwdag.building.edges import edges_of, replay, with_sources
from hwdag.building.points import (
    GenerationStats,
    PendingPrompts,
    Point,
    batch_size,
    generate_batch,
    make_points,
    passages_in,
    pending_prompts,
)
from hwdag.building.windows import LEAST_TOKENS, Window, WindowPlan, windows_of
from hwdag.config import BuildConfig, Method
from hwdag.embedding.base import Embedder
from hwdag.embedding.checked import embedded
from hwdag.embedding.titles import EmbeddedText, combined, parts_of, texts_of
from hwdag.errors import InputError
from hwdag.graph.dag import HWDAG, EdgeRow
from hwdag.lm.base import Reader, Writer
from hwdag.store.calls import CallCache, key_of, vectors_of
from hwdag.text.chunking import chunk, leaves
from hwdag.text.draft import Draft
from hwdag.text.headings import read_texts
from hwdag.text.prompts import Prompts
from hwdag.trace.bars import BYTES, Reporter
from hwdag.types import Node

MAX_LEVELS = 12  # a graph ends there, even if the text does not shrink (not in the papers)

MAX_LEVEL_SHARE = 2 / 3
"""Largest share of the tokens of the level below that a level may take; a larger one is dropped and ends the
graph (not in the papers, whose levels are dropped if they have several windows and are not shorter)."""

EMBED_BATCH = 512  # texts that are embedded, and committed, at a time


def method_of(config: BuildConfig, writer: Writer | None, reader: Reader) -> Method:
    """Resolve "auto": "hwdag" if points are written for a reader to walk by."""
    is_written = config.points == "generated" or writer is not None
    return "hwdag" if is_written or reader.card.is_capable else "evidence"


@dataclass(frozen=True, slots=True)
class BuiltGraph:
    """The graph of one document, the embeddings of its nodes, and the report of its build."""

    graph: HWDAG
    vectors: Vectors  # (nodes, dimension)
    replies: GenerationStats = field(default_factory=GenerationStats)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class GraphBuilder:
    """Builds the graph of one document at a time.

    Attributes:
        reader: counts tokens, and reads the attention of points.
        writer: writes the points; None if they are picked from the text.
        embedder: embeds the nodes.
        config: how a document becomes a graph.
        prompts: how the writer is asked.
    """

    reader: Reader
    writer: Writer | None
    embedder: Embedder
    config: BuildConfig
    prompts: Prompts

    @property
    def method_note(self) -> str:
        """Which method builds, and why, in one sentence."""
        if not self.config.rules.has_points:
            why = f"leaves alone, and no language model; {self.reader.name} {self.reader.card}"
        elif self.writer is None:
            why = f"points are picked sentences, since {self.reader.name} does not write"
        else:
            why = f"{self.writer.name} writes the Information Points, {self.reader.name} makes the edges"
            why += f"; it {self.reader.card}"
        return f'method "{self.config.method}": {why}'

    @cached_property
    def plan(self) -> WindowPlan:
        """How a window is divided; raises `ContextTooSmall` if it cannot be."""
        extractive = self.writer is None
        return WindowPlan.of(self.config, self.prompts.summary, self.reader, extractive=extractive)

    def build(
        self,
        draft: Draft,
        reporter: Reporter,
        calls: CallCache | None = None,
        known: Mapping[EmbeddedText, Vectors] | None = None,
    ) -> BuiltGraph:
        """Build the graph of a document.

        Args:
            draft: the document to build from; not blank.
            reporter: gets an event for every window.
            calls: finished calls, which are not repeated; new ones are added.
            known: embeddings that need not be made, by `embedded_parts`, (dimension,) each.

        Raises:
            InputError, ContextTooSmall, WriterFailed: as for `HWDAGIndex.refresh`.
        """
        calls = CallCache.open() if calls is None else calls
        level = self._leaves(draft)
        nodes, rows, notes = list(level), list[EdgeRow](), list[str]()
        replies = GenerationStats()
        height = 2
        while self._pays(level, height):
            windows = windows_of(level, draft.outline, self.plan, self.reader)
            if len(windows) == 1 and height > 2 and not self.config.rules.follows_papers:
                break  # a search rates so few points one by one
            made, counts = self._points(height, windows, reporter, calls)
            # why not at level 2: there it would cost the text all its points
            failed = max(counts.fallbacks, counts.too_long)
            repeats = height > 2 and 2 * failed >= len(passages_in(window for _, window in windows))
            if self._is_too_long(made, level) or (repeats and not self.config.rules.follows_papers):
                notes.append(f"level {height} did not condense the level below: dropped")
                break
            replies += counts
            above, edges = self._level(draft, height, level, windows, made, reporter, calls)
            first = len(nodes) - len(level)
            for parent, (places, raw) in enumerate(edges, start=len(nodes)):
                rows.append(EdgeRow(parent, first + places, raw))
            nodes += above
            level, height = above, height + 1
            if len(windows) == 1:
                break
        if height == 2 and self.config.rules.has_points:
            replies += GenerationStats(without_points=1)
        if height > MAX_LEVELS:
            notes.append(f"stopped at level {MAX_LEVELS}")
        graph = HWDAG.from_rows(nodes, rows)
        graph.check_integrity()
        # why: a short document is committed once, since a commit takes longer than the call
        is_only = height == 2 and not notes
        vectors = embeddings_of(nodes, self.embedder, reporter, calls, known, is_only=is_only)
        notes = [f"{draft.document.id}: {note}" for note in notes]
        return BuiltGraph(graph, vectors, replies, notes)

    def leaves(
        self, draft: Draft, reporter: Reporter, known: Mapping[EmbeddedText, Vectors] | None = None
    ) -> BuiltGraph:
        """Build the leaves alone, which need no language model."""
        nodes = self._leaves(draft)
        vectors = embeddings_of(nodes, self.embedder, reporter, known=known)
        return BuiltGraph(HWDAG.from_rows(nodes, []), vectors)

    def first_windows(self, draft: Draft) -> list[Window]:
        """Return the windows over the leaves of a document that points are made for."""
        level = self._leaves(draft)
        if not self._pays(level, 2):
            return []
        return [window for _, window in windows_of(level, draft.outline, self.plan, self.reader)]

    @property
    def written_ahead(self) -> int:
        """Windows of several documents that are written together, at most; 0 if nothing is written."""
        if self.writer is None or not self.config.rules.has_points:
            return 0
        return batch_size(self.writer, condense=not self.config.rules.follows_papers)

    def pending_prompts(self, draft: Draft, calls: CallCache) -> PendingPrompts:
        """Find the prompts about the leaves of a document that have no reply yet."""
        assert self.writer is not None
        return pending_prompts(self.first_windows(draft), self.plan, self.writer, calls)

    def generate_batch(
        self,
        documents: Sequence[tuple[PendingPrompts, CallCache]],
        reporter: Reporter,
        before_call: Callable[[], None],
    ) -> None:
        """Have the pending prompts of several documents answered, before they are built one by one.

        Each comes with the calls that its build will be given.
        """
        assert self.writer is not None
        count = sum(len(one.prompts) for one, _ in documents)
        with reporter.stage(f"points of {len(documents)} documents", count, "window") as advance:
            generate_batch(documents, self.plan, self.writer, before_call, advance)

    def _pays(self, level: Sequence[Node], height: int) -> bool:
        """Return whether points are to be written above this level."""
        rules = self.config.rules
        if not rules.has_points or height > MAX_LEVELS:
            return False
        return rules.follows_papers or height > 2 or _tokens(level) >= LEAST_TOKENS

    def _is_too_long(self, points: Sequence[Sequence[Point]], level: Sequence[Node]) -> bool:
        """Return whether points are no shorter than the level below them."""
        counts = self.reader.count_tokens([one.text for window in points for one in window])
        if self.config.rules.follows_papers:
            return len(points) > 1 and sum(counts) >= _tokens(level)
        return sum(counts) > MAX_LEVEL_SHARE * _tokens(level)

    def _leaves(self, draft: Draft) -> Sequence[Node]:
        """Return the leaves of a document, cut if nobody has cut it yet."""
        if draft.leaves is None:
            document = draft.document
            cut = leaves if self.config.leaves == "sentences" else chunk
            count, limit = self.reader.count_tokens, self.config.chunk_tokens
            spans = cut(document.text, count_tokens=count, limit=limit)
            if not spans:
                raise InputError(f"document {document.id!r} is empty or only white space")
            slices = [Point(document.text[s.start : s.end], "chunk", (s,)) for s in spans]
            draft.leaves = self._nodes(draft, 1, slices)
        return draft.leaves

    def _points(
        self,
        height: int,
        windows: Sequence[tuple[range, Window]],
        reporter: Reporter,
        calls: CallCache,
    ) -> tuple[list[list[Point]], GenerationStats]:
        """Make the points of every window of a level."""
        shown = [window for _, window in windows]
        with reporter.stage(
            f"points of level {height}", len(passages_in(shown)), "window"
        ) as advance:
            return make_points(
                shown, self.plan, self.reader, self.writer, self.embedder, calls, advance
            )

    def _level(
        self,
        draft: Draft,
        height: int,
        below: Sequence[Node],
        windows: Sequence[tuple[range, Window]],
        made: Sequence[Sequence[Point]],
        reporter: Reporter,
        calls: CallCache,
    ) -> tuple[list[Node], list[tuple[Indices, Floats]]]:
        """Make nodes of points; edges of each are (places in the level below, raw weights)."""
        shown = [window for _, window in windows]
        with reporter.stage(f"edges of level {height}", len(shown), "window") as advance:
            heads = self.config.edge_heads
            replays = replay(shown, made, self.reader, heads, calls, advance)
        points = list(map(with_sources, made, shown, replays))
        edges = [
            (r.start + at, raw)
            for (r, _), several, replayed in zip(windows, points, replays, strict=True)
            for at, raw in edges_of(several, below[r.start : r.stop], replayed)
        ]
        return self._nodes(draft, height, list(chain.from_iterable(points))), edges

    def _nodes(self, draft: Draft, level: int, points: Sequence[Point]) -> list[Node]:
        document = draft.document
        tokens = self.reader.count_tokens([point.text for point in points])
        follows_papers = self.config.rules.follows_papers  # their nodes have no headings
        nodes = [
            Node(
                id=f"{document.id}#{level}.{i}",
                document_id=document.id,
                level=level,
                text=point.text,
                origin=point.origin,
                tokens=max(1, count),
                sources=point.sources,
                heading="" if follows_papers else draft.outline.heading_of(point.sources[0]),
            )
            for i, (point, count) in enumerate(zip(points, tokens, strict=True))
        ]
        return self._counted(nodes)

    def _counted(self, nodes: Sequence[Node]) -> list[Node]:
        """Return the nodes with the tokens of their lines, so that no search counts them."""
        lines = list(map(read_texts, nodes))
        texts = list(dict.fromkeys(chain.from_iterable(lines)))
        counts = dict(zip(texts, self.reader.count_lines(texts), strict=True))
        return [
            replace(node, line_tokens=(counts[alone], counts[behind_one], counts[behind_all]))
            for node, (alone, behind_one, behind_all) in zip(nodes, lines, strict=True)
        ]


def embeddings_of(
    nodes: Sequence[Node],
    embedder: Embedder,
    reporter: Reporter,
    calls: CallCache | None = None,
    known: Mapping[EmbeddedText, Vectors] | None = None,
    *,
    is_only: bool = False,
) -> Vectors:
    """Embed nodes, (nodes, dimension); `calls` and `known` as in `GraphBuilder.build`.

    With `is_only` there are no other calls: a single batch is not kept, but stored with the document.
    """
    parts, known = embedded_parts(nodes), known or {}
    calls = CallCache.open() if calls is None else calls
    missing_parts = [part for part in dict.fromkeys(parts) if part not in known]
    new = texts_of(missing_parts)
    batches = [new[i : i + EMBED_BATCH] for i in range(0, len(new), EMBED_BATCH)]

    # why by characters: long texts take longer, so characters give a better ETA
    ends = list(accumulate((sum(map(len, batch)) for batch in batches), initial=0))
    done = 0

    def advance_to(end: int) -> None:
        nonlocal done
        if end > done:
            advance(end - done)
        done = max(end, done)

    def embed(missing: list[int]) -> list[dict[str, Vectors]]:
        [i] = missing
        advance_to(ends[i])  # those before it were made in an earlier run
        vectors = embedded(embedder, batches[i], document=nodes[0].document_id)
        advance_to(ends[i + 1])
        return [{"vectors": vectors}]

    keys = [key_of("embed", embedder.name, batch) for batch in batches]
    fits = vectors_of([len(batch) for batch in batches], embedder.dimension)
    # why keep=False: a finished document has its vectors in its record already
    with reporter.stage("embeddings", ends[-1], BYTES) as advance:
        is_kept = not is_only or len(batches) > 1
        made = calls.results(keys, fits, embed, keep=False, commit=is_kept)
        advance_to(ends[-1])
    found = dict[str, Vectors]()
    for batch, arrays in zip(batches, made, strict=True):
        found |= zip(batch, arrays["vectors"], strict=True)
    rows = dict(known)
    if missing_parts:
        rows |= zip(missing_parts, combined(missing_parts, found), strict=True)
    return np.stack([rows[part] for part in parts])


def embedded_parts(nodes: Sequence[Node]) -> list[EmbeddedText]:
    """Return the text to embed of every node: a slice of the document, with its headings."""
    return [
        parts_of("" if node.origin == "generated" else node.heading, node.text) for node in nodes
    ]


def _tokens(nodes: Sequence[Node]) -> int:
    return sum(node.tokens for node in nodes)

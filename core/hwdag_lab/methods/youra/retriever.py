"""YOURA: greedily the sentences that react most to the question, in the order of the text.

"You Only Use Reactive Attention slice for Long Context Retrieval", arXiv 2409.13695. What is ours:
the attention of a context to itself is computed once, when it is inserted, and kept; sentences come
from exact offsets (`hwdag_lab.methods.youra.easy`); windows end between sentences, are about equally long, and
each begins with an opening token, so that no sentence gets the attention that goes to whatever
stands first; a blank line stands before the question; a sentence that does not fit is passed over.
How a reaction is scored is ours too, unless `YouraConfig.paper()` is given.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from hwdag.arrays import Floats
from hwdag.building.calls import Embeddings
from hwdag.building.windows import pack
from hwdag.lm.base import Reader
from hwdag.store.calls import key_of
from hwdag.text.chunking import leaves
from hwdag.text.prompts import SearchPrompts
from hwdag.types import Document, Node, Usage
from hwdag_lab.methods.document_retriever import DocumentRetriever
from hwdag_lab.methods.found import Found, Query, Scored, may_cost
from hwdag_lab.methods.passages import SENTENCE_TOKENS, verbatim_nodes
from hwdag_lab.methods.youra.columns import column_reader
from hwdag_lab.methods.youra.config import QUESTION_TOKENS, YouraConfig
from hwdag_lab.methods.youra.protocol import ColumnReader, Ids, Means
from hwdag_lab.methods.youra.reaction import reaction, scaled, sentence_scores


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """Some consecutive sentences, read at once."""

    sentences: range
    ids: Ids  # (tokens,)
    ranges: NDArray[np.int32]  # (sentences, 2), within these tokens
    context: Means  # (tokens,)


@dataclass(frozen=True, slots=True, eq=False)
class Contexts:
    """One document: its sentences, its tokens, and their attention to each other."""

    nodes: tuple[Node, ...]
    ids: Ids  # (tokens,)
    ranges: NDArray[np.int32]  # (nodes, 2)
    borders: NDArray[np.int32]  # (windows + 1,) ordinals of sentences
    context: Means  # (tokens,); of the windows, one after the other

    @property
    def windows(self) -> Iterator[Window]:
        """In reading order."""
        at = 0
        for first, last in pairwise(self.borders.tolist()):
            ranges = self.ranges[first:last]
            start, end = _extent(ranges)
            inside = np.where(ranges[:, :1] < ranges[:, 1:], ranges - start, 0)
            context = self.context[at : at + end - start]
            at += end - start
            yield Window(range(first, last), self.ids[start:end], inside, context)


class YouraRetriever(DocumentRetriever[Contexts]):
    """Sentences by their reaction score: how much the question shifts the attention to them.

    Every question is read after every window of the documents. With the KV caches of the windows
    in memory (`YouraConfig.memory_bytes`) that costs the question's own tokens; a window whose cache
    is not there passes through the model once more. Nothing else of a question is remembered.

    Args:
        reader: a local model, or the name of one; None is the embedded default.
        prompts: the two turns in which the answer is asked for.
        config: windows, heads, scores and limits.
        cache: a file of finished calls; see `DocumentRetriever`.
    """

    def __init__(
        self,
        reader: Reader | str | None = None,
        prompts: SearchPrompts | None = None,
        config: YouraConfig | None = None,
        *,
        cache: str | Path | None = None,
    ) -> None:
        self.config = config or YouraConfig()
        super().__init__(reader=reader, prompts=prompts, cache=cache)

    @property
    def name(self) -> str:  # type: ignore[override]
        """Names the method, and whether it scores as in the paper."""
        return "youra-paper" if self.config.is_papers else "youra"

    def delete(self, document_id: str) -> None:
        """Remove a document with all that was derived from it. Raises `InputError` if not there."""
        with self._changes:
            _, built = self._held.get(document_id, (None, None))
            super().delete(document_id)
            if built is not None and "_columns" in self.__dict__:  # why: else no model was loaded
                for window in built.windows:
                    self._columns.forget(window.ids)

    @cached_property
    def _columns(self) -> ColumnReader:
        config = self.config
        return column_reader(self.reader, config.heads, memory_bytes=config.memory_bytes)

    @property
    def _room(self) -> int:
        """Tokens of a context in a window."""
        reader = self.reader
        window = min(self.config.window_tokens or reader.window_tokens, reader.context_tokens)
        return max(1, window - self._columns.opening - min(QUESTION_TOKENS, window // 4))

    def _build(self, document: Document) -> Contexts:
        nodes = self._sentences(document)
        located = self._columns.locate(document.text, [node.sources[0] for node in nodes])
        borders = _borders(located.ranges, self._room)
        none = np.zeros(0, np.float32)
        bare = Contexts(nodes, located.ids, located.ranges, borders, none)
        context = [none]
        with self._reporter.stage("windows", len(borders) - 1, "window") as advance:
            for window in bare.windows:
                if len(window.ids):
                    context.append(self._context(window.ids))
                advance()
        return replace(bare, context=np.concatenate(context))

    def _context(self, ids: Ids) -> Means:
        """The attention of a context to itself; what the cache has is not read again."""
        heads, opening = self._columns.heads, self._columns.opening
        key = key_of("context", self.reader.name, heads, opening, ids.tolist())
        [means] = self._calls.results(
            [key],
            Embeddings([1], len(ids)),
            lambda _: [self._columns.context(ids)[None]],
        )
        return cast("Means", means[0])

    def _sentences(self, document: Document) -> tuple[Node, ...]:
        count, text = self.reader.count_tokens, document.text
        # why: half a window, so that one sentence never is too long for it
        limit = max(1, min(SENTENCE_TOKENS, self._room // 2))
        spans = leaves(text, count_tokens=count, limit=limit)
        return verbatim_nodes(document, spans, "1", self.reader)

    def _retrieve(self, query: Query, built: Mapping[str, Contexts]) -> Found:
        scored: list[Scored] = []
        usage = Usage()
        for contexts in built.values():
            for window in contexts.windows:
                scores, cost = self._scores(window, query.question)
                nodes = contexts.nodes[window.sentences.start : window.sentences.stop]
                scored += map(Scored, nodes, scores.tolist())
                usage += cost
        return _chosen(scored, query, self.config.most_sentences, usage)

    def _scores(self, window: Window, question: str) -> tuple[Floats, Usage]:
        """The reaction score of every sentence of a window."""
        if not len(window.ids):
            return np.zeros(len(window.sentences)), Usage()
        asked, config = self._columns.ask(window.ids, question), self.config
        rows = self._columns.opening + len(window.ids), asked.rows
        found = reaction(window.context, asked.means, rows=rows, difference=config.difference)
        found = scaled(found, rows=rows, scale=config.scale)
        return sentence_scores(found, window.ranges, config.mean), asked.usage


def _chosen(scored: Sequence[Scored], query: Query, share: float, usage: Usage) -> Found:
    """The best sentences that fit, in the order of the text, and then all others by score.

    What lost attention by the question has a score of 0 in the end, since scores become shares.
    """
    limit = max(1, int(share * len(scored)))
    order = sorted(range(len(scored)), key=lambda i: -scored[i].score)
    taken, left, room = list[int](), list[int](), query.budget
    crowded = 0
    for i in order:
        node = scored[i].node
        # why: encoding thousands is slow
        fits = may_cost(node.text, room) and (cost := query.cost(node.text)) <= room
        if fits and len(taken) < limit:
            taken.append(i)
            room -= cost
        else:
            left.append(i)
            crowded += fits
    shown = [replace(one, score=max(0.0, one.score)) for one in scored]
    note = f"{limit} of {len(scored)} sentences were taken, which is the limit of {share:.0%}"
    return Found(
        [shown[i] for i in sorted(taken)],
        usage,
        (note,) if crowded else (),
        beyond=[shown[i] for i in left],
    )


def _borders(ranges: NDArray[np.int32], room: int) -> NDArray[np.int32]:
    """Ordinals of the sentences at which windows begin and end: few, and about equally long."""
    starts = np.maximum.accumulate(np.append(ranges[:, 0], ranges[:, 1].max(initial=0)))
    costs = np.diff(starts).tolist()
    windows = pack(costs, room)
    # why: attention is spread over a window, so a short last one would react more
    low, high = 1, room
    while low < high:
        middle = (low + high) // 2
        low, high = (
            (low, middle) if len(pack(costs, middle)) <= len(windows) else (middle + 1, high)
        )
    return np.array([0, *(window.stop for window in pack(costs, low))], np.int32)


def _extent(ranges: NDArray[np.int32]) -> tuple[int, int]:
    """First and last token of some ranges, empty ones left out."""
    filled = ranges[ranges[:, 0] < ranges[:, 1]]
    return (int(filled[0, 0]), int(filled[-1, 1])) if len(filled) else (0, 0)

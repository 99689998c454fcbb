"""MeMWalker (Chen et al. 2023, arXiv 2310.05029): the model walks a tree of summaries by prompts.

The memory tree: segments of about 1000 tokens, a summary of each, then summaries of up to
`max_children` neighbouring summaries, level by level up to one root. Navigation begins at the root:

- at an inner node the model sees the summaries of its children and chooses one, or goes back;
- at a leaf it sees the segment itself, and commits to it or goes back;
- with every prompt it sees its working memory, the summaries of the nodes visited before.

What was left is not offered again, and where one way is open nothing is asked, so a walk ends even
without its limit of steps. A reply without a legal action is asked for anew; where all tries fail,
the walk goes to the child most similar to the question by embedding, and commits to a leaf. That is
counted in `Retrieval.notes`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Unpack

import numpy as np

from hwdag.arrays import Vectors
from hwdag.building.points import Point
from hwdag.embedding.base import Embedder
from hwdag.errors import ContextTooSmall
from hwdag.lm.base import Reader, Writer
from hwdag.types import Document, Node, Usage
from hwdag_lab.methods.document_retriever import ModelOptions
from hwdag_lab.methods.found import Found, Query, Scored, distinct
from hwdag_lab.methods.memwalker.config import BACK, LEAF, RETRY, SUMMARY, TRIAGE, MemWalkerConfig
from hwdag_lab.methods.memwalker.navigation import LABEL_TOKENS, Guide, Walk
from hwdag_lab.methods.summaries import Summarizer, joined, units
from hwdag_lab.methods.trees import GrowingTree, SummarizingRetriever, SummaryTree, repetitions_last

QUESTION_TOKENS = 128
"""Kept free for the question when segments are cut for a small context."""


class MemWalkerRetriever(SummarizingRetriever[SummaryTree]):
    """MeMWalker: the leaves that the model visited, then the summaries on its way.

    The leaf that it committed to comes first. A leaf longer than what is left of the token budget
    is cut to those of its sentences that fit, the most similar to the question first, and shown in
    reading order. Of several documents the one whose root is most similar to the question is walked
    first, and the next only where no leaf was committed to.

    The writer, or else the reader, navigates. `Retrieval.usage` is the difference of the navigator's meter before and after, so it includes
    what other threads spent on the same model meanwhile; a navigator without a meter counts as 0.

    Args:
        config: how trees are built and walked.
        models: reader, prompts, writer, embedder and cache; see `DocumentRetriever`.

    Raises:
        ReaderRequired: no writer was given, and the reader cannot write.
    """

    name = "memwalker"

    def __init__(
        self,
        *,
        config: MemWalkerConfig | None = None,
        **models: Unpack[ModelOptions],
    ) -> None:
        self.config = config or MemWalkerConfig()
        super().__init__(**models)
        if isinstance(
            models.get("reader"), Reader
        ):  # why: a model's name is not loaded before it is needed
            _ = self.navigator

    @property
    def navigator(self) -> Writer:
        """Who chooses the way: the writer, or the reader."""
        return self._replying("MeMWalker navigates")

    def _build(self, document: Document) -> SummaryTree:
        config, tree = self.config, GrowingTree(document, self.reader, self.embedder)
        summarizer = self._summarizer(SUMMARY, limit=config.summary_tokens, ratio=config.ratio)
        width = self._width(summarizer)
        level = tree.add_chunks(self._segment_tokens(summarizer))
        level = tree.add_summaries([[i] for i in level], summarizer)
        while len(level) > 1:
            groups = np.array_split(np.asarray(level), -(-len(level) // width))
            level = tree.add_summaries([group.tolist() for group in groups], summarizer)
        return tree.finished()

    def _room(self) -> int | None:
        """Tokens for a segment, or for the summaries of children, in a prompt; None for no limit."""
        if not isinstance(navigator := self.navigator, Reader):
            return None
        prompt = max(navigator.count_tokens([TRIAGE + BACK + RETRY, LEAF + RETRY]))
        around = prompt + navigator.template_tokens + self.config.reply_tokens + QUESTION_TOKENS
        return navigator.context_tokens - around

    def _segment_tokens(self, summarizer: Summarizer) -> int:
        limits = [self.config.segment_tokens, self._room(), summarizer.capacity]
        return self._fitting(min(limit for limit in limits if limit is not None), 8)

    def _width(self, summarizer: Summarizer) -> int:
        """Children per node: fewer where their summaries would not fit into one prompt."""
        rooms = [room for room in (self._room(), summarizer.capacity) if room is not None]
        each = self.config.summary_tokens + LABEL_TOKENS
        return self._fitting(min([self.config.max_children, *(room // each for room in rooms)]), 2)

    def _fitting(self, number: int, least: int) -> int:
        if number < least:
            raise ContextTooSmall(
                f"the context of {self.navigator.name} cannot hold the prompts and a part of the "
                "document; lower segment_tokens, summary_tokens or reply_tokens, or use a "
                "navigator with a longer context"
            )
        return number

    def _retrieve(self, query: Query, built: Mapping[str, SummaryTree]) -> Found:
        navigator, vector = self.navigator, self.embedder.embed_query(query.question)
        before = _spent(navigator)
        guide = Guide(query.question, navigator, self.config)
        walks = [Walk(tree, tree.similarity(vector), guide) for tree in built.values()]
        walks.sort(key=lambda walk: -walk.similarity[walk.position])
        leaves: list[Scored] = []
        way: list[Scored] = []
        for walk in walks:
            done = walk.run()
            leaves = [*walk.leaves, *leaves] if walk.committed else [*leaves, *walk.leaves]
            way += walk.way
            if done:
                break
        if not leaves:
            walks[0].descend()
            leaves, way = walks[0].leaves, walks[0].way
            guide.notes.append("no leaf was visited: the most similar one was taken")
        cutter = _Cutter(query, self.reader, self.embedder, vector)
        ranked = list(distinct([*cutter.within_budget(leaves), *way]))
        spent = _spent(navigator) - before
        notes = [note for tree in built.values() for note in tree.notes]
        notes += [*guide.notes, *guide.counted, *cutter.notes]
        return Found(repetitions_last(ranked), spent, tuple(notes))


def _spent(navigator: Writer) -> Usage:
    return navigator.usage if isinstance(navigator, Reader) else Usage()


class _Cutter:
    """Cuts leaves to what is left of a token budget; `notes` say which."""

    def __init__(self, query: Query, reader: Reader, embedder: Embedder, question: Vectors) -> None:
        self._room = query.budget
        self._cost = query.cost
        self._reader = reader
        self._embedder = embedder
        self._question = question
        self.notes: list[str] = []

    def within_budget(self, leaves: Sequence[Scored]) -> list[Scored]:
        """The leaves in turn, the longer ones cut; those that nothing is left for are left out."""
        kept = []
        for scored in leaves:
            node = self._cut(scored.node)
            if node is not None:
                self._room -= self._cost(node.text)
                kept.append(replace(scored, node=node))
        return kept

    def _cut(self, leaf: Node) -> Node | None:
        if self._cost(leaf.text) <= self._room:
            return leaf
        picked = self._picked(leaf)
        if picked is None:
            self.notes.append(f"{leaf.id}: left out, the budget has no room for a sentence of it")
            return None
        [tokens] = self._reader.count_tokens([picked.text])
        self.notes.append(
            f"{leaf.id}: cut from {leaf.tokens} to {tokens} tokens, the most similar sentences"
        )
        return replace(
            leaf,
            text=picked.text,
            origin=picked.origin,
            sources=picked.sources,
            tokens=max(1, tokens),
        )

    def _picked(self, leaf: Node) -> Point | None:
        """The sentences most similar to the question, as many as fit; in reading order."""
        points = [
            Point(leaf.text[unit.start : unit.end], "extractive", (source,))
            for unit, source in units(leaf)
        ]
        texts = [point.text for point in points]
        similarity = self._embedder.embed(texts) @ self._question
        costs = [self._cost(text) for text in texts]
        chosen: list[Point] = []
        room = self._room
        for i in np.argsort(-similarity, kind="stable"):
            if costs[i] <= room:
                chosen.append(points[i])
                room -= costs[i]
        # why: the parts of a text do not always have as many tokens as the text
        while chosen and self._cost(joined(chosen).text) > self._room:
            chosen.pop()
        return joined(chosen) if chosen else None

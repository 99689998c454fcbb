"""What one walk puts before the reader: nodes in order, each with the score it was chosen by."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from typing import Literal

from hwdag.lm.base import Session
from hwdag.search.corpus import Corpus
from hwdag.search.frontier import Frontier
from hwdag.search.progress import ProgressControl
from hwdag.types import Candidate, Node, OnStep, Step

FIRST_POSITION = 2  # the question is at position 1 (PECAN App. C)
MOST_PASSED_OVER = 3  # candidates that are kept with each choice

READ_TOGETHER = 512
"""Tokens of a forward, at least, where only an answer needs it: a longer one would hold up a walk
that is to end."""


Reads = Literal["along", "together", "never"]
"""When nodes are read: as they are chosen, since the walk waits for it; many at a time, as only an
answer needs it; or not at all."""


class Context:
    """The nodes that were visited, and how much of the budget is left.

    Attributes:
        steps: the visited nodes in order.
        tokens: that their texts take; never more than `budget`.

    Args:
        corpus: the graph.
        session: reads.
        frontier: is told what was visited, and its relevance if nodes are read along.
        progress: is told every step that was read.
        budget: tokens of all nodes together, at most.
        reads: when nodes are read.
        on_step: called with every step once it was read, or chosen where nothing is read.
    """

    def __init__(
        self,
        corpus: Corpus,
        session: Session,
        frontier: Frontier,
        progress: ProgressControl,
        *,
        budget: int,
        reads: Reads = "along",
        on_step: OnStep | None = None,
    ) -> None:
        self._corpus = corpus
        self._session = session
        self._frontier = frontier
        self._progress = progress
        self._reads = reads
        self._on_step = on_step or _nobody
        self._nodes: dict[int, Node] = {}
        self._costs: dict[int, int] = {}
        self._unread: list[int] = []  # nodes of the last steps
        self.budget = budget
        self.steps: list[Step] = []
        self.tokens = 0

    @property
    def room(self) -> int:
        """Tokens of the budget that are left."""
        return self.budget - self.tokens

    def visit(self, indices: Sequence[int], *, initial: bool = False) -> list[Step]:
        """Put nodes behind those that are there; the new steps, as they are before they are read."""
        others = () if initial else self._passed_over(indices)
        first = len(self.steps)
        for index, node in zip(indices, self._fetch(indices), strict=True):
            part = self._frontier.parts(index)
            step = Step(
                len(self.steps) + FIRST_POSITION,
                node,
                initial,
                # why: of the initial set, nothing but the similarity has chosen a node
                attention=0.0 if initial else part.attention,
                similarity=part.similarity,
                reference=0.0 if initial else part.reference,
                passed_over=others if index == indices[-1] else (),
            )
            self.tokens += self._costs[index]
            self.steps.append(step)
        new = self.steps[first:]
        for index, step in zip(indices, new, strict=True):
            self._frontier.visit(index, step.node.text)
        self._unread += indices
        waiting = sum(self._costs[index] for index in self._unread)
        if self._reads == "along" or (self._reads == "together" and waiting >= READ_TOGETHER):
            self.read()
        elif self._reads == "never":
            for step in new:
                self._on_step(step)
        return new

    def read(self) -> None:
        """Read what is unread in one forward: relevance of each node, and p_yes after the last."""
        if not self._unread:
            return
        first = len(self.steps) - len(self._unread)
        reading = self._session.read([step.node.text for step in self.steps[first:]])
        for at, mean in enumerate(reading.attention, start=first):
            step = self.steps[at]
            self.steps[at] = replace(step, relevance=step.position * float(mean))
        self.steps[-1] = replace(self.steps[-1], p_yes=reading.p_yes)
        for index, step in zip(self._unread, self.steps[first:], strict=True):
            if self._reads == "along":
                self._frontier.pass_on(index, step.relevance or 0.0)
            self._progress.take(step)
            self._on_step(step)
        self._unread = []

    def drop_unread(self) -> None:
        """Take back what was chosen and not read, unless it need not be read."""
        if self._unread and self._reads != "never":
            del self.steps[-len(self._unread) :]
            self.tokens -= sum(self._costs[index] for index in self._unread)
            self._unread = []

    def _passed_over(self, chosen: Sequence[int]) -> tuple[Candidate, ...]:
        found = self._frontier.passed_over(chosen, MOST_PASSED_OVER)
        return tuple(
            Candidate(node, **asdict(self._frontier.parts(index)))
            for index, node in zip(found, self._fetch(found), strict=True)
        )

    def costs(self, indices: Sequence[int]) -> list[int]:
        """Tokens of each of these nodes."""
        for index, node in zip(indices, self._fetch(indices), strict=True):
            if index not in self._costs:
                self._costs[index] = self._session.cost(node.text)
        return [self._costs[index] for index in indices]

    def beyond(self, count: int) -> Iterator[Step]:
        """The `count` best nodes that were not visited, by score."""
        best = self._frontier.ranking(count).tolist()
        first = len(self.steps) + FIRST_POSITION
        for position, (index, node) in enumerate(zip(best, self._fetch(best), strict=True), first):
            parts = asdict(self._frontier.parts(index))
            yield Step(position, node, False, **parts)

    def _fetch(self, indices: Sequence[int]) -> list[Node]:
        if missing := [index for index in indices if index not in self._nodes]:
            self._nodes.update(zip(missing, self._corpus.fetch(missing), strict=True))
        return [self._nodes[index] for index in indices]


def _nobody(step: Step) -> None:
    """Tell nobody."""

"""What one walk has put before the reader: nodes in order, each with the score it was chosen by."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace

from hwdag.lm.base import Session
from hwdag.search.corpus import Corpus
from hwdag.search.frontier import Frontier
from hwdag.types import Candidate, Node, Step

FIRST_POSITION = 2  # the question is at position 1 (PECAN App. C)
MOST_PASSED_OVER = 3  # candidates that are kept with each choice


class Context:
    """The nodes that were read, and how much of the budget is left.

    Attributes:
        steps: the visited nodes in order.
        tokens: that their texts take; never more than `budget`.
    """

    def __init__(self, corpus: Corpus, session: Session, budget: int) -> None:
        self._corpus = corpus
        self._session = session
        self._nodes: dict[int, Node] = {}
        self._costs: dict[int, int] = {}
        self.budget = budget
        self.steps: list[Step] = []
        self.tokens = 0

    @property
    def room(self) -> int:
        """Tokens of the budget that are left."""
        return self.budget - self.tokens

    def read(
        self,
        indices: Sequence[int],
        frontier: Frontier,
        *,
        initial: bool = False,
    ) -> list[Step]:
        """Read nodes in one forward: relevance of each, and p_yes after the last."""
        if not indices:
            return []
        nodes, first = self._fetch(indices), len(self.steps)
        parts = [frontier.parts(index) for index in indices]
        others = () if initial else self._passed_over(frontier, indices)
        reading = self._session.read([node.text for node in nodes])
        for i, node, part, mean in zip(indices, nodes, parts, reading.attention, strict=True):
            position = len(self.steps) + FIRST_POSITION
            step = Step(
                position,
                node,
                initial,
                # why: of the initial set, nothing but the similarity has chosen a node
                attention=0.0 if initial else part.attention,
                similarity=part.similarity,
                relevance=position * float(mean),
                p_yes=reading.p_yes if i == indices[-1] else None,
                reference=0.0 if initial else part.reference,
            )
            self.tokens += self._costs[i]
            frontier.visit(i, step.relevance, node.text)
            self.steps.append(step)
        self.steps[-1] = replace(self.steps[-1], passed_over=others)
        return self.steps[first:]

    def _passed_over(self, frontier: Frontier, chosen: Sequence[int]) -> tuple[Candidate, ...]:
        found = frontier.passed_over(chosen, MOST_PASSED_OVER)
        return tuple(
            Candidate(node, **asdict(frontier.parts(index)))
            for index, node in zip(found, self._fetch(found), strict=True)
        )

    def costs(self, indices: Sequence[int]) -> list[int]:
        """Tokens of each of these nodes."""
        for index, node in zip(indices, self._fetch(indices), strict=True):
            if index not in self._costs:
                self._costs[index] = self._session.cost(node.text)
        return [self._costs[index] for index in indices]

    def beyond(self, frontier: Frontier, count: int) -> Iterator[Step]:
        """The `count` best nodes that were not visited, by score."""
        best = frontier.ranking(count).tolist()
        first = len(self.steps) + FIRST_POSITION
        for position, (index, node) in enumerate(zip(best, self._fetch(best), strict=True), first):
            parts = asdict(frontier.parts(index))
            yield Step(position, node, False, relevance=0.0, p_yes=None, **parts)

    def _fetch(self, indices: Sequence[int]) -> list[Node]:
        if missing := [index for index in indices if index not in self._nodes]:
            self._nodes.update(zip(missing, self._corpus.fetch(missing), strict=True))
        return [self._nodes[index] for index in indices]

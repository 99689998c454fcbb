"""What one walk puts before the reader: nodes in order, each with the score it was chosen by."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from typing import Literal

from hwdag.arrays import Mask
from hwdag.lm.base import Reading, WalkSession
from hwdag.search.corpus import Corpus
from hwdag.search.frontier import Frontier, highest
from hwdag.search.progress import ProgressControl
from hwdag.search.reading import Sections, by_section
from hwdag.text.headings import searched_text
from hwdag.types import Candidate, Node, OnStep, Step

FIRST_POSITION = 2  # the question is at position 1 (PECAN App. C)
MOST_PASSED_OVER = 3  # candidates that are kept with each choice
FETCHED_AT_ONCE = 32  # nodes of the initial set that are fetched together

READ_TOGETHER = 1024
"""Tokens of a forward, at least, where only an answer needs it: a longer one would hold up a walk
that is interrupted."""


LEAST_AHEAD, MOST_AHEAD = 4, 16
"""Nodes of a forward where the walk may end with each of them: as many as were read before, since
those behind its end are read in vain."""

Reads = Literal["along", "ahead", "together", "never"]
"""When nodes are read: as they are chosen, since the next choice waits for it; a few at a time, since
only the end of the walk waits for it; many at a time and by section, as only an answer needs it; or
not at all."""


class Context:
    """The nodes that were visited, `steps`, and their `tokens`, which never exceed the `budget`.

    `reads` says when the session reads them; frontier and progress are told of it, and `on_step` of every
    step once it was read, or chosen where nothing is read. `shown` is what the session has, in its
    order: the ordinal of a step, and its text, behind its heading where that was shown.
    """

    def __init__(
        self,
        corpus: Corpus,
        session: WalkSession,
        frontier: Frontier,
        progress: ProgressControl,
        *,
        allowed: Mask | None,
        budget: int,
        reads: Reads,
        on_step: OnStep | None,
    ) -> None:
        self._corpus, self._session = corpus, session
        self._frontier, self._progress = frontier, progress
        self._allowed, self._reads = allowed, reads
        self._on_step = on_step or (lambda step: None)
        self._nodes: dict[int, Node] = {}
        self._counted: dict[str, int] = {}  # tokens of texts
        self._sections = Sections(self._tokens_of)  # of what waits to be read together
        self._costs: list[int] = []  # of the steps
        self._unread: list[int] = []  # nodes of the last steps
        self._dropped: list[Step] = []
        self.shown: list[tuple[int, str]] = []
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
        for index, node in zip(indices, self.fetch(indices), strict=True):
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
            shown = searched_text(node)
            cost = self._sections.add(node) if self._by_section else self._tokens_of(shown)
            self._costs.append(cost)
            self.tokens += self._costs[-1]
            self.steps.append(step)
        new = self.steps[first:]
        for index, step in zip(indices, new, strict=True):
            self._frontier.visit(index, step.node.text)
        if self._reads == "never":
            for step in new:
                self._on_step(step)
        else:
            self._unread += indices
        if self._is_time_to_read:
            self.read()
        return new

    @property
    def _by_section(self) -> bool:
        return self._reads in ("together", "never")

    @property
    def _is_time_to_read(self) -> bool:
        if self._by_section:
            return self._sections.tokens >= READ_TOGETHER
        if not self._unread:
            return False
        if self._reads == "ahead":
            known = len(self.steps) - len(self._unread)
            return len(self._unread) >= nodes_ahead(known) or self.steps[-1].initial
        return True

    def read(self) -> bool:
        """Read what is unread in one forward, if anything is: relevance of each node, and p_yes.

        It is p_yes after the last one, or ahead of the end of the walk after each; what then stands
        behind that end is taken back.
        """
        self._sections = Sections(self._tokens_of)
        if not self._unread:
            return False
        first = len(self.steps) - len(self._unread)
        nodes = [step.node for step in self.steps[first:]]
        shown = by_section(nodes) if self._by_section else enumerate(map(searched_text, nodes))
        self.shown += ((first + i, text) for i, text in shown)
        texts = [text for _, text in self.shown[first:]]
        each = self._reads == "ahead" and not self.steps[first].initial
        for reading in self._session.read_each(texts) if each else [self._session.read(texts)]:
            self._take(reading)
            if self._progress.reason:
                break
        self._session.forget(len(self._unread))
        self.drop_unread()
        return True

    def _take(self, reading: Reading) -> None:
        """Put down what was read of the first of the unread steps."""
        count = len(reading.attention)
        first = len(self.steps) - len(self._unread)
        last = first + count - 1
        for ordinal, mean in enumerate(reading.attention, start=first):
            at, _ = self.shown[ordinal]
            self.steps[at] = replace(
                self.steps[at],
                relevance=(ordinal + FIRST_POSITION) * float(mean),
                p_yes=reading.p_yes if at == last else None,
            )
        for index, step in zip(self._unread[:count], self.steps[first : last + 1], strict=True):
            if self._reads == "along":
                self._frontier.pass_on(index, step.relevance or 0.0)
            self._progress.take(step)
            self._on_step(step)
        del self._unread[:count]

    def drop_unread(self) -> None:
        """Take back what was chosen and is not read."""
        if self._unread:
            first = len(self.steps) - len(self._unread)
            self._dropped = self.steps[first:]
            self.tokens -= sum(self._costs[first:])
            del self.steps[first:], self._costs[first:], self.shown[first:]
            self._unread = []

    def initial_set(self, share: float | Literal["auto", "equal"]) -> list[int]:
        """All top-level nodes; where their share of the budget is too small, the most similar ones.

        The most similar node may take more than the share (`SearchConfig.initial_share`), but with a
        share of 0 the set is empty. What does not fit ends the set: the walk spends the rest better.
        In document order.
        """
        top = self._corpus.top(self._allowed)
        if isinstance(share, str):
            height = max(1, self._corpus.height(self._allowed))
            # why none: all that extractive top nodes say is among the leaves
            extractive = height > 1 and not self._corpus.any_generated(top)
            share = 0.0 if extractive and share == "auto" else 1 / height  # after GARLIC 4.4
        if share == 0:
            return []
        room = int(self.budget * share)
        # why no more than the budget: every node takes a token
        order = top[highest(self._frontier.likeness[top], self.budget + 1)].tolist()
        chosen: list[int] = []
        for start in range(0, len(order), FETCHED_AT_ONCE):
            some = order[start : start + FETCHED_AT_ONCE]
            for index, cost in zip(some, self.costs(some), strict=True):
                if cost > (room if chosen else self.budget):
                    return sorted(chosen)
                chosen.append(index)
                room -= cost
        return sorted(chosen)

    def _passed_over(self, chosen: Sequence[int]) -> tuple[Candidate, ...]:
        found = self._frontier.passed_over(chosen, MOST_PASSED_OVER)
        return tuple(
            Candidate(node, **asdict(self._frontier.parts(index)))
            for index, node in zip(found, self.fetch(found), strict=True)
        )

    def costs(self, indices: Sequence[int]) -> list[int]:
        """Tokens that each of these nodes would take, at most."""
        shown = self._sections.text if self._by_section else searched_text
        return self._counts(list(map(shown, self.fetch(indices))))

    def _counts(self, texts: Sequence[str]) -> list[int]:
        if missing := [text for text in dict.fromkeys(texts) if text not in self._counted]:
            self._counted.update(zip(missing, self._session.costs(missing), strict=True))
        return [self._counted[text] for text in texts]

    def _tokens_of(self, text: str) -> int:
        return self._counts([text])[0]

    def beyond(self, count: int) -> Iterator[Step]:
        """The `count` best nodes that were not visited: those chosen already, then by score."""
        yield from self._dropped[: max(0, count)]
        count -= len(self._dropped)
        best = self._frontier.ranking(count).tolist()
        first = len(self.steps) + len(self._dropped) + FIRST_POSITION
        for position, (index, node) in enumerate(zip(best, self.fetch(best), strict=True), first):
            parts = asdict(self._frontier.parts(index))
            yield Step(position, node, False, **parts)

    def fetch(self, indices: Sequence[int]) -> list[Node]:
        """Nodes with their texts, (k,); each is taken from the store once."""
        if missing := [index for index in indices if index not in self._nodes]:
            self._nodes.update(zip(missing, self._corpus.fetch(missing), strict=True))
        return [self._nodes[index] for index in indices]


def nodes_ahead(known: int) -> int:
    """Nodes that are read ahead in one forward once so many are known."""
    return min(max(known, LEAST_AHEAD), MOST_AHEAD)

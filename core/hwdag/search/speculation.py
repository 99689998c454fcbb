"""Read the likeliest next nodes in the forward of the node that is due (speculative graph search, ours).

The greedy order of a walk can often be foreseen. Nodes are laid out as `[c1 .. cm][slot1 .. slotm]`;
slot k sees the cache, c1 .. ck and itself, at the positions that it would have alone. So each node has
the attention and the p_yes of a forward of its own, and the walk visits the same nodes. Without probes
there are no slots. Nodes that the walk does not come to in this order are cropped.
"""

from __future__ import annotations

from collections import deque
from itertools import accumulate, takewhile

from hwdag.search.state import SearchState

FIRST_TRY = 2  # nodes of the first forward


Read = tuple[float, float | None]
"""The mean attention of a node to the question, and p_yes after it if that was probed."""


class Speculation:
    """Reads the nodes of a walk one by one, each in the forward of an earlier one where it was foreseen.

    The number of nodes in a forward doubles while all guesses come true, and falls to the number that
    did. `end` leaves the session with the nodes that were read.
    """

    def __init__(self, state: SearchState) -> None:
        self._session, self._frontier, self._budget = state.session, state.frontier, state.budget
        self._probes = state.stopping.steers
        self._ahead: deque[tuple[str, Read]] = deque()  # in the cache, but not read yet
        self._guesses: list[int] = []
        self._hits = 0  # of the last forward
        self._expected: str | None = None  # the best guess, where it was not worth a forward
        self._most = self._session.most_together
        self._together = min(FIRST_TRY, self._most)  # nodes of the next forward

    def guess(self, index: int) -> None:
        """Note what may follow a node, before its visit changes the scores: the next best ones."""
        self._guesses = self._frontier.runners_up(index, self._most)

    def read(self, text: str) -> Read:
        """Read the node whose followers were guessed, as `text`; it was taken from the budget."""
        if self._ahead and self._ahead[0][0] == text:
            self._hits += 1
            return self._ahead.popleft()[1]
        self._adapt(text)
        self.end()
        guesses = self._fitting(max(1, self._together - 1))
        self._expected = guesses[0] if guesses else None
        texts = [text, *guesses[: self._together - 1]]
        first, *rest = self._read(texts)
        self._ahead = deque(zip(texts[1:], rest, strict=True))
        self._hits = 0
        return first

    def end(self) -> None:
        """Crop what was foreseen and did not come."""
        self._session.forget(len(self._ahead))
        self._ahead.clear()

    def _read(self, texts: list[str]) -> list[Read]:
        if not self._probes:
            return [(mean, None) for mean in self._session.append(texts).tolist()]
        readings = self._session.read_each(texts)
        return [(float(reading.attention[0]), reading.p_yes) for reading in readings]

    def _adapt(self, text: str) -> None:
        if self._ahead:
            self._together = self._hits + 1
        elif self._hits or text == self._expected:
            self._together = min(2 * self._together, self._most)

    def _fitting(self, count: int) -> list[str]:
        """Return the texts of the first guesses, as far as they are kept and fit into the budget together."""
        nodes = self._budget.fetch(self._guesses[:count])
        kept = list(takewhile(self._budget.keeps, nodes))
        guesses, room = self._guesses[: len(kept)], self._budget.room
        texts = self._budget.texts(guesses)
        costs = accumulate(self._budget.counts(texts))
        return [text for text, cost in zip(texts, costs, strict=True) if cost <= room]

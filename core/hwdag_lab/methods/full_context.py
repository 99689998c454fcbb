"""Full context: the reader gets the whole text, in windows if it does not fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from hwdag.arrays import Floats, Mask
from hwdag.building.windows import LINE_TOKENS
from hwdag.config import SearchPlan
from hwdag.errors import QuestionTooLong
from hwdag.lm.base import Decoding, Reading, Session
from hwdag.text.chunking import chunk, pack
from hwdag.types import Document, Node, Span, Usage
from hwdag_lab.methods.document_retriever import DocumentRetriever
from hwdag_lab.methods.found import Found, Scored, SearchRequest, may_fit
from hwdag_lab.methods.passages import Whole


class FullContextRetriever(DocumentRetriever[Whole]):
    """Reads everything, in document order; the token budget does not apply.

    Text beyond the reader's context is cut between sentences and read in windows, each in a context
    of its own. The answer comes from the window with the highest p_yes (the first of equals), and
    only that one is decoded. The last step has that p_yes, `Retrieval.notes` has the number of
    windows, and the usage counts all of them.
    """

    name = "full-context"
    bounded = False
    uses = ("reader", "prompts")

    def _build(self, document: Document) -> Whole:
        return Whole.of(document, self.reader)

    def _session(self, question: str, plan: SearchPlan, max_new_tokens: int) -> Session:
        return WindowedSession(partial(super()._session, question, plan, max_new_tokens))

    def _retrieve(self, request: SearchRequest, built: Mapping[str, Whole]) -> Found:
        nodes = [node for document in built.values() for node in self._cut(document, request)]
        windows = pack([request.cost(node.text) for node in nodes], request.budget)
        note = (
            f"the text was read in {len(windows)} windows; the answer is that of the window with "
            "the highest p_yes"
        )
        return Found(
            [Scored(node, 1.0) for node in nodes], notes=(note,) if len(windows) > 1 else ()
        )

    def _cut(self, document: Whole, request: SearchRequest) -> Sequence[Node]:
        """Return the document if it fits into a window, else parts that do."""
        if _fits(document.nodes, request):
            return document.nodes
        text, limit = document.node.text, max(1, request.budget - LINE_TOKENS)
        while True:
            spans = chunk(text, count_tokens=self.reader.count_tokens, limit=limit)
            names = [f"window.{i}" for i in range(len(spans))]
            nodes = document.cut(spans, names, self.reader)
            if _fits(nodes, request):
                return nodes
            if limit == 1:
                raise QuestionTooLong(
                    f"the question leaves {request.budget} tokens of the context of "
                    f"{self.reader.name}, too few for a window of text; shorten it, or use a model "
                    "with a longer context"
                )
            limit = max(1, limit - LINE_TOKENS)


class WindowedSession:
    """One session per window; see `hwdag.lm.base.Session`.

    Only the session with the highest p_yes is kept, and answers. `make` creates a fresh one.
    """

    def __init__(self, make: Callable[[], Session]) -> None:
        self._make = make
        self._best = make()
        self._window_room = self._best.room
        self._held = range(0)  # the nodes of the best window
        self._p_yes = -1.0
        self._read_nodes = 0
        self._spent = Usage()  # by the other windows

    def cost(self, text: str) -> int:
        """Return tokens that appending `text` as a node would take."""
        return self._best.cost(text)

    @property
    def room(self) -> int:
        """Node tokens that fit into one window; the number of windows is not limited."""
        return self._window_room

    def read(self, texts: Sequence[str]) -> Reading:
        """Read nodes in as many windows as needed; p_yes is the highest so far."""
        windows = pack([self.cost(text) for text in texts], self.room) or [range(0)]
        attention = [self._read_window(texts[w.start : w.stop]) for w in windows]
        return Reading(np.concatenate(attention), self._p_yes)

    def decode(
        self, *, enough: bool, max_new_tokens: int, spans: Sequence[tuple[int, Span]] = ()
    ) -> Decoding:
        """Answer from the best window; spans of nodes in other windows get no attention."""
        inside = np.array([node in self._held for node, _ in spans], dtype=bool)
        own = [(node - self._held.start, span) for node, span in spans if node in self._held]
        decoding = self._best.decode(enough=enough, max_new_tokens=max_new_tokens, spans=own)
        return _WindowDecoding(decoding, inside)

    def likelihoods(self, texts: Sequence[str], *, enough: bool, ask: str | None = None) -> Floats:
        """Return the mean log-probability per token of each text as the best window's answer, (texts,)."""
        return self._best.likelihoods(texts, enough=enough, ask=ask)

    @property
    def usage(self) -> Usage:
        """Cost of all windows so far."""
        return self._spent + self._best.usage

    def _read_window(self, texts: Sequence[str]) -> Floats:
        """Read nodes in a fresh session, kept if it is the best; their attention to the question."""
        session = self._make() if self._read_nodes else self._best
        reading = session.read(texts)
        if reading.p_yes > self._p_yes:
            if session is not self._best:
                self._spent += self._best.usage
            self._best, self._p_yes = session, reading.p_yes
            self._held = range(self._read_nodes, self._read_nodes + len(texts))
        else:
            self._spent += session.usage
        self._read_nodes += len(texts)
        return reading.attention


@dataclass(frozen=True, slots=True, eq=False)
class _WindowDecoding:
    """The answer of one window, with attention to the spans of all windows."""

    decoding: Decoding
    inside: Mask  # (spans,)

    def __iter__(self) -> Iterator[str]:
        return iter(self.decoding)

    @property
    def text(self) -> str:
        """Return the text decoded so far, stripped."""
        return self.decoding.text

    @property
    def attention(self) -> Floats:
        """Attention mass on each of the asked spans, (spans,)."""
        attention = np.zeros(len(self.inside))
        attention[self.inside] = self.decoding.attention
        return attention

    @property
    def likelihood(self) -> float | None:
        """Mean log-probability per token of the text decoded so far."""
        return self.decoding.likelihood

    @property
    def is_cut(self) -> bool:
        """Whether the window's answer ended at its limit."""
        return self.decoding.is_cut


def _fits(nodes: Sequence[Node], request: SearchRequest) -> bool:
    """Return whether each of these nodes fits into a window."""
    # why: encoding whole books is slow
    return all(
        may_fit(node.text, request.budget) and request.cost(node.text) <= request.budget
        for node in nodes
    )

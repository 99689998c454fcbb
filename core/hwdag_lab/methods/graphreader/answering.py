"""The paper's answer: reasoned by the writer over all notebooks (GraphReader, section 3.4).

The reader replays the written answer after the nodes. Its attention to their sentences gives the
citations, as for an answer of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from hwdag.arrays import Floats
from hwdag.config import Heads
from hwdag.lm.base import Decoding, Reader, Reading, ReplayRequest, Session
from hwdag.text.prompts import SearchPrompts
from hwdag.types import Span, Usage
from hwdag_lab.methods.decisions import Decision
from hwdag_lab.methods.graphreader import prompts
from hwdag_lab.methods.graphreader.exploration import Agent, Exploration
from hwdag_lab.methods.graphreader.parsing import answer_of
from hwdag_lab.methods.summaries import fill_template


def reasoned(explored: Exploration, agent: Agent) -> str | None:
    """Return the answer from all notebooks; None if they are empty or no reply could be used."""
    notebooks = explored.notebooks
    if not notebooks:
        return None
    shown = "\n\n".join(f"Notebook {i}:\n{notes}" for i, notes in enumerate(notebooks, 1))
    votes = "\n".join(f"Notebook {i}: ..." for i in range(1, len(notebooks) + 1))
    prompt = fill_template(prompts.ANSWER, question=explored.question, notebooks=shown, votes=votes)

    def parse(reply: str) -> str | None:
        return answer_of(reply, len(notebooks))

    [answer] = agent.choose([Decision(prompt, parse, prompts.ANSWER_RETRY)])
    return answer


@dataclass(slots=True, eq=False)
class NotebookSession:
    """A session with an answer written from notebooks; everything else is the session itself."""

    session: Session  # has read the nodes, if any
    reader: Reader  # replays the answer
    search: SearchPrompts  # prompts of the session
    heads: Heads  # heads whose attention gives the citations
    question: str  # of the session
    answer: str  # the written answer
    spent: Usage  # cost of writing and replaying it
    texts: list[str] = field(default_factory=list)  # of the nodes so far

    @property
    def room(self) -> int:
        """Node tokens that still fit into the context."""
        return self.session.room

    @property
    def usage(self) -> Usage:
        """Cost so far, including the answer."""
        return self.session.usage + self.spent

    def cost(self, text: str) -> int:
        """Return tokens that appending `text` as a node would take."""
        return self.session.cost(text)

    def read(self, texts: Sequence[str]) -> Reading:
        """Append nodes and probe the answer slot."""
        self.texts += texts
        return self.session.read(texts)

    def likelihoods(self, texts: Sequence[str], *, enough: bool, ask: str | None = None) -> Floats:
        """Return the likelihood of each text as the answer from the nodes, (texts,)."""
        return self.session.likelihoods(texts, enough=enough, ask=ask)

    def decode(
        self, *, enough: bool, max_new_tokens: int, spans: Sequence[tuple[int, Span]] = ()
    ) -> Decoding:
        """Return the written answer; the writer had its own length limit."""
        return _Written(self.answer, lambda: self._attention(spans))

    def _attention(self, spans: Sequence[tuple[int, Span]]) -> Floats:
        """Return attention of the answer to parts of the nodes, (spans,)."""
        if not spans:
            return np.zeros(0)
        before, between, _ = self.search.cut()
        units = [tuple(s for node, s in spans if node == i) for i in range(len(self.texts))]
        request = ReplayRequest(
            before + self.question + between,
            tuple(self.texts),
            "\n\n" + self.search.answer.replace("{question}", self.question),
            (self.answer,),
            tuple(units),
        )
        began = self.reader.usage
        [replay] = self.reader.replay([request], heads=self.heads)
        self.spent += self.reader.usage - began
        mass: Floats = replay.attention[0] * replay.unit_tokens
        return mass


@dataclass(frozen=True, slots=True)
class _Written:
    """A Decoding that is complete from the start."""

    text: str
    measure: Callable[[], Floats]
    likelihood: None = None  # the reader did not decode it
    is_cut: bool = False

    def __iter__(self) -> Iterator[str]:
        yield self.text

    @property
    def attention(self) -> Floats:
        """Attention of the whole answer to each of the asked spans, (spans,)."""
        return self.measure()

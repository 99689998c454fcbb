"""The paper's own answer: reasoned by the writer over all notebooks (GraphReader, section 3.4).

What was written is replayed by the reader behind the nodes: its attention to their sentences makes
the citations, as it does where the reader answers itself.
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
from hwdag_lab.methods.summaries import filled


def reasoned(explored: Exploration, agent: Agent) -> str | None:
    """The answer by all notebooks; None where they are empty, or no reply could be used."""
    notebooks = explored.notebooks
    if not notebooks:
        return None
    shown = "\n\n".join(f"Notebook {i}:\n{notes}" for i, notes in enumerate(notebooks, 1))
    votes = "\n".join(f"Notebook {i}: ..." for i in range(1, len(notebooks) + 1))
    prompt = filled(prompts.ANSWER, question=explored.question, notebooks=shown, votes=votes)

    def parse(reply: str) -> str | None:
        return answer_of(reply, len(notebooks))

    [answer] = agent.choose([Decision(prompt, parse, prompts.ANSWER_RETRY)])
    return answer


@dataclass(slots=True, eq=False)
class NotebookSession:
    """A session whose answer was written from notebooks; all else is the session's own."""

    session: Session  # has read the nodes, or nothing
    reader: Reader  # replays the answer
    search: SearchPrompts  # the prompts of the session
    heads: Heads  # whose attention makes the citations
    question: str  # of the session
    answer: str  # what was written
    spent: Usage  # on writing it, and on replaying it
    texts: list[str] = field(default_factory=list)  # nodes so far

    @property
    def room(self) -> int:
        """Node tokens that still fit into the context."""
        return self.session.room

    @property
    def usage(self) -> Usage:
        """Cost so far, that of the answer included."""
        return self.session.usage + self.spent

    def cost(self, text: str) -> int:
        """Tokens that appending `text` as a node would take."""
        return self.session.cost(text)

    def read(self, texts: Sequence[str]) -> Reading:
        """Append nodes and probe the answer slot."""
        self.texts += texts
        return self.session.read(texts)

    def likelihoods(self, texts: Sequence[str], *, enough: bool) -> Floats:
        """How likely the reader finds each text as the answer from the nodes, (texts,)."""
        return self.session.likelihoods(texts, enough=enough)

    def decode(
        self, *, enough: bool, max_new_tokens: int, spans: Sequence[tuple[int, Span]] = ()
    ) -> Decoding:
        """The answer that was written; the length limit was the writer's."""
        return _Written(self.answer, lambda: self._attention(spans))

    def _attention(self, spans: Sequence[tuple[int, Span]]) -> Floats:
        """The attention of the answer to parts of the nodes, (spans,)."""
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
    """A Decoding that is complete from the beginning."""

    text: str
    measure: Callable[[], Floats]
    likelihood: None = None  # the reader did not decode it

    def __iter__(self) -> Iterator[str]:
        yield self.text

    @property
    def attention(self) -> Floats:
        """Attention of the whole answer to each of the asked spans, (spans,)."""
        return self.measure()

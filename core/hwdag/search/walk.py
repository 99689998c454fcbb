"""The walk of the paper: read, ask "enough?", score, append the best node, repeat.

GARLIC 3.2, PECAN 3.2 and App. A.2, B, C. One forward per visited node: `[node tokens][answer slot]`
gives the node's relevance to the question and p_yes; then the slot is cropped from the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from hwdag.config import SearchConfig
from hwdag.embedding.base import Embedder
from hwdag.lm.base import Reader, Session
from hwdag.search.corpus import Corpus, Mask
from hwdag.search.frontier import Frontier
from hwdag.search.prior import prior
from hwdag.search.progress import ProgressControl
from hwdag.search.references import References
from hwdag.text.prompts import SearchPrompts
from hwdag.types import Retrieval, Step, StopReason, Usage

OnStep = Callable[[Step], None]


@dataclass(frozen=True, slots=True)
class Walked:
    """A finished walk: what was found, and the KV cache that the answer is decoded from.

    `says_yes` is the model's own last word on whether it is enough, whatever stopped the walk;
    a p_yes that must not steer has no say here either: it is always True then. `spent` is what
    the search cost outside of the session.
    """

    retrieval: Retrieval
    session: Session
    says_yes: bool
    spent: Usage = field(default_factory=Usage)


def walk(
    corpus: Corpus,
    question: str,
    *,
    reader: Reader,
    embedder: Embedder,
    config: SearchConfig,
    prompts: SearchPrompts,
    allowed: Mask | None = None,
    k: int | None = None,
    on_step: OnStep | None = None,
) -> Walked:
    """Walk the graph for a question.

    Args:
        corpus: the graph.
        question: encoded as plain text.
        reader: the local model.
        embedder: the one that the nodes were embedded with.
        config: budget, progress control, heads.
        prompts: the two turns.
        allowed: nodes that may be scored and shown, (n,); None allows all.
        k: number of nodes wanted; where fewer were visited, the best unread ones are added as
            `Retrieval.beyond`.
        on_step: called with every visited node as it happens.

    Raises:
        QuestionTooLong: question and prompts leave no room in the reader's context.
    """
    session = reader.session(
        question, prompts=prompts, heads=config.heads, max_new_tokens=config.max_new_tokens
    )
    scoring = config.scoring
    frontier = Frontier(
        corpus,
        prior(corpus, question, embedder.embed_query(question), scoring, allowed),
        allowed,
        scoring=scoring,
        references=References(corpus, question, scoring, allowed) if scoring.refers else None,
    )
    progress = ProgressControl(config, reader)
    stride = config.stride or (1 if progress.steers else UNSTEERED_STRIDE)
    state = _Walk(corpus, session, frontier, config, stride)

    enough = False
    for step in state.steps():
        if on_step:
            on_step(step)
        if step.p_yes is not None and progress.is_enough(step.p_yes):
            enough = True
            break
    stop: StopReason = "sufficient" if enough else state.why_ended

    notes = [] if progress.steers else ["p_yes is shown but does not stop the walk"]
    if state.budget < config.token_budget:
        notes.append(f"the budget was cut to the {state.budget} tokens that fit into the context")
    retrieval = Retrieval(
        question,
        tuple(state.visited),
        stop,
        state.context_tokens,
        session.usage,
        tuple(notes),
        tuple(state.beyond((k or 0) - len(state.visited))),
    )
    says_yes = not progress.steers or (retrieval.p_yes or 0.0) > config.confidence
    return Walked(retrieval, session, says_yes)


class _Walk:
    """One-use state of a walk: visited nodes in order, tokens spent, the frontier."""

    def __init__(
        self,
        corpus: Corpus,
        session: Session,
        frontier: Frontier,
        config: SearchConfig,
        stride: int,
    ) -> None:
        self._corpus = corpus
        self._session = session
        self._frontier = frontier
        self._initial_share = config.initial_share
        self._stride = stride
        self.budget = min(config.token_budget, session.room)
        self.visited: list[Step] = []
        self.context_tokens = 0

    @property
    def why_ended(self) -> StopReason:
        """Why `steps` ran out."""
        return "budget" if self._frontier.left_out else "exhausted"

    def steps(self) -> Iterator[Step]:
        """Read the initial set in one forward, then `stride` nodes at a time."""
        if initial := self._initial():
            yield from self._append(initial, initial=True)
        while nodes := self._frontier.best(self._cost, self._room, self._stride):
            yield from self._append(nodes, initial=False)

    def beyond(self, count: int) -> Iterator[Step]:
        """The `count` best nodes that were not visited, by score."""
        parts = self._parts()
        position = len(self.visited) + FIRST_POSITION
        for i, index in enumerate(self._frontier.ranking()[: max(0, count)]):
            yield Step(
                position + i,
                self._corpus.nodes[index],
                False,
                relevance=0.0,
                p_yes=None,
                **parts(index),
            )

    def _parts(self, *, initial: bool = False) -> Callable[[int], dict[str, float]]:
        """The score parts of a node at this moment; of the initial set, similarity alone."""
        frontier = self._frontier
        nothing = np.zeros(len(self._corpus))
        parts = {
            "attention": nothing if initial else frontier.attention,
            "similarity": frontier.similarity,
            "reference": nothing if initial else frontier.reference,
        }
        return lambda index: {name: float(part[index]) for name, part in parts.items()}

    @property
    def _room(self) -> int:
        return self.budget - self.context_tokens

    def _cost(self, index: int) -> int:
        return self._session.cost(self._corpus.nodes[index].text)

    def _initial(self) -> list[int]:
        """All top-level nodes; where their share of the budget is too small, the most similar ones.

        The share is budget / number of levels (ours, after GARLIC 4.4) unless the config says
        otherwise; extractive points have none, since all that they say is among the leaves. The most
        similar node may take more than the share, but with a share of 0 the set is empty. What
        does not fit ends the set: the budget that is left is better spent by the walk than on less
        similar top nodes that happen to be short. In document order.
        """
        if (share := self._share_of_the_top()) == 0:
            return []
        room = int(self.budget * share)
        top = self._corpus.top[self._frontier.open[self._corpus.top]]
        chosen: list[int] = []
        for index in top[np.argsort(-self._frontier.likeness[top], kind="stable")]:
            cost = self._cost(int(index))
            if cost > (room if chosen else self.budget):
                break
            chosen.append(int(index))
            room -= cost
        return sorted(chosen)

    def _share_of_the_top(self) -> float:
        if not isinstance(self._initial_share, str):
            return self._initial_share
        height = max(1, self._corpus.height)
        extractive = height > 1 and not any(
            self._corpus.nodes[i].origin == "generated" for i in self._corpus.top
        )
        return 0.0 if extractive and self._initial_share == "auto" else 1 / height

    def _append(self, indices: list[int], *, initial: bool) -> list[Step]:
        """Read nodes in one forward: relevance of each, and p_yes after the last."""
        nodes = [self._corpus.nodes[i] for i in indices]
        parts = self._parts(initial=initial)
        reading = self._session.read([node.text for node in nodes])
        steps = []
        for i, node, mean in zip(indices, nodes, reading.attention, strict=True):
            position = len(self.visited) + FIRST_POSITION
            step = Step(
                position,
                node,
                initial,
                relevance=position * float(mean),
                p_yes=reading.p_yes if i == indices[-1] else None,
                **parts(i),
            )
            self.context_tokens += self._cost(i)
            self._frontier.visit(i, step.relevance)
            self.visited.append(step)
            steps.append(step)
        return steps


UNSTEERED_STRIDE = 4
"""Nodes per forward where no p_yes has to be asked for after each of them."""

FIRST_POSITION = 2
"""The question is at position 1 (PECAN App. C)."""

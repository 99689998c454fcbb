"""The walk of the paper: read, ask "enough?", score, append the best node, repeat.

GARLIC 3.2, PECAN 3.2 and App. A.2, B, C. One forward per visited node: `[node tokens][answer slot]`
gives the node's relevance to the question and p_yes; then the slot is cropped from the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace

from hwdag.arrays import Indices, Mask, Vectors
from hwdag.config import SearchConfig
from hwdag.embedding.base import Embedder
from hwdag.lm.base import Reader, Session
from hwdag.search.corpus import Corpus
from hwdag.search.frontier import Frontier, Parts, highest
from hwdag.search.progress import ProgressControl
from hwdag.search.references import References
from hwdag.search.similarity import similarity
from hwdag.text.prompts import SearchPrompts
from hwdag.types import Node, Retrieval, Step, StopReason, Usage

OnStep = Callable[[Step], None]


@dataclass(frozen=True, slots=True)
class Walked:
    """A finished walk: what was found, and the KV cache that the answer is decoded from.

    `says_yes` is the last word of the model, or of its controller, on whether it is enough,
    whatever stopped the walk; a p_yes that must not steer has no say here either: it is always True
    then. `spent` is what the search cost outside of the session.
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
    query_vector: Vectors | None = None,
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
        query_vector: the question's embedding, (dimension,); None asks the embedder.
        on_step: called with every visited node as it happens.

    Raises:
        InputError: the config wants a controller, and the reader has none.
        QuestionTooLong: question and prompts leave no room in the reader's context.
        Vanished: a document was deleted while it was being read.
    """
    progress = ProgressControl(config, reader)
    session = reader.session(
        question, prompts=prompts, heads=config.heads, max_new_tokens=config.max_new_tokens
    )
    scoring = config.scoring
    allowed = corpus.visible(allowed)
    vector = embedder.embed_query(question) if query_vector is None else query_vector
    frontier = Frontier(
        corpus,
        similarity(corpus, question, vector, scoring, allowed),
        allowed,
        scoring=scoring,
        references=References(corpus, question, scoring, allowed) if scoring.refers else None,
    )
    state = _Walk(corpus, session, frontier, config, progress, allowed)

    enough = False
    for step in state.steps():
        if on_step:
            on_step(step)
        if progress.is_enough(step):
            enough = True
            break
    stop: StopReason = "sufficient" if enough else state.why_ended

    notes = progress.notes
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
    return Walked(retrieval, session, progress.says_yes)


class _Walk:
    """One-use state of a walk: visited nodes in order, tokens spent, the frontier."""

    def __init__(
        self,
        corpus: Corpus,
        session: Session,
        frontier: Frontier,
        config: SearchConfig,
        progress: ProgressControl,
        allowed: Mask | None,
    ) -> None:
        self._corpus = corpus
        self._session = session
        self._frontier = frontier
        self._initial_share = config.initial_share
        self._progress = progress
        self._stride = config.stride or (1 if progress.steers else UNSTEERED_STRIDE)
        self._allowed = allowed
        self._nodes: dict[int, Node] = {}
        self._costs: dict[int, int] = {}
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
        while nodes := self._best():
            yield from self._append(nodes, initial=False)

    def beyond(self, count: int) -> Iterator[Step]:
        """The `count` best nodes that were not visited, by score."""
        best = self._frontier.ranking(count).tolist()
        position = len(self.visited) + FIRST_POSITION
        for i, (index, node) in enumerate(zip(best, self._fetch(best), strict=True)):
            parts = self._frontier.parts(index)
            yield Step(position + i, node, False, relevance=0.0, p_yes=None, **asdict(parts))

    @property
    def _room(self) -> int:
        return self.budget - self.context_tokens

    def _fetch(self, indices: Sequence[int]) -> list[Node]:
        """Nodes with their texts, each of them fetched once."""
        if missing := [index for index in indices if index not in self._nodes]:
            self._nodes.update(zip(missing, self._corpus.fetch(missing), strict=True))
        return [self._nodes[index] for index in indices]

    def _costs_of(self, indices: Sequence[int]) -> list[int]:
        """Tokens of each of these nodes."""
        for index, node in zip(indices, self._fetch(indices), strict=True):
            if index not in self._costs:
                self._costs[index] = self._session.cost(node.text)
        return [self._costs[index] for index in indices]

    def _best(self) -> list[int]:
        return self._frontier.best(self._costs_of, self._room, self._stride)

    def _initial(self) -> list[int]:
        """All top-level nodes; where their share of the budget is too small, the most similar ones.

        The share is budget / number of levels (ours, after GARLIC 4.4) unless the config says
        otherwise; extractive points have none, since all that they say is among the leaves. The most
        similar node may take more than the share, but with a share of 0 the set is empty. What
        does not fit ends the set: the budget that is left is better spent by the walk than on less
        similar top nodes that happen to be short. In document order.
        """
        top = self._corpus.top(self._allowed)
        if (share := self._share_of(top)) == 0:
            return []
        room = int(self.budget * share)
        top = top[self._frontier.open[top]]
        # why no more than the budget: every node takes a token
        order = top[highest(self._frontier.likeness[top], self.budget + 1)].tolist()
        chosen: list[int] = []
        for index, cost in self._with_costs(order):
            if cost > (room if chosen else self.budget):
                break
            chosen.append(index)
            room -= cost
        return sorted(chosen)

    def _with_costs(self, indices: list[int]) -> Iterator[tuple[int, int]]:
        """Nodes with their costs, fetched a few at a time."""
        for start in range(0, len(indices), FETCHED_AT_ONCE):
            some = indices[start : start + FETCHED_AT_ONCE]
            yield from zip(some, self._costs_of(some), strict=True)

    def _share_of(self, top: Indices) -> float:
        """Share of the budget for these top-level nodes."""
        if not isinstance(self._initial_share, str):
            return self._initial_share
        height = max(1, self._corpus.height(self._allowed))
        extractive = height > 1 and not self._corpus.any_generated(top)
        return 0.0 if extractive and self._initial_share == "auto" else 1 / height

    def _append(self, indices: list[int], *, initial: bool) -> list[Step]:
        """Read nodes in one forward: relevance of each, and p_yes after the last."""
        nodes = self._fetch(indices)
        parts = [self._parts(index, initial=initial) for index in indices]
        reading = self._session.read([node.text for node in nodes])
        steps = []
        for i, node, part, mean in zip(indices, nodes, parts, reading.attention, strict=True):
            position = len(self.visited) + FIRST_POSITION
            step = Step(
                position,
                node,
                initial,
                relevance=position * float(mean),
                p_yes=reading.p_yes if i == indices[-1] else None,
                **asdict(part),
            )
            self.context_tokens += self._costs[i]
            self._frontier.visit(i, step.relevance, node.text)
            self.visited.append(step)
            steps.append(step)
        steps[-1] = self._judged(steps[-1])
        return steps

    def _judged(self, last: Step) -> Step:
        """The node visited last, with the probability of the controller that steers, if one does."""
        if (p_enough := self._progress.p_enough(self.visited)) is not None:
            self.visited[-1] = replace(last, p_enough=p_enough)
        return self.visited[-1]

    def _parts(self, index: int, *, initial: bool) -> Parts:
        """The score parts of a node at this moment; of the initial set, similarity alone."""
        parts = self._frontier.parts(index)
        return Parts(0.0, parts.similarity, 0.0) if initial else parts


UNSTEERED_STRIDE = 4
"""Nodes per forward where no p_yes has to be asked for after each of them."""

FIRST_POSITION = 2
"""The question is at position 1 (PECAN App. C)."""

FETCHED_AT_ONCE = 32
"""Nodes of the initial set that are fetched together; the first that does not fit ends the set."""

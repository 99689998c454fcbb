"""The walk of the paper: read, ask "enough?", score, append the best node, repeat.

GARLIC 3.2, PECAN 3.2 and App. A.2, B, C. One forward per visited node: `[node tokens][answer slot]`
gives the node's relevance to the question and p_yes; then the slot is cropped from the cache. Which
node is next is for the frontier to say (`hwdag.search.frontier`), when it is enough for the progress
control (`hwdag.search.progress`).

Without edges of attention (ours) no choice waits for the model. Then nodes are chosen ahead, and read
several at a time, with a probe behind each where p_yes may end the walk: what stands behind the end is
taken out of the cache again. Where nothing asks the model, all are read before an answer, by section
(`hwdag.search.reading`), or not at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from hwdag.arrays import Floats, Indices, Mask, Vectors
from hwdag.config import SearchConfig
from hwdag.embedding.base import Embedder
from hwdag.lm.base import Reader, Session
from hwdag.search.context import FIRST_POSITION, Context, Reads
from hwdag.search.corpus import Corpus
from hwdag.search.frontier import Frontier
from hwdag.search.navigator import Navigator, Signals
from hwdag.search.progress import Interruption, ProgressControl
from hwdag.search.similarity import Similarity
from hwdag.text.prompts import SearchPrompts
from hwdag.types import OnStep, Retrieval, Step, Usage

UNSTEERED_STRIDE = 4
"""Nodes per forward where their relevance is passed on, but no p_yes asked for after each of them."""


@dataclass(frozen=True, slots=True)
class Walked:
    """A finished walk: what was found, and the KV cache that the answer is decoded from.

    The cache has `shown`: the ordinals of steps with their texts as they were read. `says_yes` is the
    last word of the model on whether it is enough, always True for a p_yes that does not steer. `spent`
    is what the search cost outside of the session.
    """

    retrieval: Retrieval
    session: Session
    says_yes: bool
    shown: Sequence[tuple[int, str]]
    spent: Usage = field(default_factory=Usage)


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A question, and how it is walked for; see `HWDAGIndex.search`.

    Without a `query_vector`, (dimension,), the embedder is asked. Unless it is `for_answer`, nothing is
    read that the walk itself does not need.
    """

    question: str
    reader: Reader
    embedder: Embedder
    config: SearchConfig
    prompts: SearchPrompts
    query_vector: Sequence[float] | Vectors | None = None
    k: int | None = None
    for_answer: bool = True
    on_step: OnStep | None = None
    interruption: Interruption | None = None


def walk(
    corpus: Corpus,
    query: Query,
    *,
    allowed: Mask | None = None,
    navigator: Navigator | None = None,
    waits: bool = True,
) -> Walked:
    """Walk the graph for a question.

    Only `allowed` nodes, (n,), are scored and shown. The `navigator` embeds the question with what was
    read first, and chooses among the best nodes. A walk `waits` for the relevance of a node, to pass it
    on along edges, before it chooses the next one. Raises `QuestionTooLong`, and `Vanished` where a
    document was deleted while it was being read.
    """
    question, config, vector = query.question, query.config, query.query_vector
    progress = ProgressControl(config, query.reader, query.interruption)
    session = query.reader.session(
        question, prompts=query.prompts, heads=config.heads, max_new_tokens=config.max_new_tokens
    )
    vector = query.embedder.embed_query(question) if vector is None else np.asarray(vector)
    allowed = corpus.visible(allowed)
    similarity = Similarity(corpus, question, vector, config.scoring, allowed)
    frontier = Frontier.of(corpus, question, similarity.values, config.scoring, allowed)
    stride = config.stride or (UNSTEERED_STRIDE if waits and not progress.steers else 1)
    reads: Reads = "together" if query.for_answer else "never"
    if waits or progress.steers:
        reads = "along" if waits or stride > 1 else "ahead"
    context = Context(
        corpus,
        session,
        frontier,
        progress,
        allowed=allowed,
        budget=min(config.token_budget, session.room),
        reads=reads,
        on_step=query.on_step,
    )

    guide = judge = None
    if navigator is not None:
        signals = Signals(corpus, question, similarity, frontier, context.fetch, allowed)
        guide = Guide(question, navigator, similarity, frontier, signals)
        judge = guide.judge

    def visit(nodes: Sequence[int], *, initial: bool = False) -> None:
        new = context.visit(nodes, initial=initial)
        if guide is not None:
            guide.visit(nodes, new)

    if not progress.reason:
        visit(context.initial_set(config.initial_share), initial=True)
    while not (stop := progress.reason):
        if nodes := frontier.best(context.costs, context.room, stride, judge):
            visit(nodes)
        elif not context.read():
            break
    context.drop_unread()

    notes = progress.notes
    if context.budget < config.token_budget:
        notes.append(f"the budget was cut to the {context.budget} tokens that fit into the context")
    retrieval = Retrieval(
        question,
        tuple(context.steps),
        stop or ("budget" if frontier.left_out else "exhausted"),
        context.tokens,
        session.usage,
        tuple(notes),
        tuple(context.beyond((query.k or 0) - len(context.steps))),
    )
    return Walked(retrieval, session, progress.says_yes, context.shown)


@dataclass(frozen=True, slots=True)
class Guide:
    """A navigator during one walk."""

    question: str
    navigator: Navigator
    similarity: Similarity
    frontier: Frontier
    signals: Signals

    def judge(self, nodes: Indices, scores: Floats) -> Floats:
        """Judge some open nodes with these scores, (k,)."""
        return self.navigator.scorer(self.signals.of(nodes, scores))

    def visit(self, nodes: Sequence[int], steps: Sequence[Step]) -> None:
        """Take note of what was read, and embed the question with it if it is among the first."""
        for node in nodes:
            self.signals.visit(node)
        last = FIRST_POSITION + self.navigator.reads
        if texts := [step.node.text for step in steps if step.position < last]:
            self.similarity.add(self.navigator.embed(self.question, texts))
            self.frontier.resemble(self.similarity.values)

"""The walk of the paper: read, ask "enough?", score, append the best node, repeat.

GARLIC 3.2, PECAN 3.2 and App. A.2, B, C. One forward per visited node: `[node tokens][answer slot]`
gives the node's relevance to the question and p_yes; then the slot is cropped from the cache. Which
node is next is for the frontier to say (`hwdag.search.frontier`), when it is enough for the progress
control (`hwdag.search.progress`).

Without edges of attention (ours) no choice waits for the model. Then nodes are chosen ahead, and read
several at a time, with a probe behind each where p_yes may end the walk: what stands behind the end is
taken out of the cache again. Where nothing asks the model, all are read together before an answer, or
not at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from hwdag.arrays import Mask, Vectors
from hwdag.config import SearchConfig
from hwdag.embedding.base import Embedder
from hwdag.lm.base import Reader, Session
from hwdag.navigator import Navigator
from hwdag.search.context import FIRST_POSITION, Context, Reads
from hwdag.search.corpus import Corpus
from hwdag.search.frontier import Frontier
from hwdag.search.initial import initial_set
from hwdag.search.interruption import Interruption
from hwdag.search.progress import ProgressControl
from hwdag.search.similarity import Similarity
from hwdag.text.prompts import SearchPrompts
from hwdag.types import OnStep, Retrieval, Usage

UNSTEERED_STRIDE = 4
"""Nodes per forward where their relevance is passed on, but no p_yes asked for after each of them."""


@dataclass(frozen=True, slots=True)
class Walked:
    """A finished walk: what was found, and the KV cache that the answer is decoded from.

    `says_yes` is the last word of the model on whether it is enough, whatever stopped the walk; a
    p_yes that must not steer has no say here either: it is always True then. `spent` is what the
    search cost outside of the session.
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
    navigator: Navigator | None = None,
    follows_edges: bool = True,
    for_answer: bool = True,
    on_step: OnStep | None = None,
    interruption: Interruption | None = None,
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
        navigator: embeds the question with what was read first; None asks with the question alone.
        follows_edges: whether edges stand for attention, so that relevance is passed on along them.
        for_answer: whether an answer is decoded from the session; otherwise nothing is read that
            the walk itself does not need.
        on_step: called with every visited node once it was read, or chosen if it is not read.
        interruption: ends the walk from outside; None for what the config says alone.

    Raises:
        QuestionTooLong: question and prompts leave no room in the reader's context.
        Vanished: a document was deleted while it was being read.
    """
    progress = ProgressControl(config, reader, interruption)
    session = reader.session(
        question, prompts=prompts, heads=config.heads, max_new_tokens=config.max_new_tokens
    )
    vector = embedder.embed_query(question) if query_vector is None else query_vector
    allowed = corpus.visible(allowed)
    similarity = Similarity(corpus, question, vector, config.scoring, allowed)
    frontier = Frontier.of(corpus, question, similarity.values, config.scoring, allowed)
    waits = follows_edges and config.scoring.attention > 0
    stride = config.stride or (UNSTEERED_STRIDE if waits and not progress.steers else 1)
    reads: Reads = "together" if for_answer else "never"
    if waits or progress.steers:
        reads = "along" if waits or stride > 1 else "ahead"
    context = Context(
        corpus,
        session,
        frontier,
        progress,
        budget=min(config.token_budget, session.room),
        reads=reads,
        on_step=on_step,
    )

    def visit(nodes: Sequence[int], *, initial: bool = False) -> None:
        new = context.visit(nodes, initial=initial)
        if navigator is not None and new and new[0].position < FIRST_POSITION + navigator.reads:
            first = new[: FIRST_POSITION + navigator.reads - new[0].position]
            similarity.add(navigator.embed(question, [step.node.text for step in first]))
            frontier.resemble(similarity.values)

    if not progress.reason:
        visit(initial_set(corpus, frontier, context, config.initial_share, allowed), initial=True)
    while not (stop := progress.reason):
        if nodes := frontier.best(context.costs, context.room, stride):
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
        tuple(context.beyond((k or 0) - len(context.steps))),
    )
    return Walked(retrieval, session, progress.says_yes)

"""Searching a store that changes: over the documents of one moment, begun anew if need be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from reprlib import repr as brief

import numpy as np

from hwdag.arrays import Mask, Vectors
from hwdag.config import MAX_NEW_TOKENS, Rules, SearchPlan
from hwdag.embedding.base import Embedder
from hwdag.errors import EmptyIndex, IndexBusy, IndexMismatch, InputError
from hwdag.lm.base import Reader
from hwdag.scope import Scope
from hwdag.search.context import FIRST_POSITION, Budget, Evidence, beyond, read_by_section
from hwdag.search.corpus import Corpus, Vanished
from hwdag.search.frontier import Frontier
from hwdag.search.navigator import Guide, Navigator, Signals, navigator_of
from hwdag.search.progress import Interruption, ProgressControl
from hwdag.search.select import select
from hwdag.search.similarity import Similarity
from hwdag.search.snapshots import Snapshots
from hwdag.search.walk import initial_set, walk
from hwdag.store.sqlite import Store
from hwdag.text.headings import searched_text
from hwdag.text.prompts import SearchPrompts
from hwdag.types import Document, OnStep, Retrieval, Step

MAX_RESTARTS = 5
"""Searches that are begun anew because a document was deleted under them, before giving up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A question, and how it is searched for; see `HWDAGIndex.search`.

    Without a `query_vector`, (dimension,), the embedder is asked. Unless it is `for_answer`, nothing is
    read that the search itself does not need.
    """

    question: str
    reader: Reader
    embedder: Embedder
    plan: SearchPlan
    prompts: SearchPrompts
    query_vector: Sequence[float] | Vectors | None = None
    k: int | None = None
    max_new_tokens: int = MAX_NEW_TOKENS
    for_answer: bool = True
    on_step: OnStep | None = None
    interruption: Interruption = field(default_factory=Interruption)


def find(
    corpus: Corpus,
    query: Query,
    *,
    allowed: Mask | None = None,
    navigator: Navigator | None = None,
) -> Evidence:
    """Select nodes for a question, or walk where a model is asked.

    Only `allowed` nodes, (n,), are scored and shown. A model is asked where p_yes may end the search, or
    relevance is passed on along edges. Raises `QuestionTooLong`, and `Vanished` where a document is
    deleted that is about to be read.
    """
    question, plan, interruption = query.question, query.plan, query.interruption
    progress = ProgressControl(plan.confidence, plan.patience, interruption)
    session = query.reader.session(
        question, prompts=query.prompts, heads=plan.heads, max_new_tokens=query.max_new_tokens
    )
    limit = min(plan.token_budget, session.room)
    budget = Budget(corpus, session.costs, limit, by_section=not plan.walks)
    allowed = corpus.visible(allowed)
    frontier = _frontier(corpus, query, budget, allowed, navigator)
    on_step = query.on_step or (lambda step: None)
    unread: list[Step] = []
    if plan.walks:
        top, share = corpus.top(allowed), _initial_share(plan.rules, corpus, allowed)
        initial = initial_set(frontier, budget, top, share)
        steps = walk(frontier, session, progress, budget, initial, on_step)
        shown = list(enumerate(searched_text(step.node) for step in steps))
    else:
        steps, shown = select(frontier, budget, interruption, on_step), []
        if query.for_answer:
            steps, shown, unread = read_by_section(session, steps, lambda: interruption.reason)
    notes = []
    if limit < plan.token_budget:
        notes.append(f"the budget was cut to the {limit} tokens that fit into the context")
    wanted = (query.k or 0) - len(steps)
    position = len(steps) + len(unread) + FIRST_POSITION
    rest = beyond(frontier, budget, wanted - len(unread), position)
    retrieval = Retrieval(
        question,
        tuple(steps),
        progress.reason or ("budget" if frontier.left_out else "exhausted"),
        sum(session.costs([text for _, text in shown])) if unread else budget.tokens,
        session.usage,
        tuple(notes),
        (*unread[: max(0, wanted)], *rest),
    )
    return Evidence(retrieval, session, progress.says_yes, shown)


def _frontier(
    corpus: Corpus,
    query: Query,
    budget: Budget,
    allowed: Mask | None,
    navigator: Navigator | None,
) -> Frontier:
    """The scores of all nodes before anything is read."""
    question, vector, scoring = query.question, query.query_vector, query.plan.scoring
    vector = query.embedder.embed_query(question) if vector is None else np.asarray(vector)
    similarity = Similarity(corpus, question, vector, scoring, allowed)
    guide = None
    if navigator is not None:
        signals = Signals(corpus, question, similarity, budget.fetch, allowed)
        guide = Guide(navigator, question, similarity, signals)
    likeness, scale = similarity.values, query.plan.rules.scale
    return Frontier.of(corpus, question, likeness, scoring, allowed, scale, guide)


def _initial_share(rules: Rules, corpus: Corpus, allowed: Mask | None) -> float:
    """Share of the budget for the top level (`Rules.initial_share`)."""
    if rules.initial_share is not None:
        return rules.initial_share
    height = max(1, corpus.height(allowed))
    # why none: all that extractive top nodes say is among the leaves
    extractive = height > 1 and not corpus.any_generated(corpus.top(allowed))
    return 0.0 if extractive else 1 / height


class Searcher:
    """Searches whatever a store holds at the moment; threads may share it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._snapshots = Snapshots(store)

    def find(self, query: Query, scope: Scope) -> Evidence:
        """Search for a question; begun anew where a document is deleted that is about to be read.

        Errors as in `HWDAGIndex.search`, and `IndexBusy` where documents disappear faster than they
        are read.
        """
        embedder = query.embedder
        if query.query_vector is not None:
            query = replace(query, query_vector=self._comparable(query.query_vector))
        for _ in range(MAX_RESTARTS):
            try:
                corpus = self._snapshots.current()
                if not corpus.numbers:
                    raise EmptyIndex
                if query.query_vector is None:
                    query = replace(query, query_vector=self._embedded(query.question, embedder))
                allowed = self._snapshots.visible(corpus, scope)
                navigator = navigator_of(query.plan, embedder)
                found = find(corpus, query, allowed=allowed, navigator=navigator)
                sources = self._sources(found.retrieval, corpus)
            except Vanished:
                continue
            return replace(found, retrieval=replace(found.retrieval, sources=sources))
        raise IndexBusy(
            f"documents were deleted while they were read, {MAX_RESTARTS} times in a row; search "
            "again when fewer changes are made"
        )

    def _embedded(self, question: str, embedder: Embedder) -> Vectors:
        dimension = self._store.header.dimension
        vector = np.asarray(embedder.embed_query(question), np.float32)
        # why: a row of several embeddings can be read as more of shorter ones
        if vector.shape != (dimension,):
            raise IndexMismatch(
                f"{embedder.name!r} makes embeddings of shape {vector.shape}, but those of the nodes "
                f"have {dimension} numbers; pass the embedder that the index was built with, or "
                "build anew"
            )
        return vector

    def _comparable(self, query_vector: Sequence[float] | Vectors) -> Vectors:
        """An embedding that came with the question as an array, (dimension,)."""
        dimension, embedder = self._store.header.dimension, self._store.header.embedder
        try:
            vector = np.asarray(query_vector, np.float32)
        except (TypeError, ValueError):
            vector = np.empty(0, np.float32)
        if vector.shape != (dimension,) or not np.isfinite(vector).all():
            raise InputError(
                f"query_vector must be {dimension} finite numbers, as {embedder!r} makes them, which "
                f"embedded the nodes; got {brief(query_vector)} of shape {np.shape(vector)}; leave it "
                "out to have the question embedded"
            )
        return vector

    def _sources(self, retrieval: Retrieval, corpus: Corpus) -> Mapping[str, Document]:
        """The documents that nodes rest on, in the versions that were walked."""
        steps = (*retrieval.steps, *retrieval.beyond)
        ids = {step.node.document_id for step in steps}
        found, known = self._store.versions(ids), set(corpus.numbers)
        if not all(key in found and found[key][0] in known for key in ids):
            raise Vanished("a document was deleted or replaced")
        return {key: document for key, (_, document) in found.items()}

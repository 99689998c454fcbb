"""A question to the evidence for it: select without a model, or walk with one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hwdag.arrays import Floats
from hwdag.config import OVERVIEW_TOKENS, Rules, SearchPlan
from hwdag.corpus.similarity import Similarity
from hwdag.corpus.view import View
from hwdag.lm.base import Session, WalkSession
from hwdag.search.answerability import Nearness, answerability, fitted
from hwdag.search.budget import FIRST_POSITION, Budget, beyond, with_headings
from hwdag.search.features import Signals
from hwdag.search.follow_ups import on_topic, topic
from hwdag.search.frontier import Frontier
from hwdag.search.navigator import Guide
from hwdag.search.overview import asks_for_overview, beginnings, names_documents
from hwdag.search.question import History, Question
from hwdag.search.reading import Evidence, near_best, read_by_section, read_until_enough
from hwdag.search.request import SearchRequest
from hwdag.search.select import select
from hwdag.search.stopping import ProgressControl
from hwdag.search.table_rows import RowOrder, matching_rows
from hwdag.search.walk import initial_set, walk
from hwdag.types import Retrieval, Step


def find(view: View, question: Question, request: SearchRequest) -> Evidence:
    """Select nodes for a question, or walk where a model is asked.

    A model is asked where p_yes may end the search, or relevance is passed on along edges. Raises
    `QuestionTooLong`, and `Vanished` where a document is deleted that is about to be read.
    """
    plan, interruption = request.plan, request.interruption
    is_overview = _is_overview(question, request)
    history = () if is_overview else question.history
    similarity = _similarity(view, question, history, request)
    along = plan.reads_along and not is_overview
    progress = ProgressControl(plan.confidence, plan.patience, interruption)
    session = _session(question, request, is_overview)
    limit = min(plan.token_budget, session.room)
    budget = Budget(
        view.corpus,
        request.reader.count_lines,
        limit,
        by_section=not along,
        counted=request.has_token_counts,
        points_share=plan.rules.points_share,
        keeps_points=plan.rules.keeps_points,
    )
    guide = None
    # why not with a topic: the navigator was trained on questions of their own
    if request.navigator is not None and not history:
        signals = Signals(view, question, similarity, budget.fetch)
        guide = Guide(request.navigator, question.text, similarity, signals)
    scale = plan.rules.scale
    frontier = Frontier.of(view, question, similarity.values, plan.scoring, scale, guide)
    on_step = request.on_step or (lambda step: None)
    unread: list[Step] = []
    shown: list[tuple[int, str]] = []
    order = None if along else RowOrder(question.asked_words, frontier, budget)
    if plan.rules.has_points and not is_overview:
        initial = initial_set(frontier, budget, view.top, _initial_share(plan.rules, view))
        steps = walk(
            frontier, session, progress, budget, initial, on_step, reads_along=along, order=order
        )
    else:
        initial = list[int]()
        if is_overview:
            frontier.close_points()
            initial = beginnings(view, budget)
        silent = (lambda step: None) if along else on_step
        steps = select(frontier, budget, interruption, silent, order, initial)
        if along:
            steps, unread = read_until_enough(session, steps, progress, on_step)
    if along:
        kept = [i for i, step in enumerate(steps) if step.kept]
        shown = list(zip(kept, with_headings([steps[i].node for i in kept]), strict=True))
    elif request.will_decode:
        steps, shown, unread = _read(session, question, request, steps, is_overview)
    notes = [_note(plan, is_overview)]
    if limit < plan.token_budget:
        notes.append(f"the budget was cut to the {limit} tokens that fit into the context")
    context = [step for step in steps if step.kept]
    wanted = (request.k or 0) - len(context)
    position = len(steps) + len(unread) + FIRST_POSITION
    rest = beyond(frontier, budget, wanted - len(unread), position)
    retrieval = Retrieval(
        question.text,
        tuple(steps),
        progress.reason or ("budget" if frontier.left_out else "exhausted"),
        sum(budget.counts([text for _, text in shown])) if shown else budget.tokens,
        session.usage,
        tuple(notes),
        (*unread[: max(0, wanted)], *rest),
        answerability=_answerability(
            question, request, context, view.values_of(similarity.first), is_overview
        ),
    )
    is_quoted = is_overview and not request.reader.card.writes
    return Evidence(
        retrieval, session, progress.says_yes, shown, is_overview=is_overview, is_quoted=is_quoted
    )


def _session(question: Question, request: SearchRequest, is_overview: bool) -> WalkSession:
    """An empty cache for the question."""
    prompts, longest = request.prompts, request.max_new_tokens
    if is_overview:
        prompts, longest = replace(prompts, answer=prompts.overview), max(longest, OVERVIEW_TOKENS)
    return request.reader.session(
        question.text, prompts=prompts, heads=request.plan.heads, max_new_tokens=longest
    )


def _is_overview(question: Question, request: SearchRequest) -> bool:
    """Whether the question is about the whole of the documents; the papers know no such questions."""
    # why: "Sum it up" may be about what was said before
    is_unclear = bool(question.history) and not names_documents(question.words)
    is_paper = request.plan.rules.is_paper
    return not is_paper and not is_unclear and asks_for_overview(request.embedder, question.vector)


def _read(
    session: Session,
    question: Question,
    request: SearchRequest,
    steps: list[Step],
    is_overview: bool,
) -> tuple[list[Step], list[tuple[int, str]], list[Step]]:
    """Read what was selected, for an answer.

    Returns the steps, what was shown, as in `Evidence`, and the steps that are left unread.

    What a question within a conversation is hardly about is left unread, and so is what is far below
    the best where the reader is not capable; the latter stays among the steps.
    """

    def interrupted() -> object:
        return request.interruption.reason

    kept = [step for step in steps if step.kept]
    if not is_overview and question.history:
        near, others = on_topic(kept)
    elif is_overview or request.reader.card.is_capable:
        near, others = kept, []
    else:
        near, others = near_best(kept), []
    near = matching_rows(question.asked_words, near)
    read, shown = read_by_section(session, near, interrupted)
    unread = [step for step in near if step.position not in read] + others
    if unread:
        steps = [step for step in steps if not step.kept or step.position in read]
    at = {step.position: i for i, step in enumerate(steps)}
    merged = [read.get(step.position, step) for step in steps]
    return merged, [(at[position], text) for position, text in shown], unread


def _similarity(
    view: View, question: Question, history: History, request: SearchRequest
) -> Similarity:
    about = topic(view, history) if history else None
    scoring = request.plan.scoring
    return Similarity(view, question.asked_words, question.vector, scoring, about)


def _answerability(
    question: Question,
    request: SearchRequest,
    steps: Sequence[Step],
    cosines: Floats,
    is_overview: bool,
) -> float | None:
    """Probability that the steps hold an answer; None where it was not fitted, or they always do."""
    if not steps:  # a reader would make an answer up
        return None if request.interruption.stopped else 0.0
    fits = getattr(request.embedder, "fingerprint", None) == fitted()["embedder"]
    # why not with a history: a question that refers to others does not name what it is about
    if request.plan.rules.is_paper or question.history or not fits or is_overview:
        return None
    is_default = request.reader.name == fitted()["reader"]
    p_yes = next((s.p_yes for s in reversed(steps) if s.p_yes is not None), None)
    nodes = [step.node for step in steps]
    return answerability(question, nodes, Nearness.of(cosines), p_yes if is_default else None)


def _note(plan: SearchPlan, is_overview: bool) -> str:
    """Which method ran, in one sentence."""
    if is_overview:
        return f'method "{plan.rules.method}": the question is about the whole, so half of the budget is for how the documents begin'
    said = "the reader walked along edges of attention"
    if not plan.rules.has_points:
        said = "no model chose the nodes"
        said += "; the reader said when it had enough" if plan.reads_along else ""
    return f'method "{plan.rules.method}": {said}'


def _initial_share(rules: Rules, view: View) -> float:
    """Share of the budget for the top level (`Rules.initial_share`)."""
    # why none: all that extractive top nodes say is among the leaves
    is_told = rules.is_paper or view.corpus.any_generated(view.top)
    return rules.initial_share if is_told else 0.0

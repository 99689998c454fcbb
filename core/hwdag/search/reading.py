"""Read chosen nodes into the KV cache of an answer: in their order, or by section."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hwdag.lm.base import Session
from hwdag.search.budget import FIRST_POSITION, sections_of, with_headings
from hwdag.search.follow_ups import on_topic
from hwdag.search.state import ReadSteps, SearchState
from hwdag.search.table_rows import matching_rows
from hwdag.search.whole_section import asks_for_all
from hwdag.types import Node, Step

NEAR_BEST = 0.45
"""A reader that is not capable is shown only nodes whose score is at least this share of the best: it takes
its answer from whatever it reads last (`docs/results.md`)."""

MIN_NODES_TO_FILTER = 5
"""Up to this many nodes are all shown: among so few, a second hop scores far below the first."""

READ_TOGETHER = 1024
"""Tokens of a forward, at least, if nodes are read for an answer alone: one forward over everything
could not be interrupted."""


def read_until_enough(state: SearchState, steps: Sequence[Step]) -> ReadSteps:
    """Read chosen nodes in their order until it is enough."""
    read = list[Step]()
    for step, text in zip(steps, with_headings([step.node for step in steps]), strict=True):
        if state.stopping.reason:
            break
        reading = state.session.read([text])
        relevance = step.position * float(reading.attention[0])
        read.append(replace(step, relevance=relevance, p_yes=reading.p_yes))
        state.stopping.take(read[-1])
        state.report(read[-1])
    return read_along(state, read)._replace(unread=steps[len(read) :])


def read_along(state: SearchState, steps: Sequence[Step]) -> ReadSteps:
    """Return steps that were read as they were chosen."""
    kept = [i for i, step in enumerate(steps) if step.kept]
    texts = with_headings([steps[i].node for i in kept])
    return ReadSteps(steps, list(zip(kept, texts, strict=True)))


def read_for_answer(state: SearchState, steps: Sequence[Step]) -> ReadSteps:
    """Read chosen nodes by section, if the reader is to decode an answer from them.

    In a conversation, skip off-topic nodes. For a weak reader, also skip nodes that score far below the
    best, and all but the latest if the best one has others of earlier or later dates; those stay in the steps.
    """
    kept, others = [step for step in steps if step.kept], list[Step]()
    if state.question.history:
        kept, others = on_topic(kept)
    elif not state.request.reader.card.is_capable:
        kept = near_best(_latest(kept))
    if not asks_for_all(state.question.text):
        kept = matching_rows(state.question.asked_words, kept)
    return read_together(state, steps, kept, others)


def _latest(steps: Sequence[Step]) -> Sequence[Step]:
    """Return the latest of statements of several dates, if the most similar one is among them; else all but the earlier."""
    superseded = {position for step in steps for position in step.supersedes}
    if not superseded:
        return steps
    best = max(steps, key=lambda step: step.similarity)
    current = [step for step in steps if step.position not in superseded]
    is_dated = best.supersedes or best.position in superseded
    return [step for step in current if step.supersedes] if is_dated else current


def read_together(
    state: SearchState, steps: Sequence[Step], wanted: Sequence[Step], others: Sequence[Step] = ()
) -> ReadSteps:
    """Read the `wanted` steps by section, if the reader is to decode an answer; `others` are unread."""
    if not state.request.will_decode:
        return ReadSteps(steps)
    read, shown = _read_by_section(state, wanted)
    unread = [*(step for step in wanted if step.position not in read), *others]
    if unread:
        steps = [step for step in steps if not step.kept or step.position in read]
    at = {step.position: i for i, step in enumerate(steps)}
    merged = [read.get(step.position, step) for step in steps]
    return ReadSteps(merged, [(at[position], text) for position, text in shown], unread)


def _read_by_section(
    state: SearchState, steps: Sequence[Step]
) -> tuple[dict[int, Step], list[tuple[int, str]]]:
    """Read steps in forwards of `READ_TOGETHER` tokens; an interruption between two of them ends it.

    Returns the steps that were read with their relevance, by their position, the last with p_yes after
    everything; and positions with texts as they were shown.
    """
    session, deadline = state.session, state.request.deadline
    by_position = {step.position: step for step in steps}
    shown = [(steps[i].position, text) for i, text in by_section([step.node for step in steps])]
    read = dict[int, Step]()
    while len(read) < len(shown) and not (read and deadline.reason):
        part = _of_length(session, shown[len(read) :])
        reading = session.read([text for _, text in part])
        for (position, _), mean in zip(part, reading.attention, strict=True):
            relevance = (len(read) + FIRST_POSITION) * float(mean)
            read[position] = replace(by_position[position], relevance=relevance)
    if read:
        read[max(read)] = replace(read[max(read)], p_yes=reading.p_yes)
    return read, shown[: len(read)]


def near_best(steps: Sequence[Step]) -> list[Step]:
    """Return the steps whose score, when they were chosen, is at least `NEAR_BEST` of the highest one.

    If there are no more than `MIN_NODES_TO_FILTER`, return all of them.
    """
    if len(steps) <= MIN_NODES_TO_FILTER:
        return list(steps)
    least = NEAR_BEST * max(step.score for step in steps)
    return [step for step in steps if step.score >= least]


def _of_length(session: Session, shown: list[tuple[int, str]]) -> list[tuple[int, str]]:
    tokens = 0
    for count, (_, text) in enumerate(shown, 1):
        tokens += session.cost(text)
        if tokens >= READ_TOGETHER:
            return shown[:count]
    return shown


def by_section(nodes: Sequence[Node]) -> list[tuple[int, str]]:
    """Return the numbers of nodes in the order in which they are read, each with its text as shown.

    Sections come in the order of the walk, the nodes of each in document order. A section is the text
    under one heading of one document. Without headings, documents are sections.
    """
    order = [i for section in sections_of(nodes) for i in section]
    return list(zip(order, with_headings([nodes[i] for i in order]), strict=True))

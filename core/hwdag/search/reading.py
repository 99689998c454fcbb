"""Read selected nodes into the KV cache of an answer, in the order of their sections."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from hwdag.lm.base import Session, WalkSession
from hwdag.search.budget import (
    FIRST_POSITION,
    sections_of,
    with_headings,
)
from hwdag.search.stopping import ProgressControl
from hwdag.types import Node, OnStep, Retrieval, Step, Usage

NEAR_BEST = 0.45
"""A reader that is not capable is shown only nodes whose score is at least this share of the best: it takes
its answer from whatever it reads last (`docs/results.md`)."""

FEW = 5
"""Up to this many nodes are all shown: among so few, a second hop scores far below the first."""

READ_TOGETHER = 1024
"""Tokens of a forward, at least, where nodes are read for an answer alone: one forward over everything
could not be interrupted."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """A finished search, and the KV cache that the answer is decoded from.

    Attributes:
        retrieval: what was found.
        session: its cache holds `shown`.
        says_yes: the reader's last word on whether it has enough; True where it was not asked.
        shown: ordinals of steps with their texts as they were read, in the order of the cache.
        spent: cost of the search outside of the session.
        is_overview: the question is about the whole of the documents.
        is_quoted: and the reader is too small to sum them up.
    """

    retrieval: Retrieval
    session: Session
    says_yes: bool
    shown: Sequence[tuple[int, str]]
    spent: Usage = field(default_factory=Usage)
    is_overview: bool = False
    is_quoted: bool = False


def read_until_enough(
    session: WalkSession,
    steps: Sequence[Step],
    progress: ProgressControl,
    on_step: OnStep,
) -> tuple[list[Step], list[Step]]:
    """Read chosen nodes in their order until it is enough; return those read, and the others.

    Lossless (ours): several nodes of a forward have an answer slot each, so that p_yes is what it would
    be one by one. Nodes behind the last one needed are cropped.
    """
    read: list[Step] = []
    while not progress.reason and (part := steps[len(read) : len(read) + session.most_together]):
        texts = with_headings([step.node for step in (*read, *part)])[len(read) :]
        readings = session.read_each(texts)
        for i, (step, reading) in enumerate(zip(part, readings, strict=True), 1):
            relevance = step.position * float(reading.attention[0])
            read.append(replace(step, relevance=relevance, p_yes=reading.p_yes))
            progress.take(read[-1])
            on_step(read[-1])
            if progress.reason:
                session.forget(len(part) - i)
                break
    return read, list(steps[len(read) :])


def read_by_section(
    session: Session, steps: Sequence[Step], interrupted: Callable[[], object]
) -> tuple[dict[int, Step], list[tuple[int, str]]]:
    """Read what was selected, for an answer.

    Forwards have `READ_TOGETHER` tokens. Returns the steps that were read with their relevance, by their
    position, the last with p_yes after everything; and positions with texts as they were shown. Fewer
    steps were read where it was `interrupted` between two forwards.
    """
    by_position = {step.position: step for step in steps}
    shown = [(steps[i].position, text) for i, text in by_section([step.node for step in steps])]
    read = dict[int, Step]()
    while len(read) < len(shown) and not (read and interrupted()):
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

    If there are no more than `FEW`, return all of them.
    """
    if len(steps) <= FEW:
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

    Sections stand as the walk came to them, the nodes of each in document order. A section is what stands
    under one heading of one document. Where nothing has a heading, documents are sections.
    """
    order = [i for section in sections_of(nodes) for i in section]
    return list(zip(order, with_headings([nodes[i] for i in order]), strict=True))

"""Exploring the graph for one question (GraphReader, section 3.3).

    rational plan -> initial nodes -> a path from each:
        facts of the node -> chunks in a queue -> a neighbor -> its facts -> ...

Paths do not know of each other, so all that wait for a decision are asked at once (`walk`). The
default plan is to find what answers the question; initial nodes that are missing are those most
similar to the question.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hwdag.arrays import Vectors
from hwdag.types import Usage
from hwdag_lab.methods.graphreader import prompts
from hwdag_lab.methods.graphreader.agent import Agent, Request
from hwdag_lab.methods.graphreader.fact_graph import World
from hwdag_lab.methods.graphreader.parsing import chosen_elements, plan_of
from hwdag_lab.methods.graphreader.path import (
    ExploredPath,
    FunctionCall,
    Similarity,
    Walk,
    listed,
    most_similar,
    names_of,
)
from hwdag_lab.methods.summaries import filled

DEFAULT_PLAN = "Find what answers the question."


@dataclass(frozen=True, slots=True)
class Exploration:
    """All that happened for one question.

    `requests` are prompts that were sent, `retries` those that were sent again; `defaults` are
    decisions that were taken by default, those of the plan and the initial nodes among them.
    """

    question: str
    plan: str
    paths: tuple[ExploredPath, ...]
    usage: Usage
    requests: int
    retries: int
    defaults: int
    notes: tuple[str, ...] = ()

    @property
    def calls(self) -> tuple[FunctionCall, ...]:
        """The calls of all paths."""
        return tuple(call for path in self.paths for call in path.calls)

    @property
    def notebooks(self) -> tuple[str, ...]:
        """The notebooks that say something."""
        return tuple(path.notebook for path in self.paths if path.notebook)


def explore(question: str, vector: Vectors, world: World, agent: Agent) -> Exploration:
    """Explore a world for a question, whose embedding is `vector`; an empty one has no paths."""
    if not world.elements:
        return Exploration(question, DEFAULT_PLAN, (), Usage(), 0, 0, 0)
    similarity = Similarity(
        (world.element_vectors @ vector).astype(np.float64),
        (world.fact_vectors @ vector).astype(np.float64),
        (world.sentence_vectors @ vector).astype(np.float64),
    )
    plan = _plan(question, agent)
    starts, missing = _initial(question, plan, world, similarity, agent)
    walks = [Walk(question, plan, start, world, similarity, agent) for start in starts]
    _run(walks, agent)
    return Exploration(
        question,
        plan,
        tuple(walk.path for walk in walks),
        agent.usage,
        agent.requests,
        agent.retries,
        agent.defaults,
        tuple(_notes(walks, missing, agent)),
    )


def _plan(question: str, agent: Agent) -> str:
    limit = agent.config.plan_tokens
    prompt = filled(prompts.PLAN, question=question)
    [plan] = agent.decide([Request(prompt, plan_of, prompts.PLAN_RETRY, limit)])
    return agent.clipped(plan, limit) if plan else DEFAULT_PLAN


def _initial(
    question: str, plan: str, world: World, similarity: Similarity, agent: Agent
) -> tuple[list[int], int]:
    """The nodes that paths begin at: those that the agent chose, then the most similar ones.

    Returns:
        the nodes, and how many of them the agent was asked for in vain.
    """
    ranked = most_similar(range(len(world.elements)), similarity.elements)
    number = min(agent.config.initial_nodes, len(ranked))
    if number == len(ranked):
        return ranked, 0
    bare = filled(prompts.INITIAL, question=question, plan=plan, elements="", number=str(number))
    shown, lines = listed(ranked, world, bare + prompts.INITIAL_RETRY, agent)
    prompt = filled(
        prompts.INITIAL, question=question, plan=plan, elements=lines, number=str(number)
    )

    def parse(reply: str) -> list[int] | None:
        return [shown[i] for i in chosen_elements(reply, names_of(shown, world))] or None

    limit = agent.config.reply_tokens
    [chosen] = agent.decide([Request(prompt, parse, prompts.INITIAL_RETRY, limit)])
    starts = list(dict.fromkeys([*(chosen or ()), *ranked]))[:number]
    return starts, max(0, number - len(chosen or ()))


def _run(walks: Sequence[Walk], agent: Agent) -> None:
    """All walks to their ends; those that wait for a decision are asked together."""
    begun = [(asking := walk.run(), next(asking, None)) for walk in walks]
    waiting = [(asking, request) for asking, request in begun if request is not None]
    while waiting:
        decisions = agent.decide([request for _, request in waiting])
        going_on = []
        for (asking, _), decision in zip(waiting, decisions, strict=True):
            try:
                going_on.append((asking, asking.send(decision)))
            except StopIteration:
                continue
        waiting = going_on


def _notes(walks: Sequence[Walk], missing: int, agent: Agent) -> list[str]:
    found = []
    if missing:
        found.append(
            f"{missing} of {len(walks)} initial nodes are those most similar to the question"
        )
    if agent.retries:
        found.append(f"{agent.retries} unusable replies were asked for anew")
    if agent.defaults:
        found.append(f"{agent.defaults} decisions were taken by default after two unusable replies")
    if noted := sum(walk.default_notes for walk in walks):
        found.append(f"{noted} chunks were noted by their most similar sentence, for want of notes")
    if stopped := sum(walk.was_stopped for walk in walks):
        found.append(f"{stopped} paths were stopped by max_calls={agent.config.max_calls}")
    return found

"""Exploring the graph for one question (GraphReader, section 3.3).

    rational plan -> initial nodes -> a path from each:
        facts of the node -> chunks in a queue -> a neighbor -> its facts -> ...

Paths do not know of each other, so all that wait for a decision are asked at once. What is done by
default, where the agent gave no usable reply twice:

- plan: find what answers the question;
- initial nodes: those most similar to the question;
- facts: read the unread chunk that has the fact most similar to the question;
- chunk: note its sentence most similar to the question, and read on in the queue;
- neighbors: terminate.

Where there is nothing to choose (no unread chunk, no unvisited neighbor) nothing is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, TypeVar

import numpy as np

from hwdag.arrays import Floats, Vectors
from hwdag.text.characters import one_line
from hwdag.types import Usage
from hwdag_lab.methods.graphreader import prompts
from hwdag_lab.methods.graphreader.agent import Agent, Request
from hwdag_lab.methods.graphreader.graph import World
from hwdag_lab.methods.graphreader.parsing import (
    Function,
    call_of,
    chosen_elements,
    named_element,
    notebook_of,
    numbers,
    plan_of,
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


T = TypeVar("T")

Stage = Literal["facts", "chunk", "neighbors"]
"""The stages of the paper's Table 8."""

ON_FACTS: tuple[Function, ...] = ("read_chunk", "stop_and_read_neighbor")
ON_CHUNK: tuple[Function, ...] = (
    "search_more",
    "read_previous_chunk",
    "read_subsequent_chunk",
    "termination",
)
ON_NEIGHBORS: tuple[Function, ...] = ("read_neighbor_node", "termination")


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A function that a path called: with chunk IDs, or an element, as they were shown."""

    stage: Stage
    function: Function
    arguments: tuple[str, ...] = ()
    is_default: bool = False


@dataclass(frozen=True, slots=True)
class ExploredPath:
    """What one path did: where it began, its calls, its notebook, and what it read, in order.

    `chunks` and `facts` are indices in the `World` that was explored.
    """

    start: str
    calls: tuple[FunctionCall, ...]
    notebook: str
    chunks: tuple[int, ...]
    facts: tuple[int, ...]
    was_stopped: bool  # by the limit of calls


@dataclass(frozen=True, slots=True)
class Choice:
    """A usable reply: a call, its arguments as indices, and the notebook if it was rewritten."""

    function: Function
    chosen: tuple[int, ...] = ()
    notebook: str | None = None


Asking: TypeAlias = Generator[Request[Choice], "Choice | None", T]
"""What yields requests and is sent their decisions."""


@dataclass(frozen=True, slots=True)
class Similarity:
    """To the question."""

    elements: Floats
    facts: Floats
    sentences: Floats


class Walk:
    """One-use state of a path through facts, chunks and neighbors, with its notebook.

    Attributes:
        was_stopped: by the limit of calls.
        default_notes: chunks of which the agent wrote no notes.
    """

    def __init__(
        self,
        question: str,
        plan: str,
        start: int,
        world: World,
        similarity: Similarity,
        agent: Agent,
    ) -> None:
        self.was_stopped = False
        self.default_notes = 0
        self._briefing = {"question": question, "plan": plan}
        self._start = start
        self._world = world
        self._similarity = similarity
        self._agent = agent
        self._notebook = ""
        self._calls: list[FunctionCall] = []
        self._chunks: list[int] = []
        self._facts: dict[int, None] = {}
        self._visited: set[int] = set()

    @property
    def path(self) -> ExploredPath:
        """What was done so far."""
        return ExploredPath(
            self._world.elements[self._start],
            tuple(self._calls),
            self._notebook,
            tuple(self._chunks),
            tuple(self._facts),
            self.was_stopped,
        )

    def run(self) -> Asking[None]:
        """Walk; every request is answered by a choice, or by None."""
        node: int | None = self._start
        while node is not None:
            self._visited.add(node)
            queue = yield from self._read_facts(node)
            is_done = yield from self._read_chunks(queue)
            node = None if is_done else (yield from self._next_node(node))

    def _read_facts(self, node: int) -> Asking[list[int]]:
        """Facts of a node, by chunk; the chunks to be read."""
        groups: dict[int, list[int]] = {}
        for fact in self._world.facts_of[node]:
            if (chunk := self._world.chunk_of[fact]) not in self._chunks:
                groups.setdefault(chunk, []).append(fact)
        if not groups or self._is_over():
            return []
        shown, listed = self._shown_facts(node, groups)
        self._facts |= dict.fromkeys(shown)
        offered = list(dict.fromkeys(self._world.chunk_of[fact] for fact in shown))

        def parse(reply: str) -> Choice | None:
            call = call_of(reply, ON_FACTS)
            if call is None:
                return None
            ids = [i - 1 for i in numbers(call.argument) if i - 1 in offered]
            if call.function == "read_chunk" and not ids:
                return None
            ids = ids if call.function == "read_chunk" else []
            return Choice(call.function, tuple(ids), notebook_of(reply))

        prompt = self._prompt(
            prompts.EXPLORE_FACTS, element=self._world.elements[node], facts=listed
        )
        choice = yield self._request(prompt, parse, ON_FACTS)
        best = most_similar(shown, self._similarity.facts)[0]
        default = Choice("read_chunk", (self._world.chunk_of[best],))
        self._note(choice)
        taken = choice or default
        self._called("facts", taken, [str(i + 1) for i in taken.chosen], choice is None)
        return list(taken.chosen)

    def _read_chunks(self, queue: list[int]) -> Asking[bool]:
        """The chunks in a queue; whether that was enough, or the calls are used up."""
        while queue:
            if self._is_over():
                return True
            chunk = queue.pop(0)
            if chunk in self._chunks:
                continue
            self._chunks.append(chunk)

            def parse(reply: str) -> Choice | None:
                call = call_of(reply, ON_CHUNK)
                return Choice(call.function, (), notebook_of(reply)) if call else None

            prompt = self._prompt(
                prompts.EXPLORE_CHUNK, chunk=str(chunk + 1), text=self._world.chunks[chunk].text
            )
            choice = yield self._request(prompt, parse, ON_CHUNK)
            if choice is None or choice.notebook is None:
                self._note_by_default(chunk)
            self._note(choice)
            taken = choice or Choice("search_more")
            self._called("chunk", taken, [], choice is None)
            if taken.function == "termination":
                return True
            queue[:0] = self._beside(chunk, taken.function)
        return False

    def _next_node(self, node: int) -> Asking[int | None]:
        """The neighbor to be read next; None to end here."""
        open_ = [n for n in self._world.neighbors(node) if n not in self._visited]
        if not open_ or self._is_over():
            return None
        ranked = most_similar(open_, self._similarity.elements)
        name = self._world.elements[node]
        bare = self._prompt(prompts.EXPLORE_NEIGHBORS, element=name, elements="")
        shown, lines = listed(ranked, self._world, bare + _retry(ON_NEIGHBORS), self._agent)
        names = names_of(shown, self._world)

        def parse(reply: str) -> Choice | None:
            call = call_of(reply, ON_NEIGHBORS)
            if call is None:
                return None
            if call.function == "termination":
                return Choice(call.function)
            index = named_element(call.argument, names)
            return None if index is None else Choice(call.function, (shown[index],))

        prompt = self._prompt(prompts.EXPLORE_NEIGHBORS, element=name, elements=lines)
        choice = yield self._request(prompt, parse, ON_NEIGHBORS)
        taken = choice or Choice("termination")
        self._called("neighbors", taken, names_of(taken.chosen, self._world), choice is None)
        return taken.chosen[0] if taken.chosen else None

    def _shown_facts(self, node: int, groups: dict[int, list[int]]) -> tuple[list[int], str]:
        """Facts that fit into the window, the most similar to the question, in reading order."""
        facts = [fact for several in groups.values() for fact in several]
        ranked = most_similar(facts, self._similarity.facts)
        lines = {fact: f"* {one_line(self._world.facts[fact].text)}" for fact in facts}
        headed = [f"Chunk ID {len(self._world.chunks)}:\n{lines[fact]}" for fact in ranked]
        bare = self._prompt(prompts.EXPLORE_FACTS, element=self._world.elements[node], facts="")
        bare += _retry(ON_FACTS)
        limit = self._agent.config.reply_tokens
        kept = set(ranked[: self._agent.fitting(headed, bare, limit=limit, separator="\n")])
        shown = [fact for fact in facts if fact in kept]
        listed = [
            "\n".join([f"Chunk ID {chunk + 1}:", *(lines[f] for f in several if f in kept)])
            for chunk, several in groups.items()
            if not kept.isdisjoint(several)
        ]
        return shown, "\n".join(listed)

    def _beside(self, chunk: int, function: Function) -> list[int]:
        """The chunk before or after it, where one is asked for and there; it is read next."""
        step = {"read_previous_chunk": -1, "read_subsequent_chunk": 1}.get(function)
        other = None if step is None else self._world.beside(chunk, step)
        return [] if other is None else [other]

    def _is_over(self) -> bool:
        """Whether the calls are used up; then the path ends here."""
        self.was_stopped = len(self._calls) >= self._agent.config.max_calls
        return self.was_stopped

    def _prompt(self, template: str, **values: str) -> str:
        notebook = self._notebook or prompts.EMPTY_NOTEBOOK
        return filled(template, notebook=notebook, **self._briefing, **values)

    def _request(
        self, prompt: str, parse: Callable[[str], Choice | None], legal: Sequence[str]
    ) -> Request[Choice]:
        return Request(prompt, parse, _retry(legal), self._agent.config.reply_tokens)

    def _called(
        self, stage: Stage, taken: Choice, arguments: Sequence[str], is_default: bool
    ) -> None:
        self._calls.append(FunctionCall(stage, taken.function, tuple(arguments), is_default))

    def _note(self, choice: Choice | None) -> None:
        if choice is not None and choice.notebook is not None:
            limit = self._agent.config.notebook_tokens
            self._notebook = self._agent.clipped(choice.notebook, limit)

    def _note_by_default(self, chunk: int) -> None:
        self.default_notes += 1
        rows = self._world.rows(chunk)
        best = int(np.argmax(self._similarity.sentences[rows.start : rows.stop]))
        line = " ".join(self._world.sentence(chunk, best).split())
        lines = [*self._notebook.splitlines(), line]
        self._notebook = self._agent.newest(lines, self._agent.config.notebook_tokens)


def _retry(legal: Sequence[str]) -> str:
    return filled(prompts.CALL_RETRY, legal=", ".join(legal))


def listed(ranked: Sequence[int], world: World, bare: str, agent: Agent) -> tuple[list[int], str]:
    """The first elements, as many as may be shown, and the lines that show them."""
    shown = list(ranked[: agent.config.max_elements])
    lines = [f"* {name}" for name in names_of(shown, world)]
    number = agent.fitting(lines, bare, limit=agent.config.reply_tokens, separator="\n")
    return shown[:number], "\n".join(lines[:number])


def names_of(elements: Sequence[int], world: World) -> list[str]:
    """Their names, as they are shown."""
    return [world.elements[element] for element in elements]


def most_similar(indices: Sequence[int], similarity: Floats) -> list[int]:
    """The indices, the most similar to the question first; equal ones as they were."""
    return sorted(indices, key=lambda i: -similarity[i])

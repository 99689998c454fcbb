"""Exploring the graph for one question (GraphReader, section 3.3).

    rational plan -> initial nodes -> a path from each:
        facts of the node -> chunks in a queue -> a neighbor -> its facts -> ...

Paths are independent, so all paths that wait for a decision are asked together. The default of each
decision, taken when no reply could be used (see `hwdag_lab.methods.decisions`):

- plan: find facts that answer the question;
- initial nodes: those most similar to the question;
- facts: read the unread chunk with the fact most similar to the question;
- chunk: note its sentence most similar to the question, and continue with the queue;
- neighbors: terminate.

Without a choice nothing is asked (no unread chunk, no unvisited neighbor).
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, TypeVar

import numpy as np

from hwdag.arrays import Floats, Vectors
from hwdag.lm.base import Reader, Writer
from hwdag.text.characters import one_line
from hwdag.text.chunking import chunk
from hwdag.types import Usage
from hwdag_lab.methods.decisions import Asker, Decision
from hwdag_lab.methods.graphreader import prompts
from hwdag_lab.methods.graphreader.config import GraphReaderConfig
from hwdag_lab.methods.graphreader.graph import FactGraph
from hwdag_lab.methods.graphreader.parsing import (
    Function,
    call_of,
    chosen_elements,
    named_element,
    notebook_of,
    numbers,
    plan_of,
)
from hwdag_lab.methods.summaries import fill_template

T = TypeVar("T")


class Agent(Asker):
    """Asks the writer about one question, with the sizes of the config."""

    def __init__(self, writer: Writer, reader: Reader, config: GraphReaderConfig) -> None:
        super().__init__(writer, reader)
        self.config = config

    def choose(self, requests: Sequence[Decision[T]]) -> list[T | None]:
        """Call `decide` for replies of the usual length."""
        return self.decide(requests, limit=self.config.reply_tokens)

    def fitting(self, lines: Sequence[str], around: str) -> int:
        """Count the lines that fit into a prompt next to the text `around`; at least one."""
        config = self.config
        held = np.cumsum(self.count_tokens([line + "\n" for line in lines]))
        room = self.room(around, limit=config.reply_tokens, within=config.window_tokens)
        return max(1, int((held <= room).sum()))

    def clipped(self, text: str, limit: int) -> str:
        """Return the first sentences of a text, at most `limit` tokens."""
        if self.count_tokens([text])[0] <= limit:
            return text
        head = chunk(text, count_tokens=self.count_tokens, limit=limit)[0]
        return text[head.start : head.end]

    def newest(self, lines: Iterable[str], limit: int) -> str:
        """Return the last lines of a text, at most `limit` tokens; at least a part of the last line."""
        kept = list(lines)
        while len(kept) > 1 and self.count_tokens(["\n".join(kept)])[0] > limit:
            kept.pop(0)
        return self.clipped("\n".join(kept), limit)


DEFAULT_PLAN = "Find what answers the question."


@dataclass(frozen=True, slots=True)
class Exploration:
    """Everything that happened for one question.

    `requests` counts prompts, `retries` those sent again, and `defaults` the decisions taken by
    default, including the plan and the initial nodes.
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
        """Notebooks that are not empty."""
        return tuple(path.notebook for path in self.paths if path.notebook)


def explore(question: str, vector: Vectors, world: FactGraph, agent: Agent) -> Exploration:
    """Explore a graph for a question with this embedding; an empty graph has no paths."""
    if not world.elements:
        return Exploration(question, DEFAULT_PLAN, (), Usage(), 0, 0, 0)
    similarity = QuestionSimilarity(
        (world.element_vectors @ vector).astype(np.float64),
        (world.fact_vectors @ vector).astype(np.float64),
        (world.sentence_vectors @ vector).astype(np.float64),
    )
    limit = agent.config.plan_tokens
    asking = Decision(fill_template(prompts.PLAN, question=question), plan_of, prompts.PLAN_RETRY)
    [said] = agent.decide([asking], limit=limit)
    plan = agent.clipped(said, limit) if said else DEFAULT_PLAN
    starts, missing = _initial(question, plan, world, similarity, agent)
    walks = [PathWalk(question, plan, start, world, similarity, agent) for start in starts]
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


def _initial(
    question: str, plan: str, world: FactGraph, similarity: QuestionSimilarity, agent: Agent
) -> tuple[list[int], int]:
    """Return the nodes at which paths start: those that the agent chose, then the most similar ones.

    Returns:
        the nodes, and how many of them the agent failed to choose.
    """
    ranked = most_similar(range(len(world.elements)), similarity.elements)
    number = min(agent.config.initial_nodes, len(ranked))
    if number == len(ranked):
        return ranked, 0

    def prompt(elements: str) -> str:
        said = {"question": question, "plan": plan, "number": str(number)}
        return fill_template(prompts.INITIAL, elements=elements, **said)

    shown, lines = shown_elements(ranked, world, prompt("") + prompts.INITIAL_RETRY, agent)

    def parse(reply: str) -> list[int] | None:
        return [shown[i] for i in chosen_elements(reply, names_of(shown, world))] or None

    [chosen] = agent.choose([Decision(prompt(lines), parse, prompts.INITIAL_RETRY)])
    starts = list(dict.fromkeys([*(chosen or ()), *ranked]))[:number]
    return starts, max(0, number - len(chosen or ()))


def _run(walks: Sequence[PathWalk], agent: Agent) -> None:
    """Run all walks to their ends; those that wait for a decision are asked together."""
    begun = [(asking := walk.run(), next(asking, None)) for walk in walks]
    waiting = [(asking, request) for asking, request in begun if request is not None]
    while waiting:
        decisions = agent.choose([request for _, request in waiting])
        going_on = []
        for (asking, _), decision in zip(waiting, decisions, strict=True):
            try:
                going_on.append((asking, asking.send(decision)))
            except StopIteration:
                continue
        waiting = going_on


def _notes(walks: Sequence[PathWalk], missing: int, agent: Agent) -> Iterator[str]:
    if missing:
        yield f"{missing} of {len(walks)} initial nodes are those most similar to the question"
    if agent.retries:
        yield f"{agent.retries} unusable replies were asked for again"
    if agent.defaults:
        yield f"{agent.defaults} decisions were taken by default after two unusable replies"
    if noted := sum(walk.default_notes for walk in walks):
        yield f"{noted} chunks without notes were noted by their most similar sentence"
    if stopped := sum(walk.was_stopped for walk in walks):
        yield f"{stopped} paths were stopped by max_calls={agent.config.max_calls}"


Stage = Literal["facts", "chunk", "neighbors"]
"""Stages as in Table 8 of the paper."""

ON_FACTS: tuple[Function, ...] = ("read_chunk", "stop_and_read_neighbor")
ON_CHUNK: tuple[Function, ...] = (
    "search_more",
    "read_previous_chunk",
    "read_subsequent_chunk",
    "termination",
)
ON_NEIGHBORS: tuple[Function, ...] = ("read_neighbor_node", "termination")

STEPS = {"read_previous_chunk": -1, "read_subsequent_chunk": 1}
"""Offset of the chunk to read."""


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A function call of a path, with the chunk IDs or the element as shown."""

    stage: Stage
    function: Function
    arguments: tuple[str, ...] = ()
    is_default: bool = False


@dataclass(frozen=True, slots=True)
class ExploredPath:
    """One path: its start, calls, notebook, and the nodes that it read, in order.

    `chunks` and `facts` are indices in the explored graph.
    """

    start: str
    calls: tuple[FunctionCall, ...]
    notebook: str
    chunks: tuple[int, ...]
    facts: tuple[int, ...]
    was_stopped: bool  # by the limit of calls


@dataclass(frozen=True, slots=True)
class Choice:
    """A usable reply: the function, its arguments as indices, and the new notebook if there is one."""

    function: Function
    chosen: tuple[int, ...] = ()
    notebook: str | None = None


Asking: TypeAlias = Generator[Decision[Choice], "Choice | None", T]
"""A generator that yields decisions and receives their results."""


@dataclass(frozen=True, slots=True)
class QuestionSimilarity:
    """Similarity to the question."""

    elements: Floats
    facts: Floats
    sentences: Floats


@dataclass(slots=True, eq=False)
class PathWalk:
    """A path through facts, chunks and neighbors, with its notebook."""

    question: str
    plan: str
    start: int  # element at which it starts
    world: FactGraph
    similarity: QuestionSimilarity
    agent: Agent
    was_stopped: bool = False  # by the limit of calls
    default_notes: int = 0  # chunks without notes of the agent
    _notebook: str = ""
    _calls: list[FunctionCall] = field(default_factory=list)
    _chunks: list[int] = field(default_factory=list)
    _facts: dict[int, None] = field(default_factory=dict)
    _visited: set[int] = field(default_factory=set)

    @property
    def path(self) -> ExploredPath:
        """The path so far."""
        return ExploredPath(
            self.world.elements[self.start].name,
            tuple(self._calls),
            self._notebook,
            tuple(self._chunks),
            tuple(self._facts),
            self.was_stopped,
        )

    def run(self) -> Asking[None]:
        """Walk; every decision is answered by a choice, or by None."""
        node: int | None = self.start
        while node is not None:
            self._visited.add(node)
            queue = yield from self._read_facts(node)
            is_done = yield from self._read_chunks(queue)
            node = None if is_done else (yield from self._next_node(node))

    def _read_facts(self, node: int) -> Asking[list[int]]:
        """Show the facts of a node by chunk; return the chunks to read."""
        world, groups = self.world, dict[int, list[int]]()
        for fact in world.facts_of[node]:
            if (chunk := world.chunk_of[fact]) not in self._chunks:
                groups.setdefault(chunk, []).append(fact)
        if not groups or self._is_over():
            return []
        shown, listed = self._shown_facts(node, groups)
        self._facts |= dict.fromkeys(shown)
        offered = list(dict.fromkeys(world.chunk_of[fact] for fact in shown))

        def parse(reply: str) -> Choice | None:
            call = call_of(reply, ON_FACTS)
            if call is None:
                return None
            is_reading = call.function == "read_chunk"
            ids = [i - 1 for i in numbers(call.argument) if i - 1 in offered] if is_reading else []
            found = Choice(call.function, tuple(ids), notebook_of(reply))
            return found if ids or not is_reading else None

        prompt = self._prompt(
            prompts.EXPLORE_FACTS, element=world.elements[node].name, facts=listed
        )
        choice = yield Decision(prompt, parse, _retry(ON_FACTS))
        best = most_similar(shown, self.similarity.facts)[0]
        self._note(choice)
        taken = choice or Choice("read_chunk", (world.chunk_of[best],))
        self._called("facts", taken, [str(i + 1) for i in taken.chosen], choice is None)
        return list(taken.chosen)

    def _read_chunks(self, queue: list[int]) -> Asking[bool]:
        """Read the chunks in a queue; return whether the path ends here."""
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
                prompts.EXPLORE_CHUNK, chunk=str(chunk + 1), text=self.world.chunks[chunk].text
            )
            choice = yield Decision(prompt, parse, _retry(ON_CHUNK))
            if choice is None or choice.notebook is None:
                self._note_by_default(chunk)
            self._note(choice)
            taken = choice or Choice("search_more")
            self._called("chunk", taken, [], choice is None)
            if taken.function == "termination":
                return True
            step = STEPS.get(taken.function)
            other = None if step is None else self.world.chunk_at(chunk, step)
            queue[:0] = [] if other is None else [other]
        return False

    def _next_node(self, node: int) -> Asking[int | None]:
        """Choose the neighbor to read next; None ends the path."""
        open_ = [n for n in self.world.neighbors(node) if n not in self._visited]
        if not open_ or self._is_over():
            return None
        ranked = most_similar(open_, self.similarity.elements)
        name = self.world.elements[node].name
        bare = self._prompt(prompts.EXPLORE_NEIGHBORS, element=name, elements="")
        shown, lines = shown_elements(ranked, self.world, bare + _retry(ON_NEIGHBORS), self.agent)
        names = names_of(shown, self.world)

        def parse(reply: str) -> Choice | None:
            call = call_of(reply, ON_NEIGHBORS)
            if call is not None and call.function == "termination":
                return Choice(call.function)
            index = None if call is None else named_element(call.argument, names)
            return None if index is None else Choice("read_neighbor_node", (shown[index],))

        prompt = self._prompt(prompts.EXPLORE_NEIGHBORS, element=name, elements=lines)
        choice = yield Decision(prompt, parse, _retry(ON_NEIGHBORS))
        taken = choice or Choice("termination")
        self._called("neighbors", taken, names_of(taken.chosen, self.world), choice is None)
        return taken.chosen[0] if taken.chosen else None

    def _shown_facts(self, node: int, groups: dict[int, list[int]]) -> tuple[list[int], str]:
        """Return the facts most similar to the question that fit into the window, in reading order."""
        world = self.world
        facts = [fact for several in groups.values() for fact in several]
        ranked = most_similar(facts, self.similarity.facts)
        lines = {fact: f"* {one_line(world.facts[fact].text)}" for fact in facts}
        headed = [f"Chunk ID {len(world.chunks)}:\n{lines[fact]}" for fact in ranked]
        bare = self._prompt(prompts.EXPLORE_FACTS, element=world.elements[node].name, facts="")
        kept = set(ranked[: self.agent.fitting(headed, bare + _retry(ON_FACTS))])
        listed = [
            "\n".join([f"Chunk ID {chunk + 1}:", *(lines[f] for f in several if f in kept)])
            for chunk, several in groups.items()
            if not kept.isdisjoint(several)
        ]
        return [fact for fact in facts if fact in kept], "\n".join(listed)

    def _is_over(self) -> bool:
        """Return whether the calls are used up, which ends the path."""
        self.was_stopped = len(self._calls) >= self.agent.config.max_calls
        return self.was_stopped

    def _prompt(self, template: str, **values: str) -> str:
        briefing = {"question": self.question, "plan": self.plan}
        notebook = self._notebook or prompts.EMPTY_NOTEBOOK
        return fill_template(template, notebook=notebook, **briefing, **values)

    def _called(
        self, stage: Stage, taken: Choice, arguments: Sequence[str], is_default: bool
    ) -> None:
        self._calls.append(FunctionCall(stage, taken.function, tuple(arguments), is_default))

    def _note(self, choice: Choice | None) -> None:
        if choice is not None and choice.notebook is not None:
            limit = self.agent.config.notebook_tokens
            self._notebook = self.agent.clipped(choice.notebook, limit)

    def _note_by_default(self, chunk: int) -> None:
        self.default_notes += 1
        rows = self.world.rows(chunk)
        best = int(np.argmax(self.similarity.sentences[rows.start : rows.stop]))
        line = " ".join(self.world.sentence(chunk, best).split())
        lines = [*self._notebook.splitlines(), line]
        self._notebook = self.agent.newest(lines, self.agent.config.notebook_tokens)


def _retry(legal: Sequence[str]) -> str:
    return fill_template(prompts.CALL_RETRY, legal=", ".join(legal))


def shown_elements(
    ranked: Sequence[int], world: FactGraph, bare: str, agent: Agent
) -> tuple[list[int], str]:
    """Return the first elements that may be shown, and the lines that show them."""
    shown = list(ranked[: agent.config.max_elements])
    lines = [f"* {name}" for name in names_of(shown, world)]
    number = agent.fitting(lines, bare)
    return shown[:number], "\n".join(lines[:number])


def names_of(elements: Sequence[int], world: FactGraph) -> list[str]:
    """Return names of elements, as shown."""
    return [world.elements[element].name for element in elements]


def most_similar(indices: Sequence[int], similarity: Floats) -> list[int]:
    """Return indices by similarity to the question, highest first; ties keep their order."""
    return sorted(indices, key=lambda i: -similarity[i])

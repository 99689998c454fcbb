"""GraphReader (Li et al. 2024, arXiv 2406.14550): an agent explores a graph of elements and facts.

    build:   chunks -> atomic facts and key elements -> elements that are the same are one node
    search:  rational plan -> initial nodes -> a path from each, with a notebook of its own
    answer:  the writer from all notebooks, as in the paper; or the reader from the nodes

One graph per document; elements of several documents that share a spelling are one node.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Unpack, get_args

from hwdag.arrays import Vectors
from hwdag.building.report import BuildReport
from hwdag.checks import one_of
from hwdag.config import SearchConfig
from hwdag.errors import ContextTooSmall, InputError
from hwdag.graph.dag import HWDAG
from hwdag.lm.base import Reader, Session, Writer
from hwdag.scope import Scope
from hwdag.text.characters import without_surrogates
from hwdag.types import Document, Retrieval
from hwdag_lab.methods.document_retriever import DocumentRetriever, ModelOptions
from hwdag_lab.methods.found import Found, Query
from hwdag_lab.methods.graphreader import prompts as wording
from hwdag_lab.methods.graphreader.agent import Agent
from hwdag_lab.methods.graphreader.answering import NotebookSession, reasoned
from hwdag_lab.methods.graphreader.config import Answers, GraphReaderConfig
from hwdag_lab.methods.graphreader.evidence import evidence
from hwdag_lab.methods.graphreader.exploration import ON_CHUNK, Exploration, explore
from hwdag_lab.methods.graphreader.graph import Extraction, FactGraph, World

QUESTION_TOKENS = 128
"""Kept free for the question when chunks are cut for a small window."""


@dataclass(frozen=True, slots=True)
class _Explored:
    """What a search leaves behind for the answer of the same question."""

    exploration: Exploration
    agent: Agent
    vector: Vectors  # of the question


class GraphReaderRetriever(DocumentRetriever[FactGraph]):
    """GraphReader: what an agent read on its paths through a graph of key elements.

    Nodes are the chunks that were read, cut to their best sentences where the token budget is
    small, and then the facts that were seen of other chunks (`evidence`). The exploration does not
    depend on the budget. `Retrieval.notes` counts what was decided by default; `explore` tells all.

    The writer, or else the reader, extracts facts and explores. `Retrieval.usage` is the difference
    of the writer's meter before and after, so it includes what other threads spent on the same
    model meanwhile; a writer without a meter counts as 0.

    Args:
        answers: "notebooks" is the paper's answer, reasoned by the writer over all notebooks. Where
            that fails twice, or no notebook says anything, the nodes are answered from, and a note
            says so. "nodes" lets the reader answer from the nodes, as every other retriever.
        config: how graphs are built and explored.
        models: reader, prompts, writer, embedder and cache; see `DocumentRetriever`.

    Raises:
        ReaderRequired: no writer was given, and the reader cannot write.
    """

    def __init__(
        self,
        *,
        answers: Answers = "notebooks",
        config: GraphReaderConfig | None = None,
        **models: Unpack[ModelOptions],
    ) -> None:
        one_of("answers", answers, get_args(Answers))
        self.answers = answers
        self.config = config or GraphReaderConfig()
        super().__init__(**models)
        # why: a model's name is not loaded before it is needed
        if isinstance(models.get("reader"), Reader):
            _ = self.writer

    @property
    def name(self) -> str:  # type: ignore[override]
        """`graphreader`, or `graphreader-nodes` if it answers from nodes."""
        return "graphreader" if self.answers == "notebooks" else "graphreader-nodes"

    @property
    def writer(self) -> Writer:
        """Who explores: the writer that was given, or the reader."""
        return self._replying("GraphReader explores")

    @property
    def facts_writer(self) -> Writer | None:
        """Who extracts the facts; None where the sentences of a chunk are its facts."""
        facts = self.config.facts
        given = self._models.writer is not None
        if facts == "sentences" or (
            facts == "auto" and not given and self.reader.prefers_extraction
        ):
            return None
        return self.writer

    @property
    def graphs(self) -> Mapping[str, FactGraph]:
        """The graphs by document id."""
        return {key: graph for key, (_, graph) in self._held.items()}

    def explore(
        self,
        question: str,
        *,
        scope: Scope | None = None,
    ) -> Exploration:
        """Everything that the agent did for a question: plan, paths, calls and notebooks.

        Indices in the paths are those of a `World` of the graphs that were chosen, in their order.

        Raises:
            InputError: the question is blank, or there is no document.
            QuestionTooLong: the question leaves no room in the writer's context.
        """
        if not question.strip():
            raise InputError("the question is empty or only white space")
        held = self._chosen(scope)
        world = World([graph for _, graph in held.values()])
        return self._explore(without_surrogates(question)[0], world).exploration

    def _answering(
        self,
        retrieval: Retrieval,
        session: Session,
        carried: _Explored | None,
        config: SearchConfig,
    ) -> tuple[Retrieval, Session]:
        """As `answers` says: the nodes, or the notebooks; where these give none, the nodes."""
        if self.answers == "nodes" or carried is None:
            return retrieval, session
        before = carried.agent.usage
        answer = reasoned(carried.exploration, carried.agent)
        spent = carried.agent.usage - before
        if answer is None:
            note = "no answer could be reasoned from the notebooks: the nodes were answered from"
            notes, usage = (*retrieval.notes, note), retrieval.usage + spent
            return replace(retrieval, notes=notes, usage=usage), session
        return retrieval, NotebookSession(
            session,
            self.reader,
            self._prompts,
            config.heads,
            retrieval.question,
            carried.agent.clipped(answer, config.max_new_tokens),
            spent,
        )

    def _insert(self, document: Document, report: BuildReport) -> None:
        before = len(report.built)
        super()._insert(document, report)
        for key in report.built[before:]:
            report.retries += self.graphs[key].retries
            report.fallbacks += self.graphs[key].defaults

    def _build(self, document: Document) -> FactGraph:
        writer = self.facts_writer
        extraction = Extraction(
            self.reader, writer, self.embedder, self.config, self._chunk_tokens(), self._reporter
        )
        return extraction.graph(document, self._calls)

    def _chunk_tokens(self) -> int:
        """Tokens of a chunk that fits into the prompts of its extraction and of its reading."""
        config = self.config
        agent = Agent(self.writer, self.reader, config)
        around = wording.EXPLORE_CHUNK + wording.CALL_RETRY + ", ".join(ON_CHUNK)
        shown = config.plan_tokens + config.notebook_tokens + QUESTION_TOKENS
        reading = agent.room(around, limit=config.reply_tokens) - shown
        room = min(config.chunk_tokens, reading)
        if self.facts_writer is not None:
            room = min(room, agent.context_room(wording.FACTS + wording.FACTS_RETRY))
        if room < 8:
            raise ContextTooSmall(
                f"a window of {agent.window} tokens cannot hold the prompts, the reply and a chunk; "
                "raise window_tokens, lower plan_tokens, notebook_tokens, reply_tokens or "
                "fact_tokens, or use a writer with a longer context"
            )
        return room

    def _graph(self, built: FactGraph) -> HWDAG:
        return built.graph()

    def _retrieve(self, query: Query, built: Mapping[str, FactGraph]) -> Found:
        world = World(list(built.values()))
        explored = self._explore(query.question, world)
        found = evidence(
            explored.exploration, world, query, explored.vector, self.embedder, self.reader
        )
        return Found(
            found.ranked,
            explored.exploration.usage,
            (*_building_notes(list(built.values())), *explored.exploration.notes),
            found.left_out,
            carried=explored,
        )

    def _explore(self, question: str, world: World) -> _Explored:
        agent = Agent(self.writer, self.reader, self.config)
        vector = self.embedder.embed_query(question)
        return _Explored(explore(question, vector, world, agent), agent, vector)


def _building_notes(graphs: Sequence[FactGraph]) -> tuple[str, ...]:
    """What differed when the graphs were built; of many documents only how many they are."""
    noted = [graph for graph in graphs if graph.notes]
    if len(noted) < 2:
        return tuple(note for graph in noted for note in graph.notes)
    return (
        f"in {len(noted)} of {len(graphs)} documents the facts of some chunks are their sentences",
    )

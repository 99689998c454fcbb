"""GraphReader (Li et al. 2024, arXiv 2406.14550): an agent explores a graph of elements and facts.

    build:   chunks -> atomic facts and key elements -> a node per element
    search:  rational plan -> initial nodes -> a path from each, with its own notebook
    answer:  the writer from all notebooks, as in the paper; or the reader from the nodes

One graph per document; documents share the nodes of elements with a common spelling.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from hwdag.arrays import Floats, Vectors
from hwdag.building.points import Point
from hwdag.config import SearchPlan
from hwdag.embedding.base import Embedder
from hwdag.embedding.checked import embedded, embedded_question
from hwdag.errors import ContextTooSmall, InputError
from hwdag.lm.base import Session, Writer
from hwdag.scope import Scope
from hwdag.text.characters import without_surrogates
from hwdag.types import Document, Retrieval
from hwdag_lab.methods.document_retriever import DocumentRetriever
from hwdag_lab.methods.found import Found, Scored, SearchRequest, without_repeats
from hwdag_lab.methods.graphreader import prompts as wording
from hwdag_lab.methods.graphreader.answering import NotebookSession, reasoned
from hwdag_lab.methods.graphreader.config import GraphReaderConfig
from hwdag_lab.methods.graphreader.exploration import ON_CHUNK, Agent, Exploration, explore
from hwdag_lab.methods.graphreader.graph import Extraction, FactGraph
from hwdag_lab.methods.summaries import best_parts, excerpt

QUESTION_TOKENS = 128  # room for the question if chunks are cut for a small window


@dataclass(frozen=True, slots=True)
class _Explored:
    """The part of a search that the answer to the same question needs."""

    exploration: Exploration
    agent: Agent
    vector: Vectors  # of the question


class GraphReaderRetriever(DocumentRetriever[FactGraph]):
    """GraphReader: an agent reads along paths through a graph of key elements.

    Nodes are the chunks that were read, those on more paths first. If they exceed the token budget,
    each is cut to its sentences most similar to the question and the notebooks, best sentences of
    all chunks first. Facts that were shown without their chunk being read follow. The exploration
    does not depend on the budget. `Retrieval.notes` counts defaults; `explore` returns everything.

    The writer, or else the reader, extracts facts and explores. `Retrieval.usage` is the difference
    of its meter, including the spending of other threads on the same model.
    """

    needs_replies = True
    Config = GraphReaderConfig
    config: GraphReaderConfig

    @property
    def name(self) -> str:  # type: ignore[override]
        """`graphreader`, or `graphreader-nodes` if it answers from nodes."""
        return "graphreader" if self.config.answers == "notebooks" else "graphreader-nodes"

    @property
    def writer(self) -> Writer:
        """The model that explores: the writer, or else the reader."""
        return self._replying()

    @property
    def facts_writer(self) -> Writer | None:
        """The model that extracts facts; None if the sentences of a chunk are its facts."""
        facts = self.config.facts
        is_passed = self._writer is not None
        if facts == "sentences" or (
            facts == "auto" and not is_passed and not self.reader.card.writes
        ):
            return None
        return self.writer

    @property
    def graphs(self) -> Mapping[str, FactGraph]:
        """The graphs by document id."""
        return {key: graph for key, (_, graph) in self._held.items()}

    def explore(self, question: str, *, scope: Scope | None = None) -> Exploration:
        """Return everything that the agent did for a question: plan, paths, calls and notebooks.

        Paths have indices in `FactGraph.joined` of the graphs in scope.

        Raises:
            InputError: the question is blank, or there is no document.
            QuestionTooLong: the question leaves no room in the writer's context.
        """
        if not question.strip():
            raise InputError("the question is empty or only white space")
        held = self._chosen(scope)
        world = FactGraph.joined([graph for _, graph in held.values()])
        return self._explore(without_surrogates(question)[0], world).exploration

    def _answering(
        self,
        retrieval: Retrieval,
        session: Session,
        carried: _Explored | None,
        plan: SearchPlan,
        max_new_tokens: int,
    ) -> tuple[Retrieval, Session]:
        """Answer from the notebooks or the nodes, by `answers`; from nodes if notebooks fail."""
        if self.config.answers == "nodes" or carried is None:
            return retrieval, session
        before = carried.agent.usage
        answer = reasoned(carried.exploration, carried.agent)
        spent = carried.agent.usage - before
        if answer is None:
            note = "the notebooks gave no answer, so the reader answered from the nodes"
            notes, usage = (*retrieval.notes, note), retrieval.usage + spent
            return replace(retrieval, notes=notes, usage=usage), session
        return retrieval, NotebookSession(
            session,
            self.reader,
            self._prompts or self.reader.card.prompts,
            plan.heads,
            retrieval.question,
            carried.agent.clipped(answer, max_new_tokens),
            spent,
        )

    def _build(self, document: Document) -> FactGraph:
        models = self.reader, self._asker(self.facts_writer), self.embedder
        extraction = Extraction(*models, self.config, self._chunk_tokens(), self._reporter)
        return extraction.graph(document)

    def _chunk_tokens(self) -> int:
        """Return tokens of a chunk that fits into the prompts that extract and read it."""
        config = self.config
        agent = Agent(self.writer, self.reader, config)
        around = wording.EXPLORE_CHUNK + wording.CALL_RETRY + ", ".join(ON_CHUNK)
        shown = config.plan_tokens + config.notebook_tokens + QUESTION_TOKENS
        reading = agent.room(around, limit=config.reply_tokens, within=config.window_tokens) - shown
        room = min(config.chunk_tokens, reading)
        if self.facts_writer is not None:
            facts = wording.FACTS + wording.FACTS_RETRY
            room = min(room, agent.room(facts, limit=config.fact_tokens))
        if room < 8:
            raise ContextTooSmall(
                f"a window of {min(agent.context, config.window_tokens)} tokens cannot hold the prompts, the reply and a chunk; "
                "raise window_tokens, lower plan_tokens, notebook_tokens, reply_tokens or "
                "fact_tokens, or use a writer with a longer context"
            )
        return room

    def _retrieve(self, request: SearchRequest, built: Mapping[str, FactGraph]) -> Found:
        world = FactGraph.joined(list(built.values()))
        explored = self._explore(request.question, world)
        found = self._evidence(explored, world, request)
        exploration = explored.exploration
        return replace(
            found,
            usage=exploration.usage,
            notes=(*_building_notes(list(built.values())), *exploration.notes),
            carried=explored,
        )

    def _evidence(self, explored: _Explored, world: FactGraph, request: SearchRequest) -> Found:
        """Return the nodes that were read.

        The score of a chunk is the number of paths that read it plus the relevance of its best
        sentence; that of a fact is its relevance.
        """
        paths, notebooks = explored.exploration.paths, explored.exploration.notebooks
        relevance = _Relevance(explored.vector, notebooks, self.embedder)
        of_sentences, of_facts = (
            relevance.of(vectors) for vectors in (world.sentence_vectors, world.fact_vectors)
        )
        readers = Counter(chunk for path in paths for chunk in path.chunks)
        scores = {
            chunk: count + min(1.0, max(0.0, float(of_sentences[world.rows(chunk)].max())))
            for chunk, count in readers.items()
        }
        chunks = sorted(readers, key=lambda chunk: -scores[chunk])
        nodes = {chunk: world.chunks[chunk] for chunk in chunks}
        left_out = False
        if sum(request.cost(node.text) for node in nodes.values()) > request.budget:
            kept = _best_sentences(chunks, world, of_sentences, request)
            whole = [c for c in chunks if len(kept.get(c, ())) == len(world.sentences[c])]
            left_out = len(whole) < len(chunks)
            nodes = {
                chunk: node if chunk in whole else excerpt(node, kept[chunk], self.reader)
                for chunk, node in nodes.items()
                if chunk in kept
            }
        found = [Scored(node, scores[chunk]) for chunk, node in nodes.items()]
        seen = dict.fromkeys(fact for path in paths for fact in path.facts)
        facts = [fact for fact in seen if world.chunk_of[fact] not in readers]
        facts.sort(key=lambda fact: -of_facts[fact])
        found += [Scored(world.facts[fact], max(0.0, float(of_facts[fact]))) for fact in facts]
        return Found(list(without_repeats(found)), left_out=left_out)

    def _explore(self, question: str, world: FactGraph) -> _Explored:
        agent = Agent(self.writer, self.reader, self.config)
        vector = embedded_question(self.embedder, question)
        return _Explored(explore(question, vector, world, agent), agent, vector)


def _building_notes(graphs: Sequence[FactGraph]) -> tuple[str, ...]:
    """Return notes on the builds of the graphs; for many documents only their number."""
    noted = [graph for graph in graphs if graph.notes]
    if len(noted) < 2:
        return tuple(note for graph in noted for note in graph.notes)
    return (
        f"in {len(noted)} of {len(graphs)} documents the facts of some chunks are their sentences",
    )


class _Relevance:
    """Relevance of texts: mean similarity to the question and to the nearest note."""

    def __init__(self, question: Vectors, notebooks: Sequence[str], embedder: Embedder) -> None:
        lines = dict.fromkeys(line for notes in notebooks for line in notes.splitlines())
        said = [line for line in lines if line.strip()]
        self._question = question
        self._notes = embedded(embedder, said) if said else None

    def of(self, vectors: Vectors) -> Floats:
        """Return the relevance of texts by their embeddings, (texts,)."""
        found: Floats = (vectors @ self._question).astype(np.float64)
        if self._notes is not None:
            found = (found + (vectors @ self._notes.T).max(axis=1)) / 2
        return found


def _best_sentences(
    chunks: Sequence[int], world: FactGraph, relevance: Floats, request: SearchRequest
) -> dict[int, list[Point]]:
    """Return the best sentences of all chunks that fit into the budget together."""
    parts = [
        (chunk, Point(world.sentence(chunk, i), "extractive", (span,)))
        for chunk in chunks
        for i, span in enumerate(world.sentences[chunk])
    ]
    rows = [row for chunk in chunks for row in world.rows(chunk)]
    return best_parts(parts, relevance[rows], cache(request.cost), request.budget)

"""GEM-RAG (Rappazzo et al. 2024, arXiv 2409.15566): memories linked by the questions they answer.

    chunks -> utility questions of each -> weighted complete graph -> its leading eigenvectors
           -> a summary of the top chunks of each, with utility questions and edges of its own

The paper describes retrieval twice. `mode="questions"` is Algorithm 1, which ranks utility
questions; `mode="graph"` is the text, a best-first search that starts at the best of them. Where
the printed formulas leave something open, comments name our choice: weights in `spectrum`, search
in `memory.best_first`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from hwdag.arrays import Floats, Vectors
from hwdag.embedding.checked import embedded_question
from hwdag.graph.dag import HWDAG
from hwdag.options import CheckedOptions, at_least, between, share
from hwdag.types import Document
from hwdag_lab.methods.found import Found, Scored, SearchRequest, without_repeats
from hwdag_lab.methods.gemrag.memory import (
    Memory,
    MemoryGraph,
    affinity,
    best_first,
    by_questions,
    own_vectors,
    question_vectors,
)
from hwdag_lab.methods.gemrag.questions import Questioner
from hwdag_lab.methods.gemrag.spectrum import spectrum
from hwdag_lab.methods.summaries import Summarizer
from hwdag_lab.methods.trees import GrowingTree, SummarizingRetriever, repetitions_last

SUMMARY = (
    "The following passages of a document belong to one theme. Summarize what they say about it, "
    "including as many key details as possible: {text}:"
)


@dataclass(frozen=True, slots=True)
class GemRagConfig(CheckedOptions):
    """How memory graphs are built and searched.

    Length of chunks, number of questions and of eigenvectors are those of the paper; the rest is
    ours.

    Attributes:
        mode: best-first search over the graph ("graph", the text of the paper), or a ranking of all
            utility questions ("questions", its Algorithm 1).
        prompt_share: in the mode "graph", the weight of the similarity to the question; edges to
            visited nodes get the rest. The paper has no number; of 0, 0.25, 0.5, 0.75 and 0.9 the
            default was best on 21 training questions of MuSiQue.
        chunk_tokens: size of a node; chunks end with sentences.
        questions: questions per node (M); 0 compares the texts themselves (paper, Figure 2).
        question_tokens: longest reply with questions.
        components: number of themes; None counts them by the gap rule of Remark 2.
        members: most nodes that a theme is summarised from (E).
        near_one: how far below 1 the ratio of eigenvalue d to the first may be for d themes.
        gap: how far the next ratio must be below that one (C).
        max_components: most themes that the gap rule finds.
        summary_tokens: longest summary.
        ratio: tokens of an extractive summary per token of its members.
    """

    mode: Literal["graph", "questions"] = "graph"
    prompt_share: float = between(0, 1, 0.9)
    chunk_tokens: int = at_least(8, 100)
    questions: int = at_least(0, 5)
    question_tokens: int = at_least(8, 192)
    components: int | None = at_least(0, 2)
    members: int = at_least(2, 10)
    near_one: float = share(0.5)
    gap: float = share(0.1)
    max_components: int = at_least(2, 10)
    summary_tokens: int = at_least(8, 100)
    ratio: float = share(0.28)


FEWEST_CHUNKS = 3
"""Documents of fewer chunks have no theme: the spectrum of two nodes is always 1 and -1."""

DEFAULT_THEMES = 2  # if the gap rule finds no gap; the best number of the paper


class GemRagRetriever(SummarizingRetriever[Memory]):
    """GEM-RAG: chunks and themes, found by the questions that they answer.

    Every document is a graph with its own themes. A search joins the graphs of all documents: the
    weight of an edge depends on its two nodes only.

    A writer asks the questions and writes the summaries. Without one (see `SummarizingRetriever`),
    sentences replace questions and summaries are extracted; the notes report it. Verbatim nodes whose
    text came before are ranked last, as with RAPTOR.
    """

    Config = GemRagConfig
    config: GemRagConfig

    @property
    def name(self) -> str:  # type: ignore[override]
        """`gem-rag-graph` or `gem-rag-questions`."""
        return f"gem-rag-{self.config.mode}"

    @property
    def memories(self) -> Mapping[str, Memory]:
        """The memory of every document, by id."""
        return {key: memory for key, (_, memory) in self._held.items()}

    def _build(self, document: Document) -> Memory:
        config, tree = self.config, GrowingTree(document, self.reader, self.embedder)
        summarizer = self._summarizer(SUMMARY, limit=config.summary_tokens, ratio=config.ratio)
        asker = self._asker(self.writer)
        questioner = Questioner(asker, config.questions, config.question_tokens)
        chunks = tree.at(tree.add_chunks(config.chunk_tokens))
        vectors, costs = tree.vectors, tree.costs
        with self._reporter.stage("utility questions", len(chunks), "node") as advance:
            questions = questioner.questions([node.text for node in chunks], advance)
        asked = own_vectors(questions, vectors, self.embedder.embed)
        notes = list[str]()
        groups, values = self._themes(questions, asked, vectors, notes)
        tree.notes += [f"{document.id}: {note}" for note in notes]
        if groups := _readable(groups, costs, summarizer):
            themes = tree.at(tree.add_summaries(groups, summarizer))
            theirs = questioner.questions([node.text for node in themes])
            own = own_vectors(theirs, tree.vectors, self.embedder.embed)
            asked = np.concatenate([asked, own])
            questions = [*questions, *theirs]
        tree.notes += questioner.notes(document.id)
        return Memory(tree.finished(), tuple(questions), asked, values)

    def _themes(
        self,
        questions: Sequence[Sequence[str]],
        asked: Vectors,
        texts: Vectors,
        notes: list[str],
    ) -> tuple[list[tuple[int, ...]], Floats]:
        """Return the chunks of every theme, and the eigenvalues used."""
        config, size = self.config, len(texts)
        if size < FEWEST_CHUNKS or config.components == 0:
            return [], np.zeros(0)
        wanted = min(config.components or config.max_components + 1, size - 1)
        vectors = question_vectors(questions, asked, texts)
        graph = affinity(questions, vectors, texts, config.questions)
        found = spectrum(graph, wanted)
        if len(found.values) < wanted:
            notes.append(f"of {wanted} eigenvectors {len(found.values)} were found")
        count = config.components
        if count is None:
            count = found.estimated_themes(config.near_one, config.gap)
            if count is None:
                count = DEFAULT_THEMES
                notes.append(f"the spectrum has no gap, so {count} themes are taken")
        return found.themes(count, config.members), found.values

    def _graph(self, built: Memory) -> HWDAG:
        return built.graph(self.config.questions)

    def _retrieve(self, request: SearchRequest, built: Mapping[str, Memory]) -> Found:
        graph = self._joined(built, MemoryGraph.of)
        asked = embedded_question(self.embedder, request.question)
        similarity = graph.similarity(asked)
        ranking = (
            by_questions(similarity)
            if self.config.mode == "questions"
            else best_first(
                graph, graph.start(asked), similarity, request.budget, self.config.prompt_share
            )
        )
        notes = tuple(note for memory in built.values() for note in memory.notes)
        ranked = without_repeats(Scored(graph.nodes[i], score) for i, score in ranking)
        return Found(repetitions_last(list(ranked)), notes=notes)


def _readable(
    groups: Sequence[tuple[int, ...]], costs: Sequence[int], summarizer: Summarizer
) -> list[tuple[int, ...]]:
    """Return groups in reading order, each once, cut to the strongest members that the writer can read.

    A group of one is no theme: its summary would repeat the chunk.
    """
    found: dict[tuple[int, ...], None] = {}
    for group in groups:
        kept, left = list[int](), summarizer.capacity
        for member in group:
            if kept and costs[member] > left:
                break
            kept.append(member)
            left -= costs[member]
        found.setdefault(tuple(sorted(kept)))
    return [group for group in found if len(group) > 1]

"""The memory graph of a document (GEM-RAG), and the joint graph of all documents."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from hwdag.arrays import Floats, Vectors
from hwdag.embedding.hashing import unit_rows
from hwdag.graph.dag import HWDAG, EdgeRow
from hwdag.types import Node
from hwdag_lab.methods.gemrag.spectrum import Affinity, question_sums
from hwdag_lab.methods.trees import SummaryTree

MOST_NEIGHBOURS = 5  # edges per chunk on a page; the graph itself is complete


@dataclass(frozen=True, slots=True, eq=False)
class Memory:
    """The graph of one document: its chunks, and a summary per theme."""

    tree: SummaryTree  # chunks (level 1), themes (level 2) with their members as children
    questions: tuple[tuple[str, ...], ...]  # utility questions per node
    # embeddings of the questions by node, (questions, d); of its text for a node without questions
    asked: Vectors
    # of the graph over the chunks, by falling magnitude, (k,)
    eigenvalues: Floats

    @property
    def nodes(self) -> tuple[Node, ...]:
        """Chunks, then themes."""
        return self.tree.nodes

    @property
    def notes(self) -> tuple[str, ...]:
        """Differences from the plain method, in words."""
        return self.tree.notes

    @property
    def question_vectors(self) -> Vectors:
        """Mean embeddings of every question and the text of its node, (questions, d)."""
        return question_vectors(self.questions, self.asked, self.tree.vectors)

    def graph(self, number: int) -> HWDAG:
        """Return chunks with their nearest neighbours, themes with their members; `number` is m."""
        near = affinity(self.questions, self.question_vectors, self.tree.vectors, number)
        rows = []
        for i, members in enumerate(self.tree.children):
            [weights] = near.weights([i])
            nearest = np.argsort(-weights, kind="stable")[:MOST_NEIGHBOURS]
            ends = np.asarray(members if members else nearest, np.intp)
            ends = ends[weights[ends] > 0]
            if len(ends):
                rows.append(EdgeRow(i, ends, weights[ends]))
        return HWDAG.from_rows(self.nodes, rows)


def rows_per_node(questions: Sequence[Sequence[str]]) -> list[int]:
    """Return the number of question vectors of every node."""
    return [max(1, len(each)) for each in questions]


def own_vectors(
    questions: Sequence[Sequence[str]], texts: Vectors, embed: Callable[[list[str]], Vectors]
) -> Vectors:
    """Return embeddings of the questions of every node, or else of its text."""
    flat = [question for each in questions for question in each]
    asked: Iterator[Vectors] = iter(embed(flat) if flat else ())
    rows = [
        row
        for each, text in zip(questions, texts, strict=True)
        for row in ([next(asked) for _ in each] or [text])
    ]
    return np.stack(rows).astype(np.float32)


def question_vectors(questions: Sequence[Sequence[str]], own: Vectors, texts: Vectors) -> Vectors:
    """Return the mean embeddings of every question and the text of its node, (questions, d)."""
    repeated = np.repeat(texts, rows_per_node(questions), axis=0)
    return np.asarray((own + repeated) / 2, np.float32)


def affinity(
    questions: Sequence[Sequence[str]], vectors: Vectors, texts: Vectors, number: int
) -> Affinity:
    """Return weights between nodes with these questions; `number` is m, the questions asked for."""
    firsts = np.array([0, *accumulate(rows_per_node(questions))])
    return Affinity.of(question_sums(vectors, firsts, max(1, number)), unit_rows(texts))


@dataclass(frozen=True, slots=True, eq=False)
class MemoryGraph:
    """The memories of several documents as one complete graph."""

    nodes: tuple[Node, ...]
    costs: NDArray[np.int64]  # (nodes,): tokens as lines
    asked: Vectors  # (questions, d): unit vectors of the questions alone
    questions: Vectors  # (questions, d): unit vectors of questions and texts
    owners: NDArray[np.intp]  # (questions,)
    sums: Vectors  # (nodes, d): mean of the unit vectors of each node's questions
    texts: Vectors  # (nodes, d): unit vectors

    @classmethod
    def of(cls, memories: Sequence[Memory]) -> MemoryGraph:
        """Join memories; edges between documents are computed like those within one."""
        counts = [count for memory in memories for count in rows_per_node(memory.questions)]
        vectors = np.concatenate([memory.question_vectors for memory in memories])
        return cls(
            tuple(node for memory in memories for node in memory.nodes),
            np.array([cost for memory in memories for cost in memory.tree.costs]),
            unit_rows(np.concatenate([memory.asked for memory in memories])),
            unit_rows(vectors),
            np.repeat(np.arange(len(counts)), counts),
            question_sums(vectors, np.array([0, *accumulate(counts)]), 1),
            unit_rows(np.concatenate([memory.tree.vectors for memory in memories])),
        )

    def start(self, prompt: Vectors) -> Floats:
        """Return the cosine of the prompt to the best utility question of every node, (nodes,)."""
        return self._best(self.asked, prompt)

    def similarity(self, prompt: Vectors) -> Floats:
        """Return the cosine of the prompt to the best mean of question and text of every node, (nodes,)."""
        return self._best(self.questions, prompt)

    def _best(self, questions: Vectors, prompt: Vectors) -> Floats:
        cosines = questions @ unit_rows(prompt[None])[0]
        best = np.full(len(self.nodes), -np.inf)
        np.maximum.at(best, self.owners, cosines.astype(np.float64))
        return best

    def edges(self, node: int) -> Floats:
        """Return the edge weights of a node, per question: means of cosines, (nodes,)."""
        found = self.texts @ self.sums[node] + self.sums @ self.texts[node]
        return np.asarray(found, np.float64) / 2


Ranking = list[tuple[int, float]]
"""Nodes in reading order, each with its score when it was chosen."""


def by_questions(similarity: Floats) -> Ranking:
    """Return algorithm 1: rank nodes by their best utility question."""
    return [(i, float(similarity[i])) for i in np.argsort(-similarity, kind="stable").tolist()]


def best_first(
    graph: MemoryGraph, start: Floats, similarity: Floats, budget: int, prompt_share: float
) -> Ranking:
    """Return best-first search: start at the node of the best utility question, then follow edges.

    The first node is the best by `start`. After it, the promise of a node is `prompt_share` of its
    similarity to the prompt, plus the rest of its strongest edge to a visited node. Nodes beyond the
    rest of the budget are not visited; all others follow by their last promise.
    """
    reached = np.full(len(similarity), -np.inf)
    promise = start
    waiting = np.ones(len(similarity), np.bool_)
    ranking = Ranking()
    while (open_ := waiting & (graph.costs <= budget)).any():
        node = int(np.where(open_, promise, -np.inf).argmax())
        ranking.append((node, float(promise[node])))
        waiting[node] = False
        budget -= int(graph.costs[node])
        np.maximum(reached, graph.edges(node), out=reached)
        promise = prompt_share * similarity + (1 - prompt_share) * reached
    rest = np.flatnonzero(waiting)
    rest = rest[np.argsort(-promise[rest], kind="stable")]
    return ranking + [(i, float(promise[i])) for i in rest.tolist()]

"""From what the agent read to nodes within a token budget.

The chunks that were read come first, those that more paths read before the others. Where they do
not all fit, each is cut to those of its sentences that are most similar to the question and to what
the notebooks say, the best of all chunks first. Facts that were seen, but whose chunk nobody read,
follow for the rest of the budget.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from hwdag.arrays import Floats, Vectors
from hwdag.building.points import Point
from hwdag.embedding.base import Embedder
from hwdag.lm.base import Reader
from hwdag_lab.methods.found import Query, Scored, distinct
from hwdag_lab.methods.graphreader.exploration import Exploration
from hwdag_lab.methods.graphreader.graph import World
from hwdag_lab.methods.summaries import best_parts, excerpt


@dataclass(frozen=True, slots=True)
class Evidence:
    """Nodes in reading order, and whether something that was read had no room."""

    ranked: list[Scored]
    left_out: bool


def evidence(
    explored: Exploration,
    world: World,
    query: Query,
    vector: Vectors,
    embedder: Embedder,
    reader: Reader,
) -> Evidence:
    """The nodes of what was read; `vector` is the question's embedding.

    The score of a chunk is the number of paths that read it plus the relevance of its best
    sentence, that of a fact its relevance.
    """
    relevance = _Relevance(vector, explored.notebooks, embedder)
    readers = Counter(chunk for path in explored.paths for chunk in path.chunks)
    of_sentences = relevance.of(world.sentence_vectors)
    scores = {
        chunk: count + _best(of_sentences, world.rows(chunk)) for chunk, count in readers.items()
    }
    chunks = sorted(readers, key=lambda chunk: -scores[chunk])
    fit = sum(query.cost(world.chunks[chunk].text) for chunk in chunks) <= query.budget
    cut = {} if fit else _within_budget(chunks, world, of_sentences, query)
    whole = [c for c in chunks if fit or len(cut.get(c, ())) == len(world.sentences[c])]
    nodes = {
        chunk: world.chunks[chunk]
        if chunk in whole
        else excerpt(world.chunks[chunk], cut[chunk], reader)
        for chunk in chunks
        if chunk in whole or chunk in cut
    }
    found = [Scored(node, scores[chunk]) for chunk, node in nodes.items()]
    of_facts = relevance.of(world.fact_vectors)
    seen = dict.fromkeys(fact for path in explored.paths for fact in path.facts)
    facts = [fact for fact in seen if world.chunk_of[fact] not in readers]
    facts.sort(key=lambda fact: -of_facts[fact])
    found += [Scored(world.facts[fact], max(0.0, float(of_facts[fact]))) for fact in facts]
    return Evidence(list(distinct(found)), len(whole) < len(chunks))


class _Relevance:
    """Mean of the similarity to the question and to the nearest note, if there are notes."""

    def __init__(self, question: Vectors, notebooks: Sequence[str], embedder: Embedder) -> None:
        lines = dict.fromkeys(line for notes in notebooks for line in notes.splitlines())
        said = [line for line in lines if line.strip()]
        self._question = question
        self._notes = embedder.embed(said) if said else None

    def of(self, vectors: Vectors) -> Floats:
        """Of texts by their embeddings, (texts,)."""
        found: Floats = (vectors @ self._question).astype(np.float64)
        if self._notes is not None:
            found = (found + (vectors @ self._notes.T).max(axis=1)) / 2
        return found


def _best(relevance: Floats, rows: range) -> float:
    return min(1.0, max(0.0, float(relevance[rows.start : rows.stop].max())))


def _within_budget(
    chunks: Sequence[int], world: World, relevance: Floats, query: Query
) -> dict[int, list[Point]]:
    """Sentences of every chunk that are kept."""
    parts = [
        (chunk, Point(world.sentence(chunk, i), "extractive", (span,)))
        for chunk in chunks
        for i, span in enumerate(world.sentences[chunk])
    ]
    rows = [row for chunk in chunks for row in world.rows(chunk)]
    return best_parts(parts, relevance[rows], cache(query.cost), query.budget)

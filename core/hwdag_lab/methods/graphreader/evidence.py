"""From what the agent read to nodes within a token budget.

The chunks that were read come first, those that more paths read before the others. Where they do
not all fit, each is cut to those of its sentences that are most similar to the question and to what
the notebooks say, the best of all chunks first. Facts that were seen, but whose chunk nobody read,
follow for the rest of the budget.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hwdag.arrays import Floats, Vectors
from hwdag.building.points import Point
from hwdag.embedding.base import Embedder
from hwdag.lm.base import Reader
from hwdag.types import Node
from hwdag_lab.methods.found import Query, Scored, distinct
from hwdag_lab.methods.graphreader.exploration import Exploration
from hwdag_lab.methods.graphreader.graph import World
from hwdag_lab.methods.summaries import joined


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
    cut = _within_budget(chunks, world, of_sentences, query)
    nodes = {chunk: _excerpt(world, chunk, cut[chunk], reader) for chunk in chunks if chunk in cut}
    found = [Scored(node, scores[chunk]) for chunk, node in nodes.items()]
    of_facts = relevance.of(world.fact_vectors)
    seen = dict.fromkeys(fact for path in explored.paths for fact in path.facts)
    facts = [fact for fact in seen if world.chunk_of[fact] not in readers]
    facts.sort(key=lambda fact: -of_facts[fact])
    found += [Scored(world.facts[fact], max(0.0, float(of_facts[fact]))) for fact in facts]
    is_whole = all(len(cut.get(chunk, ())) == len(world.sentences[chunk]) for chunk in chunks)
    return Evidence(list(distinct(found)), not is_whole)


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
) -> dict[int, list[int]]:
    """Numbers of the sentences of every chunk that are kept, in reading order."""
    whole = {chunk: list(range(len(world.sentences[chunk]))) for chunk in chunks}
    if sum(query.cost(world.chunks[chunk].text) for chunk in chunks) <= query.budget:
        return whole
    candidates = [(chunk, number) for chunk in chunks for number in whole[chunk]]
    candidates.sort(key=lambda one: -relevance[world.rows(one[0])[one[1]]])
    costs = _costs(query.cost, [world.sentence(*one) for one in candidates])
    kept: dict[int, list[int]] = {}
    room = query.budget
    for (chunk, number), cost in zip(candidates, costs, strict=True):
        if cost <= room:
            room -= cost
            kept.setdefault(chunk, []).append(number)
    # why: the parts of a text do not always have as many tokens as the text
    while kept and _cost(kept, world, query) > query.budget:
        chunk, number = next(one for one in reversed(candidates) if one[1] in kept.get(one[0], ()))
        kept[chunk].remove(number)
        kept = {chunk: numbers for chunk, numbers in kept.items() if numbers}
    return {chunk: sorted(numbers) for chunk, numbers in kept.items()}


def _costs(cost: Callable[[str], int], texts: Sequence[str]) -> list[int]:
    known: dict[str, int] = {}
    for text in texts:
        known.setdefault(text, cost(text))
    return [known[text] for text in texts]


def _cost(kept: dict[int, list[int]], world: World, query: Query) -> int:
    return sum(
        query.cost(_picked(world, chunk, sorted(numbers)).text) for chunk, numbers in kept.items()
    )


def _picked(world: World, chunk: int, numbers: Sequence[int]) -> Point:
    spans = world.sentences[chunk]
    return joined([Point(world.sentence(chunk, i), "extractive", (spans[i],)) for i in numbers])


def _excerpt(world: World, chunk: int, numbers: Sequence[int], reader: Reader) -> Node:
    """The chunk, or these sentences of it."""
    node = world.chunks[chunk]
    if len(numbers) == len(world.sentences[chunk]):
        return node
    point = _picked(world, chunk, numbers)
    [tokens] = reader.count_tokens([point.text])
    return replace(
        node, text=point.text, origin=point.origin, sources=point.sources, tokens=max(1, tokens)
    )

"""Candidates of walks, and the gain of each: examples for the scorer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from examples.train_navigator.states import SCORING, World
from hwdag.arrays import Floats, Indices, Vectors
from hwdag.corpus.similarity import Similarity
from hwdag.corpus.view import View
from hwdag.search.features import NodeFeatures
from hwdag.search.frontier import Frontier
from hwdag.search.question import Question as SearchQuestion
from hwdag.types import Node, Span
from hwdag_lab.eval.evidence import HALF, TOUCHED
from hwdag_lab.eval.schema import Question

WORDS = 380
"""Words that a walk reads: about 512 tokens."""

TOUCHES, COMPLETES, TELLS = 2.0, 1.0, 0.5
"""Gains of touching a gold paragraph, of bringing one nearer to half, and of reading a gold sentence."""

BESIDE = 0.4
"""Share of the first two that a sentence of a gold paragraph gains which is not gold itself."""

Embed = Callable[[str, Sequence[str]], Vectors]
"""A question with each of some texts to unit vectors, (texts, dimension)."""


@dataclass(frozen=True, eq=False)
class Choice:
    """Nodes that a walk chose from: their features, (k, features), and gains, (k,)."""

    features: Vectors
    gains: Vectors


def choices(
    world: World, question: Question, vector: Vectors, embed: Embed, reads: int
) -> list[Choice]:
    """Walk for a question by the score alone, and note each choice where something was to be gained.

    The question is asked again with each of the first `reads` nodes. (That a scorer of a first round
    chooses, so that the next one learns from where it leads, was tried, and found less.)
    """
    corpus, nodes = world.corpus, world.nodes
    view = View.of(corpus)
    asked = SearchQuestion.of(question.text, vector)
    similarity = Similarity(view, asked.asked_words, vector, SCORING)
    features = NodeFeatures(view, asked, similarity, corpus.fetch)
    read: list[int] = []
    found: list[Choice] = []

    class Noting:
        """A ranker that keeps the order of the scores."""

        def rank(self, frontier: Frontier, indices: Indices, scores: Floats) -> Floats:
            gained = gains(world, question, read, indices)
            if gained.min() < gained.max():
                signs = features.of(frontier, indices, scores).astype(np.float32)
                found.append(Choice(signs, gained))
            return scores

        def visit(self, index: int, node: Node) -> Floats | None:
            features.visit(index)
            read.append(index)
            if len(read) > reads:
                return None
            similarity.add(embed(question.text, [node.text]))
            return similarity.values

    frontier = Frontier.of(view, asked, similarity.values, SCORING, ranker=Noting())
    room = WORDS
    while (best := frontier.best(world.lengths, room)) is not None:
        room -= world.lengths([best])[0]
        frontier.visit(best, nodes[best])
    return found


def gains(world: World, question: Question, read: Sequence[int], indices: Indices) -> Vectors:
    """Return the gain of reading each of these nodes after those that were read, (k,)."""
    done = [world.nodes[i].sources[0] for i in read]
    places = [world.nodes[i].sources[0] for i in indices.tolist()]
    named = np.array([_overlaps(place, question.sentences) for place in places], np.float32)
    found = TELLS * named
    worth = np.where(named > 0, 1.0, BESIDE) if question.sentences else np.ones(len(places))
    for span in question.evidence:
        share = sum(place.overlap(span) for place in done) / len(span)
        gain = TOUCHES if share < TOUCHED else COMPLETES if share < HALF else 0.0
        inside = np.array([_overlaps(place, [span]) for place in places])
        found += gain * worth * inside
    return found.astype(np.float32)


def _overlaps(place: Span, spans: Iterable[Span]) -> bool:
    return any(place.overlap(span) for span in spans)

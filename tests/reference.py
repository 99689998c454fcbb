"""The walk straight from the equations: dense matrices, no cache, everything re-encoded each step.

Slow on purpose. It shares nothing with the library but the tokenizer's pieces and the words of a
text, so that it is the same text that both read.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch

from hwdag.config import Scale, Scoring
from hwdag.lm.huggingface import HuggingFaceLM
from hwdag.lm.layout import verdict_tokens
from hwdag.text.prompts import SearchPrompts
from hwdag.text.words import content_words
from hwdag.types import Node


@dataclass
class Reference:
    """Visited nodes in order, p_yes after the initial set and after every further node, and why."""

    visited: list[int]
    p_yes: list[float]
    stop: str


def reference_walk(
    graph,
    vectors,
    query,
    question: str,
    lm: HuggingFaceLM,
    *,
    budget: int,
    confidence: float,
    patience: int,
    steers: bool,
    heads=None,
) -> Reference:
    """GARLIC 3.2, PECAN 3.2: S = top level; z = E^T r; z / sum z + sim / sum sim; until "Yes"."""
    dense = graph.edges.toarray()
    similarity = np.clip(vectors.astype(np.float64) @ query.astype(np.float64), 0, None)
    lines = [lm.codec.encode_parts("* ", node.text, "\n") for node in graph.nodes]
    cost = [len(ids) for ids, _ in lines]

    top = [i for i, node in enumerate(graph.nodes) if node.level == graph.height]
    share = budget // 4
    visited = []
    for i in sorted(top, key=lambda i: -similarity[i]):
        if cost[i] > (share if visited else budget):
            break
        visited.append(i)
        share -= cost[i]
    visited.sort()

    readings, yes = [], 0
    while True:
        r = np.zeros(len(graph))
        if visited:
            relevance, p_yes = read_from_scratch(lm, question, [lines[i] for i in visited], heads)
            r[visited] = relevance
            readings.append(p_yes)
            yes += p_yes > confidence
            if steers and yes >= patience:
                return Reference(visited, readings, "sufficient")
        z = dense.T @ r
        score = similarity / similarity.sum() if similarity.sum() else np.zeros(len(graph))
        if z.sum():
            score = score + z / z.sum()
        left = budget - sum(cost[i] for i in visited)
        unvisited = [i for i in range(len(graph)) if i not in visited]
        fitting = [i for i in unvisited if cost[i] <= left]
        if not fitting:
            return Reference(visited, readings, "budget" if unvisited else "exhausted")
        visited.append(max(fitting, key=lambda i: score[i]))


def read_from_scratch(lm: HuggingFaceLM, question: str, lines, heads):
    """r of every node (position x mean attention to the question), and p_yes, from one full pass."""
    before, between, after = SearchPrompts().cut()
    asked, parts = lm.codec.encode_parts(before, question, between)
    ids = [*lm.turns.head, *asked]
    q0, q1 = (len(lm.turns.head) + border for border in parts[1])
    rows = []
    for line, ranges in lines:
        rows.append((len(ids) + ranges[1][0], len(ids) + ranges[1][1]))
        ids += line
    ids += [*(lm.codec.encode(after) if after else []), *lm.turns.reply]

    model = lm.model
    previous = model.config._attn_implementation
    model.set_attn_implementation("eager")
    with torch.no_grad():
        output = model(torch.tensor([ids]), output_attentions=True)
    model.set_attn_implementation(previous)
    stacked = torch.stack(output.attentions)[:, 0].double()  # (layers, heads, T, T)
    if heads is None:
        mean = stacked.mean(dim=(0, 1))
    else:
        mean = torch.stack([stacked[layer, head] for layer, head in heads]).mean(0)
    relevance = [
        (position + 2) * float(mean[a:b, q0:q1].mean()) for position, (a, b) in enumerate(rows)
    ]
    probabilities = output.logits[0, -1].double().softmax(0)
    yes, no = verdict_tokens(lm.codec, SearchPrompts())
    p, n = float(probabilities[yes].sum()), float(probabilities[no].sum())
    return relevance, p / (p + n)


@dataclass
class DenseWorld:
    """All nodes with everything that a score is made of, one entry per node that may be seen."""

    nodes: list[Node]
    headings: list[str]
    searched: list[str]  # texts after their headings
    edges: np.ndarray  # (n, n)

    def copies(self, i: int) -> list[int]:
        """Return the node itself, and others with the very same slice of the same document."""
        same = [j for j, node in enumerate(self.nodes) if _place(node) == _place(self.nodes[i])]
        return [i] if _place(self.nodes[i]) is None else same

    def inside(self, i: int) -> list[int]:
        """Return the node itself, and others that are slices of its slice."""
        outer = _place(self.nodes[i])
        places = [_place(node) for node in self.nodes]
        held = [
            j
            for j, place in enumerate(places)
            if outer and place and place[0] == outer[0] and outer[1] <= place[1]
            if place[2] <= outer[2]
        ]
        return held if outer else [i]


def reference_parts(
    world: DenseWorld,
    similarity: np.ndarray,
    visited: list[tuple[int, float]],
    question: str,
    scoring: Scoring,
    scale: Scale,
    rare: int,
) -> np.ndarray:
    """Attention, similarity and reference part of every node's score, (3, n).

    `visited` are nodes with their relevances; a word that more than `rare` nodes have echoes
    nothing.
    """
    r = np.zeros(len(world.nodes))
    for i, relevance in visited:
        r[world.copies(i)] = relevance
    z = world.edges.T @ r
    read = [j for i, _ in visited for j in world.inside(i)]
    unread = np.delete(z, read) if scale == "peak" else z
    asked = set(content_words(question))
    best = np.zeros((2, len(world.nodes)))
    for weight, (i, _) in zip(np.arange(1, len(visited) + 1) ** -0.5, visited, strict=True):
        words = content_words(world.nodes[i].text)
        best[0] = np.maximum(best[0], weight * mentions(world.headings, words, asked))
        echo = bm25(world.searched, set(words) - asked, rare)
        if echo[i] > 0:
            best[1] = np.maximum(best[1], weight * np.minimum(echo / echo[i], 1))
    reference = scoring.references * best.sum(0)
    return np.array(
        [
            scoring.attention * scaled(z, scale, unread),
            scoring.similarity * scaled(similarity, scale),
            reference,
        ]
    )


def reference_prior(
    world: DenseWorld,
    cosine: np.ndarray,
    question: str,
    scoring: Scoring,
    paragraphs: list[tuple[int, int]],
) -> np.ndarray:
    """Clipped cosine similarity, mixed with BM25 after both were stretched to [0, 1].

    `paragraphs` are the document and the number of that of every node; 0 is none.
    """
    found = np.clip(cosine, 0, None)
    if scoring.bm25_weight and len(found):
        sparse = bm25(world.searched, set(content_words(question)))
        found = (1 - scoring.bm25_weight) * stretched(found) + scoring.bm25_weight * stretched(
            sparse
        )
    best = found.copy()
    for i, place in enumerate(paragraphs):
        if place[1]:
            leaves = [j for j, node in enumerate(world.nodes) if node.level == 1]
            best[i] = max([found[j] for j in leaves if paragraphs[j] == place], default=0.0)
    return (1 - scoring.paragraph_weight) * found + scoring.paragraph_weight * best


def bm25(texts: list[str], query: set[str], most: float = math.inf) -> np.ndarray:
    """Return the formula, word by word and text by text; words of more than `most` texts are left out."""
    split = [content_words(text) for text in texts]
    mean = sum(map(len, split)) / max(1, len(split))
    scores = np.zeros(len(texts))
    for word in query:
        holders = sum(word in other for other in split)
        idf = math.log(1 + (len(split) - holders + 0.5) / (holders + 0.5))
        for i, words in enumerate(split):
            tf = words.count(word)
            if tf and holders <= most:
                scores[i] += idf * tf * 2.5 / (tf + 1.5 * (0.25 + 0.75 * len(words) / mean))
    return scores


def mentions(headings: list[str], words: list[str], asked: set[str]) -> np.ndarray:
    """Return whether these words contain the name of each heading, which must not be all asked for."""
    found = np.zeros(len(headings))
    for i, heading in enumerate(headings):
        name = content_words(heading.split("(")[0])
        runs = [words[j : j + len(name)] for j in range(len(words))]
        found[i] = 0 < len(name) <= 8 and name in runs and not set(name) <= asked
    return found


def scaled(values: np.ndarray, scale: str, among: np.ndarray | None = None) -> np.ndarray:
    """Values over the sum or the peak of some of them, or as they are."""
    among = values if among is None else among
    if scale == "none":
        return values
    unit = among.sum() if scale == "share" else among.max(initial=0)
    return values / unit if unit else np.zeros(len(values))


def stretched(values: np.ndarray) -> np.ndarray:
    """Values moved and scaled to [0, 1]; of equal ones those above 0 are 1."""
    spread = np.ptp(values)
    return (values - values.min()) / spread if spread else np.where(values > 0, 1.0, 0.0)


def _place(node: Node) -> tuple[str, int, int] | None:
    """Return the slice of a document that a node's text is."""
    if node.origin == "generated" or len(node.sources) != 1:
        return None
    return node.document_id, node.sources[0].start, node.sources[0].end

"""The walk straight from the equations: dense matrices, no cache, everything re-encoded each step.

Slow on purpose. It shares nothing with the library but the tokenizer's pieces, so that it is the
same text that both read.
"""

from dataclasses import dataclass

import numpy as np
import torch

from hwdag.lm.huggingface import HuggingFaceLM
from hwdag.text.prompts import SearchPrompts


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
    share = budget // graph.height
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
    yes, no = lm.verdict_tokens(SearchPrompts())
    p, n = float(probabilities[yes].sum()), float(probabilities[no].sum())
    return relevance, p / (p + n)

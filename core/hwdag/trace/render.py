"""Walks, answers and graphs as plain text and as JSON-able values.

Lines of text are safe to print whatever the documents hold; JSON-able values are what is stored.
"""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import shorten

import numpy as np

from hwdag.graph.dag import HWDAG
from hwdag.text.characters import one_line, visible
from hwdag.types import Answer, Citation, Node, Retrieval, Step

HEADER = (
    f"{'#':>3} {'level':<6}{'attention':>10}{'similarity':>11}{'reference':>10}{'p_yes':>7}  node"
)

STOP_REASONS = {
    "sufficient": "the model said that it has enough",
    "budget": "no other node fits the token budget",
    "exhausted": "every node was read",
}


def step_line(step: Step, width: int = 110) -> str:
    """One visited node: position, level, the parts of its score, p_yes, its text.

    Where a controller steers, its probability stands before the text, as in `[0.912 enough]`.
    """
    attention, reference = (
        "-" if step.initial else f"{part:.4f}" for part in (step.attention, step.reference)
    )
    p_yes = "-" if step.p_yes is None else f"{step.p_yes:.3f}"
    text = _short(step.node.text, max(20, width - 50))
    parts = f"{attention:>10}{step.similarity:>11.4f}{reference:>10}{p_yes:>7}"
    enough = "" if step.p_enough is None else f"  [{step.p_enough:.3f} enough]"
    return f"{step.position:>3} L{step.node.level:<5}{parts}{enough}  {text}"


def stop_line(retrieval: Retrieval) -> str:
    """Why the walk ended, and whatever was out of the ordinary."""
    reason = f"stopped: {retrieval.stop} ({STOP_REASONS[retrieval.stop]})"
    return "; ".join([reason, *retrieval.notes])


def citation_line(citation: Citation, width: int = 110) -> str:
    """A source sentence with its share of the answer's attention and where it stands."""
    place = f"{visible(one_line(citation.document_id))}[{citation.span.start}:{citation.span.end}]"
    text = _short(citation.text, max(20, width - 10))
    return f"  {citation.weight:>4.0%} {text}\n       {place}"


def usage_line(answer: Answer, seconds: float) -> str:
    """Tokens, TFLOPs and seconds of a question."""
    usage = answer.usage
    return (
        f"{answer.retrieval.context_tokens} node tokens, {usage.tokens} tokens through the model, "
        f"{usage.tflops:.3f} TFLOPs, {seconds:.1f} s"
    )


def graph_lines(graph: HWDAG, *, points: int = 3, width: int = 110) -> Iterator[str]:
    """Levels with their sizes, and some top-level points with their strongest edges."""
    for level in range(graph.height, 0, -1):
        nodes = [graph.nodes[i] for i in graph.at_level(level)]
        origins = ", ".join(sorted({node.origin for node in nodes}))
        tokens = sum(node.tokens for node in nodes)
        yield f"  level {level}: {len(nodes):>5} nodes {tokens:>8,} tokens  {origins}"
    for index in graph.top[:points]:
        yield "  * " + _short(graph.nodes[index].text, width - 4)
        children, weights = graph.children(int(index))
        for at in np.argsort(-weights, kind="stable")[:2]:
            text = _short(graph.nodes[children[at]].text, width - 14)
            yield f"      {weights[at]:.2f}  {text}"


def node_line(node: Node, width: int = 110) -> str:
    """A node with its level and size."""
    return f"  level {node.level}, {node.tokens} tokens  " + _short(node.text, width - 24)


def _short(text: str, width: int) -> str:
    """The beginning of a text on one line."""
    return shorten(visible(text), width, placeholder=" ...")

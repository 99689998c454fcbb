"""Walks, answers and graphs as plain text and as JSON-able values.

Lines of text are safe to print whatever the documents contain; JSON-able values are unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import fill, shorten

import numpy as np

from hwdag.graph.dag import HWDAG
from hwdag.text.characters import one_line, visible
from hwdag.types import Answer, Citation, Retrieval, Step

HEADER = f"{'#':>3}  L {'attention':>9} {'similarity':>10} {'reference':>9} {'p_yes':>5}  node"
WIDTH = 80  # default length of a line

MIN_TEXT = 16

STOP_REASONS = {
    "sufficient": "the model said that it has enough",
    "budget": "no other node fits the token budget",
    "exhausted": "every node was read",
    "time": "the time limit was reached",
    "stopped": "the caller stopped waiting",
}


def step_line(step: Step, width: int = WIDTH) -> str:
    """Show one visited node: position, level, the parts of its score, p_yes, its text."""
    attention, reference = (
        "-" if step.initial else f"{part:.4f}" for part in (step.attention, step.reference)
    )
    p_yes = "-" if step.p_yes is None else f"{step.p_yes:.3f}"
    parts = f"{attention:>9} {step.similarity:>10.4f} {reference:>9} {p_yes:>5}"
    before = f"{step.position:>3} {step.node.level:>2} {parts}  "
    return before + _short(step.node.text, width - len(before))


def stop_line(retrieval: Retrieval) -> str:
    """Say why the walk ended, and show its notes."""
    reason = f"stopped: {retrieval.stop} ({STOP_REASONS[retrieval.stop]})"
    return "; ".join([reason, *retrieval.notes])


def citation_line(citation: Citation, width: int = WIDTH) -> str:
    """Show a source sentence, its share of the answer's attention and its position."""
    place = f"{visible(one_line(citation.document_id))}[{citation.span.start}:{citation.span.end}]"
    if citation.page is not None:
        place += f", page {citation.page}"
    return f"  {citation.weight:>4.0%} {_short(citation.text, width - 7)}\n       {place}"


def found_line(step: Step, width: int = WIDTH) -> str:
    """Show the text of a node and its document."""
    place = visible(one_line(step.node.document_id))
    text = visible(one_line(step.node.text))
    return fill(text, width, initial_indent="  ", subsequent_indent="  ") + f"\n    {place}"


def how_line(answer: Answer, seconds: float) -> str:
    """Describe the evidence of an answer in one line."""
    steps = answer.retrieval.context
    documents = len({step.node.document_id for step in steps})
    said = f"from {_count(len(steps), 'passage')} of {_count(documents, 'document')}"
    by = f", answered by {visible(answer.answered_by)}" if answer.answered_by else ""
    return f"{said}{by}, in {seconds:.1f} s (--verbose shows how it was found)"


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'s' * (number != 1)}"


def usage_line(answer: Answer, seconds: float) -> str:
    """Show the tokens, TFLOPs and seconds of a question."""
    usage = answer.usage
    return (
        f"{answer.retrieval.context_tokens} node tokens, {usage.tokens} tokens through the model, "
        f"{usage.tflops:.3f} TFLOPs, {seconds:.1f} s"
    )


def graph_lines(graph: HWDAG, *, points: int | None = 3, width: int = WIDTH) -> Iterator[str]:
    """Show levels with their sizes, and some top-level points with their strongest edges.

    With `points=None`, show all nodes, level by level.
    """
    for level in range(graph.height, 0, -1):
        nodes = [graph.nodes[i] for i in graph.at_level(level)]
        origins = ", ".join(sorted({node.origin for node in nodes}))
        tokens = sum(node.tokens for node in nodes)
        yield f"  level {level}: {len(nodes):>5} nodes {tokens:>8,} tokens  {origins}"
        for index in graph.at_level(level) if points is None else ():
            yield from _node_lines(graph, int(index), width)
    for index in graph.top[: points or 0]:
        yield from _node_lines(graph, int(index), width)


def _node_lines(graph: HWDAG, index: int, width: int) -> Iterator[str]:
    yield "  * " + _short(graph.nodes[index].text, width - 4)
    children, weights = graph.children(index)
    for at in np.argsort(-weights, kind="stable")[:2]:
        yield f"      {weights[at]:.2f}  " + _short(graph.nodes[children[at]].text, width - 12)


def _short(text: str, width: int) -> str:
    return shorten(visible(text), max(MIN_TEXT, width), placeholder=" ...")

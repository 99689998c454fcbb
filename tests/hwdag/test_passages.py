"""Whole paragraphs in place of the nodes that a search has read."""

import re

from worlds import random_prose

from hwdag import Document, HWDAGIndex
from hwdag.embedding.hashing import HashingEmbedder
from hwdag.text.neighbours import without
from hwdag.types import Span
from hwdag_lab.scripted import ScriptedLM

QUESTION = "Which dragon guards the silver bridge?"


def test_paragraphs_are_those_of_the_sentences_that_are_kept():
    """Not those of written points alone, which only show the way to them."""
    text = "\n\n".join(random_prose(seed, 4) for seed in range(8))
    index = HWDAGIndex(
        reader=ScriptedLM(),
        writer=lambda prompt: "* A silver bridge with a dragon.\n* In other words.",
        embedder=HashingEmbedder(),
    )
    index.insert([Document("d", text)])
    plain, found = (index.search(QUESTION, returns=wanted) for wanted in ("nodes", "passages"))
    assert any(not step.kept for step in plain.steps)
    paragraphs = [Span(*match.span()) for match in re.finditer(r"[^\n]+", text)]
    expected = {
        span
        for step in plain.context
        for source in step.node.sources
        for span in paragraphs
        if span.start < source.end and source.start < span.end
    }
    assert found.context == found.steps
    shown = [span for step in (*found.steps, *found.unread) for span in step.node.sources]
    assert without(text, shown, list(expected)) == []
    assert all(
        without(text, [source], shown) == []
        for step in plain.context
        for source in step.node.sources
    )

"""Evidence next to the walk: nodes that visited ones mention and echo."""

import numpy as np
import pytest
from worlds import random_prose

from hwdag.config import NEVER, BuildConfig, Scoring, SearchConfig
from hwdag.embedding.hashing import HashingEmbedder
from hwdag.index import HWDAGIndex
from hwdag.scope import Scope
from hwdag.types import Document
from hwdag_lab.scripted import ScriptedLM

TEXT = """Passage 1:
Ada Byron
Ada Byron worked with a man named Charles Babbage for years.

Passage 2:
Cooking
Soup is made of water, of carrots, and of a great deal of patience.

Passage 3:
Charles Babbage
His birthplace is Walworth near London, on a street by the river.

Passage 4:
Walworth
Gardens there grow turnips, and children play in the old churchyard.
"""
QUESTION = "Where was the colleague of Ada Byron born?"


def visited(scoring):
    index = HWDAGIndex(reader=ScriptedLM(), embedder=HashingEmbedder(), config=BuildConfig())
    index.insert([Document("d", TEXT)])
    config = SearchConfig(token_budget=60, scoring=scoring)
    return [step.node.text for step in index.search(QUESTION, config=config).steps]


def test_a_mentioned_heading_brings_the_second_hop():
    first, second, *_ = visited(Scoring(attention=0, references=1))
    assert "Ada Byron worked" in first
    assert "birthplace" in second


def test_a_shared_rare_word_brings_the_second_hop():
    first, second, *_ = visited(Scoring(attention=0, similarity=0.2, references=1))
    assert "Ada Byron worked" in first
    assert "birthplace" in second


@pytest.mark.parametrize("method", ["hwdag", "garlic"])
def test_the_parts_of_a_score_are_reported_and_add_up(method):
    built = BuildConfig(method="hwdag")
    index = HWDAGIndex(reader=ScriptedLM(), embedder=HashingEmbedder(), config=built)
    more = "\nPassage 5:\nBells\n" + random_prose(0, 12)  # long enough to get points
    index.insert([Document("d", TEXT + more)])
    scoring = Scoring(attention=0.5, similarity=0.7, bm25_weight=0.4)
    config = SearchConfig(method, token_budget=500, confidence=NEVER, scoring=scoring)
    steps = index.search(QUESTION, config=config).steps
    assert any(step.reference > 0 for step in steps)
    assert any(step.attention > 0 for step in steps)
    for step in steps:
        parts = step.attention, step.similarity, step.reference
        assert np.isclose(step.score, sum(parts)) and min(parts) >= 0
        assert step.attention <= 0.5 and step.similarity <= 0.7


def test_nothing_outside_a_filter_is_named_or_counted():
    index = HWDAGIndex(reader=ScriptedLM(), embedder=HashingEmbedder())
    index.insert([Document("d", TEXT), Document("e", TEXT.replace("Walworth", "Paris"))])
    alone = HWDAGIndex(reader=ScriptedLM(), embedder=HashingEmbedder())
    alone.insert([Document("d", TEXT)])
    config = SearchConfig(token_budget=200, confidence=NEVER)
    both = index.search(QUESTION, config=config, scope=Scope(["d"]))
    assert both.steps == alone.search(QUESTION, config=config).steps

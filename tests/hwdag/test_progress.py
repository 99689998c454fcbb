"""Who says "enough": the budget, or p_yes as the papers have it."""

from types import SimpleNamespace

import numpy as np
import pytest
from worlds import corpus_of, random_graph, random_vectors, walk

from hwdag.config import NEVER, SearchConfig
from hwdag.embedding.hashing import HashingEmbedder
from hwdag.search.stopping import StoppingRule
from hwdag.text.prompts import SearchPrompts
from hwdag_lab.scripted import ScriptedLM


def searched(lm, config, seed=0, **options):
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, chunks=12, levels=3)
    vectors, query = random_vectors(rng, len(graph)), random_vectors(rng, 1)[0]
    return walk(
        corpus_of([graph], [vectors]),
        "Which dragon guards the silver bridge?",
        reader=lm,
        embedder=HashingEmbedder(),
        config=config,
        prompts=SearchPrompts(),
        query_vector=query,
        **options,
    )


def readings(retrieval):
    return [step.p_yes for step in retrieval.steps if step.p_yes is not None]


def stopping_point(told, confidence, patience):
    """Number of readings until `patience` of them were above the confidence; None for never."""
    above = [i + 1 for i, value in enumerate(told) if value > confidence]
    return above[patience - 1] if len(above) >= patience else None


@pytest.mark.parametrize("seed", range(6))
def test_p_yes_ends_a_walk_that_would_have_continued(seed):
    rng = np.random.default_rng(seed)
    script, confidence, patience = rng.random(40), 0.6, 1 + seed % 3
    options = {"token_budget": 250, "patience": patience}
    never = SearchConfig(confidence=0.999999, **options)
    whole = searched(ScriptedLM(p_yes=script), never, seed)
    asked = SearchConfig(confidence=confidence, **options)
    found = searched(ScriptedLM(p_yes=script), asked, seed)
    end = stopping_point(readings(whole.retrieval), confidence, patience)
    steps = found.retrieval.steps
    assert steps == whole.retrieval.steps[: len(steps)]
    assert (found.retrieval.stop == "sufficient") == (end is not None)
    assert len(readings(found.retrieval)) == (end or len(readings(whole.retrieval)))
    assert found.says_yes is bool(found.retrieval.p_yes > confidence)
    assert not whole.says_yes
    assert searched(ScriptedLM(p_yes=script), SearchConfig(confidence=NEVER), seed).says_yes


def test_without_a_confidence_the_one_of_the_reader_counts():
    def is_enough(p_yes, config, confidence=0.5):
        plan = config.plan("hwdag", confidence)
        progress = StoppingRule(plan.confidence, plan.patience)
        progress.take(SimpleNamespace(p_yes=p_yes))
        return progress.reason == "sufficient"

    assert is_enough(0.6, SearchConfig()) and not is_enough(0.4, SearchConfig())
    assert is_enough(0.95, SearchConfig(), 0.9) and not is_enough(0.85, SearchConfig(), 0.9)
    assert is_enough(0.4, SearchConfig(confidence=0.3))
    assert is_enough(0.6, SearchConfig(method="garlic"), 0.9)
    assert not is_enough(1.0, SearchConfig(confidence=NEVER))

"""A tree of summaries: the summary of a window is one node."""

import numpy as np
import pytest
from worlds import random_text

from hwdag.config import BuildConfig
from hwdag.embedding.hashing import HashingEmbedder
from hwdag.index import HWDAGIndex
from hwdag.lm.writers import CallableWriter
from hwdag.types import Document
from hwdag_lab.eval.one_summary import OneSummaryWriter
from hwdag_lab.scripted import ScriptedLM


@pytest.mark.parametrize(
    ("reply", "limit", "joined"),
    [
        ("* one two\n* three", 20, "* one two three"),
        ("1. one two\n2. three", 20, "* one two three"),
        ("* one two\n* three four five", 6, "* one two"),  # the second point does not fit
        ("no idea", 20, "no idea"),
        ("", 20, ""),
    ],
)
def test_the_points_of_a_reply_are_one(reply, limit, joined):
    talkative = CallableWriter(lambda prompt: reply, name="talkative")
    writer = OneSummaryWriter(talkative, ScriptedLM())
    assert writer.write(["a", "b"], max_new_tokens=limit) == [joined] * 2
    assert writer.name != talkative.name


def test_a_tree_gives_every_node_one_parent():
    rng = np.random.default_rng(0)
    text = " ".join(random_text(rng, int(rng.integers(6, 12))) for _ in range(90))
    lm = ScriptedLM()
    index = HWDAGIndex(
        reader=lm,
        writer=OneSummaryWriter(lm, lm),
        embedder=HashingEmbedder(),
        config=BuildConfig(method="garlic", window_tokens=300, chunk_tokens=40),
    )
    report = index.insert([Document("d", text)])
    assert (report.retries, report.fallbacks) == (0, 0)
    graph = index.graphs["d"]
    assert graph.height >= 3
    parents = np.bincount(graph.edges.indices, minlength=len(graph))
    below_the_top = np.setdiff1d(np.arange(len(graph)), graph.top)
    assert (parents[below_the_top] == 1).all()

"""What a build costs is known before it, to 20 % of its tokens."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tiny import model, tokenizer
from worlds import random_text

from hwdag.building.builder import Tools
from hwdag.building.estimate import Estimate, estimate
from hwdag.building.insertion import Insertion
from hwdag.config import BuildConfig
from hwdag.embedding.hashing import HashingEmbedder
from hwdag.errors import ContextTooSmall, InputError, WriterFailed
from hwdag.lm.huggingface import HuggingFaceLM
from hwdag.lm.writers import CallableWriter
from hwdag.store.sqlite import Header, Store
from hwdag.text.prompts import Prompts
from hwdag.trace.bars import Silent
from hwdag.types import Document, Usage
from hwdag_lab.scripted import ScriptedLM, tokens_of

LICENSE = (Path(__file__).parents[2] / "LICENSE").read_text("utf-8")


def prose(words, seed):
    rng = np.random.default_rng(seed)
    text = ""
    while len(text.split()) < words:
        text += random_text(rng, int(rng.integers(4, 25))) + ("\n\n" if rng.random() < 0.2 else " ")
    return Document(f"doc{seed}", text)


def many():
    rng = np.random.default_rng(1)
    return [prose(int(rng.integers(10, 300)), seed) for seed in range(24)]


def mixed():
    return [prose(1_500, 0), *many()[1:12], prose(800, 90)]


def sections():
    """Prose with headings, lists and lines of its own."""
    return [Document(f"section{i}", text) for i, text in enumerate(LICENSE.split("\n\n   "))]


CORPORA = {
    "many small": many,
    "one large": lambda: [prose(3_000, 0)],
    "mixed": mixed,
    "real": lambda: [Document("license", LICENSE)],
    "sections": sections,
    "repeating": lambda: [Document("doc", "The same dragon again and again. " * 400)],
    "one sentence": lambda: ["A single sentence."],
}
CONFIGS = {
    "sentences": BuildConfig(),
    "chunks": BuildConfig(leaves="chunks"),
    "short windows": BuildConfig(chunk_tokens=60, window_tokens=500),
    "tree": BuildConfig(tree=True, window_tokens=700),
}


class Elsewhere(HashingEmbedder):
    """Vectors that say nothing about words."""

    def embed(self, texts):
        rng = np.random.default_rng(len(texts))
        return rng.normal(size=(len(texts), self.dimension)).astype(np.float32)


def few_points(prompt):
    """Six bullets of twelve words, whatever the length of the window."""
    words = prompt.split()[40:]
    starts = range(0, len(words), max(1, len(words) // 6))
    return "Here you are:\n" + "\n".join(f"* {' '.join(words[i : i + 12])}." for i in starts)


class Server:
    """A writer that says what it costs, by the tokens of the scripted model."""

    name = "server"
    usage = Usage()

    def __init__(self, reply):
        self.reply = reply

    def write(self, prompts, *, max_new_tokens):
        replies = list(map(self.reply, prompts))
        self.usage += Usage(sum(len(tokens_of(text)) for text in [*prompts, *replies]))
        return replies


def both(documents, tools, **options):
    """The estimate and the report of the build."""
    expected = estimate(documents, tools, **options)
    embedder = tools.embedder
    header = Header(tools.reader.name, embedder.name, embedder.dimension, {})
    with Store.create(None, header) as store:
        return expected, Insertion(tools, store, replace=False).run(documents, Silent())


def tools_of(config, writer=None, embedder=None):
    reader = ScriptedLM()
    writer = reader if writer == "reader" else writer
    return Tools(reader, writer, embedder or HashingEmbedder(), config, Prompts())


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
@pytest.mark.parametrize("corpus", CORPORA.values(), ids=CORPORA)
def test_extraction_is_known_exactly(corpus, config):
    expected, report = both(corpus(), tools_of(config))
    assert expected.tokens == expected.replay_tokens == report.usage.tokens
    assert expected.writer_calls == 0
    assert expected.documents == len(report.built)


@pytest.mark.parametrize("corpus", [many, mixed, sections])
def test_extraction_by_another_embedder_is_known_nearly(corpus):
    tools = tools_of(CONFIGS["short windows"], embedder=Elsewhere())
    expected, report = both(corpus(), tools)
    assert expected.tokens == pytest.approx(report.usage.tokens, rel=0.1)


# no tree: the scripted model would shorten a joined point to its first sentence, a leaf to itself
@pytest.mark.parametrize("config", ["sentences", "chunks", "short windows"])
@pytest.mark.parametrize("corpus", CORPORA.values(), ids=CORPORA)
def test_writing_by_the_reader_is_known_to_a_fifth(corpus, config):
    expected, report = both(corpus(), tools_of(CONFIGS[config], "reader"))
    assert expected.tokens == pytest.approx(report.usage.tokens, rel=0.2)
    assert expected.tokens == expected.replay_tokens + sum(expected.writer_tokens)


@pytest.mark.parametrize("reply", [few_points, lambda prompt: "I cannot do that."])
@pytest.mark.parametrize("config", ["sentences", "short windows", "tree"])
@pytest.mark.parametrize("corpus", ["many small", "one large", "mixed", "real", "sections"])
def test_writing_elsewhere_is_known_to_a_fifth(corpus, config, reply):
    tools = tools_of(CONFIGS[config], Server(reply))
    expected, report = both(CORPORA[corpus](), tools)
    actual = report.usage.tokens + report.writing.tokens
    assert expected.tokens == pytest.approx(actual, rel=0.2)


@pytest.mark.parametrize("reply", [None, few_points])
def test_nothing_is_asked_without_timing(reply):
    class Silent(ScriptedLM):
        def replay(self, requests, *, heads):
            raise AssertionError

    asked = []
    writer = None if reply is None else CallableWriter(asked.append)
    tools = replace(tools_of(BuildConfig(), writer), reader=Silent())
    found = estimate(many(), tools, timed=False)
    assert (found.seconds, asked) == (None, [])
    assert found.notes[-1].startswith("not timed")
    assert found.replay_tokens > 0


def test_a_writer_that_does_not_count_is_not_part_of_the_total():
    tools = tools_of(BuildConfig(), CallableWriter(few_points))
    expected, report = both(mixed(), tools)
    assert expected.tokens == pytest.approx(report.usage.tokens, rel=0.2)
    assert min(expected.writer_tokens) > 0
    assert "does not count its tokens" in str(expected)


def test_unusable_replies_are_expected_to_go_on():
    asked = []

    def reply(prompt):
        asked.append(prompt)
        return "I cannot."

    tools = tools_of(CONFIGS["short windows"], CallableWriter(reply))
    expected = estimate(sections(), tools)
    assert len(asked) == 2
    assert "each window is taken to need a retry" in str(expected)
    asked.clear()
    both(sections(), tools, timed=False)
    assert expected.writer_calls == len(asked)


class Machine:
    """A clock that models turn: so many seconds per token."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


class Timed(ScriptedLM):
    def __init__(self, machine, **options):
        super().__init__(**options)
        self.machine = machine

    def replay(self, requests, *, heads):
        before = self.usage
        replays = super().replay(requests, heads=heads)
        self.machine.now += 0.01 * (self.usage - before).tokens
        return replays

    def write(self, prompts, *, max_new_tokens):
        replies = super().write(prompts, max_new_tokens=max_new_tokens)
        self.machine.now += 0.1 * sum(self.count_tokens(replies))
        return replies


@pytest.mark.parametrize("writes", [False, True])
def test_time_is_that_of_the_timed_windows(writes):
    machine = Machine()
    reader = Timed(machine, reply=few_points)
    writer = reader if writes else None
    tools = Tools(reader, writer, HashingEmbedder(), BuildConfig(), Prompts())
    expected = estimate(mixed(), tools, clock=machine)
    assert f"{machine.now:.1f} s, which are not part" in expected.notes[-1]
    began = machine.now
    both(mixed(), tools, timed=False)
    low, high = expected.seconds
    assert low < machine.now - began < high
    assert low * 2 * BuildConfig().batch_size > high


def test_flops_are_those_of_the_model_s_own_meter():
    lm = HuggingFaceLM(model(max_position_embeddings=1024), tokenizer())
    config = BuildConfig(chunk_tokens=100, window_tokens=1024, edge_heads="all")
    document = Document("doc", " ".join(prose(400, seed).text for seed in range(2)))
    expected, report = both([document], Tools(lm, None, HashingEmbedder(), config, Prompts()))
    assert expected.tokens == pytest.approx(report.usage.tokens, rel=0.02)
    assert expected.tflops == pytest.approx(report.usage.tflops, rel=0.05)
    assert expected.seconds is not None


def test_blank_documents_are_skipped_and_wrong_ones_refused():
    tools = tools_of(BuildConfig())
    found = estimate([" ", Document("a", ""), "A text."], tools)
    assert (found.documents, found.skipped, found.leaves, found.windows) == (1, 2, 1, 1)
    empty = estimate([], tools)
    assert (empty.documents, empty.tokens, empty.tflops) == (0, 0, 0.0)
    assert "0 documents to build" in str(empty)
    assert estimate(["half a pair \ud800"], tools).documents == 1
    with pytest.raises(InputError, match="got int"):
        estimate([3], tools)


def test_what_cannot_be_built_is_said_before_the_run():
    reader = ScriptedLM(context_tokens=512, window_tokens=512)
    tools = replace(tools_of(BuildConfig(chunk_tokens=480)), reader=reader)
    with pytest.raises(ContextTooSmall, match="set chunk_tokens"):
        estimate(many(), tools)

    def fail(prompt):
        raise ConnectionError("refused")

    with pytest.raises(WriterFailed, match="server raised ConnectionError"):
        estimate(many(), tools_of(BuildConfig(), CallableWriter(fail, name="server")))


def test_an_estimate_is_words_for_people():
    figures = {"writer_calls": 3, "writer_tokens": (1200, 300), "replay_tokens": 8000}
    found = Estimate(
        2, 1, 30, 3, tokens=9500, tflops=1.5, seconds=(60.0, 9000.0), notes=("N",), **figures
    )
    assert str(found).splitlines() == [
        "2 documents to build, 1 to skip; 30 leaves, 3 windows",
        "about 9,500 tokens, 1.50 TFLOPs",
        "about 3 calls of the writer: 1,200 tokens of prompts, 300 of replies",
        "60 s to 2.5 h on this machine",
        "N",
    ]


@pytest.mark.model
def test_the_embedded_models_are_known_to_a_fifth():
    from hwdag.embedding.default import default_embedder
    from hwdag.lm.default import default_reader

    tools = Tools(default_reader(), None, default_embedder(), BuildConfig(), Prompts())
    expected, report = both([Document("license", LICENSE)], tools)
    assert expected.tokens == pytest.approx(report.usage.tokens, rel=0.2)
    assert expected.tflops == pytest.approx(report.usage.tflops, rel=0.2)
    assert expected.seconds[0] > 0

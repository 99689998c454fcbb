"""The cache of finished calls: opened again it is the same, and no model is asked twice."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass, replace

import numpy as np
import pytest
from worlds import WORDS, random_prose

from hwdag.building.points import replies
from hwdag.config import SearchConfig
from hwdag.embedding.hashing import HashingEmbedder
from hwdag.errors import IndexFileError, NotAnIndex, WriterFailed
from hwdag.methods import retriever_class
from hwdag.types import Document, Node
from hwdag_lab.methods.dense import DenseRetriever
from hwdag_lab.methods.document_retriever import DocumentRetriever
from hwdag_lab.methods.found import Found, Scored
from hwdag_lab.methods.gemrag import GemRagConfig
from hwdag_lab.methods.graphreader import GraphReaderConfig
from hwdag_lab.methods.memwalker import MemWalkerConfig
from hwdag_lab.methods.passages import PassageConfig, Passages
from hwdag_lab.methods.raptor import RaptorConfig
from hwdag_lab.scripted import ScriptedLM

# why 256 dimensions: UMAP is not needed then, and its first use takes a while
TREES = {"chunk_tokens": 12, "summary_tokens": 24, "max_cluster_tokens": 80, "dimensions": 99}


def models():
    return {"reader": ScriptedLM(), "embedder": HashingEmbedder(64)}


def dense(**options):
    return DenseRetriever(**models() | {"granularity": "sentence"} | options)


def world(seed=0, documents=3):
    rng = np.random.default_rng(seed)
    return [
        Document(
            f"d{i}",
            random_prose(rng, 20, words=(5, 8)),
            f"Title {i}",
            {"year": 2000 + i, "tags": ["a", "b"]},
        )
        for i in range(documents)
    ]


QUESTIONS = (*WORDS[:4], "Where is the amber bridge?", "dragon castle")


class CountingEmbedder(HashingEmbedder):
    """Remembers the passages that it embedded."""

    def __init__(self, dimension=64):
        super().__init__(dimension)
        self.embedded = []

    def embed(self, texts):
        self.embedded += texts
        return super().embed(texts)


def write(prompt):
    """Return a writer that repeats the last words of its prompt, as facts, questions or a summary."""
    said = " ".join(prompt.split()[-9:]).strip(".")
    return f"* {said}? | {said.split()[-1]}"


def seen(retriever):
    """Return everything that a user can see of its content."""
    config = SearchConfig(token_budget=60)
    found = [retriever.search(question, config=config, k=20) for question in QUESTIONS]
    nodes = {key: retriever.nodes(key) for key in retriever.documents}
    return dict(retriever.documents), nodes, [replace(f, usage=found[0].usage) for f in found]


# opened again


@pytest.mark.parametrize("method", ["raptor", "memwalker", "graphreader", "gem-rag"])
def test_opened_again_it_is_the_same_and_pays_no_call(method, tmp_path):
    """Ask a model about every text once, however often the cache is opened."""
    config = {
        "raptor": RaptorConfig(**TREES),
        "memwalker": MemWalkerConfig(segment_tokens=30, summary_tokens=12),
        "graphreader": GraphReaderConfig(chunk_tokens=60, fact_tokens=40, max_calls=2),
        "gem-rag": GemRagConfig(chunk_tokens=16, members=3),
    }[method]
    cls, prompts = retriever_class(method), []

    def counted(prompt):
        prompts.append(prompt)
        return write(prompt)

    def opened():
        embedder = CountingEmbedder()
        made = cls.from_documents(
            world(),
            reader=ScriptedLM(),
            writer=counted,
            embedder=embedder,
            config=config,
            cache=tmp_path / "calls.sqlite",
        )
        return made, embedder

    plain = cls.from_documents(world(), **models(), writer=write, config=config)
    first, embedder = opened()
    assert prompts and embedder.embedded
    assert len(embedder.embedded) == len(set(embedder.embedded))
    expected = seen(plain)
    assert seen(first) == expected
    prompts.clear()
    second, embedder = opened()
    assert prompts == embedder.embedded == []
    assert seen(second) == expected


def test_an_embedder_pays_for_a_passage_once(tmp_path):
    path = tmp_path / "calls.sqlite"
    first, second = CountingEmbedder(), CountingEmbedder()
    plain = dense()
    plain.insert(world())
    made = dense(embedder=first, cache=path)
    made.insert(world())
    again = dense(embedder=second, cache=path)
    again.insert(world(documents=2))
    assert seen(made) == seen(plain)
    assert second.embedded == []
    again.insert([Document("new", "A sentence that nobody has embedded so far.")])
    assert second.embedded == ["A sentence that nobody has embedded so far."]
    other = CountingEmbedder(32)
    dense(embedder=other, cache=path).insert(world(documents=1))
    assert other.embedded  # vectors are those of one embedder alone


# nothing is lost


@dataclass(frozen=True, eq=False)
class Replied:
    nodes: tuple[Node, ...]
    replies: tuple[str, ...]


class Replying(DocumentRetriever[Replied]):
    """Asks its writer about every sentence."""

    name = "replying"

    def _build(self, document):
        passages = Passages.of(document, PassageConfig("sentence"), self.reader)
        texts = [node.text for node in passages.nodes]
        made = replies(self._replying(), texts, self._calls, limit=20)
        return Replied(passages.nodes, tuple(made))

    def _retrieve(self, request, built):
        return Found([Scored(node, 1.0) for replied in built.values() for node in replied.nodes])


class Failing:
    """A writer that gives up once, after some calls."""

    name = "failing"
    concurrency = 1

    def __init__(self, after):
        self.left = after
        self.asked = []

    def write(self, prompts, *, max_new_tokens):
        if self.left == 0:
            self.left = -1
            raise OSError("no route")
        self.left -= 1
        self.asked += prompts
        return [prompt.upper() for prompt in prompts]


@pytest.mark.parametrize("with_file", [True, False])
def test_an_interrupted_build_repeats_nothing(with_file, tmp_path):
    documents, writer = world(2), Failing(after=27)
    options = {**models(), "writer": writer, "cache": tmp_path / "calls" if with_file else None}
    retriever = Replying(**options)
    with pytest.raises(WriterFailed):
        retriever.insert(documents)
    assert list(retriever.documents) == ["d0"]
    assert len(writer.asked) == 27
    if with_file:
        retriever = Replying(**options)
    report = retriever.insert(documents)
    assert (report.built[-2:], report.reused) == (["d1", "d2"], 27 if with_file else 7)
    assert len(writer.asked) == len(set(writer.asked)) == 60
    whole = Replying(**models(), writer=Failing(after=-1))
    whole.insert(documents)
    assert seen(whole) == seen(retriever)


def test_the_cost_of_a_separate_writer_is_reported():
    writer = ScriptedLM(name="writer", reply=lambda prompt: "Yes.")
    report = Replying(**models(), writer=writer).insert(world())
    assert report.writing == writer.usage
    assert report.writing.tokens > 0


def test_damaged_calls_are_asked_for_anew(tmp_path):
    path, writer = tmp_path / "calls", Failing(after=5)
    retriever = Replying(**models(), writer=writer, cache=path)
    with pytest.raises(WriterFailed):
        retriever.insert(world(2, 1))
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE calls SET value = x'00' WHERE number = 2")
    assert Replying(**models(), writer=writer, cache=path).insert(world(2, 1)).reused == 4


def test_a_file_that_is_no_cache_is_reported(tmp_path):
    (tmp_path / "text").write_text("no database " * 100)
    with pytest.raises(NotAnIndex):
        dense(cache=tmp_path / "text")
    with pytest.raises(IndexFileError):
        dense(cache=tmp_path / "absent" / "calls")

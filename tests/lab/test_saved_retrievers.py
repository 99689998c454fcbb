"""Retrievers in files: what is loaded is what was saved, nothing finished is lost or comes back."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing, suppress
from dataclasses import dataclass, replace

import numpy as np
import pytest
from worlds import WORDS, random_text

from hwdag.building.writing import replies
from hwdag.config import SearchConfig
from hwdag.embedding.hashing import HashingEmbedder
from hwdag.errors import (
    IndexBusy,
    IndexCorrupt,
    IndexFileError,
    IndexMismatch,
    IndexVersionError,
    InputError,
    NotAnIndex,
    WriterFailed,
)
from hwdag.index import HWDAGIndex
from hwdag.lm.scripted import ScriptedLM
from hwdag.store.lock import BuildLock
from hwdag.types import Document, Node, Span
from hwdag_lab.methods import saved
from hwdag_lab.methods.bm25 import BM25Retriever
from hwdag_lab.methods.dense import DenseRetriever
from hwdag_lab.methods.memwalker import MemWalkerConfig, MemWalkerRetriever
from hwdag_lab.methods.packing import (
    array_bytes,
    bytes_array,
    checked_array,
    packed_nodes,
    unpacked_nodes,
)
from hwdag_lab.methods.passages import Passages
from hwdag_lab.methods.ranking import Found, Scored
from hwdag_lab.methods.raptor import RaptorConfig, RaptorRetriever
from hwdag_lab.methods.saved import SavedRetriever

# why so many dimensions: UMAP is not needed then, and its first use takes a while
TREES = {"chunk_tokens": 12, "summary_tokens": 24, "max_cluster_tokens": 80, "dimensions": 99}


def models():
    return {"reader": ScriptedLM(), "embedder": HashingEmbedder(64)}


def bm25(**options):
    return BM25Retriever(**{"reader": ScriptedLM(), "granularity": "sentence"} | options)


def dense(**options):
    return DenseRetriever(**models() | {"granularity": "sentence"} | options)


def raptor(**options):
    return RaptorRetriever(**models() | {"config": RaptorConfig(**TREES)} | options)


def memwalker(**options):
    config = MemWalkerConfig(segment_tokens=30, summary_tokens=12)
    return MemWalkerRetriever(**models() | {"config": config} | options)


MAKERS = {"bm25": bm25, "dense": dense, "raptor": raptor, "memwalker": memwalker}
ALL = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)


def world(seed=0, documents=3):
    rng = np.random.default_rng(seed)
    return [
        Document(
            f"d{i}",
            " ".join(random_text(rng, int(rng.integers(5, 9))) for _ in range(20)),
            f"Title {i}",
            {"year": 2000 + i, "tags": ["a", "b"]},
        )
        for i in range(documents)
    ]


QUESTIONS = (*WORDS[:4], "Where is the amber bridge?", "dragon castle")


def seen(retriever):
    """Everything that a user can see of what it holds."""
    config = SearchConfig(token_budget=60)
    found = [retriever.search(question, config=config, k=20) for question in QUESTIONS]
    return dict(retriever.documents), [replace(one, usage=found[0].usage) for one in found]


def loaded(retriever, path, **options):
    """As another process would load it, with the same models."""
    given = {"reader": ScriptedLM()}
    if not isinstance(retriever, BM25Retriever):
        given["embedder"] = HashingEmbedder(64)
    return type(retriever).load(path, **given | options)


# saving and loading


@ALL
def test_what_is_loaded_is_what_was_saved(make, tmp_path):
    original = make()
    original.insert(world())
    original.save(tmp_path / "file")
    copy = loaded(original, tmp_path / "file")
    assert seen(copy) == seen(original)
    assert list(tmp_path.iterdir()) == [tmp_path / "file"]
    assert original.answer(QUESTIONS[4]).text == copy.answer(QUESTIONS[4]).text


@ALL
def test_changes_of_a_file_are_those_of_memory(make, tmp_path):
    documents, path = world(1, 4), tmp_path / "file"
    fresh = make()
    fresh.insert([documents[0], documents[2], documents[3], documents[1]])
    kept = make(path=path)
    report = kept.insert(documents[:3])
    assert report.built == ["d0", "d1", "d2"]
    kept.delete("d1")
    other = loaded(kept, path)
    assert list(other.documents) == ["d0", "d2"]
    assert other.insert([*documents[:1], documents[3], documents[1]]).unchanged == ["d0"]
    assert seen(other) == seen(fresh)
    assert seen(make(path=path)) == seen(fresh)
    # what another process did is read with the next change
    assert kept.insert([documents[3]]).unchanged == ["d3"]
    assert seen(kept) == seen(fresh)
    other.delete("d3")
    with pytest.raises(InputError, match="no document 'd3'"):
        kept.delete("d3")


@ALL
def test_an_empty_one_is_saved_too(make, tmp_path):
    retriever = make()
    retriever.save(tmp_path / "file")
    copy = loaded(retriever, tmp_path / "file")
    assert not copy.documents
    assert copy.settings() == retriever.settings()
    copy.insert(world())
    assert len(loaded(retriever, tmp_path / "file").documents) == 3


def test_settings_are_those_of_the_file(tmp_path):
    make = BM25Retriever(ScriptedLM(), granularity="sentence", contextual=True, k1=0.9)
    make.insert(world())
    make.save(tmp_path / "file")
    copy = BM25Retriever.load(tmp_path / "file", reader=ScriptedLM(), k1=0.9)
    assert copy.settings() == {"granularity": "sentence", "contextual": True}
    assert seen(copy) == seen(make)
    with pytest.raises(IndexMismatch, match="load\\(\\) takes those of the file"):
        BM25Retriever(ScriptedLM(), path=tmp_path / "file")
    with pytest.raises(IndexMismatch, match="built with"):
        BM25Retriever.load(tmp_path / "file", granularity="300")


def test_the_mode_of_raptor_is_a_matter_of_the_search(tmp_path):
    retriever = raptor(path=tmp_path / "file")
    retriever.insert(world())
    tree = loaded(retriever, tmp_path / "file", mode="tree")
    fresh = raptor(mode="tree")
    fresh.insert(world())
    assert tree.name == "raptor-tree"
    assert seen(tree) == seen(fresh)


def test_models_are_those_that_the_file_names(tmp_path):
    path = tmp_path / "file"
    dense(path=path).insert(world())
    assert DenseRetriever.load(path, reader=ScriptedLM()).embedder.name == "hashing-64"
    other = DenseRetriever.load(path, reader=ScriptedLM(name="another"))
    assert other.search("bridge").steps
    with pytest.raises(IndexMismatch, match="built by the reader 'scripted', got 'another'"):
        other.insert(["A new one."])
    wrong = DenseRetriever.load(path, reader=ScriptedLM(), embedder=HashingEmbedder(32))
    with pytest.raises(IndexMismatch, match="embedded with 'hashing-64'"):
        wrong.search("bridge")
    with pytest.raises(IndexMismatch, match="'hashing-32'"):
        wrong.insert(["A new one."])
    assert list(DenseRetriever.load(path).documents) == ["d0", "d1", "d2"]


def test_a_method_that_keeps_attention_is_searched_by_its_reader_alone(tmp_path):
    class Attentive(DenseRetriever):
        method = "attentive"
        keeps_attention = True

    path = tmp_path / "file"
    retriever = Attentive(**models(), path=path)
    retriever.insert(world())
    assert Attentive.load(path, reader=ScriptedLM()).search("bridge").steps
    other = Attentive.load(path, reader=ScriptedLM(name="another"))
    with pytest.raises(IndexMismatch, match="'another'"):
        other.search("bridge")


def test_metadata_comes_back_as_json_has_it(tmp_path):
    path = tmp_path / "file"
    document = Document("d", "The bridge is red.", metadata={"tags": ("a", "b")})
    assert bm25(path=path).insert([document]).built == ["d"]
    retriever = bm25(path=path)
    assert retriever.documents["d"].metadata == {"tags": ["a", "b"]}
    assert retriever.insert([document]).unchanged == ["d"]
    with pytest.raises(InputError, match="JSON"):
        retriever.insert([Document("e", "Another.", metadata={"a": object()})])


# nothing is lost


@dataclass(frozen=True, eq=False)
class Replied:
    nodes: tuple[Node, ...]
    replies: tuple[str, ...]


class Replying(SavedRetriever[Replied]):
    """Asks its writer about every sentence."""

    name = method = "replying"

    def settings(self):
        return {}

    def _build(self, document):
        passages = Passages.of(document, "sentence", self.reader, contextual=False)
        texts = [node.text for node in passages.nodes]
        asked = self._models.given_writer
        made = replies(asked, texts, self._calls(), limit=20, batch_size=1)
        return Replied(passages.nodes, tuple(made))

    def _retrieve(self, query, built):
        return Found([Scored(node, 1.0) for replied in built.values() for node in replied.nodes])

    def _pack(self, built):
        return {"nodes": packed_nodes(built.nodes), "replies": built.replies}, {}

    def _unpack(self, document, record, arrays):
        return Replied(unpacked_nodes(document, record["nodes"]), tuple(record["replies"]))


class Failing:
    """A writer that gives up once, after some calls."""

    name = "failing"

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
    path = tmp_path / "file" if with_file else None
    retriever = Replying(**models(), writer=writer, path=path)
    with pytest.raises(WriterFailed, match="no route"):
        retriever.insert(documents)
    assert list(retriever.documents) == ["d0"]
    assert len(writer.asked) == 27
    if with_file:
        retriever = Replying.load(path, **models(), writer=writer)
        assert list(retriever.documents) == ["d0"]
    report = retriever.insert(documents)
    assert (report.unchanged, report.built, report.reused) == (["d0"], ["d1", "d2"], 7)
    assert len(writer.asked) == len(set(writer.asked)) == 60
    whole = Replying(**models(), writer=Failing(after=-1))
    whole.insert(documents)
    assert [r.replies for _, r in whole._held.values()] == [
        r.replies for _, r in retriever._held.values()
    ]
    if with_file:
        assert rows(path, "SELECT COUNT(*) FROM calls") == [(0,)]


def test_what_a_writer_beside_the_reader_costs_is_reported():
    writer = ScriptedLM(name="writer", reply=lambda prompt: "Yes.")
    report = Replying(**models(), writer=writer).insert(world())
    assert report.writing == writer.usage
    assert report.writing.tokens > 0


def test_damaged_calls_are_asked_for_anew(tmp_path):
    path, writer = tmp_path / "file", Failing(after=5)
    retriever = Replying(**models(), writer=writer, path=path)
    with pytest.raises(WriterFailed):
        retriever.insert(world(2, 1))
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE calls SET value = x'00' WHERE rowid = 2")
    assert Replying.load(path, **models(), writer=writer).insert(world(2, 1)).reused == 4


def test_two_processes_do_not_change_a_file_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(saved, "WAIT_SECONDS", 0.01)
    retriever = bm25(path=tmp_path / "file")
    with BuildLock(tmp_path / "file").held(1), pytest.raises(IndexBusy, match="another process"):
        retriever.insert(world())
    retriever.insert(world())
    assert len(retriever.documents) == 3


def test_progress_shows_documents():
    stages = []

    class Watching:
        def stage(self, name, total, unit):
            from contextlib import nullcontext

            stages.append((name, total, unit))
            return nullcontext(lambda amount=1: None)

    dense().insert(world(), progress=Watching())
    assert stages == [("documents", 3, "document")]


# nothing comes back


@ALL
def test_nothing_of_a_deleted_document_is_left(make, tmp_path):
    path = tmp_path / "file"
    retriever = make(path=path)
    secret = "Zzyzx harbours seventeen quolls. " * 12
    retriever.insert([*world(3), Document("quoll", secret, "Quolls", {"who": "quolls"})])
    assert b"quolls" in path.read_bytes()
    retriever.insert(world(4, 5)[3:])
    retriever.delete("quoll")
    data = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert b"quoll" not in data.lower()
    assert b"zzyzx" not in data.lower()


def test_no_reply_about_a_deleted_document_is_left(tmp_path):
    path = tmp_path / "file"
    retriever = Replying(**models(), writer=Failing(after=25), path=path)
    retriever.insert(world(2)[:1])
    with pytest.raises(WriterFailed):
        retriever.insert([Document("quoll", "Seventeen quolls. " * 12), *world(2)[1:]])
    assert b"QUOLLS" in path.read_bytes()
    retriever.delete("quoll")
    assert b"QUOLLS" not in path.read_bytes()


# files that cannot be used


def rows(path, statement):
    with closing(sqlite3.connect(path)) as connection, connection:
        return connection.execute(statement).fetchall()


@pytest.fixture
def path(tmp_path):
    dense(path=tmp_path / "file").insert(world())
    return tmp_path / "file"


def test_files_of_others_are_told(path, tmp_path):
    with pytest.raises(InputError, match="there is no file"):
        DenseRetriever.load(tmp_path / "absent")
    with pytest.raises(InputError, match="folder"):
        dense(path=tmp_path / "absent" / "file")
    with pytest.raises(IndexMismatch, match="saved by the method 'dense', not by 'bm25'"):
        BM25Retriever.load(path)
    with pytest.raises(IndexMismatch, match="saved by the method 'dense'"):
        bm25(path=path)
    with pytest.raises(InputError, match="exists"):
        dense().save(path)
    (tmp_path / "text").write_text("no database " * 100)
    with pytest.raises(NotAnIndex):
        DenseRetriever.load(tmp_path / "text")
    rows(tmp_path / "other", "CREATE TABLE a (b)")
    with pytest.raises(NotAnIndex, match="something else"):
        DenseRetriever.load(tmp_path / "other")
    index = HWDAGIndex(reader=ScriptedLM(), embedder=HashingEmbedder(), path=tmp_path / "index")
    with index:
        index.insert(["The bridge is red."])
    with pytest.raises(NotAnIndex, match=r"HWDAGIndex\.load"):
        DenseRetriever.load(tmp_path / "index")
    with pytest.raises(NotAnIndex):
        HWDAGIndex.load(path)
    rows(path, "PRAGMA user_version = 2")
    with pytest.raises(IndexVersionError, match="version 2"):
        DenseRetriever.load(path)


def test_a_file_that_went_away_is_not_made_anew(path):
    retriever = DenseRetriever.load(path, **models())
    path.unlink()
    with pytest.raises(IndexFileError, match="moved or deleted"):
        retriever.insert(["Another one."])
    with pytest.raises(IndexFileError, match="moved or deleted"):
        retriever.delete("d0")
    assert len(retriever.search("bridge").sources) == 3


DAMAGES = [
    "UPDATE documents SET source = '[1, 2]' WHERE number = 2",
    "UPDATE documents SET record = replace(record, 'amber', 'ember')",
    "UPDATE documents SET id = 'other' WHERE number = 1",
    "UPDATE documents SET checksum = 'x'",
    "UPDATE arrays SET data = zeroblob(length(data))",
    "DELETE FROM arrays WHERE document = 3",
    "DELETE FROM header WHERE name = 'method'",
    "INSERT INTO header VALUES ('more', '1')",
    "UPDATE header SET value = '7'",
    "UPDATE header SET value = '{' WHERE name = 'settings'",
    'UPDATE header SET value = \'{"granularity": "book", "contextual": 1}\' '
    "WHERE name = 'settings'",
    "DROP TABLE arrays",
]


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_told(path, damage):
    rows(path, damage)
    with pytest.raises((IndexCorrupt, InputError)) as error:
        DenseRetriever.load(path, **models())
    assert str(path) in str(error.value) or "granularity" in str(error.value)


def test_any_flipped_byte_is_an_error_of_ours_or_harmless(path, tmp_path):
    data, rng = path.read_bytes(), np.random.default_rng(0)
    original = seen(DenseRetriever.load(path, **models()))
    for at in rng.integers(0, len(data), 150):
        damaged = bytearray(data)
        damaged[at] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        with suppress(IndexFileError, IndexMismatch, InputError):
            assert seen(DenseRetriever.load(path, **models())) == original


def test_hostile_values_are_refused():
    document = Document("d", "The bridge is red.")
    node = ["d#1", 1, "chunk", "The bridge", 2, [[0, 10]]]
    assert unpacked_nodes(document, [node])[0].sources == (Span(0, 10),)
    hostile = [
        {},
        [[]],
        [[*node, 1]],
        [[1, *node[1:]]],
        [["d#1", 0, *node[2:]]],
        [["d#1", True, *node[2:]]],
        [[*node[:2], "stolen", *node[3:]]],
        [[*node[:5], [[0, 19]]]],
        [[*node[:5], [[5, 4]]]],
        [[*node[:5], []]],
        [[*node[:5], [[0, 1.0]]]],
    ]
    for value in hostile:
        with pytest.raises((ValueError, TypeError)):
            unpacked_nodes(document, value)


def test_arrays_come_back_and_nothing_else_does():
    for array in (np.eye(3, dtype=np.float32), np.zeros((0, 4)), np.arange(5), np.eye(3)[:, ::2]):
        assert np.array_equal(bytes_array(array_bytes(array)), array)
    pickled = array_bytes(np.arange(3)).replace(b"<i8", b"|O ")
    whole = array_bytes(np.arange(4))
    huge = whole.replace(b"(4,)", b"(4" + b"0" * 12 + b",)")
    for data in (b"", b"x" * 200, pickled, whole[:-1], whole + b"x", huge, whole[:20]):
        with pytest.raises(ValueError):
            bytes_array(data)
    with pytest.raises(ValueError):
        checked_array(np.array([np.nan]), np.float64, (1,))
    with pytest.raises(ValueError):
        checked_array(np.zeros(3), np.float32, (3,))
    with pytest.raises(ValueError):
        checked_array(np.zeros((3, 2)), np.float64, (2, None))


# asynchronous twins


@ALL
async def test_twins_do_what_the_methods_do(make, tmp_path):
    documents, fresh = world(5), make()
    fresh.insert(documents)
    retriever = make(path=tmp_path / "file")
    reports = await asyncio.gather(*(retriever.ainsert([document]) for document in documents))
    assert sorted(built for report in reports for built in report.built) == ["d0", "d1", "d2"]
    await retriever.adelete("d1")
    assert set(retriever.documents) == {"d0", "d2"}
    kind = type(retriever)
    options = {**models(), **kind._options(retriever.settings())}
    if kind is BM25Retriever:
        del options["embedder"]
    made = await kind.afrom_documents(documents, **options)
    config = SearchConfig(token_budget=60)
    for question in QUESTIONS:
        found = await made.asearch(question, config=config, k=7)
        assert replace(found, usage=fresh.search(question).usage) == replace(
            fresh.search(question, config=config, k=7), usage=fresh.search(question).usage
        )
        answer = await made.aanswer(question, config=config)
        assert answer.text == fresh.answer(question, config=config).text
        pieces = [piece async for piece in made.astream(question, config=config)]
        assert "".join(pieces).strip() == answer.text

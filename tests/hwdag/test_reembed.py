"""An index embedded with another model: the same texts and edges, and no trace of an interruption."""

import os
import shutil
import stat
from dataclasses import replace

import numpy as np
import pytest
from index_world import documents, index_of, models
from test_crash import folder as folder
from test_crash import run
from test_living_index import BUDGET, CONFIG, QUESTION
from test_merge import ATTENTION, rows

from hwdag import HWDAGIndex
from hwdag.building.levels import embedded_parts
from hwdag.embedding.hashing import HashingEmbedder
from hwdag.embedding.titles import embed_parts
from hwdag.errors import IndexFileError, InputError, ModelNotFound
from hwdag.store.sqlite import Store
from hwdag.store.verify import verify
from hwdag_app.main import main

OTHER = HashingEmbedder(64)
EVIDENCE = replace(CONFIG, method="evidence")


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "a.hwdag"
    index_of(documents(5), path=path, config=ATTENTION).close()
    return path


def test_it_equals_a_build_with_that_embedder(tmp_path):
    file, fresh = tmp_path / "a.hwdag", tmp_path / "fresh.hwdag"
    index_of(documents(5), path=file, config=EVIDENCE).close()
    with HWDAGIndex.load(file, **models()) as index:
        assert index.reembed(OTHER)
        found = index.search(QUESTION, config=BUDGET)
    with index_of(documents(5), path=fresh, config=EVIDENCE, embedder=OTHER) as other:
        assert found == other.search(QUESTION, config=BUDGET)
    assert rows(file) == rows(fresh)
    with Store.open(file) as one, Store.open(fresh) as two:
        assert one.header == two.header


def test_points_edges_and_calls_stay(path):
    before = rows(path)
    with HWDAGIndex.load(path, **models()) as index:
        entries = dict(index.entries)
        assert index.reembed(OTHER)
        for name, (document, graph, _) in entries.items():
            entry = index.entries[name]
            assert (entry.document, entry.graph.nodes) == (document, graph.nodes)
            assert (entry.graph.raw != graph.raw).nnz == 0
            assert np.array_equal(entry.vectors, embed_parts(OTHER, embedded_parts(graph.nodes)))
        assert len(index.refresh(documents(5)).unchanged) == 5
        edited = documents(1)[0]
        assert index.refresh([replace(edited, text=edited.text + " It ended.")]).built
    assert rows(path)["calls"][:1] or not before["calls"]
    assert verify(path).sound


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_kill_leaves_the_old_index_or_the_new_one(path, folder):
    assert run("reembed_world.py", shutil.copy(path, folder), 15) == "15 kills, 2 states\n"


def test_what_is_deleted_meanwhile_does_not_return(path):
    gone = "doc0", "doc3"
    text = HWDAGIndex.load(path).documents["doc3"].text[:30].encode()

    class Deleting(HashingEmbedder):
        def embed(self, texts):
            if gone[0] in other.documents:
                for name in gone:
                    other.delete(name)
            return super().embed(texts)

    with HWDAGIndex.load(path) as other, HWDAGIndex.load(path, **models()) as index:
        assert index.reembed(Deleting(64))
        assert list(index.documents) == ["doc1", "doc2", "doc4"]
        with pytest.raises(IndexFileError):
            other.delete("doc1")
    assert text not in path.read_bytes()
    assert verify(path).sound


def test_a_file_keeps_its_permissions_and_leaves_no_other_file(path):
    path.chmod(0o640)
    with HWDAGIndex.load(path, **models()) as index:
        index.reembed(OTHER)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert {one.name for one in path.parent.iterdir()} == {"a.hwdag", "a.hwdag.lock"}


def test_calls_after_it_have_numbers_of_their_own(path):
    with Store.open(path) as store:
        doc = store.load("doc0")
        store.calls("doc0").put_all({b"old": b"call"})
        store.put(*doc)
        store.calls("doc0").put_all({b"edit": b"text of an edit"})
        store.abandon("doc0")
    with HWDAGIndex.load(path, **models()) as index:
        index.reembed(OTHER)
    with Store.open(path) as store:
        store.calls("doc0").put_all({b"edit": b"text of an edit"})
        store.abandon("doc0")
        assert store.calls("doc0").get(b"edit") is None


def test_the_command_line_reports_its_changes_and_makes_no_needless_ones(path, capsys):
    command = ["reembed", str(path), "--quiet", "--embedder"]
    assert main([*command, "hashing-64"]) == 0
    assert "5 documents" in capsys.readouterr().out
    image = path.read_bytes()
    assert main([*command, "hashing-64"]) == 0
    assert "nothing to do" in capsys.readouterr().out
    assert path.read_bytes() == image
    with pytest.raises(InputError, match="memory"):
        index_of(documents(1)).reembed(OTHER)


def test_an_unknown_embedder_is_an_error(path, capsys, monkeypatch):
    def nowhere(name):
        raise ModelNotFound(f"no {name}")

    monkeypatch.setattr("hwdag.embedding.default.SentenceTransformerEmbedder", nowhere)
    image = path.read_bytes()
    assert main(["reembed", str(path), "--embedder", "nobody"]) == 2
    assert "nobody" in capsys.readouterr().err
    assert path.read_bytes() == image

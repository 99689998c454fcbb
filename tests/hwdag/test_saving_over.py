"""Saving over an index: the new file is whole, whatever was going on in the old one."""

import shutil
import sqlite3
from contextlib import closing

import index_world
import pytest

from hwdag import BuildConfig, Document, HWDAGIndex
from hwdag.errors import IndexFileError, InputError
from hwdag.store import atomic_files
from hwdag_lab.scripted import ScriptedLM

MILL = Document("mill", "The miller keeps grain. He counts the sacks at night.")
CHUNKS = BuildConfig(chunk_tokens=12, method="hwdag")
FERRY = Document("ferry", "The ferry crosses the river at dawn. Its bell wakes the village.")


def index_of(*documents, **options):
    return index_world.index_of(documents, **{"config": CHUNKS} | options)


def with_a_killed_write(path, change="CREATE TABLE big AS SELECT randomblob(1000000)"):
    """Leave the file as a writer does that is killed when its first pages are in the file."""
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("PRAGMA cache_size = 1")
        writer.execute("BEGIN IMMEDIATE")
        writer.execute(change)
        for name in (path.name, f"{path.name}-journal"):
            shutil.copyfile(path.with_name(name), path.with_name(f"{name}.kept"))
        writer.execute("ROLLBACK")
    for name in (path.name, f"{path.name}-journal"):
        path.with_name(f"{name}.kept").rename(path.with_name(name))


def assert_holds(path, *documents):
    with HWDAGIndex.load(path, reader=ScriptedLM()) as index:
        assert list(index.documents.values()) == list(documents)
        assert index.verify().sound
    assert not path.with_name(f"{path.name}-journal").exists()


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "a.hwdag"
    index_of(MILL).save(path)
    return path


def test_a_file_is_replaced_if_that_is_allowed(path):
    with pytest.raises(InputError, match="exists"):
        index_of(FERRY).save(path)
    index_of(FERRY).save(path, overwrite=True)
    assert_holds(path, FERRY)
    index_of(FERRY).save(path.with_name("b.hwdag"), overwrite=True)
    assert_holds(path.with_name("b.hwdag"), FERRY)
    assert sorted(path.parent.iterdir()) == [path, path.with_name("b.hwdag")]


def test_what_somebody_else_made_meanwhile_stays(tmp_path):
    path = tmp_path / "b.hwdag"
    path.touch()
    with pytest.raises(InputError), atomic_files.new_file(path) as made:
        made.write_text("ours")
        path.write_text("theirs")
    assert path.read_text() == "theirs"
    assert list(tmp_path.iterdir()) == [path]


def test_the_write_that_was_killed_does_not_reach_the_new_file(path):
    with_a_killed_write(path)
    index_of(FERRY).save(path, overwrite=True)
    assert_holds(path, FERRY)


def test_the_journal_of_a_file_that_is_gone_does_not_reach_the_new_one(path):
    with_a_killed_write(path)
    path.unlink()
    index_of(FERRY).save(path)
    assert_holds(path, FERRY)


@pytest.mark.parametrize(
    "spoil", [lambda path: path.write_bytes(b"garbage" * 999), lambda path: path.write_bytes(b"")]
)
def test_a_file_that_nobody_can_read_is_replaced(path, spoil):
    with_a_killed_write(path)
    spoil(path)
    index_of(FERRY).save(path, overwrite=True)
    assert_holds(path, FERRY)


def test_an_unfinished_write_is_waited_for(path, monkeypatch):
    monkeypatch.setattr(atomic_files, "BUSY_SECONDS", 0)
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        with pytest.raises(IndexFileError, match="locked"):
            index_of(FERRY).save(path, overwrite=True)
        writer.execute("ROLLBACK")
    assert_holds(path, MILL)
    assert list(path.parent.iterdir()) == [path]


def test_a_folder_is_not_replaced(tmp_path):
    with pytest.raises(IndexFileError):
        index_of(FERRY).save(tmp_path, overwrite=True)


def test_the_own_file_is_left_alone_and_continued(path):
    index = HWDAGIndex.load(path, reader=ScriptedLM())
    (path.parent / "link").symlink_to(path)
    index.save(path.parent / "link", overwrite=True)
    index.save(path, overwrite=True)
    index.insert([FERRY])
    assert_holds(path, MILL, FERRY)


def test_an_index_whose_file_was_replaced_reads_on_in_the_old_one(path):
    index = HWDAGIndex.load(path, reader=ScriptedLM())
    index_of(FERRY).save(path, overwrite=True)
    assert list(index.documents) == ["mill"]
    with pytest.raises(IndexFileError):
        index.insert([FERRY])
    index.save(path, overwrite=True)
    assert_holds(path, MILL)


def test_an_index_whose_file_was_replaced_spares_the_journal_of_the_new_one(path):
    index = HWDAGIndex.load(path, reader=ScriptedLM())
    index_of(FERRY).save(path, overwrite=True)
    with_a_killed_write(path)
    for look in (lambda: list(index.documents), lambda: index.search("Who?")):
        with pytest.raises(IndexFileError):
            look()
    assert_holds(path, FERRY)  # which needs the journal
    assert list(index.documents) == ["mill"]

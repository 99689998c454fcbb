"""Files of a stranger next to an index: SQLite would follow them, so they are refused before it looks."""

import os
import sqlite3
import struct
from contextlib import closing

import numpy as np
import pytest
from test_saving_over import FERRY, MILL, assert_holds, index_of, with_a_killed_write

from hwdag import Document, HWDAGIndex
from hwdag.errors import IndexFileError
from hwdag.store import segment_files
from hwdag.store.atomic_files import unfinished_file
from hwdag.store.calls import CallCache
from hwdag.store.sqlite import Store
from hwdag.store.transfer import repair
from hwdag.store.verify import compact, verify
from hwdag_app.main import main
from hwdag_lab.scripted import ScriptedLM

LONG = Document("long", "The miller keeps grain. He counts the sacks at night. " * 99)
MAGIC = bytes.fromhex("d9d505f920a163d7")


MARKED = bytes(512) + MAGIC
"""A journal that is not in force and ends as if it named a super-journal; it names no file."""


def journal(path, *, page=4096, more=0):
    """Return a journal of a file, without records; `more` pages than the file has.

    Layout: https://www.sqlite.org/fileformat2.html#the_rollback_journal
    """
    pages = path.stat().st_size // page + more
    return struct.pack(">8sIIIII", MAGIC, 0, 7, pages, 512, page).ljust(512, b"\0")


@pytest.fixture
def path(tmp_path):
    folder = tmp_path / "received"
    folder.mkdir()
    index_of(MILL).save(folder / "a.hwdag")
    return folder / "a.hwdag"


@pytest.fixture
def victim(tmp_path):
    """A file of somebody else, to which links lead."""
    file = tmp_path / "victim"
    file.write_bytes(b"precious")
    return file


def beside(path, ending):
    return path.with_name(path.name + ending)


def state(folder):
    """Names, kinds and contents of all that is in a folder."""
    return {
        file.name: (file.lstat().st_mode, file.read_bytes() if file.is_file() else None)
        for file in folder.iterdir()
        if not file.name.endswith(".lock")
    }


def search(path):
    with HWDAGIndex.load(path, reader=ScriptedLM()) as index:
        index.search("Who keeps grain?")


def insert(path):
    with HWDAGIndex.load(path, reader=ScriptedLM()) as index:
        index.insert([FERRY])


def build(path):
    index_of(FERRY, path=path)


def save_over(path):
    index_of(FERRY).save(path, overwrite=True)


USES = {
    "search": search,
    "insert": insert,
    "build": build,
    "save over": save_over,
    "compact": compact,
    "calls": CallCache.open,
}

FOREIGN = {
    "super-journal": lambda path, victim: write(path, MARKED),
    "link": lambda path, victim: beside(path, "-journal").symlink_to(victim),
    "dangling link": lambda path, victim: beside(path, "-journal").symlink_to(
        beside(victim, ".new")
    ),
    "hard link": lambda path, victim: beside(path, "-journal").hardlink_to(victim),
    "hard link to itself": lambda path, victim: beside(path, "-journal").hardlink_to(path),
    "pipe": lambda path, victim: os.mkfifo(beside(path, "-journal")),
    "folder": lambda path, victim: beside(path, "-journal").mkdir(),
    "other pages": lambda path, victim: write(path, journal(path, page=65536)),
    "no journal": lambda path, victim: write(path, b"dear diary" * 99),
    "log": lambda path, victim: beside(path, "-wal").write_bytes(b""),
    "log that is a link": lambda path, victim: beside(path, "-wal").symlink_to(victim),
    "log that is a dangling link": lambda path, victim: beside(path, "-wal").symlink_to(
        beside(victim, ".new")
    ),
    "shared memory": lambda path, victim: beside(path, "-shm").symlink_to(victim),
}


def write(path, content):
    beside(path, "-journal").write_bytes(content)


@pytest.mark.parametrize("use", USES.values(), ids=USES)
@pytest.mark.parametrize("plant", FOREIGN.values(), ids=FOREIGN)
def test_what_is_foreign_is_refused_and_nothing_is_touched(path, victim, plant, use):
    plant(path, victim)
    before = state(path.parent)
    with pytest.raises(IndexFileError, match="hwdag"):
        use(path)
    assert victim.read_bytes() == b"precious"
    assert sorted(victim.parent.iterdir()) == sorted([path.parent, victim])
    assert state(path.parent) == before


@pytest.mark.parametrize("plant", FOREIGN.values(), ids=FOREIGN)
def test_foreign_files_are_reported_and_whole_documents_can_be_saved(path, victim, plant, capsys):
    plant(path, victim)
    before = state(path.parent)
    assert not verify(path).sound
    assert main(["verify", str(path), "--quiet"]) == 1
    assert "-" in capsys.readouterr().out
    assert repair(path, path.parent.parent / "saved.hwdag").kept == ("mill",)
    assert victim.read_bytes() == b"precious"
    assert state(path.parent) == before
    assert_holds(path.parent.parent / "saved.hwdag", MILL)


def test_a_journal_does_not_make_a_file_longer_than_it_was(path):
    before = path.read_bytes()
    write(path, journal(path, more=1))
    with pytest.raises(IndexFileError, match="longer"):
        search(path)
    assert path.read_bytes() == before


def test_what_comes_while_the_index_is_open_is_refused_too(path, victim):
    with HWDAGIndex.load(path, reader=ScriptedLM()) as index:
        index.search("Who keeps grain?")
        write(path, MARKED)
        for use in (lambda: index.search("Who rows?"), lambda: index.insert([FERRY])):
            with pytest.raises(IndexFileError, match="hwdag"):
                use()
    assert victim.read_bytes() == b"precious"


def test_a_journal_next_to_the_target_of_a_link_is_used(path, victim, tmp_path):
    other = tmp_path / "link.hwdag"
    other.symlink_to(path)
    write(path, MARKED)
    with pytest.raises(IndexFileError, match="hwdag"):
        search(other)
    assert not verify(other).sound
    assert victim.exists()


def test_a_file_with_a_write_ahead_log_is_refused_and_saved(path):
    with closing(sqlite3.connect(path)) as other:
        other.execute("PRAGMA journal_mode = WAL")
    before = state(path.parent)
    with pytest.raises(IndexFileError, match="wal"):
        search(path)
    assert not verify(path).sound
    assert state(path.parent) == before
    assert repair(path, beside(path, ".saved")).kept == ("mill",)


def test_a_journal_of_a_killed_writer_that_has_several_headers_is_rolled_back(path):
    index_of(LONG).save(path, overwrite=True)
    with_a_killed_write(path, "UPDATE nodes SET data = data || ' '")
    content = beside(path, "-journal").read_bytes()
    assert content.count(MAGIC) > 1
    assert_holds(path, LONG)


def test_the_journal_of_a_writer_at_work_is_no_obstacle(path):
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("DELETE FROM calls")
        writer.execute("PRAGMA user_version = 6")
        assert beside(path, "-journal").exists()
        with Store.open(path, readonly=True) as store:
            assert store.ids() == ["mill"]


# Arrays and locks


@pytest.fixture
def folder(victim):
    """Return a folder of the victim, with files that have the names of arrays."""
    found = victim.with_name("holidays")
    (found / "1-9").mkdir(parents=True)
    (found / "1-9" / "vectors.npy").write_bytes(b"precious")
    return found


def test_a_folder_of_arrays_that_is_a_link_is_left_alone(path, folder, monkeypatch):
    monkeypatch.setattr(segment_files, "LEAST_NODES", 1)
    beside(path, ".arrays").symlink_to(folder)
    search(path)
    insert(path)
    with HWDAGIndex.load(path, reader=ScriptedLM()) as index:
        index.delete("mill")
    assert [file.name for file in folder.iterdir()] == ["1-9"]
    assert (folder / "1-9" / "vectors.npy").read_bytes() == b"precious"


def test_arrays_that_are_longer_than_the_index_are_not_read(path, monkeypatch):
    beside(path, ".arrays").mkdir()
    folder = beside(path, ".arrays") / "1-1"
    folder.mkdir()
    with (folder / "documents.npy").open("wb") as sparse:
        size = path.stat().st_size + 1
        header = {"descr": "|u1", "fortran_order": False, "shape": (size - 128,)}
        np.lib.format.write_array_header_1_0(sparse, header)
        sparse.truncate(size)
    mapped = []
    monkeypatch.setattr(np, "memmap", lambda *values, **options: mapped.append(values))
    search(path)
    assert not mapped and not folder.exists()


@pytest.mark.parametrize(
    "plant",
    [
        lambda lock, victim: lock.symlink_to(victim),
        lambda lock, victim: lock.symlink_to(beside(victim, ".new")),
        lambda lock, victim: lock.hardlink_to(victim),
        lambda lock, victim: os.mkfifo(lock),
    ],
    ids=["link", "dangling link", "hard link", "pipe"],
)
def test_a_lock_that_leads_elsewhere_is_refused(path, victim, plant):
    beside(path, ".lock").unlink(missing_ok=True)
    plant(beside(path, ".lock"), victim)
    search(path)
    with pytest.raises(IndexFileError, match="lock"):
        insert(path)
    assert victim.read_bytes() == b"precious"
    assert not beside(victim, ".new").exists()


# Owners of unfinished files


def test_leftovers_of_ended_processes_are_removed_whoever_has_their_number_now(path):
    with unfinished_file(path) as mine:
        mine.write_bytes(b"at work")
        *begin, number, start, end = mine.name.split("-")
        dead = mine.with_name("-".join([*begin, number, "0123abcd", end]))
        others = [
            mine.with_name("-".join([*begin, "9" * 40, start, end])),
            mine.with_name(mine.name + "-notes"),
        ]
        for file in (dead, *others):
            file.write_bytes(b"text")
        folder = mine.with_name("-".join([*begin, number, "0123abcd", "00000000"]))
        folder.mkdir()
        (folder / "notes").touch()
        Store.open(path).close()
        assert mine.exists() and (folder / "notes").exists()
        assert all(file.exists() for file in others)
        assert not dead.exists()


# Power


def test_a_commit_waits_until_the_folder_is_on_disk(path, monkeypatch):
    """The journal that is gone must not come back, nor the arrays of a deleted document."""
    monkeypatch.setattr(segment_files, "LEAST_NODES", 1)
    search(path)
    synced, fsync = [], os.fsync

    def note(descriptor):
        synced.append(os.fstat(descriptor).st_ino)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    with Store.open(path) as store:
        with store.database.reading() as connection:
            assert connection.execute("PRAGMA synchronous").fetchone() == (3,)  # EXTRA
        assert list(beside(path, ".arrays").iterdir())
        store.delete("mill")
    assert not list(beside(path, ".arrays").iterdir())
    assert beside(path, ".arrays").stat().st_ino in synced

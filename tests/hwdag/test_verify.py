"""Verify finds damage, repair saves whole documents, compact removes deleted data."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from processes import started
from store_world import (
    HEADER,
    assert_holds,
    assert_same,
    change_file,
    entry,
    files_no_longer_than,
    fill,
    put_keeping,
    sign,
)

from hwdag.errors import (
    IndexCorrupt,
    IndexFileError,
    IndexVersionError,
    InputError,
    NotAnIndex,
)
from hwdag.store.sqlite import Store
from hwdag.store.transfer import Repaired, repair
from hwdag.store.verify import Problem, Verdict, compact, verify

ENTRIES = {name: entry(name, seed) for seed, name in enumerate(["a", "b", "ü '", "d", "e"])}
IDS = tuple(ENTRIES)
PAGE = 4096


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """An index with five documents and two calls of each; there once was a sixth."""
    path = tmp_path_factory.mktemp("sound") / "x.hwdag"
    fill(path, *ENTRIES.values(), entry("gone", 9))
    with Store.open(path) as store:
        store.delete("gone")
    return path.read_bytes()


@pytest.fixture
def path(sound, tmp_path):
    path = tmp_path / "x.hwdag"
    path.write_bytes(sound)
    return path


def write(path, content):
    """Return the file alone, without the files that were left next to it."""
    for other in path.parent.iterdir():
        if other.is_file():
            other.unlink()
    path.write_bytes(content)


def assert_whole(path, ids=IDS):
    """Return these documents and all their calls, for every way of reading them."""
    with Store.open(path) as store:
        assert store.header == HEADER
        assert_holds(store, *(ENTRIES[name] for name in ids))
        assert store.ids() == list(ids)
        for name in ids:
            calls = store.calls(name)
            assert [calls.get(bytes([i]) * 32) for i in range(2)] == [
                f"call {i} of {name}".encode() for i in range(2)
            ]


# Verify


def test_a_sound_file(path):
    before = path.read_bytes()
    assert verify(path) == Verdict(IDS, ())
    assert verify(path).sound
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_an_empty_index_is_sound(tmp_path):
    Store.create(tmp_path / "x.hwdag", HEADER).close()
    assert verify(tmp_path / "x.hwdag") == Verdict((), ())


def positions(content, rng, count):
    """Anywhere in the file, but mostly where something is written."""
    written = np.flatnonzero(np.frombuffer(content, np.uint8))
    pages = np.unique(written // PAGE)
    of_every_page = [rng.choice(written[written // PAGE == page]) for page in pages]
    anywhere = rng.integers(0, len(content), count // 4)
    return [int(p) for p in (*of_every_page, *rng.choice(written, count), *anywhere)]


def test_every_flipped_byte_is_found_or_harmless(sound, path):
    rng = np.random.default_rng(0)
    found = 0
    for position in positions(sound, rng, 40):
        damaged = bytearray(sound)
        damaged[position] ^= int(rng.integers(1, 256))
        write(path, damaged)
        try:
            if not verify(path).sound:
                found += 1
                continue
        except (NotAnIndex, IndexVersionError):
            assert position < 100  # the mark of an index, and its version
            continue
        assert path.read_bytes() == damaged
        assert_whole(path)
    assert found > 50


@pytest.mark.parametrize(
    ("statement", "what", "whose"),
    [
        ("UPDATE documents SET text = 'x' WHERE id = 'b'", "checksum does not match", "b"),
        ("UPDATE nodes SET data = replace(data, 'chunk', 'other')", "checksum", IDS),
        ("DELETE FROM nodes WHERE document = 2", "checksum", "b"),
        ("UPDATE arrays SET words = names WHERE document = 2", "checksum", "b"),
        ("UPDATE arrays SET vectors = zeroblob(length(vectors)) WHERE document = 2", "check", "b"),
        ("DELETE FROM arrays WHERE document = 2", "checksum", "b"),
        ("UPDATE documents SET checksum = 'x' WHERE id = 'b'", "checksum", "b"),
        ("UPDATE documents SET slot = 1 WHERE id = 'b'", "checksum", ()),
        ("DELETE FROM documents WHERE id = 'b'", "belongs to a document that does not exist", ()),
        ("DELETE FROM header", "checksum of its header", ()),
        ("UPDATE header SET value = '9' WHERE name = 'dimension'", "checksum of its header", ()),
        ("UPDATE calls SET value = 'x' WHERE owner = 'b'", "a cached call is damaged", ()),
        ("UPDATE calls SET key_slot = 1 WHERE owner = 'b'", "a cached call is damaged", ()),
        ("CREATE TRIGGER t AFTER DELETE ON calls BEGIN SELECT 1; END", "trigger t", ()),
        ("DROP INDEX calls_by_slot", "index calls_by_slot", ()),
        ("PRAGMA journal_mode = WAL", "journal mode is 'wal'", ()),
    ],
)
def test_what_is_found_and_whose_it_is(path, statement, what, whose):
    change_file(path, statement)
    verdict = verify(path)
    assert any(what in problem.what for problem in verdict.problems)
    assert verdict.damaged == (whose if isinstance(whose, tuple) else (whose,))


def test_all_problems_are_reported(path):
    change_file(path, "UPDATE documents SET text = 'x' WHERE id IN ('a', 'd')")
    change_file(path, "UPDATE calls SET value = 'x' WHERE owner = 'e'")
    verdict = verify(path)
    assert verdict.damaged == ("a", "d")
    assert verdict.whole == ("b", "ü '", "e")
    assert Problem("its checksum does not match", "d") in verdict.problems
    assert Problem("a cached call is damaged; a build will repeat it", "e") in verdict.problems


def test_arrays_that_are_not_those_of_the_text(path):
    change_file(path, "UPDATE arrays SET lengths = zeroblob(length(lengths)) WHERE document = 2")
    sign(path)
    verdict = verify(path)
    assert verdict.damaged == ("b",)
    assert "insert it again" in verdict.problems[0].what


@pytest.mark.parametrize("work", [verify, lambda path: repair(path, path.with_name("new"))])
def test_files_that_are_no_index(tmp_path, path, work):
    other = tmp_path / "other"
    with pytest.raises(IndexFileError):
        work(other)
    for content in (b"%PDF-1.7 " * 500, b"", path.read_bytes()[:50]):
        other.write_bytes(content)
        with pytest.raises(IndexFileError):
            work(other)
        assert other.read_bytes() == content
    change_file(path, "PRAGMA user_version = 99")
    with pytest.raises(IndexVersionError, match=r"\b99\b"):
        work(path)
    change_file(path, "PRAGMA application_id = 7")
    with pytest.raises(NotAnIndex):
        work(path)


def test_verifying_while_another_process_writes(path):
    code = """
import sys
from store_world import *
with Store.open(sys.argv[1]) as store:
    print("open", flush=True)
    for seed in range(12):
        store.put(*entry("b", seed))
        store.put(*entry(f"new {seed}", seed))
        store.delete(f"new {seed - 3}")
"""
    with started(code, path) as writer:
        assert writer.stdout.readline() == "open\n"
        while writer.poll() is None:
            assert verify(path).problems == ()
    assert writer.returncode == 0
    assert len(verify(path).whole) == 8


# Repair


@pytest.fixture
def new(tmp_path):
    """Where a repair writes."""
    (tmp_path / "new").mkdir()
    return tmp_path / "new" / "new.hwdag"


def repaired(path, new):
    """Return the documents kept, checked to be as they were, or None. The damaged file stays."""
    new.unlink(missing_ok=True)
    before = path.read_bytes()
    try:
        found = repair(path, new)
    except (IndexCorrupt, NotAnIndex, IndexVersionError):
        assert list(new.parent.iterdir()) == []
        return None
    finally:
        assert path.read_bytes() == before
    assert list(new.parent.iterdir()) == [new]
    assert verify(new) == Verdict(found.kept, ())
    assert not set(found.kept) & set(found.lost)
    with Store.open(new) as store:
        assert_holds(store, *(ENTRIES[name] for name in found.kept))
    return found


def test_a_sound_file_is_copied(path, new):
    assert repaired(path, new) == Repaired(new, IDS)
    assert_whole(new)


def test_all_but_the_damaged_document_is_kept(path, new):
    change_file(path, "UPDATE documents SET text = 'x' WHERE id = 'b'")
    found = repaired(path, new)
    assert (found.kept, found.lost) == (("a", "ü '", "d", "e"), ("b",))
    assert_whole(new, found.kept)
    with Store.open(new) as store:  # inserting it again makes the index complete
        calls = [store.calls("b").get(bytes([i]) * 32) for i in range(2)]
        assert calls == [b"call 0 of b", b"call 1 of b"]
        store.put(*ENTRIES["b"])
        assert_same(store.load("b"), ENTRIES["b"])


def test_calls_of_an_unfinished_version_are_kept_after_those_of_the_stored_one(path, new):
    with Store.open(path) as store:
        put_keeping(store, entry("b", 7), bytes(32))
        store.calls("b").put_all({b"later": b"of a version that was begun"})
    repair(path, new.with_name("x.hwdag"))
    with Store.open(new.with_name("x.hwdag")) as store:
        assert store.calls("b").get(b"later") is not None
        store.abandon("b")
        assert store.calls("b").get(b"later") is None
        assert store.calls("b").get(bytes(32)) == b"call 0 of b"


def test_nothing_is_overwritten(path, new):
    new.write_text("something")
    with pytest.raises(InputError):
        repair(path, new)
    assert new.read_text() == "something"


def test_lost_pages_and_truncated_files(sound, path, new):
    rng = np.random.default_rng(3)
    some = 0
    for _ in range(12):
        damaged = bytearray(sound)
        for page in rng.integers(1, len(sound) // PAGE, 2):
            damaged[page * PAGE : (page + 1) * PAGE] = bytes(PAGE)
        write(path, damaged)
        some += repaired(path, new) is not None
    assert some > 5
    for size in range(2 * PAGE, len(sound), 11_000):
        write(path, sound[:size])
        repaired(path, new)
    for lost in (1, PAGE, 3 * PAGE + 7):  # SQLite opens no file that lacks its end
        write(path, sound[:-lost])
        assert repaired(path, new) is not None
        assert not [one for one in path.parent.iterdir() if "unfinished" in one.name]


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE header SET value = '9' WHERE name = 'dimension'",
        "DELETE FROM header WHERE name = 'embedder'",
        "DROP TABLE header",
    ],
)
def test_of_a_damaged_header_nothing_can_be_saved(path, new, damage):
    change_file(path, damage)
    with pytest.raises(IndexCorrupt, match="saved"):
        repair(path, new)
    assert repaired(path, new) is None


def test_a_full_disk_leaves_no_part_of_a_new_file(path, new):
    with files_no_longer_than(60_000), pytest.raises(IndexFileError):
        repair(path, new)
    assert list(new.parent.iterdir()) == []


# Compact


def test_compacting_shrinks_and_changes_nothing_else(path):
    size = path.stat().st_size
    compacted = compact(path)
    assert (compacted.before, compacted.after) == (size, path.stat().st_size)
    assert compacted.after < compacted.before
    assert verify(path) == Verdict(IDS, ())
    assert_whole(path)
    with Store.open(path) as store:
        assert compact(store).after == compacted.after
        assert store.put(*entry("f", 7)) == 7
        assert_holds(store, *ENTRIES.values(), entry("f", 7))


def test_calls_are_dropped_on_demand(path):
    kept = compact(path)
    dropped = compact(path, drop_calls=True)
    assert dropped.after < kept.after
    with Store.open(path) as store:
        assert store.calls("a").get(bytes(32)) is None
        assert_holds(store, *ENTRIES.values())


def test_an_index_in_memory_is_compacted_too():
    with Store.create(None, HEADER) as store:
        for name, one in ENTRIES.items():
            store.put(*one)
            if name != "b":
                store.delete(name)
        compacted = compact(store)
        assert compacted.after < compacted.before
        assert_holds(store, ENTRIES["b"])


def test_readers_continue_after_a_compaction(path):
    with Store.open(path, readonly=True) as reader:
        before = reader.numbers()
        with Store.open(path) as store:
            store.put(*entry("f", 7))
        compact(path)
        assert_holds(reader, *ENTRIES.values(), entry("f", 7))
        assert reader.numbers() == [*before, 7]


def test_threads_read_while_the_file_is_compacted(path):
    failures: list[BaseException] = []
    done = threading.Event()

    def read() -> None:
        try:
            with Store.open(path, readonly=True) as store:
                while not done.is_set():
                    assert_holds(store, *ENTRIES.values())
        except BaseException as error:
            failures.append(error)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for _ in range(5):
        compact(path)
    done.set()
    for reader in readers:
        reader.join()
    assert failures == []


def test_a_full_disk_leaves_the_file_as_it_was(path, tmp_path):
    with files_no_longer_than(50_000), pytest.raises(IndexFileError):
        compact(path)
    assert verify(path) == Verdict(IDS, ())
    assert_whole(path)
    assert list(tmp_path.iterdir()) == [path]

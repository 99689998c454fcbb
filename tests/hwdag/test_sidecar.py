"""Arrays beside an index: what is read from there is what the index says, or it is not used."""

import os
import shutil
import signal
from contextlib import ExitStack, suppress

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from store_world import HEADER, entry
from test_corpus import assert_same
from test_store import child
from worlds import WORDS, random_vectors

from hwdag.errors import IndexCorrupt
from hwdag.search import segments, sidecar
from hwdag.search.corpus import Corpus
from hwdag.search.sidecar import Sidecar
from hwdag.search.snapshots import Snapshots
from hwdag.store.sqlite import Store
from hwdag.store.unfinished import replace_file
from hwdag.store.verify import compact

pytestmark = pytest.mark.skipif(os.name == "nt", reason="no arrays are kept on Windows")

QUERY = random_vectors(np.random.default_rng(0), 1)[0]


@pytest.fixture(autouse=True)
def small(monkeypatch):
    make_small(monkeypatch)


def make_small(monkeypatch):
    monkeypatch.setattr(segments, "SEGMENT_NODES", 40)
    monkeypatch.setattr(sidecar, "LEAST_NODES", 10)


@pytest.fixture
def path(tmp_path, original):
    """An index of ten documents, which was searched before."""
    shutil.copytree(original, tmp_path, dirs_exist_ok=True)
    return tmp_path / "x.hwdag"


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """A folder with one."""
    folder = tmp_path_factory.mktemp("original")
    with pytest.MonkeyPatch.context() as patch:
        make_small(patch)
        filled(folder / "x.hwdag")
    return folder


def filled(path, seed=0):
    with Store.create(path, HEADER) as store:
        for i in range(10):
            store.put(*entry(f"d{i}", seed + i))
        Snapshots(store).current()
    return path


def kept(path):
    return sorted(path.with_name(f"{path.name}.arrays").glob("*"))


def read_fully(store):
    return Corpus(store.nodes).extended(store.blocks(store.numbers()))


def check(path):
    """The corpus of a process that opens the file now; it is that which the file alone makes."""
    with Store.open(path) as store:
        corpus = Snapshots(store).current()
        assert_same(corpus, read_fully(store), set(WORDS[:8]), QUERY)
    return corpus


def test_a_process_maps_what_another_one_has_written(path):
    assert len(kept(path)) >= 2
    written = [file.stat().st_mtime_ns for file in kept(path)]
    mapped = [part for part in check(path).segments if part.mapped is not None]
    assert len(mapped) == len(kept(path))
    assert [file.stat().st_mtime_ns for file in kept(path)] == written


@pytest.mark.slow
@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(st.integers(0, 11), min_size=1, max_size=25))
def test_nothing_depends_on_what_is_kept(tmp_path_factory, choices):
    path = tmp_path_factory.mktemp("kept") / "x.hwdag"
    with Store.create(path, HEADER) as store:
        running = Snapshots(store)
        for i, choice in enumerate(choices):
            name = f"d{choice % 6}"
            if choice < 9:
                store.put(*entry(name, i))
            else:
                store.delete(name)
            if choice % 2:
                fresh = read_fully(store)
                assert_same(running.current(), fresh, set(WORDS[:8]), QUERY)
                assert_same(Snapshots(store).current(), fresh, set(WORDS[:8]), QUERY)
        assert {n for part in Sidecar(store).segments() for n in part.numbers} <= set(
            store.numbers()
        )


def test_the_folder_may_be_deleted_and_is_made_anew(path):
    before = [file.read_bytes() for file in kept(path)]
    shutil.rmtree(kept(path)[0].parent)
    check(path)
    assert [file.read_bytes() for file in kept(path)] == before


@pytest.mark.parametrize("size", [0, 7, 103, 104, 500, -1])
def test_a_truncated_file_is_not_used(path, size):
    whole = kept(path)[0].read_bytes()
    kept(path)[0].write_bytes(whole[:size])
    check(path)
    assert kept(path)[0].read_bytes() == whole
    kept(path)[0].write_bytes(whole + b"more")
    check(path)
    assert kept(path)[0].read_bytes() == whole


def test_files_of_another_index_are_not_used(path, tmp_path):
    """Its documents have the same numbers, names and sizes."""
    other = filled(tmp_path / "y.hwdag", seed=100)
    for mine, theirs in zip(kept(path), kept(other), strict=True):
        shutil.copy(theirs, mine)
    check(path)
    assert [f.read_bytes() for f in kept(path)] != [f.read_bytes() for f in kept(other)]


def test_a_copy_that_went_its_own_way_does_not_use_what_the_original_has(path):
    copy = path.with_name("copy.hwdag")
    shutil.copy(path, copy)
    shutil.copytree(kept(path)[0].parent, copy.with_name("copy.hwdag.arrays"))
    for seed, file in enumerate((path, copy), start=50):
        with Store.open(file) as store:
            store.put(*entry("d9", seed))
    check(path)
    shutil.rmtree(copy.with_name("copy.hwdag.arrays"))
    shutil.copytree(kept(path)[0].parent, copy.with_name("copy.hwdag.arrays"))
    check(copy)


@pytest.mark.slow
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.binary(min_size=8)), min_size=1))
def test_no_damage_does_more_than_end_a_search(path, original, damage):
    shutil.copytree(original, path.parent, dirs_exist_ok=True)
    file = kept(path)[0]
    content = bytearray(file.read_bytes())
    for where, new in damage:
        at = int(where * (len(content) - len(new)))
        content[at : at + len(new)] = new
    file.write_bytes(content)
    with Store.open(path) as store:
        corpus = Snapshots(store).current()
        with suppress(IndexCorrupt):
            corpus.similarity(QUERY)
        corpus.lexicon().echoes(set(WORDS))
        corpus.best_in_paragraph(np.ones(len(corpus)))
        for index in range(0, len(corpus), 3):
            assert (corpus.children(index)[0] < len(corpus)).all()
            corpus.inside(index)
            corpus.fetch([index])


def test_what_is_deleted_leaves_the_arrays_before_delete_returns(path):
    with Store.open(path) as store:
        old = {name: store.load(name).vectors[0].tobytes() for name in ("d1", "d2")}
        assert all(any(v in file.read_bytes() for file in kept(path)) for v in old.values())
        store.delete("d1")
        store.put(*entry("d2", 77))
        searching = Snapshots(store)
        assert_same(searching.current(), read_fully(store), set(WORDS[:8]), QUERY)
        compact(store)
        assert_same(searching.current(), read_fully(store), set(WORDS[:8]), QUERY)
    check(path)
    everything = b"".join(file.read_bytes() for file in path.parent.rglob("*") if file.is_file())
    assert not any(vector in everything for vector in old.values())


def test_what_was_deleted_meanwhile_is_not_written(path):
    shutil.rmtree(kept(path)[0].parent)
    with Store.open(path) as store:
        segment = read_fully(store).segments[0]
        store.delete("d0")
        assert Sidecar(store).keep(segment) is segment
    assert not kept(path)


SMALL = """
import os, signal
from hwdag.search import segments, sidecar
from hwdag.search.snapshots import Snapshots
segments.SEGMENT_NODES, sidecar.LEAST_NODES = 40, 10
"""

KILLED = f"""{SMALL}
os.replace = lambda *names: os.kill(os.getpid(), signal.SIGKILL)
with Store.open(path) as store:
    Snapshots(store).current()
"""


def test_what_a_killed_search_leaves_goes_with_the_next_opening(path):
    shutil.rmtree(kept(path)[0].parent)
    with child(path, KILLED) as search:
        assert search.wait() == -signal.SIGKILL
    assert list(path.parent.glob("x.hwdag.unfinished-*"))
    with Store.open(path) as store:
        vector = store.load("d0").vectors[0].tobytes()
        store.delete("d0")
    assert not list(path.parent.glob("x.hwdag.unfinished-*"))
    assert vector not in b"".join(f.read_bytes() for f in path.parent.rglob("*") if f.is_file())


def test_a_file_that_takes_the_place_of_an_index_has_no_arrays_of_it(path):
    other = path.with_name("y.hwdag")
    with Store.create(other, HEADER) as store:
        store.put(*entry("other", 5))
    replace_file(other, path)
    assert not kept(path)


def test_a_file_that_is_read_only_gets_nothing_beside_it(path):
    shutil.rmtree(kept(path)[0].parent)
    with Store.open(path, readonly=True) as store:
        assert_same(Snapshots(store).current(), read_fully(store), set(WORDS[:8]), QUERY)
    assert not kept(path)


def test_those_who_may_use_the_index_may_use_its_arrays(path):
    shutil.rmtree(kept(path)[0].parent)
    path.chmod(0o640)
    path.parent.chmod(0o770)
    check(path)
    assert {file.stat().st_mode & 0o777 for file in kept(path)} == {0o640}
    assert kept(path)[0].parent.stat().st_mode & 0o777 == 0o770


def test_a_file_in_the_place_of_the_folder_means_that_none_is_wanted(path):
    folder = kept(path)[0].parent
    shutil.rmtree(folder)
    folder.touch()
    assert all(part.mapped is None for part in check(path).segments)
    with Store.open(path) as store:
        store.delete("d1")
    check(path)
    assert folder.read_bytes() == b""


CHANGER = f"""{SMALL}
from test_store_sharing import change_everything
with Store.open(path) as store:
    for _ in range(2):
        change_everything(store, rounds=8)
        Snapshots(store).current()
"""


@pytest.mark.slow
def test_processes_that_change_and_search_agree_in_the_end(tmp_path):
    path = tmp_path / "x.hwdag"
    Store.create(path, HEADER).close()
    with ExitStack() as stack:
        changers = [stack.enter_context(child(path, CHANGER)) for _ in range(2)]
        rounds = 0
        while any(changer.poll() is None for changer in changers) or not rounds:
            with Store.open(path) as store:
                corpus = Snapshots(store).current()
                assert np.isfinite(corpus.similarity(QUERY)).all()
            rounds += 1
        assert [changer.returncode for changer in changers] == [0, 0]
    check(path)
    assert kept(path)

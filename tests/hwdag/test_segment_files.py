"""Arrays of an index in files of their own: they agree with the index, or they are not used."""

import os
import shutil
import signal
from contextlib import ExitStack, suppress
from itertools import cycle

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from store_world import HEADER, entry, folder_in_memory
from test_corpus import assert_same
from test_store import child
from worlds import WORDS, random_vectors

from hwdag.corpus import segments
from hwdag.corpus.corpus import Corpus
from hwdag.corpus.view import View
from hwdag.errors import IndexCorrupt
from hwdag.search.snapshots import Snapshots
from hwdag.store import segment_files
from hwdag.store.atomic_files import replace_file
from hwdag.store.segment_files import SegmentFiles
from hwdag.store.sqlite import Store
from hwdag.store.verify import compact, verify

pytestmark = pytest.mark.skipif(os.name == "nt", reason="no arrays are kept on Windows")

QUERY = random_vectors(np.random.default_rng(0), 1)[0]


@pytest.fixture(autouse=True)
def small(monkeypatch):
    make_small(monkeypatch)


def make_small(monkeypatch):
    monkeypatch.setattr(segments, "SEGMENT_NODES", 40)
    monkeypatch.setattr(segment_files, "LEAST_NODES", 10)


@pytest.fixture
def path(original):
    """An index of ten documents, which was searched before."""
    with folder_in_memory() as folder:
        shutil.copytree(original, folder, dirs_exist_ok=True)
        yield folder / "x.hwdag"


@pytest.fixture(scope="module")
def original():
    """A folder with one."""
    with folder_in_memory() as folder, pytest.MonkeyPatch.context() as patch:
        make_small(patch)
        filled(folder / "x.hwdag")
        yield folder


def filled(path, seed=0):
    with Store.create(path, HEADER) as store:
        for i in range(10):
            store.put(*entry(f"d{i}", seed + i))
        Snapshots(store).current()
    return path


def kept(path):
    """Return a folder for every segment."""
    return sorted(path.with_name(f"{path.name}.arrays").glob("*"))


def contents(path):
    """Return the content of every file of them."""
    return {
        str(file.relative_to(path.parent)): file.read_bytes()
        for folder in kept(path)
        for file in sorted(folder.glob("*.npy"))
    }


def read_fully(store):
    return Corpus(store.nodes).extended(store.blocks(store.numbers()))


def check(path):
    """Return the corpus of a process that opens the file now; it is that which the file alone makes."""
    with Store.open(path) as store:
        corpus = Snapshots(store).current()
        assert_same(corpus, read_fully(store), set(WORDS[:8]), QUERY)
    return corpus


def test_a_process_maps_what_another_one_has_written(path):
    assert len(kept(path)) >= 2
    written = [folder.stat().st_ino for folder in kept(path)]
    mapped = [part for part in check(path).segments if part.mapped is not None]
    assert len(mapped) == len(kept(path))
    assert [folder.stat().st_ino for folder in kept(path)] == written


@pytest.mark.skipif(os.name == "nt", reason="modes of files are POSIX")
@pytest.mark.parametrize("mode", [0o664, 0o646])
def test_what_others_may_truncate_is_copied_and_not_mapped(path, mode):
    """The kernel kills a process that reads a mapped page which its file has no more."""
    for file in kept(path)[0].glob("*.npy"):
        file.chmod(mode)
    written = [folder.stat().st_ino for folder in kept(path)]
    with Store.open(path) as store:
        corpus = Snapshots(store).current()
        assert sum(part.mapped is not None for part in corpus.segments) == len(kept(path)) - 1
        for file in kept(path)[0].glob("*.npy"):
            os.truncate(file, 0)
        assert_same(corpus, read_fully(store), set(WORDS[:8]), QUERY)
    assert [folder.stat().st_ino for folder in kept(path)] == written


@pytest.mark.slow
@settings(
    max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(st.integers(0, 11), min_size=1, max_size=25))
def test_nothing_depends_on_what_is_kept(choices):
    with folder_in_memory() as folder, Store.create(folder / "x.hwdag", HEADER) as store:
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
        assert {n for part in SegmentFiles(store).segments() for n in part.numbers} <= set(
            store.numbers()
        )


def test_the_folder_may_be_deleted_and_is_made_anew(path):
    before = contents(path)
    shutil.rmtree(kept(path)[0].parent)
    check(path)
    assert contents(path) == before


def foreign(file, kind):
    """Put something else in the place of a file of arrays."""
    whole = file.read_bytes()
    file.unlink()
    match kind:
        case "pipe":
            os.mkfifo(file)
        case "link":
            elsewhere = file.parent.parent.with_name("elsewhere")
            elsewhere.write_bytes(whole)
            file.symlink_to(elsewhere)
        case "sparse":
            with file.open("wb") as opened:
                opened.write(whole)
                opened.truncate(1 << 34)
        case "huge":  # a header that asks for more than there is
            with file.open("wb") as opened:
                header = {"descr": "<i8", "fortran_order": False, "shape": (1 << 40,)}
                np.lib.format.write_array_header_1_0(opened, header)
        case "objects":
            np.save(file, np.array([[None]], object), allow_pickle=True)
        case int():
            file.write_bytes(whole[:kind])
        case bytes():
            file.write_bytes(whole + kind)


KINDS = ("pipe", "link", "sparse", "huge", "objects", 0, 7, 100, 130, b"more")
ARRAYS = ("numbers", "vectors", "words.rows", "documents")


def pairs(items):
    """Return neighbours two by two, so that two segments are damaged at a time."""
    return [items[i : i + 2] for i in range(0, len(items), 2)]


def test_a_file_that_is_not_as_it_was_written_is_not_used(path):
    before = contents(path)
    for damages in pairs(list(zip(KINDS, cycle(ARRAYS), strict=False))):
        for folder, (kind, name) in zip(kept(path), damages, strict=False):
            foreign(folder / f"{name}.npy", kind)
        check(path)
        assert contents(path) == before, damages


def test_every_flipped_bit_is_found_by_verify_and_not_used(path):
    before = contents(path)
    rng = np.random.default_rng(0)
    for names in pairs(sorted(file.name for file in kept(path)[0].glob("*.npy"))):
        damaged = kept(path)[: len(names)]
        for folder, name in zip(damaged, names, strict=True):
            content = bytearray((folder / name).read_bytes())
            content[int(rng.integers(0, len(content)))] ^= 1 << int(rng.integers(0, 8))
            (folder / name).write_bytes(content)
        for folder, problem in zip(damaged, verify(path).problems, strict=True):
            assert str(folder) in problem.what
        check(path)
        assert contents(path) == before
    assert verify(path).sound


@pytest.mark.parametrize("kind", ["file", "link", "pipe", "folder"])
def test_a_foreign_file_in_the_place_of_a_segment_is_left_alone(path, kind):
    """It is not used, is in nobody's way, and nothing is removed that a link leads to."""
    [folder, *_] = kept(path)
    victim = path.parent / "victim"
    shutil.move(folder, victim)
    match kind:
        case "file":
            folder.touch()
        case "link":
            folder.symlink_to(victim)
        case "pipe":
            os.mkfifo(folder)
        case "folder":
            (folder / "inner.npy").mkdir(parents=True)
            (folder / "mine.txt").touch()
    check(path)
    with Store.open(path) as store:
        store.delete("d0")
    check(path)
    assert os.path.lexists(folder)
    assert len(list(victim.glob("*.npy"))) > 20
    assert kind != "folder" or {f.name for f in folder.iterdir()} == {"inner.npy", "mine.txt"}


def test_files_of_another_index_are_not_used(path):
    """Its documents have the same numbers, names and sizes."""
    other = filled(path.with_name("y.hwdag"), seed=100)
    for mine, theirs in zip(kept(path), kept(other), strict=True):
        shutil.rmtree(mine)
        shutil.copytree(theirs, mine)
    check(path)
    assert [*contents(path).values()] != [*contents(other).values()]


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
    max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.floats(0, 1, exclude_max=True),
    st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.binary(min_size=8)), min_size=1),
)
def test_no_damage_does_more_than_end_a_search(path, original, which, damage):
    shutil.copytree(original, path.parent, dirs_exist_ok=True)
    files = sorted(kept(path)[0].glob("*.npy"))
    file = files[int(which * len(files))]
    content = bytearray(file.read_bytes())
    for where, new in damage:
        at = int(where * max(0, len(content) - len(new)))
        content[at : at + len(new)] = new
    file.write_bytes(content)
    with Store.open(path) as store:
        corpus = Snapshots(store).current()
        with suppress(IndexCorrupt):
            corpus.similarity(QUERY)
        View.of(corpus).lexicon.echoes(set(WORDS))
        corpus.best_in_paragraph(np.ones(len(corpus)))
        for index in range(0, len(corpus), 3):
            assert (corpus.children(index)[0] < len(corpus)).all()
            corpus.inside(index)
            corpus.fetch([index])


def test_what_is_deleted_leaves_the_arrays_before_delete_returns(path):
    with Store.open(path) as store:
        old = {name: store.load(name).vectors[0].tobytes() for name in ("d1", "d2")}
        assert all(any(v in content for content in contents(path).values()) for v in old.values())
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
        assert SegmentFiles(store).keep(segment) is segment
    assert not kept(path)


SMALL = """
import os, signal
from hwdag.corpus import segments
from hwdag.store import segment_files
from hwdag.search.snapshots import Snapshots
segments.SEGMENT_NODES, segment_files.LEAST_NODES = 40, 10
"""

KILLED = f"""{SMALL}
os.rename = os.replace = lambda *names: os.kill(os.getpid(), signal.SIGKILL)
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


def test_no_file_is_written_next_to_a_read_only_file(path):
    shutil.rmtree(kept(path)[0].parent)
    with Store.open(path, readonly=True) as store:
        assert_same(Snapshots(store).current(), read_fully(store), set(WORDS[:8]), QUERY)
    assert not kept(path)


def test_those_who_may_use_the_index_may_use_its_arrays(path):
    shutil.rmtree(kept(path)[0].parent)
    path.chmod(0o640)
    path.parent.chmod(0o770)
    check(path)
    folders = [*kept(path), kept(path)[0].parent]
    assert {file.stat().st_mode & 0o777 for file in path.parent.glob("*.arrays/*/*")} == {0o640}
    assert {folder.stat().st_mode & 0o777 for folder in folders} == {0o770}


def test_a_file_in_the_place_of_the_folder_disables_it(path):
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

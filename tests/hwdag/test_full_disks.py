"""A disk that is full while a file is copied: the error names the new file, and the old one is as it was."""

import signal
import sys

import pytest
from store_world import entry, files_no_longer_than, fill, load_all

from hwdag.errors import IndexCorrupt, IndexFileError
from hwdag.store.sqlite import Store
from hwdag.store.transfer import merge, reembed, repair
from hwdag.store.verify import verify

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no resource limits")


def save(source, target):
    with Store.open(source) as store:
        store.copy(target)


def save_over(source, target):
    fill(target, entry("old"))
    with Store.open(source) as store:
        store.copy(target, overwrite=True)


WAYS = {
    "save": save,
    "save over": save_over,
    "merge": lambda source, target: merge([source], target),
    "repair": repair,
}


@pytest.fixture(autouse=True)
def _errors_instead_of_a_signal():
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGXFSZ, before)


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "source.hwdag"
    fill(path, *(entry(f"doc{i}", i, chunks=40) for i in range(12)))
    with Store.open(path) as store:
        store.calls("doc3").put_all({bytes([i]): bytes([i]) * 20_000 for i in range(9)})
    return path


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9])
@pytest.mark.parametrize("way", WAYS)
def test_a_full_disk_is_a_fault_of_the_new_file(tmp_path, source, way, share):
    target, before = tmp_path / "target.hwdag", source.read_bytes()
    with (
        files_no_longer_than(int(share * source.stat().st_size)),
        pytest.raises(IndexFileError, match=r"disk is full|disk space|disk I/O") as failed,
    ):
        WAYS[way](source, target)
    assert not isinstance(failed.value, IndexCorrupt)
    assert target.name in str(failed.value)
    assert source.name not in str(failed.value)
    assert source.read_bytes() == before
    assert verify(source).sound
    left = [source] if way != "save over" else [source, target]
    assert sorted(tmp_path.glob("*.hwdag*")) == left
    if way == "save over":
        with Store.open(target) as store:
            assert [one.document.id for one in load_all(store)] == ["old"]


def test_a_full_disk_leaves_an_index_that_is_embedded_anew_as_it_was(tmp_path, source):
    import numpy as np

    before = source.read_bytes()
    with (
        files_no_longer_than(source.stat().st_size // 2),
        pytest.raises(IndexFileError, match=r"unfinished.*(disk is full|disk I/O)"),
    ):
        reembed(source, "other", 8, lambda nodes: np.ones((len(nodes), 8), np.float32))
    assert source.read_bytes() == before
    assert verify(source).sound
    assert sorted(tmp_path.glob("*.hwdag*")) == [source]

"""Store: threads, processes, locks and full disks. Nobody reads half of something."""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from threading import Barrier, Thread

import pytest
from processes import python
from store_world import HEADER, assert_same, assert_same_block, block_of, entry, load_all
from test_store import child

from hwdag.errors import IndexBusy, IndexFileError
from hwdag.store.database import build_lock
from hwdag.store.sqlite import Store
from hwdag.types import Node

NAMES = [f"doc{i}" for i in range(6)]

WRITER = """
from test_store_sharing import change_everything
with Store.open(path) as store:
    change_everything(store)
"""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "x.hwdag"


def change_everything(store, rounds=15):
    """Put, replace and delete; every version of a document is one of two."""
    for i in range(rounds):
        name = NAMES[i % len(NAMES)]
        store.calls(name).put_all({bytes([i]): b"value" * 1000})
        if i % 4 == 3:
            store.delete(name)
        else:
            store.put(*entry(name, seed=i % 2))


def check_a_moment(store):
    """Check that a search would read one version of each document, or nothing of it."""
    for block in store.blocks(store.numbers()):
        nodes = store.nodes([(block.number, i) for i in range(len(block))])
        if nodes[0] is None:
            continue  # deleted meanwhile: all or nothing of it
        found = [node for node in nodes if isinstance(node, Node)]
        assert len(found) == len(block)
        possible = [entry(found[0].document_id, seed) for seed in (0, 1)]
        (one,) = (e for e in possible if list(e.graph.nodes) == found)
        assert_same_block(block, block_of(block.number, one))


def test_eight_threads_read_while_another_writes(path):
    with Store.create(path, HEADER) as store, ThreadPoolExecutor(9) as pool:

        def read() -> int:
            for _ in range(25):
                check_a_moment(store)
                store.metadata(store.numbers())
            return max(store.numbers(), default=0)

        readers = [pool.submit(read) for _ in range(8)]
        pool.submit(change_everything, store, rounds=60).result()
        assert all(reader.result() <= 60 for reader in readers)


def test_processes_read_and_write_at_the_same_time(path):
    Store.create(path, HEADER).close()
    with ExitStack() as stack:
        store = stack.enter_context(Store.open(path))
        writers = [stack.enter_context(child(path, WRITER)) for _ in range(2)]
        rounds = 0
        while any(writer.poll() is None for writer in writers) or not rounds:
            check_a_moment(store)
            rounds += 1
        change_everything(store)
    assert [writer.returncode for writer in writers] == [0, 0]
    with Store.open(path) as store:
        for one in load_all(store):
            seeds = [s for s in (0, 1) if one.document == entry(one.document.id, s).document]
            assert_same(one, entry(one.document.id, seeds[0]))


# One builder at a time


def test_the_build_lock_keeps_other_threads_out(path):
    refused, both_ready = [], Barrier(2)

    def other() -> None:
        both_ready.wait()
        try:
            with build_lock(path, 0):
                refused.append(None)
        except IndexBusy as error:
            refused.append(str(error))

    for held in (True, False):
        thread = Thread(target=other)
        thread.start()
        with build_lock(path, 30) if held else ExitStack():
            both_ready.wait()
            thread.join()
    assert refused[0] is not None
    assert refused[1:] == [None]


def test_the_build_lock_keeps_other_processes_out_until_they_end(path):
    code = """
import threading
from hwdag.store.database import build_lock
with build_lock(path, 30):
    print("in", flush=True)
    threading.Event().wait()
"""
    with Store.create(path, HEADER) as store, child(path, code) as holder:
        assert holder.stdout.readline() == "in\n"
        with (
            pytest.raises(IndexBusy, match=r"x\.hwdag"),
            build_lock(path, 0),
        ):
            pass
        store.put(*entry())  # single changes do not wait for builds
        holder.kill()
        with build_lock(path, 30):
            assert store.ids() == ["doc"]


def test_what_is_raised_under_the_build_lock_passes_and_frees_it(path):
    with pytest.raises(KeyboardInterrupt), build_lock(path, 30):
        raise KeyboardInterrupt
    with build_lock(path, 0):
        pass


def test_a_lock_file_that_cannot_be_made_is_named(path):
    path.with_name("x.hwdag.lock").mkdir()
    with (
        pytest.raises(IndexFileError, match=r"x\.hwdag\.lock"),
        build_lock(path, 30),
    ):
        pass


# A full disk

FILL = """
import resource, signal
from hwdag.errors import IndexFileError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
store = Store.create(path, HEADER)
for i in range(10**6):
    try:
        store.calls("big").put_all({bytes([i]): bytes([i]) * 10_000})
        store.put(*entry(f"doc{i}", i))
    except IndexFileError as error:
        print(i, error, flush=True)
        break
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
"""
RESUME = """
while store.number_of("doc19") is None:
    store.put(*entry(f"doc{len(store)}", len(store)))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there are no resource limits")
@pytest.mark.parametrize("same_process", [True, False])
def test_a_full_disk_keeps_finished_documents_and_the_build_can_continue(path, same_process):
    code = FILL + (RESUME if same_process else "")
    with child(path, code) as process:
        count, message = process.stdout.read().split(" ", 1)
    assert process.returncode == 0
    assert path.name in message
    finished = int(count)
    assert finished > 2
    with Store.open(path) as store:
        if not same_process:
            assert len(store) == finished
            for i in range(finished, 20):
                store.put(*entry(f"doc{i}", i))
        for i, one in enumerate(load_all(store)):
            assert_same(one, entry(f"doc{i}", i))
        assert len(store) == 20
        for i in range(finished):
            assert store.calls("big").get(bytes([i])) == bytes([i]) * 10_000
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.parametrize(
    "end", ["sys.exit()", "pass", "del connection; store = None; gc.collect(); os._exit(0)"]
)
def test_a_fork_within_a_transaction_leaves_it_to_the_parent(path, end):
    """However the child ends, it neither commits nor rolls back, and holds on to the build lock."""
    code = f"""
import gc, os, sys
from store_world import *
from hwdag.errors import IndexFileError
from hwdag.store.database import build_lock
from hwdag.store.verify import verify

path = Path(sys.argv[1])
fill(path, *(entry(name, chunks=40) for name in "abc"))
store = Store.open(path)
with build_lock(path, 0):
    with store.database.writing() as connection:
        connection.execute("PRAGMA cache_size = 1")  # so that pages reach the file before the commit
        connection.execute("UPDATE nodes SET data = data || ' '")
        child = os.fork()
        if child == 0:
            {end}
        else:
            os.waitpid(child, 0)
            connection.execute("UPDATE nodes SET data = rtrim(data)")
    before = os.open(f"{{path}}.lock", os.O_RDWR)
    import fcntl
    try:
        fcntl.flock(before, fcntl.LOCK_EX | fcntl.LOCK_NB)
        sys.exit("the build lock is free")
    except BlockingIOError:
        pass
store.close()
assert verify(path).sound
print("sound")
"""
    assert python(code, path).stdout == "sound\n"

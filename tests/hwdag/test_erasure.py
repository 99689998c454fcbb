"""Nothing of a deleted document is left, whatever was killed before."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from processes import program, python
from store_world import HEADER, assert_holds, entry, fill, secret

from hwdag.store.exporting import export_index
from hwdag.store.sqlite import Store
from hwdag.store.transfer import repair
from hwdag.store.verify import verify

SENTENCE = "The unmentionable wombat sleeps. "

DIE_WHEN_CUTTING = """
    import ctypes, os, platform, struct, sys

    def die_when_cutting(path):
        '''The kernel kills this process where it would cut this file.'''
        links = {int(n): os.readlink(f"/proc/self/fd/{n}") for n in os.listdir("/proc/self/fd")
                 if os.path.exists(f"/proc/self/fd/{n}")}
        (file,) = (number for number, link in links.items() if link == os.path.realpath(path))
        ftruncate = {"x86_64": 77, "aarch64": 46}[platform.machine()]
        steps = [
            (0x20, 0, 0, 0), (0x15, 0, 3, ftruncate),  # the number of the system call
            (0x20, 0, 0, 16), (0x15, 0, 1, file),  # its first argument
            (0x06, 0, 0, 0x80000000), (0x06, 0, 0, 0x7FFF0000),  # kill, or allow
        ]
        code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *s) for s in steps))
        program = struct.pack("HxxxxxxP", len(steps), ctypes.addressof(code))
        libc = ctypes.CDLL(None, use_errno=True)
        assert libc.prctl(38, 1, 0, 0, 0) == 0
        assert libc.prctl(22, 2, program, 0, 0) == 0, os.strerror(ctypes.get_errno())

    from hwdag.store.verify import compact
    from hwdag.store.sqlite import Store
    with Store.open(sys.argv[1]) as store:
        die_when_cutting(sys.argv[1])
        compact(store)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs system calls of Linux")
def test_a_compaction_that_is_killed_at_its_end_leaves_nothing_to_stay(tmp_path):
    """SQLite cuts the file when the journal is gone; old pages are left after its end then."""
    path = tmp_path / "x.hwdag"
    fill(path, *(entry(f"doc{seed}", seed, chunks=40) for seed in range(3)))
    with Store.open(path) as store:
        store.put(*secret("secret", SENTENCE))
        for seed in range(3):
            store.delete(f"doc{seed}")
    killed = subprocess.run(**program(DIE_WHEN_CUTTING, path), check=False).returncode
    if killed > 0:
        pytest.skip("this kernel has no such filter")
    assert killed == -signal.SIGSYS
    content = path.read_bytes()
    end = int.from_bytes(content[28:32], "big") * 4096
    assert b"wombat" in content[end:]
    assert verify(path).sound
    with Store.open(path) as store:
        store.delete("secret")
    assert b"wombat" not in path.read_bytes()
    assert verify(path).sound


def test_pages_after_the_end_are_cut_before_anything_is_written(tmp_path):
    path = tmp_path / "x.hwdag"
    fill(path, entry("a"))
    with Store.open(path) as store:
        with path.open("ab") as file:
            file.write(b"wombat" * 4096)
        store.delete("nothing")
    assert b"wombat" not in path.read_bytes()
    assert verify(path).whole == ("a",)


# Copies

AT_THE_END = """
    import os, signal, sys
    from hwdag import HWDAGIndex
    from hwdag_lab.scripted import ScriptedLM
    from hwdag.store.exporting import export_index
    from hwdag.store.transfer import merge, repair
    for name in ("link", "replace", "rename"):
        setattr(os, name, lambda *a, **o: os.kill(os.getpid(), signal.SIGKILL))
    path, other = sys.argv[1:]
"""


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "x.hwdag"
    fill(path, entry("a", 1), secret("secret", SENTENCE))
    return path


def names(folder):
    return sorted(file.name for file in folder.iterdir() if not file.name.endswith(".lock"))


@pytest.mark.parametrize("over", [False, True])
def test_a_copy_that_was_killed_is_seen_and_goes(path, tmp_path, over):
    other = tmp_path / "y.hwdag"
    if over:
        fill(other, entry("b", 2))
    code = "HWDAGIndex.load(path, reader=ScriptedLM()).save(other, overwrite=True)"
    python(AT_THE_END + f"    {code}", path, other, ends=-signal.SIGKILL)
    (left,) = (name for name in names(tmp_path) if ".unfinished-" in name)
    assert left.startswith("y.hwdag.")
    assert b"wombat" in (tmp_path / left).read_bytes()
    if over:
        with Store.open(other) as store:
            assert store.ids() == ["b"]
    else:
        with Store.open(path) as store:
            store.copy(other)
    assert names(tmp_path) == ["x.hwdag", "y.hwdag"]


def test_an_export_that_was_killed_is_seen_and_goes(path, tmp_path):
    other = tmp_path / "y.jsonl"
    python(AT_THE_END + "    export_index(path, other)", path, other, ends=-signal.SIGKILL)
    assert [name for name in names(tmp_path) if name.startswith("y.jsonl.unfinished-")]
    export_index(path, other)
    assert names(tmp_path) == ["x.hwdag", "y.jsonl"]


@pytest.mark.parametrize("how", ["repair(path, other)", "merge([path], other)"])
def test_a_new_file_whose_making_was_killed_is_seen_and_goes(path, tmp_path, how):
    other = tmp_path / "y.hwdag"
    python(AT_THE_END + f"    {how}", path, other, ends=-signal.SIGKILL)
    assert [name for name in names(tmp_path) if name.startswith("y.hwdag.unfinished-")]
    assert repair(path, other).kept == ("a", "secret")
    assert names(tmp_path) == ["x.hwdag", "y.hwdag"]


def test_a_copy_that_somebody_is_writing_stays(path):
    from hwdag.store.atomic_files import unfinished_file

    with unfinished_file(path) as unfinished:
        unfinished.write_bytes(b"half")
        with Store.open(path) as store:
            assert store.header == HEADER
        assert unfinished.read_bytes() == b"half"
    with Store.open(path) as store:
        assert_holds(store, entry("a", 1), secret("secret", SENTENCE))


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="file names are Unicode there")
def test_a_file_name_need_not_be_utf8(path, tmp_path):
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.hwdag"))
    with Store.open(path) as store:
        store.copy(odd)
    with Store.open(odd) as store:
        store.delete("secret")
        assert_holds(store, entry("a", 1))
    assert verify(odd).sound

"""An index under load: builders, a deleter and searchers in processes that are killed and stalled.

Two processes build, one deletes and four search in one file. At random moments one of them is killed
with SIGKILL, or stopped for up to a second in the midst of whatever it does (a disk that is slow), or
finds the disk full. With `--power` the machine also stops at random system calls (`benchmarks/power.py`):
all processes are killed, and the disk keeps all synced bytes and anything of the rest. After each power
loss and in the end the file is verified, and every document in it must be the work of the last change of
it, or of one that overlapped the last. In the end, an index of these documents that is built in one process
must be equal to the last bit. With `--flips` single bits of the files are flipped then
(`benchmarks/flips.py`). The scripted model reads and writes. Run:

    python benchmarks/soak.py --seconds 600 --folder /tmp/soak --power --flips 1000
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import resource
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from flips import flipped
from power import Disk

from hwdag import BuildConfig, Document, HWDAGIndex, SearchConfig
from hwdag.config import NEVER
from hwdag.embedding.hashing import HashingEmbedder
from hwdag.errors import EmptyIndex, HWDAGError, IndexBusy, IndexFileError, InputError
from hwdag.store import segment_files
from hwdag.store.sqlite import Entry
from hwdag_lab.scripted import ScriptedLM

NAMES = [f"doc{i}" for i in range(24)]
VERSIONS = 50
WORDS = [
    "silver",
    "dragon",
    "bridge",
    "harbour",
    "castle",
    "river",
    "engine",
    "garden",
    "amber",
    "window",
    "valley",
    "market",
]
CONFIG = BuildConfig(chunk_tokens=30, window_tokens=400)
SEARCH = SearchConfig(token_budget=120, confidence=NEVER)
ROLES = ("builder", "builder", "deleter", "searcher", "searcher", "searcher", "searcher")
WRITERS = ("builder", "deleter")
MOST_CALLS = 1000  # system calls that change files, before the power fails
FEW_NODES = 50  # have a folder of arrays, which takes many nodes otherwise
FULL_DISK_BYTES = 40_000
"""Bytes that an almost full disk still takes."""


class Change(NamedTuple):
    """A change of a document, `version` None for a deletion, from when to when; seconds.

    One that `is_cut` may have happened or not.
    """

    name: str
    version: int | None
    began: float
    ended: float
    is_cut: bool = False


def main() -> None:
    """Run, check and report; the exit status is 1 if there is a fault."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--folder", type=Path, required=True, help="is emptied first")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--power", action="store_true", help="lose power too; needs Linux and cc")
    parser.add_argument("--flips", type=int, default=0, help="bits flipped in copies at the end")
    options = parser.parse_args()
    path = options.folder / "soak.hwdag"
    disk = Disk.under(path) if options.power else None
    shutil.rmtree(options.folder, ignore_errors=True)
    options.folder.mkdir(parents=True)
    segment_files.LEAST_NODES = FEW_NODES
    opened(None).save(path)
    happened, wrong = soak(path, options.seconds, random.Random(options.seed), disk)
    wrong += [*check(path, changes_in(path.parent)), *complaints_in(path.parent)]
    if options.flips:
        rng = random.Random(options.seed)
        flips, changed = flipped(path, options.flips, rng, opened, SEARCH)
        happened, wrong = happened | flips, [*wrong, *changed]
    print(json.dumps(happened | counts_in(path.parent), sort_keys=True))
    print(f"{platform.machine()}, {os.cpu_count()} cores, {path.stat().st_size:,} bytes in the end")
    print("\n".join(wrong) or "sound, and equal to what one process builds")
    sys.exit(1 if wrong else 0)


def opened(path: Path | None) -> HWDAGIndex:
    """Return the index in the file, or a new one in memory."""
    models: dict[str, Any] = {
        "reader": ScriptedLM(writes=True),
        "embedder": HashingEmbedder(64),
    }
    return HWDAGIndex.load(path, **models) if path else HWDAGIndex(config=CONFIG, **models)


def document(name: str, version: int) -> Document:
    """Return a version of a document; always the same."""
    rng = random.Random(f"{name} {version}")
    sentences = (
        f"The {' '.join(rng.choices(WORDS, k=rng.randint(4, 10)))} of {name}."
        for _ in range(rng.randint(1, 60))
    )
    return Document(name, " ".join(sentences), f"{name} {version}", {"version": version})


# While it runs


def soak(
    path: Path, seconds: float, rng: random.Random, disk: Disk | None
) -> tuple[dict[str, int], list[str]]:
    """Keep all processes running, disturb and end them; return how often each was done, and the faults."""
    happened, wrong = Counter[str](), list[str]()
    end = time.monotonic() + seconds

    def begin() -> dict[int, str]:
        group = start_group()
        return {group: "group"} | {start(path, role, rng, end, group, disk): role for role in ROLES}

    running = begin()
    while time.monotonic() < end:
        time.sleep(rng.uniform(0.5, 2.5))
        group, *processes = running
        if has_ended(group):
            for process in processes:
                ended(path, process)
            wrong += lose(path, rng, disk, happened)
            running = begin()
            continue
        process = rng.choice(processes)
        if rng.random() < 0.5:
            os.kill(process, signal.SIGSTOP)
            time.sleep(rng.uniform(0, 1))
            os.kill(process, signal.SIGCONT)
            happened["stalls"] += 1
            continue
        os.kill(process, signal.SIGKILL)
        ended(path, process)
        happened["kills"] += 1
        role = running.pop(process)
        running[start(path, role, rng, end, group, disk)] = role
    group, *processes = running
    for process in processes:
        happened["failures"] += ended(path, process) not in (0, signal.SIGKILL)
    if has_ended(group):
        wrong += lose(path, rng, disk, happened)
    else:
        os.kill(group, signal.SIGKILL)
    return dict(happened), wrong


def has_ended(group: int) -> bool:
    """Return whether the power has failed for the group of this process."""
    return os.waitpid(group, os.WNOHANG) != (0, 0)


def lose(path: Path, rng: random.Random, disk: Disk | None, happened: Counter[str]) -> list[str]:
    """Return the faults of the file after a power loss."""
    assert disk is not None
    disk.lose(rng)
    happened["power losses"] += 1
    return check(path, changes_in(path.parent), alone=False)


def start_group() -> int:
    """Fork a process that waits; the others join its group, in which the power fails for all at once."""
    parent, child = os.getpid(), os.fork()
    if not child:
        os.setpgid(0, 0)
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(0)
    with suppress(PermissionError):
        os.setpgid(child, child)
    return child


def ended(path: Path, process: int) -> int:
    """Wait for a process, and note when: its change has happened by then, or never will."""
    _, status = os.waitpid(process, 0)
    log = path.parent / f"{process}.log"
    if status and log.exists():
        with log.open("a") as lines:
            lines.write(json.dumps(["cut", time.monotonic()]) + "\n")
    return status


def start(
    path: Path, role: str, rng: random.Random, end: float, group: int, disk: Disk | None
) -> int:
    """Fork a process that plays a role until the end; its number."""
    seed, calls = rng.random(), rng.randrange(MOST_CALLS)
    child = os.fork()
    if child:
        return child
    try:
        os.setpgid(0, group)
        if disk is not None and role in WRITERS:
            disk.arm(calls)
        Player(path, role, random.Random(seed)).play(end)
        os._exit(0)
    except BaseException:
        import traceback

        (path.parent / f"{os.getpid()}.complaint").write_text(traceback.format_exc())
        os._exit(1)


class Player:
    """The work of one process, and its log."""

    def __init__(self, path: Path, role: str, rng: random.Random) -> None:
        self._path = path
        self._role = role
        self._rng = rng
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        self._log = os.open(path.parent / f"{os.getpid()}.log", flags)

    def play(self, end: float) -> None:
        """Until the end."""
        acts = {"builder": self._build, "deleter": self._delete, "searcher": self._search}
        with opened(self._path) as index:
            while time.monotonic() < end:
                try:
                    acts[self._role](index)
                except IndexBusy:
                    self._say("busy")

    def _build(self, index: HWDAGIndex) -> None:
        name, version = self._rng.choice(NAMES), self._rng.randrange(VERSIONS)
        change = (name, version)
        try:
            with self._full_disk() if self._rng.random() < 0.1 else nullcontext():
                self._timed(change, lambda: index.refresh([document(*change)]))
        except IndexFileError as error:
            if isinstance(error, IndexBusy) or "could not be read or written" not in str(error):
                raise
            self._say("full disk")

    def _delete(self, index: HWDAGIndex) -> None:
        time.sleep(self._rng.uniform(0, 3))
        name = self._rng.choice([*index.documents, NAMES[0]])
        with suppress(InputError):  # somebody was faster
            self._timed((name, None), lambda: index.delete(name))

    def _search(self, index: HWDAGIndex) -> None:
        time.sleep(self._rng.uniform(0, 0.5))  # only the builders change something
        try:
            found = index.search(f"Where is the {self._rng.choice(WORDS)}?", config=SEARCH)
        except EmptyIndex:
            return
        self._say("searched")
        for name, source in found.sources.items():
            assert source == document(name, source.metadata["version"]), f"{name} is torn"
        for step in found.steps:
            if step.node.origin == "chunk":
                (span,) = step.node.sources
                text = found.sources[step.node.document_id].text
                assert step.node.text == text[span.start : span.end], f"{step.node.id} is torn"

    def _timed(self, change: tuple[str, int | None], act: Callable[[], object]) -> None:
        self._say("began", *change, time.monotonic())
        try:
            act()
        except HWDAGError:
            self._say("refused")
            raise
        self._say("ended", *change, time.monotonic())

    @contextmanager
    def _full_disk(self) -> Iterator[None]:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        size = self._path.stat().st_size + FULL_DISK_BYTES
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))

    def _say(self, *what: object) -> None:
        os.write(self._log, json.dumps(what).encode() + b"\n")  # whole, or not at all


# In the end


def lines_in(folder: Path) -> list[list[Any]]:
    """Everything that was said, by process, in order."""
    logs = sorted(folder.glob("*.log"))
    return [json.loads(line) for log in logs for line in log.read_text().splitlines()]


def changes_in(folder: Path) -> list[Change]:
    """Return the changes, and those that may have happened when their process was killed."""
    found, begun = [], None
    for what, *rest in lines_in(folder):
        if what == "began":
            begun = rest
        elif what == "refused":  # nothing has happened
            begun = None
        elif what in ("ended", "cut") and begun is not None:
            found.append(Change(*begun, rest[-1], is_cut=what == "cut"))
            begun = None
    return found


def counts_in(folder: Path) -> dict[str, int]:
    """Count each event."""
    return Counter(line[0] for line in lines_in(folder))


def complaints_in(folder: Path) -> list[str]:
    """Return the causes of death of processes that were not killed."""
    return [file.read_text() for file in folder.glob("*.complaint")]


def check(path: Path, changes: list[Change], *, alone: bool = True) -> list[str]:
    """Return the faults of the file; `alone` says that no other process has it, which takes a second build."""
    try:
        with opened(path) as index:
            wrong = [f"{p.document_id}: {p.what}" for p in index.verify().problems]
            wrong += [
                name for name in NAMES if not is_possible(index.documents.get(name), name, changes)
            ]
            stored = dict(index.entries)
    except HWDAGError as error:
        return [f"{type(error).__name__}: {error}"]
    if not alone:
        return wrong
    again = opened(None)
    for entry in stored.values():
        again.refresh([entry.document])
    wrong += [name for name in stored if not is_same(stored[name], again.entries[name])]
    left = [file.name for file in path.parent.iterdir() if file.name.startswith(f"{path.name}.unf")]
    return wrong + left


def is_possible(found: Document | None, name: str, changes: list[Change]) -> bool:
    """Return whether a document is the work of a change that no other one came after."""
    if found is not None and found != document(name, found.metadata["version"]):
        return False
    version = None if found is None else found.metadata["version"]
    mine = [change for change in changes if change.name == name]
    finished = [change for change in mine if not change.is_cut]
    last = [c.version for c in mine if not any(other.began > c.ended for other in finished)]
    return version in last or (version is None and not finished)


def is_same(one: Entry, two: Entry) -> bool:
    """Compare to the last bit."""
    return (
        one.document == two.document
        and one.graph.nodes == two.graph.nodes
        and all(
            np.array_equal(getattr(one.graph.raw, part), getattr(two.graph.raw, part))
            for part in ("indptr", "indices", "data")
        )
        and np.array_equal(one.vectors, two.vectors)
    )


if __name__ == "__main__":
    main()

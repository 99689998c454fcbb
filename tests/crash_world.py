"""Builds that are killed at random points and run again; a script, forked from one warm process.

    python crash_world.py FOLDER FIRST_SEED COUNT MODE...

For every seed a child builds an index and dies by SIGKILL: before or after a model call, at an SQL
statement or in the midst of one, or at any moment by its parent's hand. Another child runs the same
build again. The index must be that of an uninterrupted build, and no finished call made twice; of
short documents, which are committed in groups, at most those of one group.
"""

import hashlib
import os
import random
import shutil
import signal
import sqlite3
import sys
import time
from collections import Counter
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import numpy as np
from logged_models import Streaming, Writing, logged
from store_world import assert_same_entries, load_all
from worlds import random_sentences

from hwdag.building import commits
from hwdag.building.levels import GraphBuilder
from hwdag.building.refresh import Refresh
from hwdag.config import BuildConfig
from hwdag.embedding.hashing import HashingEmbedder
from hwdag.store.sqlite import Header, Store, holds_something
from hwdag.text.prompts import Prompts
from hwdag.threads import Lazy
from hwdag.trace.bars import Silent
from hwdag.types import Document
from hwdag_lab.scripted import ScriptedLM

KINDS = ("start", "end", "statement", "step", "moment")
STEPS = 40  # instructions of SQLite's machine between two looks
CONFIG = BuildConfig(chunk_tokens=40, window_tokens=330, method="hwdag")


class Trap:
    """Counts events, and dies at a given one."""

    def __init__(self, kind=None, at=None):
        self.seen = Counter()
        self.kind, self.at = kind, at

    def pass_by(self, kind):
        if kind == self.kind and self.seen[kind] == self.at:
            os.kill(os.getpid(), signal.SIGKILL)
        self.seen[kind] += 1


class Log:
    """Model calls in a file that outlives the process."""

    def __init__(self, path, trap):
        self.file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self.trap = trap

    def call(self, kind, parts, make):
        name = hashlib.sha256(repr((kind, parts)).encode()).hexdigest()[:16]
        os.write(self.file, f"start {name}\n".encode())
        self.trap.pass_by("start")
        result = make()
        os.write(self.file, f"end {name}\n".encode())
        self.trap.pass_by("end")
        return result


WRITERS = {
    "extractive": None,
    "refresh": None,
    "written": Writing,
    "streamed": Streaming,
    "model": None,
    "short": None,
}
GROUP, GROUP_BYTES = 3, 35_000  # short documents that are committed together, and their bytes


def documents(edited, sentences):
    rng = np.random.default_rng(0)
    for i, count in enumerate(sentences):
        sentences = random_sentences(rng, count, words=(6, 13))
        if edited:
            sentences.insert(count // 2, "The umbrella of the new dragon is yellow.")
        yield Document(f"doc{i}", " ".join(sentences), f"Title {i}")


def in_child(work, trap, count=None, delay=None):
    """Return how work in a child ended, killed after a delay. Its counts go to the file `count`."""
    child = os.fork()
    if child == 0:
        try:
            work()
            if count is not None:
                count.write_text("\n".join(f"{k} {n}" for k, n in trap.seen.items()))
            os._exit(0)
        except BaseException:
            import traceback

            traceback.print_exc()
            os._exit(1)
    if delay is not None:
        time.sleep(delay)
        os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


class World:
    """One mode's build, and its result without an interruption."""

    def __init__(self, folder, mode, reader=None, embedder=None):
        self.folder, self.mode = folder, mode
        self.config = replace(CONFIG, method="evidence") if mode == "short" else CONFIG
        self.reader = reader or ScriptedLM(replay_batch=2)
        self.embedder = embedder or HashingEmbedder(64)
        self.before = folder / "before.hwdag"
        if mode == "refresh":
            assert self.fork(self.before, folder / "before.log", Trap(), edited=False) == 0
        began = time.perf_counter()
        whole = self.begun("whole.hwdag")
        assert self.fork(whole, folder / "whole.log", Trap(), count=folder / "counts") == 0
        self.seconds = time.perf_counter() - began
        self.order = ordered(folder / "whole.log")
        self.calls = Counter(self.order)
        self.entries = entries(whole)
        self.counts = counted(folder / "counts")

    def fork(self, path, log, trap, *, edited=True, count=None, delay=None):
        """Build in a child; returns how it ended."""
        build = partial(self.build, path, Log(log, trap), trap, edited)
        return in_child(build, trap, count, delay)

    def build(self, path, log, trap, edited):
        trapped(trap)
        writer = WRITERS[self.mode]
        builder = GraphBuilder(
            logged(self.reader, log),
            None if writer is None else writer(log),
            logged(self.embedder, log),
            self.config.resolved("hwdag"),
            Prompts(),
        )
        fresh = not holds_something(path)
        sizes = {"model": (4,), "short": (1, 2) * 5}.get(self.mode, (14, 20, 12))
        commits.GROUP_SECONDS, commits.GROUP_BYTES = 60, GROUP_BYTES
        given = documents(edited, sizes)
        config = asdict(builder.config)
        header = Header(self.reader.name, self.embedder.name, self.embedder.dimension, config)
        with Store.create(path, header) if fresh else Store.open(path) as store:
            Refresh(Lazy(lambda: builder), store, Silent(), replace=True).run(given)

    def begun(self, name):
        """Return the file that a build writes: a copy of an earlier index, which no trap cuts short, or a new one."""
        path = self.folder / name
        if self.before.exists():
            shutil.copy(self.before, path)
        return path

    def check(self, seed):
        """Kill a build as often as the seed says, then let it finish."""
        rng = random.Random(seed)
        path, log = self.begun(f"{seed}.hwdag"), self.folder / f"{seed}.log"
        extra = Counter()
        for again in range(1 + (seed % 4 == 3)):
            self.kill(KINDS[(seed + again) % len(KINDS)], rng, path, log)
            extra.update(self.lost(path, log))
        ended = self.fork(path, log, Trap())
        assert ended == 0, f"the build that went on ended with {ended}"
        assert_same_entries(entries(path), self.entries, atol=1e-6)
        repeated = started(log) - self.calls
        assert not self.calls - started(log), "a call is missing"
        assert repeated <= extra, f"finished calls were made again: {repeated} beyond {extra}"
        for file in (path, log):
            file.unlink()

    def lost(self, path, log):
        """Return the calls that a kill may have undone: the last one, or a group after those on disk."""
        if self.mode != "short":
            return ordered(log)[-1:]
        stored = len(entries(path)) if holds_something(path) else 0
        return self.order[stored : stored + GROUP + 1]

    def kill(self, kind, rng, path, log):
        if kind == "moment":
            self.fork(path, log, Trap(), delay=rng.uniform(0, self.seconds))
        else:
            self.fork(path, log, Trap(kind, rng.randrange(self.counts[kind])))


def trapped(trap):
    """Let connections to SQLite report to the trap."""
    connect = sqlite3.connect

    class Trapping(sqlite3.Connection):
        def set_progress_handler(self, handler, steps):
            super().set_progress_handler(lambda: trap.pass_by("step"), STEPS)

    def trapping(*arguments, **options):
        connection = connect(*arguments, factory=Trapping, **options)
        connection.set_trace_callback(lambda _: trap.pass_by("statement"))
        return connection

    sqlite3.connect = trapping


def ordered(log):
    lines = log.read_text().splitlines() if log.exists() else []
    return [line.split()[1] for line in lines if line.startswith("start ")]


def started(log):
    return Counter(ordered(log))


def counted(path):
    return {kind: int(n) for kind, n in map(str.split, path.read_text().splitlines())}


def entries(path):
    with Store.open(path, readonly=True) as store:
        return {entry.document.id: entry for entry in load_all(store)}


def world_of(folder, mode):
    if mode != "model":
        assert "torch" not in sys.modules  # its threads would not survive a fork
        return World(folder, mode)
    import torch

    from hwdag.embedding.default import default_embedder
    from hwdag.lm.default import load_reader

    torch.set_num_threads(1)
    reader = load_reader()
    reader.replay_batch = 1
    return World(folder, mode, reader, default_embedder())


def main(folder, first, count, *modes):
    for i, mode in enumerate(modes):
        place = Path(folder, mode)
        place.mkdir()
        world = world_of(place, mode)
        start = int(first) + i * int(count)
        for seed in range(start, start + int(count)):
            try:
                world.check(seed)
            except AssertionError as error:
                raise SystemExit(f"seed {seed} of {mode}: {error}") from error
        sys.stdout.write(f"{count} points, {sum(world.calls.values())} calls, {world.counts}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])

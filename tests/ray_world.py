"""Models for the workers of Ray: scripted, with a log of their calls, and with a death on demand."""

import hashlib
import os
import signal
from collections import Counter
from contextlib import suppress

import numpy as np
from logged_models import logged

from hwdag import BuildConfig, Document, HWDAGIndex
from hwdag.embedding.hashing import HashingEmbedder
from hwdag_lab.scripted import ScriptedLM

CONFIG = BuildConfig("hwdag", chunk_tokens=40, window_tokens=330, points="generated")


class Log:
    """Calls, of all processes, as lines of a file; `dies_at` is the call in which one process dies."""

    def __init__(self, folder, dies_at=None):
        self.file = os.open(folder / "calls", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self.grave, self.dies_at, self.count = folder / "grave", dies_at, 0

    def call(self, kind, content, make):
        # why each prompt of a batch: its company depends on how many documents are built at a time
        parts = content if kind == "write" else [content]
        names = [f"{kind}-{hashlib.sha256(repr(one).encode()).hexdigest()[:16]}" for one in parts]
        os.write(self.file, "".join(f"start {name}\n" for name in names).encode())
        self.count += 1
        if self.count == self.dies_at:
            with suppress(FileExistsError):  # of two workers that get there at once, one dies
                self.grave.touch(exist_ok=False)
                os.kill(os.getpid(), signal.SIGKILL)
        made = make()
        os.write(self.file, "".join(f"end {name}\n" for name in names).encode())
        return made


def models(folder, dies_at=None):
    """Return a reader and an embedder that share a log."""
    log = Log(folder, dies_at)
    return logged(ScriptedLM(writes=True), log), logged(HashingEmbedder(), log)


def corpus(count=7):
    """Documents of three lengths."""
    from worlds import random_prose  # why here: every worker would import pytest and hypothesis

    rng = np.random.default_rng(0)
    lengths = [8 + 11 * (i % 3) for i in range(count)]
    return [
        Document(f"doc{i}", random_prose(rng, length, words=(9, 9)))
        for i, length in enumerate(lengths)
    ]


def built(folder, documents, **options):
    """Return an index whose models log their calls in a folder."""
    folder.mkdir(exist_ok=True)
    reader, embedder = models(folder)
    return HWDAGIndex.from_documents(
        documents, reader=reader, embedder=embedder, config=CONFIG, **options
    )


def assert_same(one, two):
    """Two indexes have the same documents, graphs and vectors."""
    from store_world import assert_same_entries  # why here: as above

    assert_same_entries(one.entries, two.entries)


def calls(folder):
    """Return how often each call was begun, and how often it was ended."""
    lines = (folder / "calls").read_text().splitlines()
    return [Counter(line.split()[1] for line in lines if line.startswith(k)) for k in ("s", "e")]

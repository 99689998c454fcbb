"""Embeddings that are killed at random points and run again; a script, forked from one warm process.

    python reembed_world.py FILE COUNT

A child embeds a copy of the index anew and dies by SIGKILL at an SQL statement, in the midst of one, or
before an embedding. The file must then be the old one or the new one, and a second run must finish it.
"""

import random
import shutil
import sys
from pathlib import Path

from crash_world import Trap, counted, entries, in_child, trapped
from store_world import assert_same_entries

from hwdag import HWDAGIndex
from hwdag.embedding.hashing import HashingEmbedder
from hwdag.store.sqlite import Store
from hwdag.store.verify import verify

KINDS = ("statement", "step", "start")


class Killed(HashingEmbedder):
    """Passes by a trap before it embeds."""

    def __init__(self, trap):
        super().__init__(64)
        self.trap = trap

    def embed(self, texts):
        self.trap.pass_by("start")
        return super().embed(texts)


def run(path, trap, count=None):
    """Embed in a child; returns how it ended."""

    def reembed():
        trapped(trap)
        with HWDAGIndex.load(path) as index:
            index.reembed(Killed(trap))

    return in_child(reembed, trap, count)


def embedder_of(path):
    with Store.open(path, readonly=True) as store:
        return store.header.embedder


def main(path, count):
    old = Path(path)
    folder = old.parent / "killed"
    folder.mkdir()
    new, file = folder / "new", folder / "a.hwdag"
    shutil.copy(old, new)
    assert run(new, Trap(), old.parent / "counts") == 0
    whole = {embedder_of(one): entries(one) for one in (old, new)}
    assert len(whole) == 2
    counts, rng, seen = counted(old.parent / "counts"), random.Random(0), set()
    for seed in range(int(count)):
        shutil.copy(old, file)
        kind = KINDS[seed % len(KINDS)]
        # why the end too: there the new file takes the place of the old one
        at = rng.randrange(counts[kind]) if seed % 2 else counts[kind] - 1 - rng.randrange(9)
        run(file, Trap(kind, max(at, 0)))
        assert verify(file).sound, f"damaged by kill {seed}"
        seen.add(embedder_of(file))
        assert_same_entries(entries(file), whole[embedder_of(file)], atol=0)
        assert run(file, Trap()) == 0
        assert embedder_of(file) == "hashing-64", f"not finished after kill {seed}"
        assert_same_entries(entries(file), whole["hashing-64"], atol=0)
        left = {one.name for one in folder.iterdir()}
        assert left <= {"new", "new.lock", "a.hwdag", "a.hwdag.lock"}, left
    sys.stdout.write(f"{count} kills, {len(seen)} states\n")


if __name__ == "__main__":
    main(*sys.argv[1:])

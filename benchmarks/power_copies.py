"""Power losses while a whole file is written: `reembed`, `merge`, and `save` over an older file.

The machine stops at a random system call of a copy, or just after it (`benchmarks/power.py`), again and again.
Then every source is sound and as it was. The new file is there as a whole or not at all, and it is there
if the call had returned. The copy is made once more, and unfinished files are gone. Run:

    python benchmarks/power_copies.py --losses 300 --folder /tmp/copies
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from power import Disk
from soak import CONFIG, NAMES, document

from hwdag import HWDAGIndex
from hwdag.embedding.hashing import HashingEmbedder
from hwdag.errors import HWDAGError
from hwdag.store.sqlite import Store
from hwdag.store.transfer import merge
from hwdag.store.verify import verify
from hwdag_lab.scripted import ScriptedLM

MOST_CALLS = (
    250  # system calls that change files; some copies make fewer, and the power fails after them
)
OLD, NEW = HashingEmbedder(64), HashingEmbedder(32)
HALVES = NAMES[:4], NAMES[4:8]


class World:
    """Files of one trial, all of which begin with the name that the disk watches."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "x.hwdag"
        self.second = folder / "x.hwdag.second"
        self.target = folder / "x.hwdag.target"
        self.kept = folder / "kept"

    def build(self) -> None:
        """Build the sources, and an older target, once."""
        self.kept.mkdir(parents=True)
        for path, names, version in (
            (self.path, HALVES[0], 0),
            (self.second, HALVES[1], 0),
            (self.target, HALVES[0][:1], 1),
        ):
            documents = [document(name, version) for name in names]
            models = {"reader": ScriptedLM(writes=True), "embedder": OLD}
            with HWDAGIndex.from_documents(documents, config=CONFIG, **models) as index:
                index.save(self.kept / path.name)

    def restore(self, *, with_target: bool) -> None:
        """Put the files back as they were built."""
        for file in self.path.parent.glob(f"{self.path.name}*"):
            shutil.rmtree(file) if file.is_dir() else file.unlink()
        for path in (self.path, self.second, *([self.target] if with_target else [])):
            shutil.copyfile(self.kept / path.name, path)

    def reembed(self) -> None:
        """Embed the first file anew."""
        with HWDAGIndex.load(self.path, reader=ScriptedLM(writes=True), embedder=OLD) as index:
            index.reembed(NEW)

    def merge(self) -> None:
        """Merge both files."""
        merge([self.path, self.second], self.target)

    def save(self) -> None:
        """Write the first file over the target."""
        with HWDAGIndex.load(self.path, reader=ScriptedLM(writes=True), embedder=OLD) as index:
            index.save(self.target, overwrite=True)

    def faults(self, way: str, *, has_returned: bool) -> list[str]:
        """Return the faults after a power loss."""
        half, both = tuple(HALVES[0]), tuple(HALVES[0] + HALVES[1])
        first, second = held(self.path), held(self.second)
        as_built, embedded = (OLD.name, half, 0), (NEW.name, half, 0)
        wrong = [] if second == (OLD.name, tuple(HALVES[1]), 0) else [f"{way}: second is {second}"]
        states: list[Held | None] = [as_built]
        if way == "reembed":
            states = [embedded] if has_returned else [as_built, embedded]
        if first not in states:
            wrong.append(f"{way}: first is {first}, returned: {has_returned}")
        if way == "reembed":
            return wrong
        new, old = (
            ((OLD.name, both, 0), None) if way == "merge" else (as_built, (OLD.name, half[:1], 1))
        )
        found = held(self.target) if self.target.exists() else None
        if found != new and (has_returned or found != old):
            wrong.append(f"{way}: target is {found}, returned: {has_returned}")
        return wrong


Held = tuple[str, tuple[str, ...], int]


def held(path: Path) -> Held:
    """Return embedder, documents and their version, or the fault of the file."""
    try:
        if not verify(path).sound:
            return "damaged", (), 0
        with Store.open(path) as store:
            entries = [store.load(name) for name in store.ids()]
            versions = {one.document.metadata["version"] for one in entries}
            if any(one.document != document(one.document.id, max(versions)) for one in entries):
                return "other texts", (), 0
            return store.header.embedder, tuple(store.ids()), max(versions)
    except HWDAGError as error:
        return f"{type(error).__name__}: {error}", (), 0


def trial(
    world: World, disk: Disk, way: str, calls: int, rng: random.Random
) -> tuple[bool, list[str]]:
    """Lose power once; return whether the copy had returned, and the faults."""
    acts: dict[str, Callable[[], None]] = {
        "reembed": world.reembed,
        "merge": world.merge,
        "save": world.save,
    }
    world.restore(with_target=way == "save")
    disk.sync()
    child = os.fork()
    if not child:
        try:
            os.setpgid(0, 0)
            disk.arm(calls)
            acts[way]()
            os._exit(0)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    has_returned = os.waitstatus_to_exitcode(status) == 0
    assert has_returned or os.WTERMSIG(status) == signal.SIGKILL, f"{way} failed"
    disk.lose(rng)
    wrong = world.faults(way, has_returned=has_returned)
    if not (has_returned or wrong):
        if way == "merge" and world.target.exists():
            world.target.unlink()
        acts[way]()
        wrong = world.faults(way, has_returned=True)
        wrong += [str(one) for one in world.path.parent.glob("*.unfinished-*")]
    return has_returned, wrong


def main() -> None:
    """Lose power again and again; the exit status is 1 if there is a fault."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--losses", type=int, default=300)
    parser.add_argument("--folder", type=Path, required=True, help="is emptied first")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    world = World(options.folder)
    disk = Disk.under(world.path)
    shutil.rmtree(options.folder, ignore_errors=True)
    world.build()
    rng, happened, wrong = random.Random(options.seed), Counter[str](), list[str]()
    for number in range(options.losses):
        way = ("reembed", "merge", "save")[number % 3]
        has_returned, faults = trial(world, disk, way, rng.randrange(MOST_CALLS), rng)
        happened[f"{way}, {'after' if has_returned else 'within'} it"] += 1
        wrong += [f"loss {number}: {fault}" for fault in faults]
    print(json.dumps(happened, sort_keys=True))
    print("\n".join(wrong) or "every file is as it was, or as it should be")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()

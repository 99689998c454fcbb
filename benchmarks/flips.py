"""Flipped bits in the files of an index: no use of it may give another result without an error."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hwdag import HWDAGIndex, Scope, SearchConfig
from hwdag.errors import HWDAGError
from hwdag.store.verify import verify

Opened = Callable[[Path], HWDAGIndex]

LEAST_WRITTEN = 0.75
"""Share of the flips that hit a byte which is not zero: most zeros are read by nobody."""


class Flip(NamedTuple):
    """A bit of a file."""

    file: Path
    byte: int
    bit: int

    def apply(self) -> None:
        """Flip it; a second time undoes it."""
        with self.file.open("r+b") as opened:
            opened.seek(self.byte)
            [value] = opened.read(1)
            opened.seek(self.byte)
            opened.write(bytes([value ^ 1 << self.bit]))


def flipped(
    path: Path, flips: int, rng: random.Random, opened: Opened, config: SearchConfig
) -> tuple[dict[str, int], list[str]]:
    """Flip bits in copies of an index, one at a time; return counts of outcomes, and wrong results."""
    folder = path.with_name("flips")
    happened, wrong = Counter[str](), list[str]()
    with opened(path) as index:
        names = list(index.documents)
    # why the first search: it writes the arrays next to the index
    expected = dict(uses(path, opened, config, names))
    assert expected == dict(uses(path, opened, config, names)), "searches differ by themselves"
    for _ in range(flips):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        copy = folder / path.name
        shutil.copy(path, copy)
        shutil.copytree(f"{path}.arrays", f"{copy}.arrays")
        flip = chosen(sorted(file for file in folder.rglob("*") if file.is_file()), rng)
        flip.apply()
        outcome = outcome_of(copy, opened, config, names, expected)
        happened[f"flips: {outcome}"] += 1
        if outcome.startswith("changed"):
            wrong.append(
                f"{flip.file.relative_to(folder)}, byte {flip.byte}, bit {flip.bit}: {outcome}"
            )
    shutil.rmtree(folder, ignore_errors=True)
    return dict(happened), wrong


def chosen(files: list[Path], rng: random.Random) -> Flip:
    """Return a bit in one of these files."""
    # why at random: one file holds most of the bytes
    file = rng.choice(files) if rng.random() < 0.5 else files[0]
    content = np.frombuffer(file.read_bytes(), np.uint8)
    written = np.flatnonzero(content)
    at = rng.choice(written) if rng.random() < LEAST_WRITTEN else rng.randrange(len(content))
    return Flip(file, int(at), rng.randrange(8))


def outcome_of(
    path: Path, opened: Opened, config: SearchConfig, names: list[str], expected: dict[str, Any]
) -> str:
    """Describe how the use of a damaged index ends."""
    try:
        is_sound = verify(path).sound
    except HWDAGError:
        is_sound = False
    try:
        for use, found in uses(path, opened, config, names):
            if found != expected[use]:
                return f"changed {use}, {'not found' if is_sound else 'found'} by verify"
    except HWDAGError as error:
        return f"error: {type(error).__name__}"
    except Exception as error:
        return f"changed to {error!r}"
    return f"same, {'harmless' if is_sound else 'found by verify'}"


def uses(
    path: Path, opened: Opened, config: SearchConfig, names: list[str]
) -> Iterator[tuple[str, Any]]:
    """Yield the name and the result of everything that reads an index."""
    with opened(path) as index:
        yield "ids", list(index.documents)
        yield "size", len(index)
        for word in ("silver", "harbour", "engine"):
            question = f"Where is the {word}?"
            found = index.search(question, config=config)
            yield f"search {word}", (found.steps, found.sources, found.stop)
            answer = index.answer(question, config=config)
            yield f"answer {word}", (answer.text, answer.citations)
        for name in names[:3]:
            version = index.documents[name].metadata["version"]
            yield f"document {name}", index.documents[name]
            scopes = Scope([name]), Scope(filters={"version": version})
            for scope in scopes:
                found = index.search("Where is the river?", config=config, scope=scope)
                yield f"{scope}", (found.steps, found.sources)
        for name in names:
            entry = index.entries[name]
            yield f"graph {name}", (entry.document, entry.graph.nodes, entry.vectors.tobytes())
